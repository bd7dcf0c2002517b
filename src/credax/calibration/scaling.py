"""Vector, matrix and Dirichlet scaling: an affine map of the log-probabilities, then softmax."""

from functools import partial
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credax.calibration.inputs import chosen_logs, class_arrays, require_classes
from credax.calibration.lbfgs import lbfgs
from credax.calibration.mixture_nll import mixture_nll, warn_if_undetermined
from credax.calibration.odir import Penalty, choose_penalty, fit_matrix
from credax.calibration.protocol import ApplyTo, check_apply_to
from credax.errors import InputError
from credax.prediction import ClassPrediction

# A prediction keeps probabilities, not logits, so the logits are known up to a constant a row.
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
        return ClassPrediction(_scale(logs, weight, bias, self.inputs))


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

    apply_to: ApplyTo = "members"

    def __check_init__(self):
        check_apply_to(self.apply_to)

    def fit(self, prediction: ClassPrediction, y: Any, *, key: Any = None) -> AffineScaling:
        """Weights and biases for labels ``y`` ``[batch]``; ``key`` is not needed."""
        del key
        logs, y = class_arrays(prediction, y, self.apply_to, "'vector'")
        z, classes = _inputs(logs, "centred", np, axis=0), len(logs)

        def objective(parameters):
            weight, bias = np.split(parameters, 2)
            value, gradient = mixture_nll(z * weight[:, None, None] + bias[:, None, None], y)
            return value, np.concatenate(
                [np.einsum("kmn,kmn->k", gradient, z), gradient.sum(axis=(1, 2))]
            )

        found, loss = lbfgs(objective, np.repeat([1.0, 0.0], classes))
        warn_if_undetermined("'vector'", y, classes, loss)
        weight, bias = np.split(found, 2)
        return AffineScaling(weight, bias, "centred", (0.0, 0.0), self.apply_to)


class Matrix(eqx.Module):
    """``softmax(W z + b)`` with a full matrix; ``z`` are the centred log-probabilities.

    ``off_diagonal`` and ``bias`` weigh the penalty of `Dirichlet`; left None they are zero up to 10
    classes and chosen by cross-validation above, where ``K²`` weights would overfit.
    Reference: C. Guo et al., ICML 2017.
    """

    off_diagonal: float | None = None
    bias: float | None = None
    apply_to: ApplyTo = "members"

    def __check_init__(self):
        _check_settings(self)

    def fit(self, prediction: ClassPrediction, y: Any, *, key: Any = None) -> AffineScaling:
        """Weights and biases for labels ``y`` ``[batch]``; ``key`` draws the folds."""
        logs, y = class_arrays(prediction, y, self.apply_to, "'matrix'")
        penalty = (self.off_diagonal, self.bias)
        if len(logs) <= _MOST_CLASSES_WITHOUT_PENALTY:
            penalty = (self.off_diagonal or 0.0, self.bias or 0.0)
        return _fit_affine("'matrix'", logs, y, "centred", penalty, self.apply_to, key)


class Dirichlet(eqx.Module):
    """``softmax(W log p + b)``: the calibration map of Dirichlet-distributed probabilities.

    Off-diagonal and intercept regularisation (ODIR): the NLL plus
    ``off_diagonal Σ_{i≠j} W_ij² / (K(K-1)) + bias Σ_i b_i² / K``. Weights left None are chosen by
    3-fold NLL from 0.001, 0.01, 0.1, 1 and 10 each. ``log p`` is clipped at 1e-12. L-BFGS from the
    identity, float64 on the host; the choice costs up to 75 fits.
    Reference: M. Kull et al., Beyond temperature scaling, NeurIPS 2019.
    """

    off_diagonal: float | None = None
    bias: float | None = None
    apply_to: ApplyTo = "members"

    def __check_init__(self):
        _check_settings(self)

    def fit(self, prediction: ClassPrediction, y: Any, *, key: Any = None) -> AffineScaling:
        """Weights and biases for labels ``y`` ``[batch]``; ``key`` draws the folds."""
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


def _check_settings(record: Matrix | Dirichlet) -> None:
    check_apply_to(record.apply_to)
    for name in ("off_diagonal", "bias"):
        value = getattr(record, name)
        if value is not None and not 0 <= value < np.inf:
            raise InputError(f"{name} is {value}; give a number from 0, or None to choose it")
