"""Scores of whole predictions: how often right, and how much probability the truth received."""

from functools import cache
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from credax.errors import InputError
from credax.metrics.means import Weighted, add_up, mean_of
from credax.metrics.namespace import namespace, ratio, segment_sum
from credax.metrics.streamed import streamed
from credax.metrics.streaming import Statistic, Streaming
from credax.metrics.view import ClassView
from credax.prediction import ClassPrediction as ClassPrediction


@streamed
def accuracy() -> Streaming:
    """Share of rows whose most probable class is the label: ``mean 1[argmax p̄ = y]``.

    ``p̄`` is the mean of the members' probabilities; ties go to the lowest class.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.4, 0.6]]])
    >>> float(accuracy(p, jnp.array([0, 0])))
    0.5
    """
    return mean_of(_correct)


@streamed
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
    return mean_of(_within(k))


@streamed
def balanced_accuracy() -> Streaming:
    """Mean over the classes present in ``y`` of the share of their rows that are right.

    The same as scikit-learn's ``balanced_accuracy_score`` and the macro average of recall.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]])
    >>> float(balanced_accuracy(p, jnp.array([0, 0, 1])))
    0.5
    """
    return Streaming(_by_class(), _mean_recall)


@streamed
def mean_iou() -> Streaming:
    """Mean over classes of intersection over union, ``TP / (TP + FP + FN)``, from global counts.

    Classes that occur neither in ``y`` nor among the predicted labels are left out. For
    segmentation the rows are pixels (`credax.metrics.pixels`); averaging over pictures instead
    gives another number.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]]])
    >>> round(float(mean_iou(p, jnp.array([0, 1, 1]))), 4)
    0.5
    """
    return Streaming(_by_class(), _mean_iou)


@streamed
def nll() -> Streaming:
    """Negative log-likelihood of the mixture, ``-mean log (1/M) Σ_m p_m(y)``, in nats a row.

    Classes: ``y`` is ``[batch]`` integers, and a probability below the smallest normal float
    counts as that float (`clipped` says how often), so one impossible label cannot make the mean
    infinite. Regression: ``y`` is ``[batch]`` or ``[batch, targets]``, densities are summed over
    targets (those that a mask keeps), averaged over rows, never clipped, and the value depends on
    the unit of ``y``.

    >>> p = ClassPrediction.from_probs([[[0.5, 0.5], [0.25, 0.75]]])
    >>> round(float(nll(p, jnp.array([0, 0]))), 4)
    1.0397
    """
    return Streaming(_surprise(), _mean)


@streamed
def clipped() -> Streaming:
    """In how many rows `nll` counted the smallest float in place of the label's probability.

    >>> p = ClassPrediction.from_probs([[[1.0, 0.0], [0.0, 1.0]]])
    >>> int(clipped(p, jnp.array([0, 0])))
    1
    """
    return Streaming(_clipped_rows(), _total)


@streamed
def nll_of_errors() -> Streaming:
    """`nll` of the rows whose most probable class is not the label; NaN where there is none.

    >>> p = ClassPrediction.from_probs([[[0.5, 0.5], [0.25, 0.75]]])
    >>> round(float(nll_of_errors(p, jnp.array([0, 0]))), 4)
    1.3863
    """
    return Streaming(
        _surprise_of_errors(),
        _mean_or_nan,
        undefined="no row is wrong, so no error has a likelihood",
    )


@streamed
def member_nll() -> Streaming:
    """Mean over members of their own `nll`; never below that of the mixture.

    >>> p = ClassPrediction.from_probs([[[1.0, 0.0]], [[0.25, 0.75]]])
    >>> round(float(member_nll(p, jnp.array([0]))), 4)
    0.6931
    """
    return mean_of(_member_surprise)


@streamed
def jensen_gap() -> Streaming:
    """What mixing gains: `member_nll` less `nll`, at least 0 and 0 for equal members.

    >>> p = ClassPrediction.from_probs([[[1.0, 0.0]], [[0.25, 0.75]]])
    >>> round(float(jensen_gap(p, jnp.array([0]))), 4)
    0.2231
    """
    return mean_of(_gap)


@streamed
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


def _correct(view: ClassView) -> Any:
    return view.correct


@cache
def _within(k: int):
    def rank_below(view: ClassView) -> Any:
        true = view.true_prob[:, None]
        index = jnp.arange(view.probs.shape[-1])
        ahead = (view.probs > true) | ((view.probs == true) & (index < view.y[:, None]))
        return jnp.sum(ahead, axis=-1) < k

    return rank_below


def _smallest_log(dtype: Any) -> float:
    return float(np.log(jnp.finfo(dtype).tiny))


def _class_surprise(view: ClassView) -> Any:
    return -jnp.maximum(view.log_prob, _smallest_log(view.log_prob.dtype))


def _member_surprise(view: ClassView) -> Any:
    each = view.member_log_prob
    return -jnp.mean(jnp.maximum(each, _smallest_log(each.dtype)), axis=0)


def _gap(view: ClassView) -> Any:
    return jnp.maximum(_member_surprise(view) - _class_surprise(view), 0)


def _brier_sum(view: ClassView) -> Any:
    truth = jax.nn.one_hot(view.y, view.probs.shape[-1], dtype=view.probs.dtype)
    return jnp.sum(jnp.square(view.probs - truth), axis=-1)


def _brier_class_mean(view: ClassView) -> Any:
    return _brier_sum(view) / view.probs.shape[-1]


def _brier_top(view: ClassView) -> Any:
    return jnp.square(view.confidence - view.correct)


def _brier_members(view: ClassView) -> Any:
    return view.squares - 2 * view.true_prob + 1


def _brier_members_class_mean(view: ClassView) -> Any:
    return _brier_members(view) / view.probs.shape[-1]


_BRIER = {
    ("sum", "mixture"): _brier_sum,
    ("class_mean", "mixture"): _brier_class_mean,
    ("top", "mixture"): _brier_top,
    ("sum", "members"): _brier_members,
    ("class_mean", "members"): _brier_members_class_mean,
}


@cache
def _surprise() -> Statistic:
    def rows(view, weight):
        if isinstance(view, ClassView):
            return Weighted(_class_surprise(view), weight)
        kept = weight > 0
        each = -0.5 * (
            jnp.log(2 * jnp.pi * view.variances) + jnp.square(view.y - view.means) / view.variances
        )
        joint = jnp.sum(jnp.where(kept, each, 0), axis=-1)
        mixture = jax.scipy.special.logsumexp(joint, axis=0) - jnp.log(view.means.shape[0])
        return Weighted(-mixture, jnp.max(weight, axis=-1))

    return Statistic(rows, add_up)


@cache
def _surprise_of_errors() -> Statistic:
    def rows(view, weight):
        return Weighted(_class_surprise(view), jnp.where(view.correct, 0, weight))

    return Statistic(rows, add_up)


@cache
def _clipped_rows() -> Statistic:
    def rows(view, weight):
        low = view.log_prob < _smallest_log(view.log_prob.dtype)
        return Weighted(low, jnp.where(weight > 0, 1.0, 0.0).astype(weight.dtype))

    return Statistic(rows, add_up)


class _ClassCounts(NamedTuple):
    right: Any
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
        right = jnp.where(rows.y == rows.label, rows.weight, 0)
        return _ClassCounts(
            segment_sum(right, rows.y, rows.classes),
            segment_sum(rows.weight, rows.y, rows.classes),
            segment_sum(rows.weight, rows.label, rows.classes),
        )

    return Statistic(rows, total)


def _mean_recall(counts: _ClassCounts) -> Any:
    xp = namespace(counts)
    present = counts.labelled > 0
    return xp.sum(ratio(counts.right, counts.labelled)) / xp.sum(present)


def _mean_iou(counts: _ClassCounts) -> Any:
    xp = namespace(counts)
    union = counts.labelled + counts.predicted - counts.right
    return xp.sum(ratio(counts.right, union)) / xp.sum(union > 0)


def _mean(sums: Any) -> Any:
    return sums.mean


def _total(sums: Any) -> Any:
    return sums.total


def _mean_or_nan(sums: Any) -> Any:
    xp = namespace(sums)
    return xp.where(sums.weight > 0, ratio(sums.total, sums.weight), xp.nan)
