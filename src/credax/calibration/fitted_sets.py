"""What conformal calibration of classes leaves: a quantile, and the sets it makes."""

from typing import Any, Literal, Protocol

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from credax.calibration.groups import group_quantiles, rows_of_groups
from credax.calibration.inputs import check_unlabelled, require_classes
from credax.calibration.protocol import as_key
from credax.calibration.temperature import FittedTemperature
from credax.errors import InputError
from credax.metrics.checks import check
from credax.prediction import ClassPrediction


class ClassScore(Protocol):
    """How badly each class conforms to a row's probabilities."""

    @property
    def alpha(self) -> Any:
        """The allowed share of misses."""
        ...

    @property
    def randomised(self) -> bool:
        """Whether the score needs a uniform number a row."""
        ...

    @property
    def nonempty(self) -> bool:
        """Whether the most probable class is always in the set."""
        ...

    def scores(self, probs: np.ndarray, uniform: Any = None) -> np.ndarray:
        """Scores ``[rows, classes]``."""
        ...


class ConformalSets(eqx.Module):
    """Sets that hold the true class of a new row with probability at least ``1 - alpha``.

    The promise holds for rows exchangeable with the calibration rows, on average over both. Over
    the draw of ``n`` calibration rows the coverage is Beta(``k``, ``n + 1 - k``) without ties.
    ``quantiles`` has one entry, or one a class or group, with as many rows behind it as ``counts``
    says; ``before`` is a temperature applied first, if any.
    """

    score: Any
    quantiles: Float[np.ndarray, " groups"]
    counts: Int[np.ndarray, " groups"]
    kind: Literal["all", "class", "given"]
    groups: Int[np.ndarray, " groups"]
    classes: int
    seed: int | None = None
    before: FittedTemperature | None = None

    def predict_set(
        self, prediction: ClassPrediction, *, key: Any = None, groups: Any = None
    ) -> Bool[np.ndarray, "batch classes"]:
        """Which classes are in each row's set.

        ``groups`` ``[batch]`` is needed if they were given at calibration. A randomised score draws
        its uniform numbers from ``key``; without one, from a number the calibration drew, the
        same for every call: pass keys of your own for batches whose sets should be independent.
        """
        require_classes(prediction, "the conformal calibrator", self.classes)
        check_unlabelled(prediction)
        prediction = prediction if self.before is None else self.before(prediction)
        probs = normalised(prediction)
        scores = self.score.scores(probs, self._uniform(len(probs), key))
        found = scores <= self._limits(groups, len(probs))
        if self.score.nonempty:
            found[np.arange(len(probs)), np.argmax(probs, axis=-1)] = True
        return found

    def __call__(self, prediction: ClassPrediction) -> Bool[np.ndarray, "batch classes"]:
        """The same as `predict_set`."""
        return self.predict_set(prediction)

    def _limits(self, groups, rows):
        if self.kind == "given":
            return self.quantiles[rows_of_groups(groups, self.groups, rows)][:, None]
        return self.quantiles

    def _uniform(self, rows, key):
        if not self.score.randomised:
            return None
        return uniforms(self.seed if key is None else key, rows)


def fit_sets(
    score: ClassScore, prediction: ClassPrediction, y: Any, key: Any, groups: Any
) -> ConformalSets:
    """The conformal quantile of a score on labels ``y``, over all rows or group by group."""
    y = np.asarray(y)
    require_classes(prediction, "a conformal set")
    check(prediction, y)
    probs = normalised(prediction)
    rows, classes = probs.shape
    seed = uniform = None
    if score.randomised:
        if key is None:
            raise InputError(
                "key is missing and this score draws a random number a row; pass key=0, or "
                "randomised=False for larger sets without chance"
            )
        seed = int(jax.random.bits(jax.random.fold_in(as_key(key), 1))) >> 1
        uniform = uniforms(key, rows)
    own = score.scores(probs, uniform)[np.arange(rows), y]
    by_class = isinstance(groups, str) and groups == "class"
    kind = "class" if by_class else "all" if groups is None else "given"
    # A class that no calibration row has still needs an entry: its sets must hold it.
    names = np.arange(classes) if by_class else None
    label = "class" if by_class else "group"
    found = group_quantiles(own, score.alpha, y if by_class else groups, label, names)
    return ConformalSets(score, *found[:2], kind, found[2], classes, seed)


def normalised(prediction: ClassPrediction) -> Float[np.ndarray, "batch classes"]:
    """The mixture's probabilities in float64, rows summing to one to the last digit."""
    # Member by member: the mixture in double precision must not take members times its size.
    probs = sum(np.exp(np.asarray(member, np.float64)) for member in prediction.log_probs)
    probs = np.asarray(probs)
    return probs / probs.sum(axis=-1, keepdims=True)


def uniforms(key: Any, rows: int) -> Float[np.ndarray, " rows"]:
    """One number in [0, 1) a row."""
    return np.asarray(jax.random.uniform(as_key(key), (rows,)), np.float64)
