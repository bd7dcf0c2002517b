"""Vector, matrix and Dirichlet scaling: an affine map of the log-probabilities, then softmax."""

import itertools
from functools import partial
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Integer
from scipy.linalg import solve_triangular

from credax.calibration.inputs import (
    calibrated,
    chosen_logs,
    class_arrays,
    member_shares,
    require_classes,
    require_equal_shares,
)
from credax.calibration.mixture_nll import log_softmax, minimise, mixture_nll, warn_if_undetermined
from credax.calibration.protocol import ApplyTo, as_apply_to, generator
from credax.errors import InputError
from credax.prediction import ClassPrediction

# A prediction keeps probabilities, not logits, so the logits are known up to a constant per row.
# "centred" is the logits minus their row's mean, which no constant changes; "log_probs" are the
# logarithms of the probabilities, clipped at 1e-12.
Inputs = Literal["centred", "log_probs"]
_LOG_CLIP = float(np.log(1e-12))
_MOST_CLASSES_WITHOUT_PENALTY = 10


class AffineScaling(eqx.Module):
    """A fitted ``softmax(W z + b)``; ``weight`` is ``[classes]`` (a diagonal) or a matrix."""

    weight: Float[np.ndarray, "classes *inputs"]
    bias: Float[np.ndarray, " classes"]
    inputs: Inputs
    penalty: tuple[float, float]
    apply_to: ApplyTo = "members"

    def __call__(self, prediction: ClassPrediction) -> ClassPrediction:
        """The scaled prediction; jit-able."""
        require_classes(prediction, "the scaling", len(self.bias))
        logs = chosen_logs(prediction, self.apply_to)
        weight, bias = self.weight.astype(logs.dtype), self.bias.astype(logs.dtype)
        return calibrated(prediction, self.apply_to, _scale(logs, weight, bias, self.inputs))


@partial(jax.jit, static_argnums=3)
def _scale(logs, weight, bias, inputs):
    z = _inputs(logs, inputs, jnp)
    logits = z * weight if weight.ndim == 1 else z @ weight.T
    return jax.nn.log_softmax(logits + bias, axis=-1)


class Vector(eqx.Module):
    """``softmax(w ⊙ z + b)``: each class has its own temperature and bias.

    ``z`` are the centred log-probabilities. L-BFGS from the identity on the mixture's NLL, float64
    on the host. Accuracy may change. Reference: C. Guo et al., ICML 2017.
    """

    apply_to: ApplyTo = eqx.field(default="members", converter=as_apply_to)

    def fit(self, prediction: ClassPrediction, y: Any, *, key: Any = None) -> AffineScaling:
        """Weights and biases for labels ``y`` ``[batch]``; ``key`` is not needed."""
        del key
        logs, y = class_arrays(prediction, y, self.apply_to, "'vector'")
        shares = member_shares(prediction, self.apply_to)
        z, classes = _inputs(logs, "centred", np, axis=0), len(logs)

        def objective(parameters):
            weight, bias = np.split(parameters, 2)
            logits = z * weight[:, None, None] + bias[:, None, None]
            value, gradient = mixture_nll(logits, y, shares)
            return value, np.concatenate(
                [np.einsum("kmn,kmn->k", gradient, z), gradient.sum(axis=(1, 2))]
            )

        found, loss = minimise(objective, np.repeat([1.0, 0.0], classes))
        warn_if_undetermined("'vector'", y, classes, loss)
        weight, bias = np.split(found, 2)
        return AffineScaling(weight, bias, "centred", (0.0, 0.0), self.apply_to)


class _PenalisedScaling(eqx.Module):
    off_diagonal: float | None = None
    bias: float | None = None
    apply_to: ApplyTo = eqx.field(default="members", converter=as_apply_to)

    def __check_init__(self):
        for name, value in (("off_diagonal", self.off_diagonal), ("bias", self.bias)):
            if value is not None and not 0 <= value < np.inf:
                raise InputError(f"{name} is {value}; give a number from 0, or None to choose it")


class Matrix(_PenalisedScaling):
    """``softmax(W z + b)`` with a full matrix; ``z`` are the centred log-probabilities.

    ``off_diagonal`` and ``bias`` weigh the penalty of `Dirichlet`; left None they are zero up to 10
    classes and chosen by cross-validation above, where ``K²`` weights would overfit.
    Reference: C. Guo et al., ICML 2017.
    """

    def fit(self, prediction: ClassPrediction, y: Any, *, key: Any = None) -> AffineScaling:
        """Weights and biases for labels ``y`` ``[batch]``; ``key`` draws the folds."""
        require_equal_shares(prediction, self.apply_to, "'matrix'")
        logs, y = class_arrays(prediction, y, self.apply_to, "'matrix'")
        penalty = (self.off_diagonal, self.bias)
        if len(logs) <= _MOST_CLASSES_WITHOUT_PENALTY:
            penalty = (self.off_diagonal or 0.0, self.bias or 0.0)
        return _fit_affine("'matrix'", logs, y, "centred", penalty, self.apply_to, key)


class Dirichlet(_PenalisedScaling):
    """``softmax(W log p + b)``: the calibration map of Dirichlet-distributed probabilities.

    Off-diagonal and intercept regularisation (ODIR): the NLL plus
    ``off_diagonal Σ_{i≠j} W_ij² / (K(K-1)) + bias Σ_i b_i² / K``. Weights left None are chosen by
    3-fold NLL from 0.001, 0.01, 0.1, 1 and 10 each. ``log p`` is clipped at 1e-12. L-BFGS from the
    identity, float64 on the host; the choice costs up to 75 fits.
    Reference: M. Kull et al., Beyond temperature scaling, NeurIPS 2019.
    """

    def fit(self, prediction: ClassPrediction, y: Any, *, key: Any = None) -> AffineScaling:
        """Weights and biases for labels ``y`` ``[batch]``; ``key`` draws the folds."""
        require_equal_shares(prediction, self.apply_to, "'dirichlet'")
        logs, y = class_arrays(prediction, y, self.apply_to, "'dirichlet'")
        penalty = (self.off_diagonal, self.bias)
        return _fit_affine("'dirichlet'", logs, y, "log_probs", penalty, self.apply_to, key)


def _fit_affine(name, logs, y, inputs: Inputs, penalty, apply_to, key) -> AffineScaling:
    z = _inputs(logs, inputs, np, axis=0)
    chosen: Penalty = choose_penalty(z, y, penalty, key)
    found, loss = fit_matrix(z, y, chosen)
    warn_if_undetermined(name, y, len(z), loss)
    return AffineScaling(found[:, :-1], found[:, -1], inputs, chosen, apply_to)


def _inputs(logs: Any, inputs: Inputs, xp: Any, axis: int = -1) -> Any:
    if inputs == "centred":
        return logs - xp.mean(logs, axis=axis, keepdims=True)
    return xp.maximum(logs, _LOG_CLIP)


Penalty = tuple[float, float]
GRID = (10.0, 1.0, 0.1, 0.01, 0.001)
FOLDS = 3
_CHOOSING_TOLERANCE = 1e-5


def fit_matrix(
    z: Float[np.ndarray, "classes members batch"],
    y: Integer[np.ndarray, " batch"],
    penalty: Penalty,
    *,
    start: Float[np.ndarray, "classes inputs"] | None = None,
    tolerance: float = 1e-8,
) -> tuple[Float[np.ndarray, "classes inputs"], float]:
    """``(W, b)`` side by side and the value there: the least mixture NLL of ``W z + b`` + penalty.

    The search runs in the coordinates ``(W, b) L``, with ``L Lᵀ`` about the curvature of one row of
    the objective, in which it is well conditioned; plain coordinates take tens of times as many
    steps, because log-probabilities are far from centred.
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
    found, value = minimise(objective, (start @ lower).ravel(), tolerance)
    return found.reshape(weights.shape) @ back, value


def _curvature(z, inputs, penalty):
    classes = len(z)
    probs = log_softmax(z)[1]
    curvature = np.mean(probs * (1 - probs)) * (inputs @ inputs.T) / inputs.shape[1]
    both = np.append(np.full(classes, penalty[0] / (classes * (classes - 1))), penalty[1] / classes)
    # Centred inputs have no extent along (1, ..., 1); a little is added so that L exists.
    both += 1e-6 * np.trace(curvature) / len(curvature)
    return curvature + 2 * np.diag(both)


def choose_penalty(
    z: Float[np.ndarray, "classes members batch"],
    y: Integer[np.ndarray, " batch"],
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
            # From large to small penalties: each solution is a good start for the next.
            map_, _ = fit_matrix(
                inside, y[rest], candidate, start=map_, tolerance=_CHOOSING_TOLERANCE
            )
            logits = np.tensordot(map_[:, :-1], outside, 1) + map_[:, -1, None, None]
            score[index] += own.sum() * mixture_nll(logits, y[own])[0]
    return candidates[int(np.argmin(score))]
