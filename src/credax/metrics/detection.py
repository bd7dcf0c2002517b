"""Telling rows of another distribution from one's own by a score: larger means more strange.

Every metric here takes the scores of all rows and, as ``y``, which of them are out of distribution.
A tie counts as caught on both sides of a threshold, and half in `auroc`.
"""

from functools import cache, partial
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from credax.errors import InputError
from credax.metrics.curves import (
    area_of_joint_risk,
    area_of_risk,
    auroc_of,
    average_precision_of,
    coverage_below_risk,
    false_share_at_recall,
    risk_within_coverage,
)
from credax.metrics.namespace import namespace, ratio
from credax.metrics.ranking import (
    SKETCH_BINS,
    Blocks,
    Scored,
    blocks_of,
    sketch_blocks,
    sketch_sums,
)
from credax.metrics.selective import check_rule, check_share
from credax.metrics.streamed import streamed
from credax.metrics.streaming import Statistic, Streaming

Range = tuple[float, float]
_ONE_GROUP = (
    "y marks all rows as out of distribution, or none; telling them apart needs rows of both"
)


def id_and_ood(
    id_scores: Float[Array, " id"], ood_scores: Float[Array, " ood"]
) -> tuple[Float[Array, " both"], Bool[np.ndarray, " both"]]:
    """The scores of both sets in one array, and which of them are out of distribution.

    >>> score, out = id_and_ood(np.array([0.1, 0.2]), np.array([0.9]))
    >>> out.tolist(), round(float(auroc(score, out)), 3)
    ([False, False, True], 1.0)
    """
    out = np.concatenate([np.zeros(len(id_scores), bool), np.ones(len(ood_scores), bool)])
    return jnp.concatenate([jnp.asarray(id_scores), jnp.asarray(ood_scores)]), out


def sketch_range(scores: Any) -> Range:
    """The range for ``sketch=`` from the scores of a first chunk; what falls outside is not lost.

    >>> sketch_range(np.array([0.25, 1.0, 0.5]))
    (0.25, 1.0)
    """
    low, high = float(np.min(scores)), float(np.max(scores))
    return (low, high) if high > low else (low, low + 1.0)


@streamed
def auroc(*, sketch: Range | None = None) -> Streaming:
    """Probability that a strange row scores above one's own, ties counting half.

    Independent of how many rows there are of each; equals scikit-learn's ``roc_auc_score``.
    ``sketch=(low, high)`` keeps 65536 bins over that range in place of the scores, with an error of
    at most half the shares of both groups that fall into the same bin.

    >>> float(auroc(jnp.array([0.1, 0.4, 0.35, 0.8]), jnp.array([False, False, True, True])))
    0.75
    """
    return _detector(auroc_of, sketch, _auroc_bound)


@streamed
def aupr_out(
    *, rule: Literal["step", "trapezoid"] = "step", sketch: Range | None = None
) -> Streaming:
    """Area under precision over recall with the strange rows as what is searched for.

    ``rule="step"`` is average precision, ``Σ (R_n - R_{n-1}) P_n`` (scikit-learn's
    ``average_precision_score``); ``"trapezoid"`` joins the points by lines, which OpenOOD's
    evaluator does. A coin reaches the `prevalence`, so print that beside it.

    >>> s, out = jnp.array([0.1, 0.4, 0.35, 0.8]), jnp.array([False, False, True, True])
    >>> round(float(aupr_out(s, out)), 6)
    0.833333
    """
    _check_rule(rule)
    return _detector(partial(average_precision_of, rule=rule), sketch, _aupr_bound)


@streamed
def aupr_in(
    *, rule: Literal["step", "trapezoid"] = "step", sketch: Range | None = None
) -> Streaming:
    """`aupr_out` with one's own rows as what is searched for, by falling strangeness.

    >>> s, out = jnp.array([0.1, 0.4, 0.35, 0.8]), jnp.array([False, False, True, True])
    >>> round(float(aupr_in(s, out)), 6)
    0.833333
    """
    _check_rule(rule)

    def conclude(blocks):
        return average_precision_of(_other_way(blocks), rule=rule)

    def bound(blocks):
        return _aupr_bound(_other_way(blocks))

    return _detector(conclude, sketch, bound)


@streamed
def fpr_at_ood_recall(*, level: float = 0.95, sketch: Range | None = None) -> Streaming:
    """Share of one's own rows that are flagged when ``level`` of the strange ones are caught.

    The threshold is the highest score at or above which at least ``level`` of the strange rows lie
    (torch-uncertainty up to 0.11 took the nearest recall instead).

    >>> s, out = id_and_ood(np.array([0.1, 0.2, 0.35, 0.4]), np.array([0.3, 0.5, 0.6, 0.9, 0.95]))
    >>> float(fpr_at_ood_recall(s, out))
    0.5
    """
    check_share("level", level)
    conclude = partial(false_share_at_recall, level=level)
    return _detector(conclude, sketch, partial(_fpr_bound, level=level))


@streamed
def fpr_at_id_recall(*, level: float = 0.95, sketch: Range | None = None) -> Streaming:
    """Share of the strange rows that pass when ``level`` of one's own are let through.

    The threshold is the lowest score at or below which at least ``level`` of one's own rows lie.
    This is the FPR95 of much of the literature, one's own rows being the positives there.

    >>> s, out = id_and_ood(np.array([0.1, 0.2, 0.35, 0.4]), np.array([0.3, 0.5, 0.6, 0.9, 0.95]))
    >>> round(float(fpr_at_id_recall(s, out)), 6)
    0.2
    """
    check_share("level", level)

    def conclude(blocks):
        return false_share_at_recall(_other_way(blocks), level=level)

    def bound(blocks):
        return _fpr_bound(_other_way(blocks), level=level)

    return _detector(conclude, sketch, bound)


@streamed
def prevalence(*, sketch: Range | None = None) -> Streaming:
    """Share of strange rows: what `aupr_out` is worth without any skill.

    >>> float(prevalence(jnp.array([0.1, 0.4]), jnp.array([False, True])))
    0.5
    """

    def conclude(blocks):
        xp = namespace(blocks)
        return xp.sum(blocks.hit) / xp.sum(blocks.weight)

    return _detector(conclude, sketch, None)


@streamed
def scod_aurc(*, rule: Literal["mean", "trapezoid"] = "mean") -> Streaming:
    """`aurc` where to answer a strange row is the error: rows in the order of falling strangeness.

    >>> float(scod_aurc(jnp.array([0.1, 0.9]), jnp.array([False, True])))
    0.25
    """
    rule = check_rule(rule)

    def conclude(blocks):
        return area_of_risk(_flipped(blocks), rule=rule)

    return _detector(conclude, None, None)


@streamed
def scod_augrc(*, rule: Literal["mean", "trapezoid"] = "mean") -> Streaming:
    """`augrc` where to answer a strange row is the error.

    >>> float(scod_augrc(jnp.array([0.1, 0.9]), jnp.array([False, True])))
    0.25
    """
    rule = check_rule(rule)

    def conclude(blocks):
        return area_of_joint_risk(_flipped(blocks), rule=rule)

    return _detector(conclude, None, None)


@streamed
def scod_coverage_at_risk(*, risk: float = 0.05) -> Streaming:
    """`coverage_at_risk` where to answer a strange row is the error; NaN where none is so safe.

    >>> float(scod_coverage_at_risk(jnp.array([0.1, 0.9]), jnp.array([False, True])))
    0.5
    """
    check_share("risk", risk)

    def conclude(blocks):
        return coverage_below_risk(_flipped(blocks), risk=risk)

    sentence = f"no share of the rows has a risk of at most {risk}"
    return Streaming(_ranking(None), conclude, undefined=sentence)


@streamed
def scod_risk_at_coverage(*, coverage: float = 0.8) -> Streaming:
    """`risk_at_coverage` where to answer a strange row is the error.

    >>> float(scod_risk_at_coverage(jnp.array([0.1, 0.9]), jnp.array([False, True]), coverage=1.0))
    0.5
    """
    check_share("coverage", coverage)

    def conclude(blocks):
        return risk_within_coverage(_flipped(blocks), coverage=coverage)

    return _detector(conclude, None, None)


@cache
def _ranking(sketch: Range | None) -> Statistic:
    def rows(view, weight):
        dtype = jnp.result_type(view.given, jnp.float32)
        return Scored(view.given.astype(dtype), view.y.astype(bool), weight.astype(dtype))

    if sketch is None:
        return Statistic(rows, None, blocks_of)
    low, high = sketch
    if not low < high:
        raise InputError(f"sketch is {sketch}; give (low, high) with low below high")

    def total(rows):
        return sketch_sums(rows, SKETCH_BINS, low, high)

    return Statistic(rows, total, sketch_blocks)


def _detector(conclude: Any, sketch: Range | None, bound: Any) -> Streaming:
    bound = None if sketch is None else bound
    return Streaming(_ranking(sketch), conclude, bound, undefined=_ONE_GROUP, refuses=True)


def _check_rule(rule: str) -> None:
    if rule not in ("step", "trapezoid"):
        raise InputError(f'rule is {rule!r}; choose "step" or "trapezoid"')


def _flipped(blocks: Blocks) -> Blocks:
    """Blocks in the order of rising score."""
    xp = namespace(blocks)
    return Blocks(*(xp.flip(part) for part in blocks))


def _other_way(blocks: Blocks) -> Blocks:
    """Rising scores, and one's own rows as the hits."""
    flipped = _flipped(blocks)
    return flipped._replace(hit=flipped.weight - flipped.hit)


def _auroc_bound(blocks: Blocks) -> Any:
    xp = namespace(blocks)
    miss = blocks.weight - blocks.hit
    return xp.sum(blocks.hit * miss) / (2 * xp.sum(blocks.hit) * xp.sum(miss))


def _aupr_bound(blocks: Blocks) -> Any:
    """Precision within a bin lies between that of all misses first and that of all hits first."""
    xp = namespace(blocks)
    seen, found = blocks.before
    best = ratio(found + blocks.hit, seen + blocks.hit)
    least = ratio(found, seen + blocks.weight)
    precision = ratio(found + blocks.hit, seen + blocks.weight)
    off = xp.maximum(best - precision, precision - least)
    mixed = (blocks.count > 1) & (blocks.hit > 0)
    return ratio(xp.sum(xp.where(mixed, blocks.hit * off, 0)), xp.sum(blocks.hit))


def _fpr_bound(blocks: Blocks, *, level: float) -> Any:
    xp = namespace(blocks)
    miss = blocks.weight - blocks.hit
    block = xp.argmax(xp.cumsum(blocks.hit) >= level * xp.sum(blocks.hit))
    return ratio(miss[block], xp.sum(miss))
