"""The KL of functions at finitely many points: by scores, or in closed form after linearisation."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float, PyTree

from credax.gaussians import LowRankGaussian


def with_noise(
    covariance: Float[Array, "points points"], gamma: float | Array
) -> Float[Array, "points points"]:
    """``K + γ² I``, and on the diagonal what rounding takes from a factor of this precision."""
    count = len(covariance)
    rounding = count * jnp.finfo(covariance.dtype).eps * jnp.trace(covariance) / count
    return covariance + (gamma**2 + rounding) * jnp.eye(count, dtype=covariance.dtype)


def gaussian_score(
    values: Float[Array, "draws points outputs"], covariance: Float[Array, "points points"]
) -> Float[Array, "draws points outputs"]:
    """``-C⁻¹ f``: the score of independent outputs with mean zero and covariance ``C``."""
    factor = jnp.linalg.cholesky(covariance)
    columns = jnp.moveaxis(values, 1, 0).reshape(len(covariance), -1)
    solved = cho_solve((factor, True), columns).reshape(len(covariance), len(values), -1)
    return -jnp.moveaxis(solved, 0, 1)


def surrogate(
    values: Float[Array, "draws points outputs"],
    score: Float[Array, "draws points outputs"],
    prior_score: Float[Array, "draws points outputs"],
) -> Float[Array, ""]:
    """A number whose gradient is that of ``KL(q || p)``; its value is not the KL.

    ``mean_s Σ_i [∇ log q(f_s) - ∇ log p(f_s)]_i f_si`` with scores that are constants.
    """
    gap = jax.lax.stop_gradient(score - prior_score)
    return jnp.mean(jnp.sum(gap * values, axis=(1, 2)))


def gaussian_divergence(
    mean: Float[Array, " points"],
    covariance: Float[Array, "points points"],
    prior_mean: Float[Array, " points"],
    prior_covariance: Float[Array, "points points"],
) -> Float[Array, ""]:
    """``KL(N(m, C) || N(m₀, C₀))`` in nats, by Cholesky factors.

    ``½ [tr C₀⁻¹C + (m - m₀)ᵀ C₀⁻¹ (m - m₀) - n + log det C₀ - log det C]``.
    """
    lower, prior = jnp.linalg.cholesky(covariance), jnp.linalg.cholesky(prior_covariance)
    both = solve_triangular(
        prior, jnp.concatenate([lower, (mean - prior_mean)[:, None]], axis=1), lower=True
    )
    logs = jnp.log(jnp.diag(prior)) - jnp.log(jnp.diag(lower))
    return 0.5 * (jnp.sum(both**2) - len(mean)) + jnp.sum(logs)


def linearised_moments(
    function: Callable[[PyTree], Float[Array, "..."]], gaussian: LowRankGaussian
) -> tuple[Float[Array, " values"], Float[Array, "values params"], Float[Array, "values values"]]:
    """``f(μ)``, the Jacobian ``J`` there and ``J S Jᵀ``: a function linearised at the mean."""
    flat, build = ravel_pytree(gaussian.mean)

    def at(weights: Array) -> Array:
        return function(build(weights)).reshape(-1)

    value, jacobian = at(flat), jax.jacrev(at)(flat)
    columns = [
        c.reshape(c.shape[0], math.prod(c.shape[1:])) for c in jax.tree.leaves(gaussian.columns)
    ]
    spread = jacobian * ravel_pytree(gaussian.std)[0]
    shared = jacobian @ jnp.concatenate(columns, axis=1).T
    return value, jacobian, spread @ spread.T + shared @ shared.T


def over_outputs(
    covariance: Float[Array, "points points"], outputs: int
) -> Float[Array, "values values"]:
    """The covariance of independent outputs, in the order ``[points, outputs]``."""
    return jnp.kron(covariance, jnp.eye(outputs, dtype=covariance.dtype))
