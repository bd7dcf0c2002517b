"""Selective prediction: risk and coverage when only confident rows are answered.

Rows are sorted by falling confidence, ``R(k) = (1/k) Σ_{i≤k} error_i`` is the risk at coverage
``k/N``, and rows of equal confidence count as the mean of their tied block. With weights, coverage
is the share of the weight, and the rows of a tied block share its weight evenly.
"""

from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer

from credax.errors import InputError
from credax.metrics.curves import (
    area_of_joint_risk,
    area_of_risk,
    auroc_bound,
    auroc_of,
    coverage_below_risk,
    deviation_within_blocks,
    oracle_blocks,
    risk_within_coverage,
)
from credax.metrics.metric import metric, metrics, row
from credax.metrics.namespace import namespace
from credax.metrics.ranking import Blocks, Scored, harmonic, ranking
from credax.metrics.streaming import Statistic, Streaming
from credax.prediction import ClassPrediction

Rule = Literal["mean", "trapezoid"]


def risk_coverage(
    prediction: ClassPrediction, y: Integer[Array, " batch"]
) -> tuple[Float[Array, " batch"], Float[Array, " batch"]]:
    """Error rate among the ``k`` most confident rows, for every coverage ``k/N``.

    Returns ``(coverage, risk)``, both ``[batch]``: ``risk[k-1] = (1/k) Σ_{i≤k} error_i`` with rows
    sorted by falling confidence. Rows of equal confidence have no order, so each counts as the mean
    error of its tied block. Reference: Y. Geifman and R. El-Yaniv, NeurIPS 2017.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]])
    >>> risk_coverage(p, jnp.array([0, 1, 0]))[1].round(4).tolist()
    [0.0, 0.5, 0.33329999446868896]
    """
    return risk_coverage_of(prediction.confidence, prediction.label != y)


def risk_coverage_of(
    score: Float[Array, " batch"], error: Array
) -> tuple[Float[Array, " batch"], Float[Array, " batch"]]:
    """`risk_coverage` for any score (larger is more confident) and any error per row."""
    rows = score.shape[0]
    order = jnp.argsort(-score)
    score, error = score[order], error[order].astype(score.dtype)
    starts = jnp.concatenate([jnp.zeros(1, bool), score[1:] != score[:-1]])
    block = jnp.cumsum(starts)
    size = jax.ops.segment_sum(jnp.ones_like(error), block, rows)
    mean = jax.ops.segment_sum(error, block, rows) / jnp.maximum(size, 1)
    answered = jnp.arange(1, rows + 1, dtype=score.dtype)
    return answered / rows, jnp.cumsum(mean[block]) / answered


@metrics(
    row(
        "AURC",
        False,
        "by confidence, ties averaged, mean over coverages",
        "mean error rate over all coverages when the least confident rows are left out",
    ),
    row(
        "AURC (trapezoids)",
        False,
        "by confidence, ties averaged, trapezoids over coverage 1/N to 1",
        "area under the risk-coverage curve as torch-uncertainty takes it",
        name="aurc_trapezoid",
        options={"rule": "trapezoid"},
    ),
)
def aurc(*, rule: Rule = "mean", sketch: bool = False) -> Streaming:
    """Area under the risk-coverage curve, ``(1/N) Σ_k R(k)``.

    ``rule="trapezoid"`` is torch-uncertainty's: the trapezoids of ``R`` over coverage ``1/N..1``
    divided by ``1 - 1/N``. ``sketch=True`` keeps 65536 bins of the confidence in place of the rows.
    Reference: Y. Geifman, G. Uziel and R. El-Yaniv, ICLR 2019.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.8, 0.2]]])
    >>> float(aurc(p, jnp.array([0, 1])))
    0.25
    """
    return _curve(partial(area_of_risk, rule=check_rule(rule)), sketch, _risk_bound)


@metric(
    "E-AURC",
    False,
    "by confidence, ties averaged, minus that of a perfect ranking",
    "what the order of confidences costs",
)
def e_aurc(*, rule: Rule = "mean", sketch: bool = False) -> Streaming:
    """Excess area under the risk-coverage curve: `aurc` minus that of a perfect ranking.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.8, 0.2]]])
    >>> float(e_aurc(p, jnp.array([1, 0])))
    0.5
    """
    rule = check_rule(rule)

    def excess(blocks):
        return area_of_risk(blocks, rule=rule) - area_of_risk(oracle_blocks(blocks), rule=rule)

    return _curve(excess, sketch, _risk_bound)


@metrics(
    row(
        "AUGRC",
        False,
        "by confidence, ties averaged, mean over coverages",
        "mean probability of answering and being wrong over all coverages",
    ),
    row(
        "AUGRC (trapezoids)",
        False,
        "by confidence, ties averaged, trapezoids over coverage 1/N to 1",
        "AUGRC as torch-uncertainty takes it",
        name="augrc_trapezoid",
        options={"rule": "trapezoid"},
    ),
)
def augrc(*, rule: Rule = "mean", sketch: bool = False) -> Streaming:
    """Area under the generalised risk-coverage curve, ``(1/N) Σ_k R(k) k/N``.

    ``R(k) k/N`` is the probability of answering and being wrong, so unlike `aurc` no row counts
    more for being ranked early. Reference: J. Traub et al., NeurIPS 2024.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.8, 0.2]]])
    >>> float(augrc(p, jnp.array([0, 1])))
    0.25
    """
    return _curve(partial(area_of_joint_risk, rule=check_rule(rule)), sketch, _joint_risk_bound)


@metric(
    "Coverage at 5 % risk",
    True,
    "by confidence, ties averaged, largest coverage; NaN where there is none",
    "share of rows that can be answered with an error rate of 5 %",
    name="coverage_at_5_risk",
)
def coverage_at_risk(*, risk: float = 0.05) -> Streaming:
    """Largest coverage ``k/N`` with ``R(k) <= risk``; NaN where no coverage has so small a risk.

    A wrong first answer does not end the search: what counts is the risk at ``k``, not before it.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]])
    >>> float(coverage_at_risk(p, jnp.array([0, 0, 1, 1]), risk=0.35))
    0.75
    """
    check_share("risk", risk)
    sentence = f"no coverage has a risk of at most {risk}"
    return _curve(partial(coverage_below_risk, risk=risk), undefined=sentence)


@metric(
    "Risk at 80 % coverage",
    False,
    "by confidence, ties averaged",
    "error rate of the most confident 80 % of rows",
    name="risk_at_80_coverage",
)
def risk_at_coverage(*, coverage: float = 0.8) -> Streaming:
    """Error rate of the ``⌈coverage · N⌉`` most confident rows.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]])
    >>> float(risk_at_coverage(p, jnp.array([0, 1, 0, 0]), coverage=0.5))
    0.5
    """
    check_share("coverage", coverage)
    return _curve(partial(risk_within_coverage, coverage=coverage))


@metric(
    "AUROC of correctness",
    True,
    "of the confidence, ties half; NaN where all rows are correct or all wrong",
    "probability that a correct row is more confident than an incorrect one",
)
def auroc_correct(*, sketch: bool = False) -> Streaming:
    """Probability that a correct row is more confident than an incorrect one, ties counting half.

    NaN where all rows are correct or all are incorrect.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]]])
    >>> float(auroc_correct(p, jnp.array([0, 1, 0])))
    0.5
    """

    sentence = "all predictions are correct or all are wrong, so there is nothing to detect"
    return _curve(lambda blocks: 1 - auroc_of(blocks), sketch, auroc_bound, sentence)


def confidence_ranking(sketch: bool = False) -> Statistic:
    """Confidence and error of every row, sorted once; or of 65536 bins."""
    return ranking(_confidence_rows, (0.0, 1.0) if sketch else None)


def _confidence_rows(view: Any, weight: Any) -> Scored:
    return Scored(view.confidence, ~view.correct, weight)


def _curve(
    conclude: Any, sketch: bool = False, bound: Any = None, undefined: str = ""
) -> Streaming:
    return Streaming(confidence_ranking(sketch), conclude, bound if sketch else None, undefined)


def check_rule(rule: str) -> Rule:
    """The rule, if it is one."""
    if rule not in ("mean", "trapezoid"):
        raise InputError(f'rule is {rule!r}; choose "mean" or "trapezoid"')
    return rule


def check_share(name: str, share: float) -> None:
    """Refuse what is no share."""
    if not 0 < share <= 1:
        raise InputError(f"{name} is {share}; give a share above 0 and at most 1")


def _risk_bound(blocks: Blocks) -> Any:
    xp = namespace(blocks)
    start = blocks.before[0]
    steps = harmonic(start, blocks.count)
    return xp.sum(deviation_within_blocks(blocks) * steps) / xp.sum(blocks.weight)


def _joint_risk_bound(blocks: Blocks) -> Any:
    xp = namespace(blocks)
    return xp.sum(deviation_within_blocks(blocks) * blocks.weight) / xp.sum(blocks.weight) ** 2
