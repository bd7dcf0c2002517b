"""Text for a terminal."""


def printable(text: object) -> str:
    r"""Text without what a terminal would obey: control characters of file names are spelt out.

    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    shown = (c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in str(text))
    return "".join(shown)
