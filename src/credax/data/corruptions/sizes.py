"""How lengths made for 32 by 32 images carry over to images of other sizes."""

REFERENCE = 32


def proportion(shape: tuple[int, ...]) -> float:
    """The shorter side in units of 32 pixels: for lengths that are a share of the image.

    >>> proportion((64, 48, 3))
    1.5
    """
    return min(shape[:2]) / REFERENCE


def grain(shape: tuple[int, ...]) -> float:
    """Scale of lengths of about a pixel (blurs, drops): they grow with the image, never shrink.

    A blur of less than half a pixel would do nothing.

    >>> grain((8, 8, 1)), grain((64, 64, 3))
    (1.0, 2.0)
    """
    return max(proportion(shape), 1.0)


def span(shape: tuple[int, ...]) -> float:
    """Scale of lengths of many pixels (streaks): proportional, but never below one half.

    >>> span((8, 8, 1)), span((28, 28, 1))
    (0.5, 0.875)
    """
    return max(proportion(shape), 0.5)
