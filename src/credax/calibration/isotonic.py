"""Isotonic regression: the best non-decreasing map, by pooling adjacent violators."""

from typing import Any, Literal

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credax.calibration.classwise import LineMaps, StepMaps, padded, pairs
from credax.calibration.protocol import ApplyTo, check_apply_to
from credax.errors import InputError
from credax.prediction import ClassPrediction


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
    apply_to: ApplyTo = "mixture"

    def __check_init__(self):
        check_apply_to(self.apply_to)
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


def pool_adjacent_violators(
    values: Float[np.ndarray, " points"], weights: Float[np.ndarray, " points"] | None = None
) -> Float[np.ndarray, " points"]:
    """The non-decreasing sequence nearest to ``values`` in weighted squares; one pass.

    Each new point joins the block before it while that block's mean is not smaller; a block's mean
    is its value. Reference: M. Ayer et al., Annals of Mathematical Statistics 26, 1955.

    >>> pool_adjacent_violators(np.array([0.0, 1.0, 0.0, 1.0])).tolist()
    [0.0, 0.5, 0.5, 1.0]
    """
    means: list[float] = []
    masses: list[float] = []
    sizes: list[int] = []
    weights = np.ones(len(values)) if weights is None else weights
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, mass, size = value, weight, 1
        while means and means[-1] >= mean:
            before, heavy = means.pop(), masses.pop()
            mean = (mean * mass + before * heavy) / (mass + heavy)
            mass += heavy
            size += sizes.pop()
        means.append(mean)
        masses.append(mass)
        sizes.append(size)
    return np.repeat(means, sizes)


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
