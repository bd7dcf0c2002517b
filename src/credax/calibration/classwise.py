"""Maps of one probability at a time: one for each class (one against the rest), then renormalised.

Both kinds of map are kept as tables padded to a common length, so that applying them is one
vectorised lookup.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from credax.calibration.inputs import chosen_probs, require_classes
from credax.calibration.protocol import ApplyTo
from credax.errors import InputError
from credax.metrics.checks import check
from credax.prediction import ClassPrediction

# A probability kept as a logarithm comes back a few roundings off; within these it is on the edge.
EDGE_ROUNDINGS = 16


class StepMaps(eqx.Module):
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

    def __call__(self, prediction: ClassPrediction) -> ClassPrediction:
        """The calibrated prediction; jit-able."""
        return _renormalised(self, prediction)[0]

    def unchanged_rows(self, prediction: ClassPrediction) -> int:
        """How many rows (of all members) mapped to zero in every class and were left alone."""
        return int(_renormalised(self, prediction)[1])


class LineMaps(eqx.Module):
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

    def __call__(self, prediction: ClassPrediction) -> ClassPrediction:
        """The calibrated prediction; jit-able."""
        return _renormalised(self, prediction)[0]

    def unchanged_rows(self, prediction: ClassPrediction) -> int:
        """How many rows (of all members) mapped to zero in every class and were left alone."""
        return int(_renormalised(self, prediction)[1])


def _renormalised(maps: StepMaps | LineMaps, prediction: ClassPrediction):
    require_classes(prediction, "the calibrator", len(maps.values))
    probs = chosen_probs(prediction, maps.apply_to)
    log_probs, unchanged = _divide(maps.raw(probs), probs)
    return ClassPrediction(log_probs), unchanged


# Compiled, because one program is dispatched (and built) faster than its ten operations apart.
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
