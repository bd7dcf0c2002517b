"""Maps of large pictures, tile by tile: the same numbers as whole, in a stated memory."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credax.errors import InputError
from credax.network import OnGrid, Variables
from credax.posterior import Posterior
from credax.prediction import ClassPrediction
from credax.problem import check_inputs

TILE = 128
"""Pixels of a side that are kept of a tile."""


class PixelMaps(NamedTuple):
    """What a population predicts at every pixel, without the members; numpy arrays.

    ``mean`` are the mixture's probabilities ``[rows, height, width, classes]``, or the mean of
    numbers ``[rows, height, width]``; uncertainty is in nats, or variances.
    """

    mean: Float[np.ndarray, "rows height width *channels"]
    total: Float[np.ndarray, "rows height width"]
    aleatoric: Float[np.ndarray, "rows height width"]
    epistemic: Float[np.ndarray, "rows height width"]

    @property
    def label(self) -> np.ndarray:
        """The most probable class of each pixel."""
        return np.argmax(self.mean, axis=-1)


def predict_tiled(
    posterior: Posterior,
    x: Any,
    *,
    tile: int = TILE,
    margin: int | None = None,
    multiple: int | None = None,
) -> PixelMaps:
    """Means and uncertainty of every pixel of pictures of any size, computed tile by tile.

    A tile of ``tile`` by ``tile`` pixels is predicted with ``margin`` pixels of the picture around
    it, which are then cut off. By default the margin is as far as the network sees, measured by a
    probe (`reach`), so that the maps are those of the whole picture, to rounding; a network that
    sees the whole picture, such as one with group norm, is refused. Tiles begin at multiples of
    ``multiple``, by default that of the network (``UNet.multiple``).

    Memory: one tile with its margin is predicted at a time, ``members (tile + 2 margin)²`` times
    the channels of the widest layers, and the maps are ``channels + 3`` numbers per pixel. Ten
    members and 19 classes on 512 by 1024 pixels give maps of 46 MB, where the members' outputs
    alone would take 398 MB.

    >>> import credax as cx
    >>> network = cx.networks.UNet(outputs=2, channels=(2, 4))
    >>> problem = cx.Problem(network, cx.PerPixel(cx.Categorical()))
    >>> x = np.zeros((1, 16, 16, 1), np.float32)
    >>> variables = jax.vmap(lambda key: problem.init(key, x))(jax.random.split(jax.random.key(0)))
    >>> members = cx.posterior.population(problem, variables, x)
    >>> predict_tiled(members, np.zeros((1, 48, 32, 1), np.float32), tile=16).label.shape
    (1, 48, 32)
    """
    x = np.asarray(x)
    channels = posterior.input_shape[-1]
    if x.ndim != 4 or x.shape[-1] != channels or not len(x):
        raise InputError(
            f"x has shape {x.shape}; give pictures [rows, height, width, {channels}], at least one"
        )
    check_inputs(x)
    likelihood = posterior.problem.likelihood
    if likelihood.grid_axes != 2:
        raise InputError(
            f"the likelihood is {type(likelihood).__name__}; tiles are for predictions of every "
            "pixel: use PerPixel"
        )
    multiple = _multiple(posterior) if multiple is None else multiple
    for axis in (1, 2):
        if x.shape[axis] % multiple:
            raise InputError(
                f"pictures are {x.shape[1]} by {x.shape[2]}; the network needs multiples of "
                f"{multiple}: crop or scale them"
            )
    if tile < 1 or tile % multiple:
        raise InputError(f"tile is {tile}; give a positive multiple of {multiple}")
    if margin is None:
        margin = 0 if max(x.shape[1:3]) <= tile else reach(posterior, multiple)
    margin = multiple * math.ceil(margin / multiple)
    function = eqx.filter_jit(_summary)
    whole: PixelMaps | None = None
    for top, down in _spans(x.shape[1], tile, margin):
        for left, across in _spans(x.shape[2], tile, margin):
            for row in range(len(x)):
                part = x[row : row + 1, top.seen, left.seen]
                found = function(posterior, jnp.asarray(part))
                cut = [np.asarray(a)[0, top.kept, left.kept] for a in found]
                if whole is None:
                    shapes = [(*x.shape[:3], *a.shape[2:]) for a in cut]
                    whole = PixelMaps(*(np.empty(s, cut[0].dtype) for s in shapes))
                for target, values in zip(whole, cut, strict=True):
                    target[row, down, across] = values
    assert whole is not None
    return whole


def reach(posterior: Posterior, multiple: int | None = None, most: int = 1024) -> int:
    """How far from a pixel the network's output depends on its input, in pixels.

    One pixel of an otherwise empty picture is NaN, and what becomes NaN is counted: exact for
    convolutions, pooling and upsampling, at all places of a pixel within ``multiple``. Costs a few
    predictions of one network on growing pictures. A network that sees all of it is refused.
    """
    multiple = _multiple(posterior) if multiple is None else multiple
    problem, channels = posterior.problem, posterior.input_shape[-1]
    example = jax.ShapeDtypeStruct((1, *posterior.input_shape), posterior.input_dtype)
    variables: Any = jax.eval_shape(problem.init, jax.random.key(0), example)
    variables = jax.tree.map(lambda s: jnp.ones(s.shape, s.dtype), variables)
    side = 16 * multiple
    while side <= most:
        seen = _seen(problem, variables, side, multiple, channels)
        if seen is not None:
            return seen
        side *= 2
    raise InputError(
        f"the network's outputs depend on inputs further than {most // 2} pixels away, such as "
        "through a group norm or a mean over the picture; tiles would change them: predict whole, "
        "or use norm='batch'"
    )


def _seen(problem: Any, variables: Any, side: int, multiple: int, channels: int) -> int | None:
    """The greatest distance in a picture of so many pixels; None where it reaches an edge."""
    middle, furthest = side // 2, 0

    @jax.jit
    def spoilt(x):
        outputs, _ = problem.network.apply(Variables(*variables), x, train=False)
        return jnp.isnan(outputs).any((0, 3))

    for offset in {0, multiple - 1}:
        place = middle + offset
        x = np.zeros((1, side, side, channels), np.float32)
        x[0, place, place] = np.nan
        rows, columns = np.nonzero(np.asarray(spoilt(x)))
        if min(rows.min(), columns.min()) == 0 or max(rows.max(), columns.max()) == side - 1:
            return None
        distances = np.abs(np.stack([rows, columns]) - place)
        furthest = max(furthest, int(distances.max()))
    return furthest


class _Span(NamedTuple):
    """What is seen of a picture along an axis, and what is kept of that."""

    seen: slice
    kept: slice


def _spans(size: int, tile: int, margin: int) -> list[tuple[_Span, slice]]:
    """Windows of one size, so that one program serves all; those at an edge see more inside."""
    window = min(size, tile + 2 * margin)
    spans = []
    for start in range(0, size, tile):
        stop = min(start + tile, size)
        first = min(max(0, start - margin), size - window)
        kept = slice(start - first, stop - first)
        spans.append((_Span(slice(first, first + window), kept), slice(start, stop)))
    return spans


def _summary(posterior: Any, x: Any) -> tuple[Any, ...]:
    prediction = posterior.predict_fn()(x)
    mean = prediction.probs if isinstance(prediction, ClassPrediction) else prediction.mean
    return mean, prediction.total, prediction.aleatoric, prediction.epistemic


def _multiple(posterior: Posterior) -> int:
    network: Any = posterior.problem.network
    network = network.network if posterior.problem.likelihood.learns else network
    if not isinstance(network, OnGrid):
        raise InputError(
            f"multiple is None and the network {type(network).__name__} does not say of what "
            "number of pixels its sizes must be multiples; give multiple="
        )
    return network.multiple
