"""Hyper-parameters by the evidence: L-BFGS on logarithms, from several starts."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from scipy.optimize import minimize

from credax.errors import InputError
from credax.functions.kernels import Kernel
from credax.functions.solving import evidence_and_slope

NOISE_BOUNDS = (1e-6, 1e2)
"""Of a learned noise variance, in standard units."""
REACH = 9.0
"""How far a logarithm may go from where it starts."""
RESTARTS = 5
TOLERANCE = 1e-7
"""Relative change of the evidence at which a start has ended."""
_FAILED = 1e25


class Optimised(NamedTuple):
    """The best model found, its objective, and what every start reached."""

    model: Any
    value: float
    values: tuple[float, ...]


class Regression(eqx.Module):
    """A kernel and the noise of a regression: ``noise_i = exp(log_noise) · rows_i``."""

    kernel: Kernel
    log_noise: Any = None
    """The logarithm of a factor of the rows' noise, where it is learned."""


@eqx.filter_jit
def _covariance(model: Regression, vector: Array, x: Array) -> Array:
    return with_parameters(model.kernel, vector)(x, x)


@eqx.filter_jit
def _pulled_back(model: Regression, vector: Array, x: Array, slope: Array) -> Array:
    return jax.vjp(lambda v: with_parameters(model.kernel, v)(x, x), vector)[1](slope)[0]


def regression_evidence(
    model: Regression,
    vector: np.ndarray,
    x: Float[Array, "rows columns"],
    y: Float[np.ndarray, "rows outputs"],
    rows: Float[np.ndarray, " rows"],
) -> tuple[float, Float[np.ndarray, " parameters"]]:
    """``log N(y; 0, K + diag(noise))``, summed over outputs, and its gradient."""
    learned = model.log_noise is not None
    kernel = jnp.asarray(vector[:-1] if learned else vector)
    noise = rows * np.exp(vector[-1]) if learned else rows
    covariance = np.array(_covariance(model, kernel, x), order="F")
    covariance[np.diag_indices(len(noise))] += noise
    value, slope = evidence_and_slope(covariance, y)
    gradient = np.asarray(_pulled_back(model, kernel, x, jnp.asarray(slope)))
    own = [np.sum(np.diag(slope) * noise)] if learned else []
    return value, np.concatenate([gradient, own])


def is_parameter(path: tuple[Any, ...]) -> bool:
    """Whether a leaf is a hyper-parameter: those are logarithms, and called so."""
    return isinstance(path[-1], jax.tree_util.GetAttrKey) and path[-1].name.startswith("log_")


def parameters(model: PyTree) -> Float[np.ndarray, " parameters"]:
    """All hyper-parameters (logarithms) as one vector."""
    leaves = jax.tree_util.tree_leaves_with_path(model)
    found = [np.ravel(np.asarray(leaf, np.float64)) for path, leaf in leaves if is_parameter(path)]
    return np.concatenate(found) if found else np.zeros(0)


def with_parameters(model: PyTree, vector: Any) -> Any:
    """The model with other hyper-parameters, from a vector such as `parameters` gives."""
    start = 0

    def replaced(path, leaf):
        nonlocal start
        if not is_parameter(path):
            return leaf
        size = int(np.prod(np.shape(leaf), dtype=int))
        part = vector[start : start + size].reshape(np.shape(leaf))
        start += size
        return part

    return jax.tree_util.tree_map_with_path(replaced, model)


def optimise_regression(
    model: Regression,
    x: Float[np.ndarray, "rows columns"],
    y: Float[np.ndarray, "rows outputs"],
    rows: Float[np.ndarray, " rows"],
    **options: int,
) -> Optimised:
    """The kernel and noise of the largest evidence; ``options`` are those of `maximise`."""
    with jax.enable_x64(True):
        template, points = jax.tree.map(np.asarray, model), jnp.asarray(x)
        return maximise(
            lambda v: regression_evidence(template, v, points, y, rows), model, **options
        )


def maximise(
    evaluate: Callable[[np.ndarray], tuple[float, np.ndarray]],
    model: Any,
    *,
    restarts: int = RESTARTS,
    steps: int = 200,
    seed: int = 0,
) -> Optimised:
    """The model with the hyper-parameters at which ``evaluate`` (value, gradient) is largest.

    The first start is the model as it is, the others have unit normal noise on every logarithm.
    A noise stays within `NOISE_BOUNDS`, all others within a factor ``exp(±9)`` of the start.
    """
    if restarts < 1 or steps < 1:
        raise InputError(f"restarts is {restarts} and steps {steps}; give at least 1 of each")
    first = parameters(model)
    bounds = _bounds(model, first)
    random = np.random.default_rng(seed)

    def loss(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = evaluate(vector)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return _FAILED, np.zeros_like(vector)
        return -value, -gradient

    if not len(first):
        value = float(evaluate(first)[0])
        return Optimised(model, value, (value,))
    found = []
    for number in range(restarts):
        start = first + (random.standard_normal(len(first)) if number else 0.0)
        start = np.clip(start, bounds[:, 0], bounds[:, 1])
        options = {"maxiter": steps, "ftol": TOLERANCE, "gtol": 1e-3}
        found.append(minimize(loss, start, jac=True, bounds=bounds, options=options))
    values = tuple(float(-result.fun) for result in found)
    best = int(np.argmax(values))
    if values[best] <= -_FAILED:
        raise InputError(
            f"the evidence is not a number at any of {restarts} starts; raise the noise, drop "
            "repeated rows, or scale the inputs"
        )
    vector = np.asarray(found[best].x, np.float64)
    return Optimised(with_parameters(model, vector), values[best], values)


def _bounds(model: PyTree, vector: np.ndarray) -> np.ndarray:
    bounds = np.stack([vector - REACH, vector + REACH], axis=1)
    if isinstance(model, Regression) and model.log_noise is not None:
        bounds[-1] = np.log(NOISE_BOUNDS)
    return bounds
