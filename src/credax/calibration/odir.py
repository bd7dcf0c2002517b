"""Off-diagonal and intercept regularisation: the penalised matrix fit, and how hard to penalise."""

import itertools
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from credax.calibration.mixture_nll import minimise, mixture_nll
from credax.calibration.protocol import generator
from credax.errors import InputError

Penalty = tuple[float, float]
GRID = (10.0, 1.0, 0.1, 0.01, 0.001)
FOLDS = 3


def fit_matrix(
    z: Float[np.ndarray, "members batch classes"],
    y: Int[np.ndarray, " batch"],
    penalty: Penalty,
    *,
    start: np.ndarray | None = None,
    tolerance: float = 1e-10,
) -> tuple[Float[np.ndarray, "classes classes"], Float[np.ndarray, " classes"]]:
    """``W`` and ``b`` of the least mixture NLL of ``W z + b`` plus the penalty, from identity."""
    classes = z.shape[-1]
    off, intercept = penalty[0] / (classes * (classes - 1)), penalty[1] / classes
    outside = off * (1 - np.eye(classes))
    flat = z.reshape(-1, classes)

    def objective(parameters):
        weight, bias = _split(parameters, classes)
        logits = (flat @ weight.T + bias).reshape(z.shape)
        value, gradient = mixture_nll(logits, y)
        gradient = gradient.reshape(-1, classes)
        value += np.sum(outside * weight**2) + intercept * np.sum(bias**2)
        slope = gradient.T @ flat + 2 * outside * weight
        return value, np.append(slope.ravel(), gradient.sum(axis=0) + 2 * intercept * bias)

    if start is None:
        start = np.append(np.eye(classes).ravel(), np.zeros(classes))
    return _split(minimise(objective, start, tolerance=tolerance), classes)


def choose_penalty(
    z: Float[np.ndarray, "members batch classes"],
    y: Int[np.ndarray, " batch"],
    penalty: tuple[float | None, float | None],
    key: Any,
) -> Penalty:
    """The pair of weights with the least NLL on held-out folds; given weights are kept."""
    off, intercept = penalty
    if off is not None and intercept is not None:
        return off, intercept
    if len(y) < FOLDS:
        raise InputError(
            f"there are {len(y)} calibration rows; choosing the penalty takes at least {FOLDS}: "
            "give more rows, or off_diagonal and bias"
        )
    candidates = list(
        itertools.product(
            GRID if off is None else (off,), GRID if intercept is None else (intercept,)
        )
    )
    fold = generator(key).permutation(len(y)) % FOLDS
    score = np.zeros(len(candidates))
    for held in range(FOLDS):
        own, rest = fold == held, fold != held
        start = None
        for index, candidate in enumerate(candidates):
            # From hard to soft penalties: each solution is a good start for the next.
            weight, bias = fit_matrix(z[:, rest], y[rest], candidate, start=start, tolerance=1e-5)
            start = np.append(weight.ravel(), bias)
            score[index] += own.sum() * mixture_nll(z[:, own] @ weight.T + bias, y[own])[0]
    return candidates[int(np.argmin(score))]


def _split(parameters, classes):
    return parameters[:-classes].reshape(classes, classes), parameters[-classes:]
