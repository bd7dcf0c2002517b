"""Calibration error without bins: the residual smoothed by a kernel that chooses its own width."""

from functools import cache, partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from credax.errors import InputError
from credax.metrics.metric import metrics, row
from credax.metrics.namespace import bisect, namespace
from credax.metrics.streaming import Statistic, Streaming
from credax.prediction import ClassPrediction

Kernel = Literal["reflected", "logit"]
CELLS = 4096
_BISECTIONS = 40
_LOGIT_CLIP = 1e-3
_LOGIT_SCALE = 4.0
_EDGE = float(np.log((1 - _LOGIT_CLIP) / _LOGIT_CLIP))
# The logit grid ends two cells beyond the clipped range, so that the split over four nodes fits.
_LOGIT_STEP = 2 * _EDGE / (CELLS - 4)
_LOGIT_START = -_EDGE - 2 * _LOGIT_STEP


class Grid(NamedTuple):
    """Weight and weighted residual ``confidence - correct`` on the nodes of a grid."""

    weight: Any
    residual: Any


class SmoothReliability(NamedTuple):
    """A reliability curve without bins: accuracy against confidence, and where the rows lie.

    ``standard_error`` is that of the accuracy at a confidence, from the rows the kernel reaches.
    """

    confidence: Any
    accuracy: Any
    density: Any
    standard_error: Any
    width: Any


@metrics(
    row(
        "Smooth ECE",
        False,
        "top label, Gaussian kernel mirrored at 0 and 1, width equal to the value",
        "gap between confidence and accuracy without bins",
    ),
    row(
        "Smooth ECE (logit)",
        False,
        "top label, Gaussian kernel of four times the value in logit space",
        "gap between confidence and accuracy without bins, finer near 0 and 1",
        name="smooth_ece_logit",
        options={"kernel": "logit"},
    ),
)
def smooth_ece(*, kernel: Kernel = "reflected", width: float | None = None) -> Streaming:
    """Smooth calibration error, ``(1/N) ∫ |Σ_i K_σ(c_i, t) (c_i - correct_i)| dt``.

    ``σ`` is where the error equals ``σ`` itself, or the given ``width``. ``kernel="reflected"`` is
    the Gaussian mirrored at 0 and 1; ``"logit"`` a Gaussian of standard deviation ``4σ`` in
    ``log t/(1-t)``, confidences clipped to [0.001, 0.999] there. Rows are distributed over a grid
    of 4096 cells so that their first three moments stay: the error is below 1e-5 for ``σ`` above
    0.01, and below 1e-3 always. relplot stops its search after ten halvings (0.001 of ``σ``).
    Reference: J. Błasiok and P. Nakkiran, Smooth ECE, ICLR 2024.

    >>> p = ClassPrediction.from_probs([[[0.8, 0.2]] * 10])
    >>> round(float(smooth_ece(p, jnp.array([0] * 5 + [1] * 5))), 4)
    0.3
    """
    if kernel not in ("reflected", "logit"):
        raise InputError(f'kernel is {kernel!r}; choose "reflected" or "logit"')
    if width is not None and not 0 < width <= 1:
        raise InputError(f"width is {width}; give a number above 0 and at most 1, or None")
    return Streaming(_grid(kernel), partial(_fixed_point, kernel=kernel, width=width))


def smooth_reliability(
    prediction: ClassPrediction, y: Any, *, kernel: Kernel = "reflected", points: int = 129
) -> SmoothReliability:
    """Accuracy as a smooth function of confidence, ``Σ_i K_σ correct_i / Σ_i K_σ``, with ``σ`` of
    `smooth_ece`.

    Returns numpy arrays at ``points`` confidences between 0 and 1; accuracy is NaN where the kernel
    reaches less than one row in a thousand of the densest place.

    >>> p = ClassPrediction.from_probs([[[0.8, 0.2]] * 10])
    >>> curve = smooth_reliability(p, jnp.array([0] * 5 + [1] * 5), points=11)
    >>> round(float(curve.accuracy[8]), 3), round(float(curve.width), 3)
    (0.5, 0.3)
    """
    stream = smooth_ece.stream(kernel=kernel)
    state = stream.update(stream.init(), prediction, y)
    grid = state.totals[0]
    width = stream.finish(state)
    nodes = _nodes(kernel)
    smooth = partial(_smoothed, kernel=kernel, width=width)
    weight, residual = smooth(grid.weight), smooth(grid.residual)
    hit = smooth(nodes * grid.weight) - residual
    reached = weight > 1e-3 * weight.max()
    accuracy = np.where(reached, hit / np.where(reached, weight, 1), np.nan)
    at = np.linspace(0, 1, points)
    curve, density = np.interp(at, nodes, accuracy), np.interp(at, nodes, weight)
    # The Gaussian's square integrates to 1 / (2 σ √π), which turns density into effective rows.
    rows = density * 2 * np.sqrt(np.pi) * width
    if kernel == "logit":
        slope = np.clip(at * (1 - at), _LOGIT_CLIP, None)
        rows, density = rows * _LOGIT_SCALE, density / slope
    variance = np.clip(curve * (1 - curve), 0, None) / np.maximum(rows, 1)
    density = density / max(float(grid.weight.sum()), 1e-300)
    return SmoothReliability(at, curve, density, np.sqrt(variance), np.asarray(width))


class _Residual(NamedTuple):
    confidence: Any
    correct: Any
    weight: Any


@cache
def _grid(kernel: Kernel) -> Statistic:
    def rows(view, weight):
        return _Residual(view.confidence, view.correct, weight)

    def total(rows):
        index, shares = _split(_position(rows.confidence, kernel))
        kept = rows.weight > 0
        weight = jnp.where(kept, rows.weight, 0)
        residual = jnp.where(kept, weight * (rows.confidence - rows.correct), 0)
        values = jnp.stack([weight, residual], axis=-1)
        parts = (shares[..., None] * values).reshape(-1, 2)
        sums = jax.ops.segment_sum(parts, index.reshape(-1), CELLS + 1)
        return Grid(sums[:, 0], sums[:, 1])

    return Statistic(rows, total)


def _position(confidence: Any, kernel: Kernel) -> Any:
    if kernel == "reflected":
        return jnp.clip(confidence, 0, 1) * CELLS
    clipped = jnp.clip(confidence, _LOGIT_CLIP, 1 - _LOGIT_CLIP)
    return (jnp.log(clipped) - jnp.log1p(-clipped) - _LOGIT_START) / _LOGIT_STEP


def _split(position: Any) -> tuple[Any, Any]:
    """Four neighbouring nodes and Lagrange's cubic weights; nodes beyond an end are mirrored."""
    low = jnp.clip(jnp.floor(position), 0, CELLS - 1)
    f = position - low
    shares = (
        -f * (f - 1) * (f - 2) / 6,
        (f + 1) * (f - 1) * (f - 2) / 2,
        -(f + 1) * f * (f - 2) / 2,
        (f + 1) * f * (f - 1) / 6,
    )
    index = jnp.stack([low + shift for shift in (-1, 0, 1, 2)]).astype(jnp.int32)
    index = jnp.abs(index)
    return jnp.where(index > CELLS, 2 * CELLS - index, index), jnp.stack(shares)


def _nodes(kernel: Kernel) -> np.ndarray:
    if kernel == "reflected":
        return np.linspace(0, 1, CELLS + 1)
    return 1 / (1 + np.exp(-(_LOGIT_START + _LOGIT_STEP * np.arange(CELLS + 1))))


def _fixed_point(grid: Grid, *, kernel: Kernel, width: float | None) -> Any:
    xp = namespace(grid)
    spectrum, damping = _spectrum(grid.residual, kernel)
    total = xp.sum(grid.weight)

    def error(width):
        smoothed = xp.fft.irfft(spectrum * xp.exp(-damping * width**2))
        size = CELLS + 1 if kernel == "reflected" else smoothed.shape[0]
        return _absolute_integral(smoothed[:size], xp) / total

    if width is not None:
        return error(xp.asarray(width, dtype=grid.weight.dtype))
    low = xp.zeros((), dtype=grid.weight.dtype)
    found = bisect(lambda s: error(s) > s, low, low + 1, _BISECTIONS)
    return error(found)


def _spectrum(values: Any, kernel: Kernel) -> tuple[Any, Any]:
    """Fourier coefficients, and how fast each falls with the squared width of the kernel."""
    xp = namespace(values)
    if kernel == "reflected":
        # Mirrored at both ends the residual has period two; a node on an end is its own image.
        inner = values[1:-1]
        ends = 2 * values
        extended = xp.concat([ends[:1], inner, ends[-1:], xp.flip(inner)])
        frequency = xp.arange(CELLS + 1, dtype=values.dtype) * np.pi
        return xp.fft.rfft(extended), frequency**2 / 2
    # Room for four standard deviations of the widest kernel on either side.
    length = 1 << int(np.ceil(np.log2(CELLS + 8 * _LOGIT_SCALE / _LOGIT_STEP)))
    extended = xp.concat([values, xp.zeros(length - values.shape[0], dtype=values.dtype)])
    frequency = xp.arange(length // 2 + 1, dtype=values.dtype) * (
        2 * np.pi / (length * _LOGIT_STEP)
    )
    return xp.fft.rfft(extended), (_LOGIT_SCALE * frequency) ** 2 / 2


def _smoothed(values: np.ndarray, *, kernel: Kernel, width: float) -> np.ndarray:
    spectrum, damping = _spectrum(values, kernel)
    step = 1 / CELLS if kernel == "reflected" else _LOGIT_STEP
    return np.fft.irfft(spectrum * np.exp(-damping * width**2))[: CELLS + 1] / step


def _absolute_integral(mass: Any, xp: Any) -> Any:
    """``∫ |f|`` from nodes that hold ``f`` times the step.

    A cell is integrated by the cubic through its four nearest nodes, or, where ``f`` changes sign,
    by the line through its ends.
    """
    left, right = mass[:-1], mass[1:]
    before = xp.concat([mass[1:2], mass[:-2]])
    after = xp.concat([mass[2:], mass[-2:-1]])
    size = abs(left) + abs(right)
    safe = xp.where(size > 0, size, 1)
    smooth = abs(13 * (left + right) - before - after) / 24
    return xp.sum(xp.where(left * right < 0, (left**2 + right**2) / (2 * safe), smooth))
