"""What Laplace asks of a problem's likelihood, at one network: outputs, curvature, log-density."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from credax.network import Variables
from credax.prior import GaussianPrior
from credax.problem import Problem


def without_prior(problem: Problem) -> Problem:
    """The same problem under a fixed prior: curvature and outputs do not depend on it.

    One's own prior may hold numbers that are constants of compiled programs; without it all
    priors share one.
    """
    return eqx.tree_at(lambda p: p.prior, problem, GaussianPrior(precision=1.0))


def row_outputs(problem: Problem, variables: Variables, row: Array) -> Float[Array, " outputs"]:
    """What the network gives for one row in standard units, without what a likelihood learns.

    Outputs on a grid become one vector.
    """
    return problem.likelihood.network_outputs(problem.outputs(variables, row[None])[0][0]).ravel()


def with_noise(problem: Problem, variables: Variables, outputs: Array) -> Array:
    """Outputs ``[..., outputs]`` as the likelihood takes them."""
    return problem.likelihood.all_outputs(variables.params, outputs)


def curvature_root(
    problem: Problem,
    variables: Variables,
    outputs: Float[Array, " outputs"],
    y: Array | None = None,
    kind: str = "ggn",
) -> Float[Array, "outputs columns"]:
    """``S`` with ``S Sᵀ`` the curvature of one row's outputs; ``y`` in standard units.

    For ``kind="empirical_fisher"`` one column, the score ``∂ log p(y | outputs) / ∂ outputs``.
    """
    if kind == "empirical_fisher":
        score = jax.grad(lambda o: log_likelihood(problem, variables, o, jnp.asarray(y))[0])
        return score(outputs)[:, None]
    return problem.likelihood.curvature_root(variables.params, outputs, y)


def log_likelihood(
    problem: Problem, variables: Variables, outputs: Float[Array, " outputs"], y: Array
) -> tuple[Array, Array]:
    """One row's log-density in two parts: what depends on the outputs, and the rest.

    The rest is ``-1/2 Σ log 2πσ²`` of Gaussian noise with one level and zero otherwise.
    """
    axes = problem.likelihood.grid_axes
    outputs = outputs.reshape(*jnp.shape(y)[:axes], -1) if axes else outputs
    whole = with_noise(problem, variables, outputs)
    total = problem.likelihood.log_prob(whole[None], jnp.asarray(y)[None])[0]
    if not problem.likelihood.has_one_noise:
        return total, jnp.zeros_like(total)
    variance = problem.likelihood.noise_variance(variables.params, outputs)
    constant = -0.5 * jnp.sum(jnp.log(2 * jnp.pi * variance))
    return total - constant, constant
