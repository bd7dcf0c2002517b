"""The metrics of detection, prediction sets and shift, in the order of tables."""

from functools import partial
from math import inf

from credax.metrics import detection, sets, shift
from credax.metrics.metric import Metric, Task

_SHARE = (0.0, 1.0)


def _share(task: Task, name, label, function, better, estimator, description, **more) -> Metric:
    bounds, unit = more.pop("bounds", _SHARE), more.pop("unit", "share")
    return Metric(name, label, function, task, better, unit, bounds, estimator, description, **more)


_detector = partial(_share, "detection")
_set = partial(_share, "sets")

DETECTION = (
    _detector(
        "auroc",
        "AUROC",
        detection.auroc,
        True,
        "OOD rows score higher, ties half",
        "probability that a row out of distribution scores above one within",
        headline=True,
    ),
    _detector(
        "aupr_out",
        "AUPR-Out",
        detection.aupr_out,
        True,
        "average precision, OOD rows positive; a coin reaches the prevalence",
        "area under precision over recall of the OOD rows",
        headline=True,
    ),
    _detector(
        "aupr_in",
        "AUPR-In",
        detection.aupr_in,
        True,
        "average precision, ID rows positive; a coin reaches 1 - prevalence",
        "area under precision over recall of the ID rows",
    ),
    _detector(
        "aupr_out_trapezoid",
        "AUPR-Out (trapezoids)",
        detection.aupr_out.having(rule="trapezoid"),
        True,
        "trapezoids, OOD rows positive; a coin reaches the prevalence",
        "AUPR-Out with the points joined by lines",
    ),
    _detector(
        "aupr_in_trapezoid",
        "AUPR-In (trapezoids)",
        detection.aupr_in.having(rule="trapezoid"),
        True,
        "trapezoids, ID rows positive; a coin reaches 1 - prevalence",
        "AUPR-In with the points joined by lines",
    ),
    _detector(
        "fpr_at_ood_recall",
        "FPR at 95 % OOD recall",
        detection.fpr_at_ood_recall,
        False,
        "highest threshold that catches at least 95 % of the OOD rows",
        "share of ID rows flagged when 95 % of the OOD rows are caught",
        headline=True,
    ),
    _detector(
        "fpr_at_id_recall",
        "FPR at 95 % ID recall",
        detection.fpr_at_id_recall,
        False,
        "lowest threshold that keeps at least 95 % of the ID rows",
        "share of OOD rows accepted when 95 % of the ID rows are",
    ),
    _detector(
        "scod_aurc",
        "SCOD AURC",
        detection.scod_aurc,
        False,
        "error: answering an OOD row; by rising score, ties averaged",
        "mean share of OOD rows over all coverages",
    ),
    _detector(
        "scod_augrc",
        "SCOD AUGRC",
        detection.scod_augrc,
        False,
        "error: answering an OOD row; by rising score, ties averaged",
        "mean probability of answering an OOD row over all coverages",
    ),
    _detector(
        "scod_coverage_at_5_risk",
        "SCOD coverage at 5 % risk",
        detection.scod_coverage_at_risk,
        True,
        "error: answering an OOD row; NaN where no coverage is so safe",
        "share of rows that can be answered with 5 % of them OOD",
    ),
    _detector(
        "scod_risk_at_80_coverage",
        "SCOD risk at 80 % coverage",
        detection.scod_risk_at_coverage,
        False,
        "error: answering an OOD row",
        "share of OOD rows among the 80 % least strange",
    ),
    _detector(
        "prevalence",
        "Prevalence",
        detection.prevalence,
        None,
        "OOD rows over all rows",
        "share of OOD rows in the test",
        headline=True,
    ),
)

SETS = (
    _set(
        "set_coverage",
        "Set coverage",
        sets.set_coverage,
        None,
        "over rows; the target is the level that the sets were made for",
        "share of sets that hold the label",
        headline=True,
    ),
    _set(
        "set_coverage_macro",
        "Set coverage (classes)",
        sets.set_coverage.having(average="macro"),
        None,
        "mean over the classes present",
        "share of sets that hold the label, every class counting the same",
    ),
    _set(
        "set_coverage_worst",
        "Set coverage (worst class)",
        sets.set_coverage.having(average="worst"),
        True,
        "least over the classes present",
        "share of sets that hold the label in the class where it is lowest",
    ),
    _set(
        "set_size",
        "Set size",
        sets.set_size,
        False,
        "mean over rows",
        "number of classes in a set",
        bounds=(0.0, inf),
        unit="classes",
        headline=True,
    ),
    _set(
        "singleton_share",
        "Singletons",
        sets.singleton_share,
        True,
        "over rows",
        "share of sets with one class",
    ),
    _set("empty_share", "Empty sets", sets.empty_share, False, "over rows", "share of empty sets"),
    _set(
        "size_stratified_coverage",
        "Coverage (worst size)",
        sets.size_stratified_coverage,
        True,
        f"least over set sizes with at least {sets.STRATUM} rows; NaN where there is none",
        "share of sets that hold the label among sets of the worst size",
    ),
)

SHIFT = tuple(
    Metric(
        name,
        label,
        partial(shift.mean_corruption_error, relative=relative),
        "shift",
        False,
        "share of the baseline's",
        (-inf, inf) if relative else (0.0, inf),
        "sum over severities, mean over types, over the baseline's",
        words,
    )
    for name, label, relative, words in (
        ("mean_corruption_error", "mCE", False, "error rate under shift"),
        (
            "relative_mean_corruption_error",
            "Relative mCE",
            True,
            "what shift adds to the error rate",
        ),
    )
)
