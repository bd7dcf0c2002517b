"""What Laplace needs of a likelihood: its outputs, its curvature in them, its log-density."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from credax.errors import InputError
from credax.likelihood import (
    VARIANCE_FLOOR,
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    Likelihood,
)
from credax.network import Variables
from credax.prior import GaussianPrior
from credax.problem import Problem


def without_prior(problem: Problem) -> Problem:
    """The same problem under a fixed prior: curvature and outputs do not depend on it.

    Numbers of a prior are constants of compiled programs; without it all priors share one.
    """
    return eqx.tree_at(lambda p: p.prior, problem, GaussianPrior(precision=1.0))


def has_one_noise(likelihood: Likelihood) -> bool:
    """Whether the noise is one number per target, fixed or learned, that the evidence can tune."""
    return isinstance(likelihood, Gaussian)


def check_likelihood(likelihood: Likelihood) -> None:
    """Raise an error if the curvature of this likelihood is not known."""
    known = Categorical | Bernoulli | Gaussian | HeteroscedasticGaussian
    if not isinstance(likelihood, known):
        raise InputError(
            f"likelihood is a {type(likelihood).__name__}; Laplace knows the curvature of "
            "Categorical, Bernoulli, Gaussian and HeteroscedasticGaussian: use one of those"
        )


def row_outputs(problem: Problem, variables: Variables, row: Array) -> Float[Array, " outputs"]:
    """What the network gives for one row in standard units, without a learned noise level."""
    outputs = problem.outputs(variables, row[None])[0][0]
    return outputs[: len(outputs) // 2] if _learns_noise(problem.likelihood) else outputs


def with_noise(problem: Problem, variables: Variables, outputs: Array) -> Array:
    """Outputs ``[..., outputs]`` as the likelihood takes them: followed by a learned noise."""
    if not _learns_noise(problem.likelihood):
        return outputs
    noise = jnp.broadcast_to(variables.params["noise"], outputs.shape)
    return jnp.concatenate([outputs, noise.astype(outputs.dtype)], axis=-1)


def curvature_root(
    problem: Problem, variables: Variables, outputs: Float[Array, " outputs"]
) -> Float[Array, "outputs columns"]:
    """``S`` with ``S Sᵀ`` the Fisher information of one row's outputs.

    Softmax: ``S = diag(√p) - p √pᵀ``; Gaussian: ``1/σ``; of a variance ``v(raw)``: ``v'/(√2 v)``.
    """
    likelihood = problem.likelihood
    if isinstance(likelihood, Categorical):
        root = jnp.sqrt(jax.nn.softmax(outputs))
        return jnp.diag(root) - jnp.outer(root**2, root)
    if isinstance(likelihood, Bernoulli):
        return jnp.diag(jnp.sqrt(jax.nn.sigmoid(outputs) * jax.nn.sigmoid(-outputs)))
    if isinstance(likelihood, Gaussian):
        return jnp.diag(1 / jnp.sqrt(noise_variance(problem, variables, outputs)))
    _, raw = jnp.split(outputs, 2)
    variance = jax.nn.softplus(raw) + VARIANCE_FLOOR
    spread = jax.nn.sigmoid(raw) / (jnp.sqrt(2.0).astype(raw.dtype) * variance)
    return jnp.diag(jnp.concatenate([1 / jnp.sqrt(variance), spread]))


def noise_variance(problem: Problem, variables: Variables, outputs: Array) -> Array:
    """The variance of a `Gaussian` likelihood for each output, in standard units."""
    likelihood = problem.likelihood
    assert isinstance(likelihood, Gaussian)
    if likelihood.noise == "learned":
        return jax.nn.softplus(variables.params["noise"]) + VARIANCE_FLOOR
    return jnp.full(outputs.shape[-1:], float(likelihood.noise) ** 2, outputs.dtype)


def log_likelihood(
    problem: Problem, variables: Variables, outputs: Float[Array, " outputs"], y: Array
) -> tuple[Array, Array]:
    """One row's log-density in two parts: what depends on the outputs, and the rest.

    The rest is ``-1/2 Σ log 2πσ²`` of a `Gaussian` and zero otherwise.
    """
    whole = with_noise(problem, variables, outputs)
    total = problem.likelihood.log_prob(whole[None], jnp.asarray(y)[None])[0]
    if not isinstance(problem.likelihood, Gaussian):
        return total, jnp.zeros_like(total)
    variance = noise_variance(problem, variables, outputs)
    constant = -0.5 * jnp.sum(jnp.log(2 * jnp.pi * variance))
    return total - constant, constant


def _learns_noise(likelihood: Likelihood) -> bool:
    return isinstance(likelihood, Gaussian) and likelihood.noise == "learned"
