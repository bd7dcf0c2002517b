"""Conformal prediction sets of classes: THR, APS and RAPS scores, and the sets they make."""

from abc import abstractmethod
from typing import Any, Literal

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from credax.calibration.conformal_quantiles import (
    as_alpha,
    conformal_quantile,
    group_quantiles,
    rows_of_groups,
)
from credax.calibration.inputs import check_unlabelled, require_classes
from credax.calibration.protocol import as_key, generator
from credax.calibration.temperature import FittedTemperature
from credax.errors import InputError
from credax.metrics.checks import check
from credax.prediction import ClassPrediction


class ConformalSets(eqx.Module):
    """Sets that hold the true class of a new row with probability at least ``1 - alpha``.

    The guarantee holds for rows exchangeable with the calibration rows, on average over both. Over
    the draw of ``n`` calibration rows the coverage is Beta(``k``, ``n + 1 - k``) without ties.
    ``quantiles`` has one entry, or one per class or group, from as many rows as ``counts`` says;
    ``before`` is a temperature applied first, if any.
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
    score: Any, prediction: ClassPrediction, y: Any, key: Any, groups: Any
) -> ConformalSets:
    """The conformal quantile of a score on labels ``y``, over all rows or per group."""
    y = np.asarray(y)
    require_classes(prediction, "a conformal set")
    check(prediction, y)
    probs = normalised(prediction)
    rows, classes = probs.shape
    seed = uniform = None
    if score.randomised:
        if key is None:
            raise InputError(
                "key is missing and this score draws a random number per row; pass key=0, or "
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
    shares = prediction.weights or (1.0,) * prediction.num_members
    pairs = zip(shares, prediction.log_probs, strict=True)
    probs = sum(share * np.exp(np.asarray(member, np.float64)) for share, member in pairs)
    probs = np.asarray(probs)
    return probs / probs.sum(axis=-1, keepdims=True)


def uniforms(key: Any, rows: int) -> Float[np.ndarray, " rows"]:
    """One number in [0, 1) per row."""
    return np.asarray(jax.random.uniform(as_key(key), (rows,)), np.float64)


class ClassScore(eqx.Module):
    """How badly each class conforms to a row's probabilities, at the allowed miss rate ``alpha``.

    ``randomised`` scores need one uniform number per row; with ``nonempty`` the most probable class
    is always in the set.
    """

    alpha: float = eqx.field(default=0.1, converter=as_alpha)

    @abstractmethod
    def scores(
        self, probs: Float[np.ndarray, "rows classes"], uniform: Any = None
    ) -> Float[np.ndarray, "rows classes"]:
        """The score of every class, smaller conforms more; ``uniform`` None is zero."""

    def fit(
        self, prediction: ClassPrediction, y: Any, *, key: Any = None, groups: Any = None
    ) -> ConformalSets:
        """The quantile of labels ``y`` ``[batch]``; see `conformalise`."""
        return fit_sets(self, prediction, y, key, groups)


class Threshold(ClassScore):
    """Score ``1 - p_k`` (THR, also LAC): the smallest sets on average, and the least adaptive.

    The set holds every class with ``1 - p_k <= q``; it may be empty where no class is
    probable, unless ``nonempty`` adds the most probable class.
    Reference: M. Sadinle, J. Lei and L. Wasserman, JASA 114, 2019.
    """

    nonempty: bool = False
    randomised = False

    def scores(
        self, probs: Float[np.ndarray, "rows classes"], uniform: Any = None
    ) -> Float[np.ndarray, "rows classes"]:
        """The score of every class; smaller conforms more."""
        del uniform
        return 1 - probs


class APS(ClassScore):
    """Adaptive sets: score = probability of the classes down to ``k``, most probable first.

    ``s_k = Σ_{j: rank_j <= rank_k} p_j - U p_k``, ``U ~ U(0, 1)`` per row, drawn from the key at
    calibration and again at prediction; ``randomised=False`` takes ``U = 0``: larger sets, coverage
    above the level. Ties in probability rank by class index.
    Reference: Y. Romano, M. Sesia and E. Candès, NeurIPS 2020.

    >>> APS().scores(np.array([[0.5, 0.3, 0.2]]), np.array([0.5])).round(6).tolist()
    [[0.25, 0.65, 0.9]]
    """

    randomised: bool = True
    nonempty: bool = False

    def scores(
        self, probs: Float[np.ndarray, "rows classes"], uniform: Any = None
    ) -> Float[np.ndarray, "rows classes"]:
        """The score of every class for one ``uniform`` per row (None is zero)."""
        return _adaptive(probs, uniform)[0]


class RAPS(ClassScore):
    """APS plus ``penalty · max(0, rank - free)``: many classes far down the list cost extra.

    Ranks count from 1. The penalty makes the sets of problems with many classes smaller and more
    even. Reference: A. Angelopoulos et al., ICLR 2021.

    >>> RAPS().scores(np.array([[0.5, 0.3, 0.2]]), np.array([0.5])).round(6).tolist()
    [[0.25, 0.75, 1.1]]
    """

    penalty: float = 0.1
    free: int = 1
    randomised: bool = True
    nonempty: bool = False

    def __check_init__(self):
        if not 0 <= self.penalty < np.inf or self.free < 0:
            raise InputError(
                f"penalty is {self.penalty} and free is {self.free}; give numbers from 0"
            )

    def scores(
        self, probs: Float[np.ndarray, "rows classes"], uniform: Any = None
    ) -> Float[np.ndarray, "rows classes"]:
        """The score of every class for one ``uniform`` per row (None is zero)."""
        score, rank = _adaptive(probs, uniform)
        return score + self.penalty * np.maximum(0, rank - self.free)


def class_ranks(probs: Float[np.ndarray, "rows classes"]) -> Int[np.ndarray, "rows classes"]:
    """Place of every class by falling probability, from 1; ties by class index."""
    return _adaptive(probs, None)[1]


def _adaptive(probs, uniform):
    order = np.argsort(-probs, axis=-1, kind="stable")
    ordered = np.take_along_axis(probs, order, axis=-1)
    # One minus the mass below, not the mass above: the least probable class then scores exactly
    # one, and equal scores stay equal.
    below = np.cumsum(ordered[:, :0:-1], axis=-1)[:, ::-1]
    score = 1 - np.pad(below, ((0, 0), (0, 1)))
    if uniform is not None:
        score = score - uniform[:, None] * ordered
    rank = np.argsort(order, axis=-1)
    return np.take_along_axis(score, rank, axis=-1), rank + 1


def tune_raps(
    prediction: ClassPrediction,
    y: Any,
    *,
    alpha: float = 0.1,
    key: Any,
    penalties: tuple[float, ...] = (0.001, 0.01, 0.1, 0.2, 0.5),
) -> RAPS:
    """The `RAPS` record with the smallest sets; calibrate it on other rows than these.

    ``free`` is the conformal quantile of the true classes' ranks. The penalty is the one whose
    sets, calibrated on a random half of these rows, are smallest on the other half.
    Reference: A. Angelopoulos et al., ICLR 2021.
    """
    y = np.asarray(y)
    check(prediction, y)
    if len(y) < 2 or not penalties:
        raise InputError(
            f"there are {len(y)} rows and {len(penalties)} penalties; tuning takes at least two "
            "rows and one penalty"
        )
    ranks = class_ranks(normalised(prediction))
    quantile = conformal_quantile(ranks[np.arange(len(y)), y].astype(np.float64), alpha)
    free = int(min(quantile, ranks.shape[1]))
    order = generator(key).permutation(len(y))
    one, two = order[: len(y) // 2], order[len(y) // 2 :]
    calibrate, predict = jax.random.split(as_key(key))

    def size(penalty):
        fitted = RAPS(alpha=alpha, penalty=penalty, free=free).fit(
            prediction.select(one), y[one], key=calibrate
        )
        return fitted.predict_set(prediction.select(two), key=predict).sum()

    return RAPS(alpha=alpha, penalty=min(penalties, key=size), free=free)
