"""The prior of functional variational inference: made, checked, and fitted to training rows."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credax.data.dataset import Split
from credax.errors import InputError
from credax.functions.classification import optimise_classification
from credax.functions.function_priors import (
    DrawnFunctions,
    FunctionPrior,
    GaussianFunctions,
    WeightFunctions,
)
from credax.functions.hyperparameters import Regression, optimise_regression
from credax.functions.implicit import ImplicitProcess
from credax.functions.kernels import Kernel, as_kernel, named_kernel, to_data
from credax.functions.piecewise import PiecewiseConstant, PiecewiseLinear
from credax.functions.posterior import standard_rows
from credax.network import output_struct
from credax.prior import GaussianPrior
from credax.problem import Problem

START_NOISE = 0.1
"""The noise variance at which the fit begins, in standard units."""
PIECEWISE = {"piecewise-constant": PiecewiseConstant, "piecewise-linear": PiecewiseLinear}


class FittedPrior(NamedTuple):
    """A prior on functions, the fitted noise, and the deviation of weights where they are it."""

    prior: FunctionPrior
    noise: float = 0.0
    """Standard deviation of the noise that the evidence found, in standard units."""
    weight_std: Float[Array, ""] | None = None


def fit_prior(method: Any, problem: Problem, data: Split) -> FittedPrior:
    """The prior that a record of functional VI asks for; ``gp`` is fitted by the evidence."""
    outputs, columns = num_outputs(problem, data), int(np.prod(data.x.shape[1:]))
    if method.prior == "gp":
        kernel = start_kernel(method.kernel, columns, method.ard)
        noise = 0.0
        if method.optimise:
            kernel, noise = fitted_kernel(method, kernel, problem, data, outputs)
        single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), kernel)
        return FittedPrior(GaussianFunctions(single, method.prior_score == "ssge"), noise)
    if method.prior == "weights":
        std = weight_deviation(problem, len(data))
        return FittedPrior(DrawnFunctions(WeightFunctions(problem, std)), weight_std=std)
    process = method.prior
    if isinstance(process, str):
        process = PIECEWISE[process](outputs)
    check_process(process, problem, data, outputs)
    return FittedPrior(DrawnFunctions(process))


def num_outputs(problem: Problem, data: Split) -> int:
    """Outputs of the network that depend on the input."""
    example = jax.ShapeDtypeStruct((1, *data.x.shape[1:]), data.x.dtype)
    variables = jax.eval_shape(problem.init, jax.random.key(0), example)
    prepared = jax.eval_shape(problem.prepare_inputs, example)
    whole = output_struct(problem.network, variables, prepared)
    return jax.eval_shape(problem.likelihood.network_outputs, whole).shape[-1]


def start_kernel(setting: Any, columns: int, ard: bool) -> Kernel:
    """The kernel before it is fitted, or an error if it does not fit the inputs."""
    if isinstance(setting, str):
        return named_kernel(setting, columns, ard)
    kernel = as_kernel(setting)
    kernel.check(columns)
    to_data(kernel)
    return kernel


def fitted_kernel(
    method: Any, kernel: Kernel, problem: Problem, data: Split, outputs: int
) -> tuple[Kernel, float]:
    """Hyper-parameters by the evidence of some rows, and the noise's standard deviation.

    Regressions with Gaussian noise by the exact evidence, with one level of noise; classes by
    Laplace's. For other likelihoods the kernel stays as it begins.
    """
    likelihood = problem.likelihood
    regression = likelihood.task == "regression"
    if not likelihood.has_squared_error:
        return kernel, 0.0
    most = method.prior_rows if regression else max(2, method.prior_rows // outputs)
    rows = np.unique(np.linspace(0, len(data) - 1, min(most, len(data))).astype(int))
    x, y = standard_rows(problem, np.asarray(data.x[rows])), np.asarray(data.y[rows])
    if not regression:
        labels = np.eye(outputs)[y] if outputs > 1 else y[:, None] * 1.0
        return optimise_classification(kernel, x, labels, restarts=method.restarts).model, 0.0
    targets = problem.targets
    y = np.asarray(y if targets is None else targets(y), np.float64).reshape(len(rows), -1)
    learned, level = likelihood.learns or not likelihood.has_one_noise, 1.0
    if not learned:
        level = float(np.mean(likelihood.noise_variance({}, jnp.zeros(y.shape[1]))))
    model = Regression(kernel, np.log(START_NOISE) if learned else None)
    found = optimise_regression(model, x, y, np.full(len(x), level), restarts=method.restarts)
    own = np.exp(found.model.log_noise) if learned else level
    return found.model.kernel, float(np.sqrt(own))


def weight_deviation(problem: Problem, num_data: int) -> Float[Array, ""]:
    """The standard deviation of the problem's Gaussian prior on weights."""
    prior = problem.prior
    precision = prior.precision_for(num_data) if isinstance(prior, GaussianPrior) else 0.0
    if isinstance(prior, GaussianPrior) and isinstance(precision, int | float) and not precision:
        raise InputError(
            "prior is 'weights' and the problem's own prior is flat (weight_decay=0), of which no "
            "network can be drawn; give the problem a weight_decay or a Gaussian prior"
        )
    if not isinstance(prior, GaussianPrior):
        raise InputError(
            f"prior is 'weights' and the problem's own prior is {type(prior).__name__}; functional "
            "VI draws weights of a Gaussian: give the problem a weight_decay"
        )
    return jnp.asarray(precision, jnp.float32) ** -0.5


def check_process(process: ImplicitProcess, problem: Problem, data: Split, outputs: int) -> None:
    """Raise an error if an implicit process does not give one number per point and output."""
    x = jax.ShapeDtypeStruct((2, *data.x.shape[1:]), jnp.float32)
    try:
        found = jax.eval_shape(process.at, jax.random.key(0), x).shape
    except (TypeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"prior is a {type(process).__name__} that cannot take inputs of shape "
            f"{tuple(data.x.shape[1:])}: {reason}"
        ) from error
    if found != (2, outputs):
        raise InputError(
            f"prior gives values of shape {found} for 2 points, and the network has {outputs} "
            f"outputs; give a process with values [points, {outputs}]"
        )
