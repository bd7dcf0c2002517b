"""Accuracy and proper scores of predictions."""

from functools import cache
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from credax.errors import InputError
from credax.metrics.metric import NATS, POSITIVE, REAL, metric, metrics, row
from credax.metrics.namespace import namespace, ratio, segment_sum
from credax.metrics.streaming import Statistic, Streaming, Weighted, add_up, mean_of
from credax.metrics.view import ClassView
from credax.mixing import log_member_mean, member_mean
from credax.prediction import ClassPrediction as ClassPrediction


@metric(
    "Accuracy",
    True,
    "argmax of the mean probability, ties to the lowest class",
    "share of rows whose most probable class is the label",
    headline=True,
)
def accuracy() -> Streaming:
    """Share of rows whose most probable class is the label: ``mean 1[argmax p̄ = y]``.

    ``p̄`` is the mean of the members' probabilities; ties go to the lowest class.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.4, 0.6]]])
    >>> float(accuracy(p, jnp.array([0, 0])))
    0.5
    """
    return mean_of(lambda view: view.correct)


@metric(
    "Top-5 accuracy",
    True,
    "of the mean probability, ties to the lowest class",
    "share of rows whose label is among the five most probable classes",
    name="top_5_accuracy",
    classes=6,
)
def top_k_accuracy(*, k: int = 5) -> Streaming:
    """Share of rows whose label is among the ``k`` most probable classes.

    Equal probabilities rank by class index, so ``k = 1`` is `accuracy`; scikit-learn breaks ties
    by the highest index.

    >>> p = ClassPrediction.from_probs([[[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]])
    >>> float(top_k_accuracy(p, jnp.array([1, 2]), k=2))
    0.5
    """
    if k < 1:
        raise InputError(f"k is {k}; give at least one class")

    def within(view: ClassView) -> Any:
        true = view.true_prob[:, None]
        index = jnp.arange(view.probs.shape[-1])
        ahead = (view.probs > true) | ((view.probs == true) & (index < view.y[:, None]))
        return jnp.sum(ahead, axis=-1) < k

    return mean_of(within)


@metric(
    "Balanced accuracy",
    True,
    "mean recall over the classes present",
    "accuracy in which every class counts the same",
)
def balanced_accuracy() -> Streaming:
    """Mean over the classes present in ``y`` of the share of their rows that are correct.

    The same as scikit-learn's ``balanced_accuracy_score`` and the macro average of recall.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]])
    >>> float(balanced_accuracy(p, jnp.array([0, 0, 1])))
    0.5
    """
    return Streaming(_by_class(), _mean_recall)


@metric(
    "Mean IoU",
    True,
    "global counts, mean over classes present in labels or predictions",
    "intersection over union of predicted and true rows of a class",
)
def mean_iou() -> Streaming:
    """Mean over classes of intersection over union, ``TP / (TP + FP + FN)``, from global counts.

    Classes that occur neither in ``y`` nor among the predicted labels are left out. For
    segmentation the rows are pixels (`credax.metrics.pixels`); averaging over images instead
    gives another number.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]]])
    >>> round(float(mean_iou(p, jnp.array([0, 1, 1]))), 4)
    0.5
    """
    return Streaming(_by_class(), _mean_iou)


@metric(
    "NLL",
    False,
    "exact mixture, mean over rows; class probabilities clipped at the smallest float",
    "negative log-likelihood of the labels or targets",
    task=None,
    unit="nats",
    range=REAL,
    headline=True,
    needs="density",
)
def nll() -> Streaming:
    """Negative log-likelihood of the mixture, ``-mean log (1/M) Σ_m p_m(y)``, in nats per row.

    Classes: ``y`` is ``[batch]`` integers, and a probability below the smallest normal float
    counts as that float (`clipped` says how often), so one impossible label cannot make the mean
    infinite. Regression: ``y`` is ``[batch]`` or ``[batch, targets]``, densities are summed over
    targets (those that a mask keeps), averaged over rows, never clipped, and the value depends on
    the unit of ``y``.

    >>> p = ClassPrediction.from_probs([[[0.5, 0.5], [0.25, 0.75]]])
    >>> round(float(nll(p, jnp.array([0, 0]))), 4)
    1.0397
    """

    def rows(view, weight):
        if isinstance(view, ClassView):
            return Weighted(_class_nll(view), weight)
        kept = weight > 0
        each = view.log_densities
        joint = jnp.sum(jnp.where(kept, each, 0), axis=-1)
        mixture = log_member_mean(joint, view.prediction.weights)
        return Weighted(-mixture, jnp.max(weight, axis=-1))

    return Streaming(Statistic(rows, add_up), lambda sums: sums.mean)


@metric(
    "Clipped",
    False,
    "probability of the label below the smallest normal float",
    "rows in which the NLL counts the smallest float in place of the probability",
    unit="rows",
    range=POSITIVE,
)
def clipped() -> Streaming:
    """In how many rows `nll` counted the smallest float in place of the label's probability.

    >>> p = ClassPrediction.from_probs([[[1.0, 0.0], [0.0, 1.0]]])
    >>> int(clipped(p, jnp.array([0, 0])))
    1
    """

    def rows(view, weight):
        low = view.log_prob < _smallest_log(view.log_prob.dtype)
        return Weighted(low, jnp.where(weight > 0, 1.0, 0.0).astype(weight.dtype))

    return Streaming(Statistic(rows, add_up), lambda sums: sums.total)


@metric(
    "NLL of errors",
    False,
    "of the mixture, mean over the rows that are wrong; NaN where none is",
    "negative log-likelihood where the mixture is wrong",
    **NATS,
)
def nll_of_errors() -> Streaming:
    """`nll` of the rows whose most probable class is not the label; NaN where there is none.

    >>> p = ClassPrediction.from_probs([[[0.5, 0.5], [0.25, 0.75]]])
    >>> round(float(nll_of_errors(p, jnp.array([0, 0]))), 4)
    1.3863
    """

    def rows(view, weight):
        return Weighted(_class_nll(view), jnp.where(view.correct, 0, weight))

    def conclude(sums):
        xp = namespace(sums)
        return xp.where(sums.weight > 0, ratio(sums.total, sums.weight), xp.nan)

    sentence = "no row is wrong, so no error has a likelihood"
    return Streaming(Statistic(rows, add_up), conclude, undefined=sentence)


@metric(
    "Member NLL",
    False,
    "mean over members of their own NLL",
    "negative log-likelihood of a member alone",
    **NATS,
)
def member_nll() -> Streaming:
    """Mean over members of their own `nll`; never below that of the mixture.

    >>> p = ClassPrediction.from_probs([[[1.0, 0.0]], [[0.25, 0.75]]])
    >>> round(float(member_nll(p, jnp.array([0]))), 4)
    0.6931
    """
    return mean_of(_member_nll)


@metric(
    "Jensen gap",
    None,
    "member NLL minus NLL",
    "what mixing the members gains in likelihood",
    **NATS,
)
def jensen_gap() -> Streaming:
    """What mixing gains: `member_nll` minus `nll`, at least 0 and 0 for equal members.

    >>> p = ClassPrediction.from_probs([[[1.0, 0.0]], [[0.25, 0.75]]])
    >>> round(float(jensen_gap(p, jnp.array([0]))), 4)
    0.2231
    """
    return mean_of(lambda view: jnp.maximum(_member_nll(view) - _class_nll(view), 0))


@metrics(
    row(
        "Brier",
        False,
        "sum over classes, mean over rows, of the mixture",
        "squared distance between probabilities and the one-hot label",
        unit="squared probability",
        range=(0.0, 2.0),
        headline=True,
    ),
    row(
        "Brier (mean over classes)",
        False,
        "mean over classes and rows, of the mixture",
        "Brier score divided by the number of classes",
        name="brier_class_mean",
        options={"reduce": "class_mean"},
        unit="squared probability",
    ),
    row(
        "Brier (top label)",
        False,
        "squared gap of confidence and correctness, mean over rows",
        "Brier score of correctness",
        name="brier_top",
        options={"reduce": "top"},
        unit="squared probability",
    ),
    row(
        "Brier (members)",
        False,
        "sum over classes, mean over rows and members",
        "Brier score of a member alone",
        name="brier_members",
        options={"of": "members"},
        unit="squared probability",
        range=(0.0, 2.0),
    ),
)
def brier(
    *,
    reduce: Literal["sum", "class_mean", "top"] = "sum",
    of: Literal["mixture", "members"] = "mixture",
) -> Streaming:
    """Brier score, ``mean Σ_k (p̄_k - 1[y = k])²``, between 0 and 2.

    ``reduce="sum"`` is Brier's own form; ``"class_mean"`` divides it by the number of classes, and
    ``"top"`` is ``mean (confidence - correct)²``. ``of="members"`` averages the members' own scores
    (what torch-uncertainty returns for an ensemble) in place of scoring the mixture. scikit-learn
    1.7 and later agree with the sum for several classes, and halve it for two.
    Reference: G. W. Brier, Monthly Weather Review 78, 1950.

    >>> p = ClassPrediction.from_probs([[[0.5, 0.5], [0.0, 1.0]]])
    >>> float(brier(p, jnp.array([0, 0])))
    1.25
    """
    if (reduce, of) not in _BRIER:
        known = ", ".join(f"({r!r}, {o!r})" for r, o in _BRIER)
        raise InputError(f"(reduce, of) is ({reduce!r}, {of!r}); choose from {known}")
    return mean_of(_BRIER[reduce, of])


def _smallest_log(dtype: Any) -> float:
    return float(np.log(jnp.finfo(dtype).tiny))


def _class_nll(view: ClassView) -> Any:
    return -jnp.maximum(view.log_prob, _smallest_log(view.log_prob.dtype))


def _member_nll(view: ClassView) -> Any:
    each = view.member_log_prob
    floored = jnp.maximum(each, _smallest_log(each.dtype))
    return -member_mean(floored, view.prediction.weights)


def _brier_sum(view: ClassView) -> Any:
    one_hot = jax.nn.one_hot(view.y, view.probs.shape[-1], dtype=view.probs.dtype)
    return jnp.sum(jnp.square(view.probs - one_hot), axis=-1)


def _brier_members(view: ClassView) -> Any:
    return view.squares - 2 * view.true_prob + 1


_BRIER = {
    ("sum", "mixture"): _brier_sum,
    ("class_mean", "mixture"): lambda view: _brier_sum(view) / view.probs.shape[-1],
    ("top", "mixture"): lambda view: jnp.square(view.confidence - view.correct),
    ("sum", "members"): _brier_members,
    ("class_mean", "members"): lambda view: _brier_members(view) / view.probs.shape[-1],
}


class _ClassCounts(NamedTuple):
    correct: Any
    labelled: Any
    predicted: Any


class _Labelled(eqx.Module):
    y: Any
    label: Any
    weight: Any
    classes: int = eqx.field(static=True)


@cache
def _by_class() -> Statistic:
    def rows(view, weight):
        return _Labelled(view.y, view.label, weight, view.probs.shape[-1])

    def total(rows):
        correct = jnp.where(rows.y == rows.label, rows.weight, 0)
        return _ClassCounts(
            segment_sum(correct, rows.y, rows.classes),
            segment_sum(rows.weight, rows.y, rows.classes),
            segment_sum(rows.weight, rows.label, rows.classes),
        )

    return Statistic(rows, total)


def _mean_recall(counts: _ClassCounts) -> Any:
    xp = namespace(counts)
    present = counts.labelled > 0
    return xp.sum(ratio(counts.correct, counts.labelled)) / xp.sum(present)


def _mean_iou(counts: _ClassCounts) -> Any:
    xp = namespace(counts)
    union = counts.labelled + counts.predicted - counts.correct
    return xp.sum(ratio(counts.correct, union)) / xp.sum(union > 0)
