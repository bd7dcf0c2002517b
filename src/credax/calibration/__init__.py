"""Calibration: maps fitted on held-out rows that make predictions calibrated.

A calibrator is a frozen record with ``fit(prediction, y, *, key=None)``; what it returns maps
predictions to predictions, or to sets and intervals. Names are loaded when first used.
"""

from typing import TYPE_CHECKING

from credax.calibration.registry import describe as describe
from credax.calibration.registry import entry as entry
from credax.calibration.registry import get as get
from credax.calibration.registry import names as names
from credax.lazy import lazy_package

if TYPE_CHECKING:
    from credax.calibration.binary import Beta as Beta
    from credax.calibration.binary import Platt as Platt
    from credax.calibration.binning import BBQ as BBQ
    from credax.calibration.binning import Histogram as Histogram
    from credax.calibration.classwise import Isotonic as Isotonic
    from credax.calibration.classwise import pool_adjacent_violators as pool_adjacent_violators
    from credax.calibration.conformal import Mondrian as Mondrian
    from credax.calibration.conformal import conformalise as conformalise
    from credax.calibration.conformal_quantiles import conformal_quantile as conformal_quantile
    from credax.calibration.conformal_quantiles import conformal_rank as conformal_rank
    from credax.calibration.conformal_quantiles import rows_needed as rows_needed
    from credax.calibration.intervals import CQR as CQR
    from credax.calibration.intervals import ConformalIntervals as ConformalIntervals
    from credax.calibration.intervals import Intervals as Intervals
    from credax.calibration.intervals import Normalised as Normalised
    from credax.calibration.intervals import Residual as Residual
    from credax.calibration.protocol import CalibrationWarning as CalibrationWarning
    from credax.calibration.protocol import Calibrator as Calibrator
    from credax.calibration.protocol import Fitted as Fitted
    from credax.calibration.quantile_recalibration import (
        QuantileRecalibration as QuantileRecalibration,
    )
    from credax.calibration.quantile_recalibration import (
        RecalibratedPrediction as RecalibratedPrediction,
    )
    from credax.calibration.risk import FittedRiskControl as FittedRiskControl
    from credax.calibration.risk import RiskControl as RiskControl
    from credax.calibration.rows import calibrate as calibrate
    from credax.calibration.rows import calibration_rows as calibration_rows
    from credax.calibration.rows import check_rows as check_rows
    from credax.calibration.rows import refuse_training_rows as refuse_training_rows
    from credax.calibration.rows import row_digests as row_digests
    from credax.calibration.scaling import Dirichlet as Dirichlet
    from credax.calibration.scaling import Matrix as Matrix
    from credax.calibration.scaling import Vector as Vector
    from credax.calibration.sets import APS as APS
    from credax.calibration.sets import RAPS as RAPS
    from credax.calibration.sets import ConformalSets as ConformalSets
    from credax.calibration.sets import Threshold as Threshold
    from credax.calibration.sets import tune_raps as tune_raps
    from credax.calibration.storage import load as load
    from credax.calibration.storage import save as save
    from credax.calibration.temperature import Temperature as Temperature
    from credax.calibration.temperature import nll_after_temperature as nll_after_temperature
    from credax.calibration.variance_scaling import VarianceScaling as VarianceScaling

__getattr__, __dir__, _lazy = lazy_package(__name__, __file__)
__all__ = [*_lazy, "describe", "entry", "get", "names"]  # pyright: ignore[reportUnsupportedDunderAll]
