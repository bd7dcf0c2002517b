"""Detection of rows out of distribution (OOD) by a score that is larger for them.

Every metric here takes the scores of all rows and, as ``y``, which of them are out of distribution.
A tie counts as detected on both sides of a threshold, and half in `auroc`.
"""

from functools import partial
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from credax.errors import InputError
from credax.metrics.curves import (
    area_of_joint_risk,
    area_of_risk,
    auroc_bound,
    auroc_of,
    average_precision_of,
    coverage_below_risk,
    false_share_at_recall,
    risk_within_coverage,
)
from credax.metrics.metric import metric, metrics, row
from credax.metrics.namespace import namespace, ratio
from credax.metrics.ranking import Blocks, Scored, ranking
from credax.metrics.selective import check_rule, check_share
from credax.metrics.streaming import Streaming

Range = tuple[float, float]
_ONE_GROUP = "y marks all rows as out of distribution, or none; detection needs rows of both"
_row = partial(row, task="detection")
_metric = partial(metric, task="detection")


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


@_metric(
    "AUROC",
    True,
    "OOD rows score higher, ties half",
    "probability that a row out of distribution scores above one within",
    headline=True,
)
def auroc(*, sketch: Range | None = None) -> Streaming:
    """Probability that an OOD row scores above an ID row, ties counting half.

    Independent of how many rows there are of each; equals scikit-learn's ``roc_auc_score``.
    ``sketch=(low, high)`` keeps 65536 bins over that range in place of the scores, with an error of
    at most half the shares of both groups that fall into the same bin.

    >>> float(auroc(jnp.array([0.1, 0.4, 0.35, 0.8]), jnp.array([False, False, True, True])))
    0.75
    """
    return _detector(auroc_of, sketch, auroc_bound)


@metrics(
    _row(
        "AUPR-Out",
        True,
        "average precision, OOD rows positive; a random score reaches the prevalence",
        "area under precision over recall of the OOD rows",
        headline=True,
    ),
    _row(
        "AUPR-Out (trapezoids)",
        True,
        "trapezoids, OOD rows positive; a random score reaches the prevalence",
        "AUPR-Out with the points joined by lines",
        name="aupr_out_trapezoid",
        options={"rule": "trapezoid"},
    ),
)
def aupr_out(
    *, rule: Literal["step", "trapezoid"] = "step", sketch: Range | None = None
) -> Streaming:
    """Area under precision over recall with the OOD rows as positives.

    ``rule="step"`` is average precision, ``Σ (R_n - R_{n-1}) P_n`` (scikit-learn's
    ``average_precision_score``); ``"trapezoid"`` joins the points by lines, which OpenOOD's
    evaluator does. A random score reaches the `prevalence`, so print that beside it.

    >>> s, out = jnp.array([0.1, 0.4, 0.35, 0.8]), jnp.array([False, False, True, True])
    >>> round(float(aupr_out(s, out)), 6)
    0.833333
    """
    _check_rule(rule)
    return _detector(partial(average_precision_of, rule=rule), sketch, _aupr_bound)


@metrics(
    _row(
        "AUPR-In",
        True,
        "average precision, ID rows positive; a random score reaches 1 - prevalence",
        "area under precision over recall of the ID rows",
    ),
    _row(
        "AUPR-In (trapezoids)",
        True,
        "trapezoids, ID rows positive; a random score reaches 1 - prevalence",
        "AUPR-In with the points joined by lines",
        name="aupr_in_trapezoid",
        options={"rule": "trapezoid"},
    ),
)
def aupr_in(
    *, rule: Literal["step", "trapezoid"] = "step", sketch: Range | None = None
) -> Streaming:
    """`aupr_out` with the ID rows as positives, by rising score.

    >>> s, out = jnp.array([0.1, 0.4, 0.35, 0.8]), jnp.array([False, False, True, True])
    >>> round(float(aupr_in(s, out)), 6)
    0.833333
    """
    _check_rule(rule)
    curve = partial(average_precision_of, rule=rule)
    return _detector(curve, sketch, _aupr_bound, order=_id_rows_first)


@_metric(
    "FPR at 95 % OOD recall",
    False,
    "highest threshold that detects at least 95 % of the OOD rows",
    "share of ID rows flagged when 95 % of the OOD rows are detected",
    headline=True,
)
def fpr_at_ood_recall(*, level: float = 0.95, sketch: Range | None = None) -> Streaming:
    """Share of ID rows that are flagged when ``level`` of the OOD rows are detected.

    The threshold is the highest score at or above which at least ``level`` of the OOD rows lie
    (torch-uncertainty up to 0.11 took the nearest recall instead).

    >>> s, out = id_and_ood(np.array([0.1, 0.2, 0.35, 0.4]), np.array([0.3, 0.5, 0.6, 0.9, 0.95]))
    >>> float(fpr_at_ood_recall(s, out))
    0.5
    """
    check_share("level", level)
    conclude = partial(false_share_at_recall, level=level)
    return _detector(conclude, sketch, partial(_fpr_bound, level=level))


@_metric(
    "FPR at 95 % ID recall",
    False,
    "lowest threshold that keeps at least 95 % of the ID rows",
    "share of OOD rows accepted when 95 % of the ID rows are",
)
def fpr_at_id_recall(*, level: float = 0.95, sketch: Range | None = None) -> Streaming:
    """Share of OOD rows that are accepted when ``level`` of the ID rows are.

    The threshold is the lowest score at or below which at least ``level`` of the ID rows lie.
    This is the FPR95 of much of the literature, the ID rows being the positives there.

    >>> s, out = id_and_ood(np.array([0.1, 0.2, 0.35, 0.4]), np.array([0.3, 0.5, 0.6, 0.9, 0.95]))
    >>> round(float(fpr_at_id_recall(s, out)), 6)
    0.2
    """
    check_share("level", level)
    curve, bound = partial(false_share_at_recall, level=level), partial(_fpr_bound, level=level)
    return _detector(curve, sketch, bound, order=_id_rows_first)


@_metric(
    "SCOD AURC",
    False,
    "error: answering an OOD row; by rising score, ties averaged",
    "mean share of OOD rows over all coverages",
)
def scod_aurc(*, rule: Literal["mean", "trapezoid"] = "mean") -> Streaming:
    """`aurc` where answering an OOD row is the error: rows by rising score.

    >>> float(scod_aurc(jnp.array([0.1, 0.9]), jnp.array([False, True])))
    0.25
    """
    return _detector(partial(area_of_risk, rule=check_rule(rule)), order=_rising)


@_metric(
    "SCOD AUGRC",
    False,
    "error: answering an OOD row; by rising score, ties averaged",
    "mean probability of answering an OOD row over all coverages",
)
def scod_augrc(*, rule: Literal["mean", "trapezoid"] = "mean") -> Streaming:
    """`augrc` where answering an OOD row is the error.

    >>> float(scod_augrc(jnp.array([0.1, 0.9]), jnp.array([False, True])))
    0.25
    """
    return _detector(partial(area_of_joint_risk, rule=check_rule(rule)), order=_rising)


@_metric(
    "SCOD coverage at 5 % risk",
    True,
    "error: answering an OOD row; NaN where no coverage is so safe",
    "share of rows that can be answered with 5 % of them OOD",
    name="scod_coverage_at_5_risk",
)
def scod_coverage_at_risk(*, risk: float = 0.05) -> Streaming:
    """`coverage_at_risk` where answering an OOD row is the error; NaN where none is so safe.

    >>> float(scod_coverage_at_risk(jnp.array([0.1, 0.9]), jnp.array([False, True])))
    0.5
    """
    check_share("risk", risk)
    sentence = f"no share of the rows has a risk of at most {risk}"
    curve = partial(coverage_below_risk, risk=risk)
    return _detector(curve, order=_rising, undefined=sentence, raises=False)


@_metric(
    "SCOD risk at 80 % coverage",
    False,
    "error: answering an OOD row",
    "share of OOD rows among the 80 % of lowest score",
    name="scod_risk_at_80_coverage",
)
def scod_risk_at_coverage(*, coverage: float = 0.8) -> Streaming:
    """`risk_at_coverage` where answering an OOD row is the error.

    >>> float(scod_risk_at_coverage(jnp.array([0.1, 0.9]), jnp.array([False, True]), coverage=1.0))
    0.5
    """
    check_share("coverage", coverage)
    return _detector(partial(risk_within_coverage, coverage=coverage), order=_rising)


@_metric(
    "Prevalence", None, "OOD rows over all rows", "share of OOD rows in the test", headline=True
)
def prevalence(*, sketch: Range | None = None) -> Streaming:
    """Share of OOD rows: the `aupr_out` of a random score.

    >>> float(prevalence(jnp.array([0.1, 0.4]), jnp.array([False, True])))
    0.5
    """

    def conclude(blocks):
        xp = namespace(blocks)
        return xp.sum(blocks.hit) / xp.sum(blocks.weight)

    return _detector(conclude, sketch)


def _rows(view: Any, weight: Any) -> Scored:
    dtype = jnp.result_type(view.given, jnp.float32)
    return Scored(view.given.astype(dtype), view.y.astype(bool), weight.astype(dtype))


def _detector(
    curve: Any, sketch: Range | None = None, bound: Any = None, order: Any = None, **more: Any
) -> Streaming:
    """A curve over the rows by falling score, or over the blocks that ``order`` makes of them."""
    if sketch is not None and not sketch[0] < sketch[1]:
        raise InputError(f"sketch is {sketch}; give (low, high) with low below high")

    def ordered(function):
        return function if order is None else lambda blocks: function(order(blocks))

    error_bound = None if sketch is None or bound is None else ordered(bound)
    more = {"undefined": _ONE_GROUP, "raises": True} | more
    return Streaming(ranking(_rows, sketch), ordered(curve), error_bound, **more)


def _rising(blocks: Blocks) -> Blocks:
    """Blocks in the order of rising score."""
    xp = namespace(blocks)
    return Blocks(*(xp.flip(part) for part in blocks))


def _id_rows_first(blocks: Blocks) -> Blocks:
    """Rising scores, and the ID rows as the hits."""
    rising = _rising(blocks)
    return rising._replace(hit=rising.weight - rising.hit)


def _check_rule(rule: str) -> None:
    if rule not in ("step", "trapezoid"):
        raise InputError(f'rule is {rule!r}; choose "step" or "trapezoid"')


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
