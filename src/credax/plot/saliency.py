"""Saliency: the input gradients of each member as images."""

from typing import Any

import numpy as np

from credax.errors import InputError
from credax.plot.axes import axes

GAP = 1
"""Pixels between images."""


def member_saliency(gradients: Any, inputs: Any, *, members: int = 5, ax: Any = None) -> Any:
    """A row per input: the image, then the input gradient of some members.

    ``gradients`` ``[members, rows, ...]`` are the members' gradients of an output by the input
    (`credax.experiments.saliency.input_gradients`) at the images ``inputs``
    ``[rows, height, width, channels]``. Each is summed over channels and scaled by its own largest
    entry: only directions are compared.
    """
    ax = axes(ax)
    inputs = np.asarray(inputs, np.float64)
    if inputs.ndim != 4:
        raise InputError(
            f"inputs has shape {inputs.shape}; saliency is drawn for images "
            "[rows, height, width, channels]"
        )
    gradients = np.asarray(gradients)[:members].reshape(-1, *inputs.shape).sum(axis=-1)
    scale = np.abs(gradients).max(axis=(2, 3), keepdims=True)
    maps = gradients / np.where(scale > 0, scale, 1)
    low, high = inputs.min(), inputs.max()
    # Images in the same colours: the middle of the map is white, so they go from white to red.
    grey = (inputs.mean(axis=-1) - low) / max(high - low, 1e-12)
    tiles = np.concatenate([grey[None], maps])
    padded = np.pad(tiles, ((0, 0), (0, 0), (0, GAP), (0, GAP)), constant_values=np.nan)
    columns, rows, height, width = padded.shape
    picture = padded.transpose(1, 2, 0, 3).reshape(rows * height, columns * width)
    ax.imshow(picture, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
    ax.set_xticks([width * (i + 0.5) for i in range(columns)])
    ax.set_xticklabels(["input", *(f"member {i}" for i in range(columns - 1))])
    ax.set_yticks([])
    return ax
