"""Calibration maps of one probability at a time: one per class (one against the rest), then
renormalised.

Both kinds of map are kept as tables padded to a common length, so that applying them is one
vectorised lookup.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from credax.calibration.inputs import (
    calibrated,
    chosen_probs,
    require_classes,
    require_equal_shares,
)
from credax.calibration.protocol import ApplyTo, as_apply_to
from credax.errors import InputError
from credax.metrics.checks import check
from credax.prediction import ClassPrediction

# A probability kept as a logarithm comes back a few roundings off; within these it is on the edge.
EDGE_ROUNDINGS = 16


class _ClassMaps(eqx.Module):
    @abstractmethod
    def raw(self, probs: Float[Array, "... classes"]) -> Float[Array, "... classes"]:
        """The mapped probabilities before renormalisation."""

    def _renormalised(self: Any, prediction: ClassPrediction) -> Any:
        require_classes(prediction, "the calibrator", len(self.values))
        probs = chosen_probs(prediction, self.apply_to)
        return _divide(self.raw(probs), probs)

    def __call__(self: Any, prediction: ClassPrediction) -> ClassPrediction:
        """The calibrated prediction; jit-able."""
        return calibrated(prediction, self.apply_to, self._renormalised(prediction)[0])

    def unchanged_rows(self, prediction: ClassPrediction) -> int:
        """How many rows (of all members) mapped to zero in every class and were left alone."""
        return int(self._renormalised(prediction)[1])


class StepMaps(_ClassMaps):
    """A step function for each class: ``values[k, j]`` on ``(edges[k, j-1], edges[k, j]]``.

    ``edges`` is ``[classes, steps - 1]``, padded with infinity where a class has fewer.
    """

    edges: Float[np.ndarray, "classes edges"]
    values: Float[np.ndarray, "classes steps"]
    apply_to: ApplyTo = "mixture"

    def raw(self, probs: Float[Array, "... classes"]) -> Float[Array, "... classes"]:
        """The mapped probabilities before renormalisation."""
        slack = 1 + EDGE_ROUNDINGS * jnp.finfo(probs.dtype).eps
        edges, values = (a.astype(probs.dtype) for a in (self.edges * slack, self.values))
        return _steps(edges, values, probs)


class LineMaps(_ClassMaps):
    """A piecewise linear function for each class through ``(knots[k, j], values[k, j])``.

    Constant outside the knots; padded by repeating the last knot where a class has fewer.
    """

    knots: Float[np.ndarray, "classes points"]
    values: Float[np.ndarray, "classes points"]
    apply_to: ApplyTo = "mixture"

    def raw(self, probs: Float[Array, "... classes"]) -> Float[Array, "... classes"]:
        """The mapped probabilities before renormalisation."""
        knots, values = (a.astype(probs.dtype) for a in (self.knots, self.values))
        return _lines(knots, values, probs)


@jax.jit
def _steps(edges, values, probs):
    return jax.vmap(lambda e, v, p: v[jnp.searchsorted(e, p)], (0, 0, -1), -1)(edges, values, probs)


@jax.jit
def _lines(knots, values, probs):
    return jax.vmap(lambda x, v, p: jnp.interp(p, x, v), (0, 0, -1), -1)(knots, values, probs)


@jax.jit
def _divide(raw, probs):
    total = jnp.sum(raw, axis=-1, keepdims=True)
    empty = total <= 0
    kept = jnp.where(empty, probs, raw / jnp.where(empty, 1, total))
    return jnp.log(kept), jnp.sum(empty)


def pairs(
    prediction: ClassPrediction, y: Any, apply_to: ApplyTo, who: str
) -> tuple[Float[np.ndarray, "rows classes"], Int[np.ndarray, "rows classes"]]:
    """Probabilities and whether each class was the label; the members' rows one after another.

    The probabilities are computed exactly as they will be when the map is applied, so that a row
    falls into the same bin both times; everything after that is in float64.
    """
    y = np.asarray(y)
    require_classes(prediction, who)
    require_equal_shares(prediction, apply_to, who)
    check(prediction, y)
    probs = np.asarray(chosen_probs(prediction, apply_to))
    members, _, classes = probs.shape
    hits = np.asarray(y[:, None] == np.arange(classes), int)
    return probs.reshape(-1, classes), np.tile(hits, (members, 1))


def padded(rows: Sequence[np.ndarray], fill: float | None) -> Float[np.ndarray, "classes longest"]:
    """Rows of several lengths as one array, filled at the end (None repeats each row's last)."""
    longest = max(map(len, rows))
    return np.stack(
        [
            np.append(row, np.full(longest - len(row), row[-1] if fill is None else fill))
            for row in rows
        ]
    )


def check_bins(bins: int, least: int = 1) -> None:
    """Raise unless ``bins`` is a whole number from ``least``."""
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or bins < least:
        raise InputError(f"bins is {bins!r}; give a whole number from {least}")


class Isotonic(eqx.Module):
    """For each class the non-decreasing function of ``p_k`` nearest to ``1[y = k]`` in squares.

    ``interpolation="linear"`` joins the pooled blocks by straight lines, ``"step"`` changes
    half-way between them; outside the calibration rows the map is constant. Rows are then divided
    by their sum, as in `Histogram`, and ``apply_to`` is the mixture by default for the same reason.
    Reference: B. Zadrozny and C. Elkan, KDD 2002.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.6, 0.4], [0.4, 0.6], [0.1, 0.9]]])
    >>> Isotonic().fit(p, np.array([0, 1, 0, 1])).values[1].tolist()
    [0.0, 0.5, 0.5, 1.0]
    """

    interpolation: Literal["linear", "step"] = "linear"
    apply_to: ApplyTo = eqx.field(default="mixture", converter=as_apply_to)

    def __check_init__(self):
        if self.interpolation not in ("linear", "step"):
            raise InputError(f"interpolation is {self.interpolation!r}; give 'linear' or 'step'")

    def fit(self, prediction: ClassPrediction, y: Any, *, key: Any = None) -> LineMaps | StepMaps:
        """The maps for labels ``y`` ``[batch]``; ``key`` is not needed."""
        del key
        probs, hits = pairs(prediction, y, self.apply_to, "'isotonic'")
        fits = [_blocks(p, hit) for p, hit in zip(probs.T, hits.T, strict=True)]
        if self.interpolation == "step":
            edges = padded([(last[:-1] + first[1:]) / 2 for first, last, _ in fits], np.inf)
            return StepMaps(edges, padded([value for _, _, value in fits], None), self.apply_to)
        knots, values = zip(*[_ends(*fit) for fit in fits], strict=True)
        return LineMaps(padded(knots, None), padded(values, None), self.apply_to)


def _blocks(p, hit):
    """First and last probability and the value of each pooled block."""
    points, index, count = np.unique(p, return_inverse=True, return_counts=True)
    share = np.bincount(index, weights=hit) / count
    fitted = pool_adjacent_violators(share, count.astype(np.float64))
    points = points.astype(np.float64)
    new = np.flatnonzero(np.append(True, np.diff(fitted) > 0))
    last = np.append(new[1:], len(points)) - 1
    return points[new], points[last], fitted[new]


def _ends(first, last, value):
    """The corners of the line through the blocks: both ends of each, one if it is a point."""
    both = np.stack([np.ones(len(first), bool), last > first], axis=1).ravel()
    return np.stack([first, last], 1).ravel()[both], np.repeat(value, 2)[both]


def pool_adjacent_violators(
    values: Float[np.ndarray, " points"], weights: Float[np.ndarray, " points"] | None = None
) -> Float[np.ndarray, " points"]:
    """The non-decreasing sequence nearest to ``values`` in weighted squares, by scipy.

    >>> pool_adjacent_violators(np.array([0.0, 1.0, 0.0, 1.0])).tolist()
    [0.0, 0.5, 0.5, 1.0]
    """
    from scipy.optimize import isotonic_regression  # slow to import, and rarely needed

    return isotonic_regression(values, weights=weights).x
