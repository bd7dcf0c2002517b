"""Numbers as colours, evenly brighter or signed."""

import numpy as np

SERIES = (
    "#0b5f95",
    "#c4500a",
    "#00795a",
    "#a8467f",
    "#8a6500",
    "#3a7fc2",
    "#55595e",
    "#7a4fc0",
)
"""Colours of the lines of a figure on paper, in order; the page's style sheet has the same."""
# Dark blue over green to yellow, evenly brighter; and blue over white to red for signed values.
_RISING = np.array(
    [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]], float
)
_SIGNED = np.array(
    [[5, 48, 97], [67, 147, 195], [247, 247, 247], [214, 96, 77], [103, 0, 31]], float
)


def rising_colours(values: np.ndarray, high: float) -> np.ndarray:
    """Bytes ``[..., 3]``: dark blue at zero, yellow at ``high`` and above."""
    return _colours(np.clip(values / high, 0, 1), _RISING)


def signed_colours(values: np.ndarray, high: float) -> np.ndarray:
    """Bytes ``[..., 3]``: white at zero, red at ``high``, blue at ``-high``."""
    return _colours(np.clip(values / max(high, 1e-30), -1, 1) / 2 + 0.5, _SIGNED)


def _colours(places: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    at = np.linspace(0, 1, len(anchors))
    channels = [np.interp(places, at, anchors[:, channel]) for channel in range(3)]
    return np.stack(channels, axis=-1).round().astype(np.uint8)
