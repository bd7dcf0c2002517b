"""The objective of every parametric calibrator: the negative log-likelihood of the mixture.

On the host in float64: calibration sets are small, and the optima are wanted to many digits.
"""

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Integer

from credax.calibration.protocol import CalibrationWarning

# No map reaches such a likelihood unless it can classify every row correctly with any margin.
_PERFECT = 1e-6


def mixture_nll(
    logits: Float[np.ndarray, "classes members batch"],
    y: Integer[np.ndarray, " batch"],
    weights: Float[np.ndarray, " members"] | None = None,
) -> tuple[float, Float[np.ndarray, "classes members batch"]]:
    """``-mean log (1/M) Σ_m softmax(logits_m)_y`` and its gradient with respect to the logits.

    Unequal ``weights`` of the members, which sum to one, stand for ``1/M``. With ``w_m`` the share
    of member ``m`` in the mixture's probability of the label, the gradient is
    ``w_m (softmax(logits_m) - onehot(y)) / N``.

    >>> value, gradient = mixture_nll(np.zeros((2, 1, 1)), np.array([0]))
    >>> round(value, 6), gradient.ravel().tolist()
    (0.693147, [-0.5, 0.5])
    """
    _, members, rows = logits.shape
    logs, gradient = log_softmax(logits)
    label = label_entries(logs, y)
    share, total = shares(label, weights)
    gradient[y, :, np.arange(rows)] -= 1.0
    gradient *= share / rows
    return float(np.log(members) - np.mean(total)), gradient


def log_softmax(
    logits: Float[np.ndarray, "classes members batch"],
) -> tuple[Float[np.ndarray, "classes members batch"], Float[np.ndarray, "classes members batch"]]:
    """Log-probabilities and probabilities over the first axis."""
    logs = logits - logits.max(axis=0)
    probs = np.exp(logs)
    total = probs.sum(axis=0)
    probs /= total
    logs -= np.log(total)
    return logs, probs


def label_entries(
    array: Float[np.ndarray, "classes members batch"], y: Integer[np.ndarray, " batch"]
) -> Float[np.ndarray, "members batch"]:
    """The entries of each row's label."""
    return array[y, :, np.arange(len(y))].T


def shares(
    log_label: Float[np.ndarray, "members batch"],
    weights: Float[np.ndarray, " members"] | None = None,
) -> tuple[Float[np.ndarray, "members batch"], Float[np.ndarray, " batch"]]:
    """Each member's share in the sum of probabilities of the label, and that sum's logarithm.

    With weights the sum is that of ``M w_m`` times the probabilities.
    """
    if weights is not None:
        with np.errstate(divide="ignore"):
            log_label = log_label + np.log(len(weights) * weights)[:, None]
    highest = log_label.max(axis=0)
    share = np.exp(log_label - highest)
    total = share.sum(axis=0)
    return share / total, highest + np.log(total)


def warn_if_undetermined(
    name: str, y: Integer[np.ndarray, " batch"], classes: int, nll: float
) -> None:
    """Warn where the likelihood has no optimum, so that the parameters grow without bound."""
    absent = np.setdiff1d(np.arange(classes), y)
    why = None
    if nll < _PERFECT:
        why = "every calibration row is classified correctly, so its weights are unbounded"
    elif absent.size:
        why = f"class {absent[0]} has no calibration row, so its probability was driven to zero"
    if why:
        warnings.warn(
            f"{name} is not determined by its rows: {why}; give more rows or use 'temperature'",
            CalibrationWarning,
            stacklevel=3,
        )


def minimise(
    objective: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: Float[np.ndarray, " parameters"],
    tolerance: float = 1e-8,
    bounds: Sequence[tuple[float | None, float | None]] | None = None,
) -> tuple[Float[np.ndarray, " parameters"], float]:
    """The minimum by L-BFGS-B, and the value there; ``objective`` returns value and gradient."""
    options = {
        "maxiter": 5000,
        "maxfun": 20000,
        "maxcor": 20,
        "ftol": tolerance**2,
        "gtol": tolerance,
    }
    from scipy.optimize import minimize  # half a second, which reading a calibrator need not wait

    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return found.x, float(found.fun)
