"""Selective prediction and diversity of class predictions, in the order of tables."""

from credax.metrics import diversity, selective
from credax.metrics.catalogue_classes import nats, share
from credax.metrics.metric import Metric

_RANKED = "by confidence, ties averaged"

SELECTIVE = (
    share(
        "aurc",
        "AURC",
        selective.aurc,
        False,
        estimator=f"{_RANKED}, mean over coverages",
        description="mean error rate over all coverages when the least sure are left out",
    ),
    share(
        "aurc_trapezoid",
        "AURC (trapezoids)",
        selective.aurc.having(rule="trapezoid"),
        False,
        estimator=f"{_RANKED}, trapezoids over coverage 1/N to 1",
        description="area under the risk-coverage curve as torch-uncertainty takes it",
    ),
    share(
        "e_aurc",
        "E-AURC",
        selective.e_aurc,
        False,
        estimator=f"{_RANKED}, less that of an order without mistakes",
        description="what the order of confidences costs",
    ),
    share(
        "augrc",
        "AUGRC",
        selective.augrc,
        False,
        estimator=f"{_RANKED}, mean over coverages",
        description="mean probability of answering and being wrong over all coverages",
    ),
    share(
        "augrc_trapezoid",
        "AUGRC (trapezoids)",
        selective.augrc.having(rule="trapezoid"),
        False,
        estimator=f"{_RANKED}, trapezoids over coverage 1/N to 1",
        description="AUGRC as torch-uncertainty takes it",
    ),
    share(
        "coverage_at_5_risk",
        "Coverage at 5 % risk",
        selective.coverage_at_risk.having(risk=0.05),
        True,
        estimator=f"{_RANKED}, largest coverage; NaN where there is none",
        description="share of rows that can be answered with an error rate of 5 %",
    ),
    share(
        "risk_at_80_coverage",
        "Risk at 80 % coverage",
        selective.risk_at_coverage.having(coverage=0.8),
        False,
        estimator=_RANKED,
        description="error rate of the surest 80 % of rows",
    ),
    share(
        "auroc_correct",
        "AUROC of correctness",
        selective.auroc_correct,
        True,
        estimator="of the confidence, ties half; NaN where all rows are right or all wrong",
        description="probability that a right row is surer than a wrong one",
    ),
)

_ROWS = "mean over rows"

DIVERSITY = (
    nats(
        "entropy",
        "Entropy",
        diversity.entropy,
        None,
        estimator=f"of the mean probability, {_ROWS}",
        description="total uncertainty",
        headline=True,
    ),
    nats(
        "expected_entropy",
        "Expected entropy",
        diversity.expected_entropy,
        None,
        estimator=f"mean over members, {_ROWS}",
        description="aleatoric uncertainty: what the members agree is uncertain",
    ),
    nats(
        "mutual_information",
        "Mutual information",
        diversity.mutual_information,
        None,
        estimator=f"entropy of the mixture less the members' mean entropy, {_ROWS}",
        description="epistemic uncertainty: how much the members disagree",
        headline=True,
    ),
    Metric(
        "epistemic_share",
        "Epistemic share",
        diversity.epistemic_share,
        None,
        None,
        "share",
        (0.0, 1.0),
        "mutual information over entropy, or variance of means over variance, of all rows",
        "share of the uncertainty that is the members' disagreement",
        members=2,
    ),
    share(
        "mean_confidence",
        "Confidence",
        diversity.mean_confidence,
        None,
        estimator=f"largest mean probability, {_ROWS}",
        description="probability of the most probable class",
    ),
    share(
        "disagreement",
        "Disagreement",
        diversity.disagreement,
        None,
        estimator=f"pairs of members, {_ROWS}",
        description="share of pairs of members that choose different classes",
        members=2,
    ),
    share(
        "variation_ratio",
        "Variation ratio",
        diversity.variation_ratio,
        None,
        estimator=f"votes against the modal class, {_ROWS}",
        description="share of members that do not choose the most frequent class",
        members=2,
    ),
    share(
        "variation_ratio_mean_class",
        "Variation ratio (mean class)",
        diversity.variation_ratio.having(of="mean_class"),
        None,
        estimator=f"votes against the mixture's most probable class, {_ROWS}",
        description="share of members that do not choose the mixture's class",
        members=2,
    ),
    share(
        "one_hot_variance",
        "One-hot variance",
        diversity.one_hot_variance,
        None,
        estimator=f"trace of the one-hot label's covariance, {_ROWS}",
        description="total uncertainty as a variance",
    ),
    share(
        "one_hot_variance_epistemic",
        "One-hot variance (epistemic)",
        diversity.one_hot_variance.having(part="epistemic"),
        None,
        estimator=f"variance of the members' probabilities summed over classes, {_ROWS}",
        description="epistemic uncertainty as a variance",
        members=2,
    ),
)
