"""The objective of every parametric calibrator: the negative log-likelihood of the mixture.

On the host in float64: calibration sets are small, and the optima are wanted to many digits.
"""

import warnings
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize
from scipy.special import logsumexp

from credax.calibration.protocol import CalibrationWarning

# Weights beyond this mean that the likelihood has no optimum (every row right, or nearly).
_LARGEST_WEIGHT = 100.0


def mixture_nll(
    logits: Float[np.ndarray, "members batch classes"], y: Int[np.ndarray, " batch"]
) -> tuple[float, Float[np.ndarray, "members batch classes"]]:
    """``-mean log (1/M) Σ_m softmax(logits_m)_y`` and its gradient with respect to the logits.

    With ``w_m`` the share of member ``m`` in the mixture's probability of the label, the gradient
    is ``w_m (softmax(logits_m) - onehot(y)) / N``.

    >>> value, gradient = mixture_nll(np.zeros((1, 1, 2)), np.array([0]))
    >>> round(value, 6), gradient.tolist()
    (0.693147, [[[-0.5, 0.5]]])
    """
    members, rows, _ = logits.shape
    logs = logits - logsumexp(logits, axis=-1, keepdims=True)
    label = np.take_along_axis(logs, y[None, :, None], axis=-1)[..., 0]
    total = logsumexp(label, axis=0)
    gradient = np.exp(logs)
    gradient[:, np.arange(rows), y] -= 1.0
    gradient *= np.exp(label - total)[..., None] / rows
    return float(np.log(members) - np.mean(total)), gradient


def minimise(
    objective: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: Float[np.ndarray, " parameters"],
    *,
    bounds: list | None = None,
    tolerance: float = 1e-10,
) -> Float[np.ndarray, " parameters"]:
    """L-BFGS-B from ``start`` until the largest entry of the gradient is below ``tolerance``."""
    options = {"maxiter": 5000, "maxfun": 20000, "maxcor": 20, "ftol": 1e-15, "gtol": tolerance}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return found.x


def warn_if_undetermined(name: str, weights: np.ndarray) -> None:
    """Warn where the optimum ran away: the rows do not determine the map."""
    largest = float(np.max(np.abs(weights)))
    if largest > _LARGEST_WEIGHT:
        warnings.warn(
            f"{name} found weights up to {largest:.3g}: the calibration rows do not determine it "
            "(perhaps every one is classified rightly); give more rows or use 'temperature'",
            CalibrationWarning,
            stacklevel=3,
        )
