"""The corruptions there are, their published strengths, and named suites of them.

Strengths 1 to 5 are those made for 32 by 32 images by D. Hendrycks and T. Dietterich,
Benchmarking neural network robustness to common corruptions and perturbations, ICLR 2019.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from credax.data.corruptions import blur, digital, jpeg, noise, weather
from credax.errors import unknown

SEVERITIES = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Corruption:
    """A label-preserving change of an image at five strengths.

    ``function(key, image, parameters)`` changes one image ``[height, width, channels]`` of values
    in [0, 1]; ``severities`` holds its parameters, one tuple for each of the severities 1 to 5.
    ``coloured`` ones need more than one channel.
    """

    name: str
    description: str
    function: Callable[[Any, Any, Any], Any]
    severities: tuple[tuple[float, ...], ...]
    coloured: bool = False


def _each(*strengths: float) -> tuple[tuple[float, ...], ...]:
    return tuple((strength,) for strength in strengths)


_MAIN = (
    Corruption(
        "gaussian_noise",
        "normal noise on every value",
        noise.gaussian_noise,
        _each(0.04, 0.06, 0.08, 0.09, 0.10),
    ),
    Corruption(
        "shot_noise",
        "Poisson noise of counted light",
        noise.shot_noise,
        _each(500, 250, 100, 75, 50),
    ),
    Corruption(
        "impulse_noise",
        "a share of the values set to black or white",
        noise.impulse_noise,
        _each(0.01, 0.02, 0.03, 0.05, 0.07),
    ),
    Corruption(
        "defocus_blur",
        "the mean over a disc, as by a lens out of focus",
        blur.defocus_blur,
        ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    ),
    Corruption(
        "glass_blur",
        "neighbouring pixels swapped, as behind ribbed glass",
        blur.glass_blur,
        ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    ),
    Corruption(
        "motion_blur",
        "a trail at a random angle",
        blur.motion_blur,
        ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    ),
    Corruption(
        "zoom_blur",
        "the mean of growing enlargements",
        blur.zoom_blur,
        _each(1.05, 1.10, 1.15, 1.20, 1.25),
    ),
    Corruption(
        "snow",
        "streaks of flakes over a whitened image",
        weather.snow,
        (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
    ),
    Corruption(
        "frost",
        "ice crystals on the lens",
        weather.frost,
        ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
    ),
    Corruption(
        "fog",
        "a bright cloud over the image",
        weather.fog,
        ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    ),
    Corruption(
        "brightness",
        "brighter at the same hue and saturation",
        weather.brightness,
        _each(0.05, 0.1, 0.15, 0.2, 0.3),
    ),
    Corruption(
        "contrast",
        "contrast reduced towards the mean of each channel",
        weather.contrast,
        _each(0.75, 0.5, 0.4, 0.3, 0.15),
    ),
    Corruption(
        "elastic_transform",
        "an affine and a smooth random warp",
        digital.elastic_transform,
        ((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
    ),
    Corruption(
        "pixelate",
        "fewer, larger pixels",
        digital.pixelate,
        _each(0.95, 0.9, 0.85, 0.75, 0.65),
    ),
    Corruption(
        "jpeg_compression",
        "JPEG at a low quality",
        jpeg.jpeg_compression,
        _each(80, 65, 58, 50, 40),
    ),
)
_EXTRA = (
    Corruption(
        "speckle_noise",
        "normal noise in proportion to the light",
        noise.speckle_noise,
        _each(0.06, 0.1, 0.12, 0.16, 0.2),
    ),
    Corruption(
        "gaussian_blur", "blur by a Gaussian", blur.gaussian_blur, _each(0.4, 0.6, 0.7, 0.8, 1)
    ),
    Corruption(
        "spatter",
        "drops of water (severities 1 to 3) or mud (4 and 5)",
        digital.spatter,
        (
            (0.62, 0.1, 0.7, 0.7, 0.5, 0),
            (0.65, 0.1, 0.8, 0.7, 0.5, 0),
            (0.65, 0.3, 1, 0.69, 0.5, 0),
            (0.65, 0.1, 0.7, 0.69, 0.6, 1),
            (0.65, 0.1, 0.5, 0.68, 0.6, 1),
        ),
    ),
    Corruption(
        "saturate",
        "paler (severities 1 and 2) or stronger colours (3 to 5)",
        weather.saturate,
        ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
        coloured=True,
    ),
)
_STANDARD = {record.name: record for record in (*_MAIN, *_EXTRA)}
_DIGITS = (
    replace(
        _STANDARD["gaussian_noise"], name="digits/noise", severities=_each(0.1, 0.2, 0.3, 0.4, 0.5)
    ),
    replace(
        _STANDARD["impulse_noise"],
        name="digits/impulse",
        severities=_each(0.03, 0.06, 0.1, 0.15, 0.22),
    ),
    replace(
        _STANDARD["gaussian_blur"], name="digits/blur", severities=_each(0.4, 0.6, 0.8, 1.0, 1.2)
    ),
    replace(_STANDARD["contrast"], name="digits/contrast"),
    replace(
        _STANDARD["brightness"],
        name="digits/brightness",
        severities=_each(0.1, 0.2, 0.3, 0.4, 0.5),
    ),
    Corruption(
        "digits/shift",
        "blended with itself one pixel to a side",
        blur.shift,
        _each(0.2, 0.4, 0.6, 0.8, 1.0),
    ),
)
_KNOWN = _STANDARD | {record.name: record for record in _DIGITS}
_SHORT = {"jpeg": "jpeg_compression", "elastic": "elastic_transform"}

MAIN: tuple[str, ...] = tuple(record.name for record in _MAIN)
EXTRA: tuple[str, ...] = tuple(record.name for record in _EXTRA)
SUITES: dict[str, tuple[str, ...]] = {
    "standard": MAIN + EXTRA,
    "main": MAIN,
    "fast": (
        "gaussian_noise",
        "shot_noise",
        "impulse_noise",
        "speckle_noise",
        "gaussian_blur",
        "contrast",
        "brightness",
        "jpeg_compression",
        "pixelate",
    ),
    "digits": tuple(record.name for record in _DIGITS),
}


def names(suite: str | None = None) -> tuple[str, ...]:
    """The names of all corruptions, or of those in a suite, in the order of a table.

    Suites: "standard" (the 15 published main ones and 4 extra), "main", "fast" (nine simple ones,
    for experiments on a processor) and "digits" (six for 8 by 8 digits, with their own strengths).

    >>> names("fast")[:2], len(names("standard")), names("digits")[0]
    (('gaussian_noise', 'shot_noise'), 19, 'digits/noise')
    """
    if suite is None:
        return tuple(_KNOWN)
    if suite not in SUITES:
        raise unknown("suite of corruptions", suite, SUITES)
    return SUITES[suite]


def describe(name: str) -> Corruption:
    """The record of a corruption; case and hyphens in the name do not matter.

    >>> describe("Gaussian-Blur").severities
    ((0.4,), (0.6,), (0.7,), (0.8,), (1,))
    """
    plain = name.lower().replace("-", "_").replace(" ", "_")
    plain = _SHORT.get(plain, plain)
    if plain not in _KNOWN:
        raise unknown("corruption", name, _KNOWN)
    return _KNOWN[plain]
