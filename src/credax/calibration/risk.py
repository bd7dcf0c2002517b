"""Conformal risk control: sets of classes per pixel whose expected loss in a picture is bounded."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Bool

from credax.calibration.conformal_quantiles import as_alpha
from credax.errors import InputError
from credax.prediction import ClassPrediction


class FittedRiskControl(eqx.Module):
    """The sets of `RiskControl`: all classes with a probability of at least ``threshold``."""

    threshold: float
    alpha: float

    def predict_set(self, prediction: ClassPrediction) -> Bool[np.ndarray, "batch *grid classes"]:
        """Which classes are in the set of each pixel; the most probable one always is."""
        probs = np.asarray(prediction.probs)
        first = np.arange(probs.shape[-1]) == np.argmax(probs, axis=-1)[..., None]
        return (probs >= self.threshold) | first


class RiskControl(eqx.Module):
    """Sets per pixel that miss at most a share ``alpha`` of a picture's pixels, in expectation.

    With ``L_i(t)`` the share of counted pixels of calibration picture ``i`` whose label has a
    probability below ``t``, the threshold is the greatest ``t`` with

    ``(Σ_i L_i(t) + 1) / (n + 1) <= alpha``.

    Then ``E[L(t)] <= alpha`` for a new picture that is exchangeable with them: pictures are the
    unit, so pixels of one picture may depend on each other. ``label`` counts pixels of one class
    alone, such as the missed fraction of a lesion. At least ``1 / alpha - 1`` pictures are needed.
    Costs one sort of the calibration pixels. Reference: Angelopoulos, Bates, Fisch, Lei and
    Schuster, Conformal risk control, ICLR 2024.

    >>> p = ClassPrediction.from_probs(np.full((1, 19, 1, 2, 2), 0.5))
    >>> fitted = RiskControl(alpha=0.1).fit(p, np.zeros((19, 1, 2), int))
    >>> fitted.threshold, fitted.predict_set(p).shape
    (0.5, (19, 1, 2, 2))
    """

    alpha: float = eqx.field(default=0.1, converter=as_alpha)
    label: int | None = None
    ignore_label: int | None = 255

    def fit(self, prediction: ClassPrediction, y: Any, *, key: Any = None) -> FittedRiskControl:
        """The threshold for labels ``y`` of ``[pictures, height, width]``."""
        y = np.asarray(y)
        probs = np.asarray(prediction.probs, np.float64)
        if not isinstance(prediction, ClassPrediction) or probs.ndim < 3:
            raise InputError("prediction is no prediction of classes on a grid; use PerPixel")
        if y.shape != probs.shape[:-1]:
            raise InputError(f"y has shape {y.shape} and the prediction is of {probs.shape[:-1]}")
        counted = np.ones(y.shape, bool) if self.ignore_label is None else y != self.ignore_label
        counted &= True if self.label is None else y == self.label
        axes = tuple(range(1, y.ndim))
        number = counted.sum(axes)
        kept = number > 0
        if (kept.sum() + 1) * self.alpha < 1:
            raise InputError(
                f"alpha is {self.alpha} and {int(kept.sum())} calibration pictures have pixels "
                f"that count; give at least {int(np.ceil(1 / self.alpha)) - 1}"
            )
        own = np.take_along_axis(probs, np.where(counted, y, 0)[..., None], -1)[..., 0][kept]
        weight = (counted / np.maximum(number, 1).reshape(-1, *(1,) * len(axes)))[kept]
        return FittedRiskControl(_threshold(own, weight, self.alpha, int(kept.sum())), self.alpha)


def _threshold(own: np.ndarray, weight: np.ndarray, alpha: float, pictures: int) -> float:
    """The greatest threshold whose risk is allowed: the probability that would be missed next."""
    flat = own.ravel()
    order = np.argsort(flat, kind="stable")
    values, missed = flat[order], np.cumsum(weight.ravel()[order])
    # All pixels at values[i] or below are missed by any threshold above it.
    allowed = missed + 1 <= alpha * (pictures + 1) + 1e-12
    return float(values[int(allowed.sum())]) if not allowed.all() else 1.0
