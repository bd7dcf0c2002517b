"""Linear combinations of a few functions: the Gaussian process with the moments of the draws.

``f(x) = m(x) + φ(x)ᵀ a`` with ``m`` the mean of ``S`` functions, ``φ_s = (f_s - m)/√S`` and
``a ~ N(0, I)``. Several outputs share the coefficients; they are rows here.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Float

from credax.functions.solving import LOG_2PI

Normalisation = Literal["population", "sample"]


class Features(NamedTuple):
    """``m`` and ``φ`` at some points."""

    mean: Float[Array, "points outputs"]
    phi: Float[Array, "points outputs draws"]


class Coefficients(NamedTuple):
    """``q(a) = N(mean, root rootᵀ)``."""

    mean: Float[Array, " draws"]
    root: Float[Array, "draws draws"]


def features_of(
    values: Float[Array, "draws points outputs"], normalisation: Normalisation
) -> Features:
    """Mean and features of functions at points."""
    count = len(values) - (normalisation == "sample")
    mean = jnp.mean(values, axis=0)
    return Features(mean, jnp.moveaxis(values - mean, 0, -1) / jnp.sqrt(count))


def _flat(features: Features, y: Array) -> tuple[Array, Array]:
    phi = features.phi.reshape(-1, features.phi.shape[-1])
    return phi, y.reshape(-1) - features.mean.reshape(-1)


def conjugate(features: Features, y: Array, noise: Array) -> Coefficients:
    """The posterior of the coefficients: ``Σ = (I + ΦᵀΦ/s²)⁻¹``, ``μ = Σ Φᵀ(y - m)/s²``."""
    phi, left = _flat(features, y)
    precision = jnp.eye(phi.shape[1], dtype=phi.dtype) + phi.T @ phi / noise
    lower = jnp.linalg.cholesky(precision)
    mean = cho_solve((lower, True), phi.T @ left / noise)
    covariance = cho_solve((lower, True), jnp.eye(len(lower), dtype=phi.dtype))
    return Coefficients(mean, jnp.linalg.cholesky(0.5 * (covariance + covariance.T)))


def log_evidence(features: Features, y: Array, noise: Array) -> Float[Array, ""]:
    """``log N(y; m, Φ Φᵀ + s² I)`` by a matrix of the number of draws.

    The least-squares problem of ``[Φ/s; I] a = [(y - m)/s; 0]`` is solved by QR: its residual is
    the quadratic form, its triangle the determinant. Single precision suffices for small noise so,
    and not for ``I + ΦᵀΦ/s²``.
    """
    phi, left = _flat(features, y)
    scale, draws = jnp.sqrt(noise), phi.shape[1]
    stacked = jnp.concatenate([phi / scale, jnp.eye(draws, dtype=phi.dtype)])
    target = jnp.concatenate([left / scale, jnp.zeros(draws, phi.dtype)])
    orthogonal, upper = jnp.linalg.qr(stacked)
    residual = target - orthogonal @ (orthogonal.T @ target)
    log_determinant = 2 * jnp.sum(jnp.log(jnp.abs(jnp.diag(upper)))) + len(left) * jnp.log(noise)
    return -0.5 * (jnp.sum(residual**2) + log_determinant + len(left) * LOG_2PI)


def moments(features: Features, q: Coefficients) -> tuple[Array, Array]:
    """Mean and variance of ``f`` at each point and output."""
    spread = jnp.einsum("pos,st->pot", features.phi, q.root)
    return features.mean + features.phi @ q.mean, jnp.sum(spread**2, axis=-1)


def gaussian_energy(
    mean: Array, variance: Array, y: Array, noise: Array, alpha: float
) -> Float[Array, " points"]:
    """``(1/α) log E_q N(y; f, s²)^α`` of each point, summed over outputs; ``α = 0`` its limit.

    ``log E_q[·^α] = (1-α)/2 log(2π s²) - (log α)/2 + log N(y; μ, v + s²/α)``.
    """
    squares = jnp.square(y.reshape(mean.shape) - mean)
    if alpha == 0:
        each = -0.5 * (LOG_2PI + jnp.log(noise) + (squares + variance) / noise)
        return jnp.sum(each, axis=-1)
    total = variance + noise / alpha
    density = -0.5 * (LOG_2PI + jnp.log(total) + squares / total)
    constant = 0.5 * (1 - alpha) * (LOG_2PI + jnp.log(noise)) - 0.5 * jnp.log(alpha)
    return jnp.sum((constant + density) / alpha, axis=-1)


def divergence(q: Coefficients) -> Float[Array, ""]:
    """``KL(q(a) || N(0, I))``."""
    logs = jnp.log(jnp.diag(q.root))
    return 0.5 * (jnp.sum(q.root**2) + jnp.sum(q.mean**2) - len(logs)) - jnp.sum(logs)


def effective_rank(features: Features) -> Float[Array, ""]:
    """``(Σλ)² / Σλ²`` of ``ΦᵀΦ``: how many directions the draws span at the points."""
    phi = features.phi.reshape(-1, features.phi.shape[-1])
    gram = phi.T @ phi
    return jnp.square(jnp.trace(gram)) / jnp.sum(gram**2)


def sampled_energy(
    log_prob, features: Features, q: Coefficients, key: Array, draws: int, alpha: float
) -> Float[Array, " points"]:
    """``(1/α) log E_q p(y|f)^α`` of each point by draws of the coefficients."""
    normal = jax.random.normal(key, (draws, len(q.mean)), q.mean.dtype)
    values = features.mean + jnp.einsum("pos,ds->dpo", features.phi, q.mean + normal @ q.root.T)
    each = jax.vmap(log_prob)(values)
    if alpha == 0:
        return jnp.mean(each, axis=0)
    return (jax.nn.logsumexp(alpha * each, axis=0) - jnp.log(draws)) / alpha
