"""Off-diagonal and intercept regularisation: the penalised matrix fit, and how hard to penalise."""

import itertools
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import solve_triangular

from credax.calibration.lbfgs import lbfgs
from credax.calibration.mixture_nll import log_softmax, mixture_nll
from credax.calibration.protocol import generator
from credax.errors import InputError

Penalty = tuple[float, float]
GRID = (10.0, 1.0, 0.1, 0.01, 0.001)
FOLDS = 3
_CHOOSING_TOLERANCE = 1e-5


def fit_matrix(
    z: Float[np.ndarray, "classes members batch"],
    y: Int[np.ndarray, " batch"],
    penalty: Penalty,
    *,
    start: Float[np.ndarray, "classes inputs"] | None = None,
    tolerance: float = 1e-8,
) -> tuple[Float[np.ndarray, "classes inputs"], float]:
    """``(W, b)`` side by side and the value there: the least mixture NLL of ``W z + b`` + penalty.

    The search runs in the coordinates ``(W, b) L``, with ``L Lᵀ`` about the curvature of one row of
    the objective, in which it is nearly round; plain coordinates take tens of times as many steps,
    because log-probabilities are far from centred.
    """
    classes = len(z)
    weights = np.full((classes, classes + 1), penalty[0] / (classes * (classes - 1)))
    weights[np.arange(classes), np.arange(classes)] = 0.0
    weights[:, -1] = penalty[1] / classes
    inputs = np.append(z.reshape(classes, -1), np.ones((1, z[0].size)), axis=0)
    lower = np.linalg.cholesky(_curvature(z, inputs, penalty))
    back = solve_triangular(lower, np.eye(len(lower)), lower=True)

    def objective(parameters):
        map_ = parameters.reshape(weights.shape) @ back
        value, gradient = mixture_nll((map_ @ inputs).reshape(z.shape), y)
        slope = gradient.reshape(classes, -1) @ inputs.T + 2 * weights * map_
        value += np.sum(weights * map_**2)
        return value, (slope @ back.T).ravel()

    start = np.eye(classes, classes + 1) if start is None else start
    found, value = lbfgs(objective, (start @ lower).ravel(), tolerance)
    return found.reshape(weights.shape) @ back, value


def _curvature(z, inputs, penalty):
    classes = len(z)
    probs = log_softmax(z)[1]
    spread = np.mean(probs * (1 - probs))
    curvature = spread * (inputs @ inputs.T) / inputs.shape[1]
    both = np.append(np.full(classes, penalty[0] / (classes * (classes - 1))), penalty[1] / classes)
    # Centred inputs have no extent along (1, ..., 1); a little is added so that L exists.
    both += 1e-6 * np.trace(curvature) / len(curvature)
    return curvature + 2 * np.diag(both)


def choose_penalty(
    z: Float[np.ndarray, "classes members batch"],
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
        map_, inside, outside = None, z[..., rest], z[..., own]
        for index, candidate in enumerate(candidates):
            # From hard to soft penalties: each solution is a good start for the next.
            map_, _ = fit_matrix(
                inside, y[rest], candidate, start=map_, tolerance=_CHOOSING_TOLERANCE
            )
            logits = np.tensordot(map_[:, :-1], outside, 1) + map_[:, -1, None, None]
            score[index] += own.sum() * mixture_nll(logits, y[own])[0]
    return candidates[int(np.argmin(score))]
