"""How good and how honest a prediction is: pure functions of ``(prediction, y)``."""

from credax.metrics.calibration import Reliability as Reliability
from credax.metrics.calibration import bin_index as bin_index
from credax.metrics.calibration import ece as ece
from credax.metrics.calibration import reliability as reliability
from credax.metrics.calibration import reliability_of as reliability_of
from credax.metrics.checks import check as check
from credax.metrics.diversity import entropy as entropy
from credax.metrics.diversity import mutual_information as mutual_information
from credax.metrics.evaluation import evaluate as evaluate
from credax.metrics.registry import METRICS as METRICS
from credax.metrics.registry import Metric as Metric
from credax.metrics.registry import get as get
from credax.metrics.registry import names as names
from credax.metrics.registry import task_of as task_of
from credax.metrics.regression import coverage as coverage
from credax.metrics.regression import coverage_curve as coverage_curve
from credax.metrics.regression import moment_matched_nll as moment_matched_nll
from credax.metrics.regression import rmse as rmse
from credax.metrics.scoring import accuracy as accuracy
from credax.metrics.scoring import brier as brier
from credax.metrics.scoring import clipped as clipped
from credax.metrics.scoring import nll as nll
from credax.metrics.selective import risk_coverage as risk_coverage
from credax.metrics.selective import risk_coverage_of as risk_coverage_of
