"""Saliency: the input gradients of each member as images."""

from typing import Any

import numpy as np

from credax.errors import InputError
from credax.plot.axes import axes
from credax.report.png import to_pixels, value_range

GAP = 8
"""Between images lies an eighth of their width, at least one pixel."""


def member_saliency(
    gradients: Any, inputs: Any, *, members: int = 5, show_inputs: bool = True, ax: Any = None
) -> Any:
    """A row per input: the image, then the input gradient of some members.

    ``gradients`` ``[members, rows, ...]`` are the members' gradients of an output by the input
    (`credax.experiments.saliency.input_gradients`) at the images ``inputs``
    ``[rows, height, width, channels]``. Each is summed over channels and scaled by its own largest
    entry: only directions are compared. Red raises the output, blue lowers it. Without
    ``show_inputs`` the column of images is left out.
    """
    ax = axes(ax)
    inputs = np.asarray(inputs)
    if inputs.ndim != 4:
        raise InputError(
            f"inputs has shape {inputs.shape}; saliency is drawn for images "
            "[rows, height, width, channels]"
        )
    gradients = np.asarray(gradients)[:members].reshape(-1, *inputs.shape).sum(axis=-1)
    scale = np.abs(gradients).max(axis=(2, 3), keepdims=True)
    gap = max(inputs.shape[2] // GAP, 1)
    maps = _tiled(gradients / np.where(scale > 0, scale, 1), gap)
    tile = inputs.shape[2] + gap
    first = tile if show_inputs else 0
    names = [str(number) for number in range(len(gradients))]
    # The left edge of the maps is where the column of images ends.
    extent = (first, first + maps.shape[1], maps.shape[0], 0)
    style = {"interpolation": "nearest", "aspect": "equal"}
    ax.imshow(maps, cmap="RdBu_r", vmin=-1, vmax=1, extent=extent, **style)
    if show_inputs:
        names = ["input", *names]
        pictures = _pictures(inputs, gap)
        ax.imshow(pictures, extent=(0, pictures.shape[1], pictures.shape[0], 0), **style)
    width, height = tile * len(names) - gap, maps.shape[0] - gap
    ax.set(xlim=(0, width), ylim=(height, 0), xlabel="member")
    places = [tile * number + inputs.shape[2] / 2 for number in range(len(names))]
    ax.set_xticks(places, labels=names)
    ax.set_yticks([])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax


def _tiled(tiles: np.ndarray, gap: int) -> np.ndarray:
    """Tiles ``[columns, rows, height, width]`` side by side, with gaps of NaN."""
    padded = np.pad(tiles, ((0, 0), (0, 0), (0, gap), (0, gap)), constant_values=np.nan)
    columns, rows, height, width = padded.shape
    return padded.transpose(1, 2, 0, 3).reshape(rows * height, columns * width)


def _pictures(inputs: np.ndarray, gap: int) -> np.ndarray:
    """The images one below the other as bytes with opacity: in colour if there are three channels.

    Nothing is painted in the gaps.
    """
    pixels = to_pixels(inputs, *value_range(inputs))
    if pixels.shape[-1] != 3:
        grey = pixels.mean(axis=-1, keepdims=True).astype(np.uint8)
        pixels = np.repeat(grey, 3, axis=-1)
    opaque = np.full((*pixels.shape[:3], 1), 255, np.uint8)
    pixels = np.concatenate([pixels, opaque], axis=-1)
    padded = np.pad(pixels, ((0, 0), (0, gap), (0, 0), (0, 0)))
    return padded.reshape(-1, *padded.shape[2:])
