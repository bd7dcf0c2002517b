"""The scores and calibration errors of class predictions, in the order of tables."""

from functools import partial
from math import inf

from credax.metrics import calibration, equal_mass, scoring, smooth
from credax.metrics.metric import Metric

_SHARE = (0.0, 1.0)
_POSITIVE = (0.0, inf)
_BINS = f"top label, {calibration.BINS} equal-width bins"


def of_classes(
    name, label, function, better, unit, bounds, estimator, description, **more
) -> Metric:
    """A metric of class predictions."""
    return Metric(
        name,
        label,
        function,
        "classification",
        better,
        unit,
        bounds,
        estimator,
        description,
        **more,
    )


share = partial(of_classes, unit="share", bounds=_SHARE)
nats = partial(of_classes, unit="nats", bounds=_POSITIVE)


SCORING = (
    share(
        "accuracy",
        "Accuracy",
        scoring.accuracy,
        True,
        estimator="argmax of the mean probability, ties to the lowest class",
        description="share of rows whose most probable class is the label",
        headline=True,
    ),
    share(
        "top_5_accuracy",
        "Top-5 accuracy",
        scoring.top_k_accuracy.having(k=5),
        True,
        estimator="of the mean probability, ties to the lowest class",
        description="share of rows whose label is among the five most probable classes",
        classes=6,
    ),
    share(
        "balanced_accuracy",
        "Balanced accuracy",
        scoring.balanced_accuracy,
        True,
        estimator="mean recall over the classes present",
        description="accuracy in which every class counts the same",
    ),
    share(
        "mean_iou",
        "Mean IoU",
        scoring.mean_iou,
        True,
        estimator="global counts, mean over classes present in labels or predictions",
        description="intersection over union of predicted and true rows of a class",
    ),
    Metric(
        "nll",
        "NLL",
        scoring.nll,
        None,
        False,
        "nats",
        (-inf, inf),
        "exact mixture, mean over rows; class probabilities clipped at the smallest float",
        "negative log-likelihood of the labels or targets",
        headline=True,
    ),
    of_classes(
        "clipped",
        "Clipped",
        scoring.clipped,
        False,
        "rows",
        _POSITIVE,
        "probability of the label below the smallest normal float",
        "rows in which the NLL counts the smallest float in place of the probability",
    ),
    nats(
        "nll_of_errors",
        "NLL of errors",
        scoring.nll_of_errors,
        False,
        estimator="of the mixture, mean over the rows that are wrong; NaN where none is",
        description="how surprised the mixture is where it is wrong",
    ),
    nats(
        "member_nll",
        "Member NLL",
        scoring.member_nll,
        False,
        estimator="mean over members of their own NLL",
        description="negative log-likelihood of a member alone",
    ),
    nats(
        "jensen_gap",
        "Jensen gap",
        scoring.jensen_gap,
        None,
        estimator="member NLL less NLL",
        description="what mixing the members gains in likelihood",
    ),
    of_classes(
        "brier",
        "Brier",
        scoring.brier,
        False,
        "squared probability",
        (0.0, 2.0),
        "sum over classes, mean over rows, of the mixture",
        "squared distance between probabilities and the one-hot label",
        headline=True,
    ),
    of_classes(
        "brier_class_mean",
        "Brier (mean over classes)",
        scoring.brier.having(reduce="class_mean"),
        False,
        "squared probability",
        _SHARE,
        "mean over classes and rows, of the mixture",
        "Brier score divided by the number of classes",
    ),
    of_classes(
        "brier_top",
        "Brier (top label)",
        scoring.brier.having(reduce="top"),
        False,
        "squared probability",
        _SHARE,
        "squared gap of confidence and correctness, mean over rows",
        "Brier score of being right",
    ),
    of_classes(
        "brier_members",
        "Brier (members)",
        scoring.brier.having(of="members"),
        False,
        "squared probability",
        (0.0, 2.0),
        "sum over classes, mean over rows and members",
        "Brier score of a member alone",
    ),
)

CALIBRATION = (
    share(
        "ece",
        "ECE",
        calibration.ece,
        False,
        estimator=_BINS,
        description="expected gap between confidence and accuracy",
        headline=True,
    ),
    share(
        "mce",
        "MCE",
        calibration.mce,
        False,
        estimator=_BINS,
        description="largest gap between confidence and accuracy",
    ),
    share(
        "rmsce",
        "RMSCE",
        calibration.rmsce,
        False,
        estimator=_BINS,
        description="root mean squared gap between confidence and accuracy",
    ),
    share(
        "debiased_rmsce",
        "Debiased RMSCE",
        calibration.debiased_rmsce,
        False,
        estimator=f"{_BINS}, chance taken off, at least 0",
        description="root mean squared gap less what chance puts into it",
    ),
    share(
        "average_calibration_error",
        "Average calibration error",
        calibration.average_calibration_error,
        False,
        estimator=f"{_BINS}, unweighted mean over bins with rows",
        description="gap between confidence and accuracy, every bin counting the same",
    ),
    share(
        "adaptive_ece",
        "Adaptive ECE",
        equal_mass.adaptive_ece,
        False,
        estimator=f"top label, {calibration.BINS} bins of equal mass",
        description="expected gap between confidence and accuracy in bins of equal mass",
    ),
    share(
        "ace",
        "ACE",
        equal_mass.ace,
        False,
        estimator=f"all classes, {equal_mass.RANGES} ranges of equal mass",
        description="gap between every class's probability and its frequency",
    ),
    share(
        "tace",
        "TACE",
        equal_mass.tace,
        False,
        estimator=(
            f"all classes, {equal_mass.RANGES} ranges of equal mass, probabilities above "
            f"{equal_mass.THRESHOLD}"
        ),
        description="ACE without the classes that are out of the question",
    ),
    share(
        "sce",
        "Class-wise ECE",
        calibration.sce,
        False,
        estimator=f"all classes, {calibration.BINS} equal-width bins, mean over classes",
        description="expected gap between every class's probability and its frequency",
    ),
    share(
        "smooth_ece",
        "Smooth ECE",
        smooth.smooth_ece,
        False,
        estimator="top label, Gaussian kernel mirrored at 0 and 1, width equal to the value",
        description="gap between confidence and accuracy without bins",
    ),
    share(
        "smooth_ece_logit",
        "Smooth ECE (logit)",
        smooth.smooth_ece.having(kernel="logit"),
        False,
        estimator="top label, Gaussian kernel of four times the value in logit space",
        description="gap between confidence and accuracy without bins, finer near 0 and 1",
    ),
)
