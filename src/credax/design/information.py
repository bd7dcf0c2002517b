"""Information about parameters: of one outcome, and expected over outcomes."""

import warnings
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp, xlogy
from jaxtyping import Array, Float, Float64, PyTree
from numpy.typing import ArrayLike

from credax.design.model import DesignModel, check_designs, check_model
from credax.errors import InputError

NEAR_CEILING = 0.95


class CeilingReached(UserWarning):
    """A lower bound is so near to the largest value it can have that it says nothing more."""


class Information(NamedTuple):
    """Expected information gain in nats, one number per design, between two bounds.

    Where a bound is missing it is minus or plus infinity. ``standard_error`` is the larger one of
    the two bounds' Monte Carlo errors; an exact value has none.
    """

    lower: Float64[np.ndarray, " designs"]
    exact: Float64[np.ndarray, " designs"] | None
    upper: Float64[np.ndarray, " designs"]
    standard_error: Float64[np.ndarray, " designs"]
    ceiling: float = float("inf")
    """The largest value that the lower bound can have: ``log(L + 1)`` for contrastive bounds."""
    estimate: Float64[np.ndarray, " designs"] | None = None
    """A number that is neither exact nor a bound, such as that of a likelihood-free estimator."""
    notes: tuple[str, ...] = ()
    """What a reader must know of the numbers, a sentence each."""

    @property
    def value(self) -> Float64[np.ndarray, " designs"]:
        """The exact value or the estimate, else the middle of the bounds or the finite one."""
        if self.exact is not None:
            return self.exact
        if self.estimate is not None:
            return self.estimate
        middle = (self.lower + self.upper) / 2
        return np.where(
            np.isfinite(middle), middle, np.where(np.isfinite(self.lower), self.lower, self.upper)
        )

    def best(self) -> int:
        """The position of the design with the largest value."""
        return int(np.argmax(self.value))


class GridPosterior(NamedTuple):
    """A distribution on the nodes of a quadrature rule, and the evidence that led to it."""

    nodes: PyTree
    log_weights: Float[Array, " nodes"]
    log_density: Float[Array, " nodes"]
    """Its log-density at the nodes."""
    log_evidence: Float[Array, ""]

    @property
    def mean(self) -> PyTree:
        """The mean of every entry of ``θ``."""
        weights = jnp.exp(self.log_weights)
        return jax.tree.map(lambda leaf: jnp.tensordot(weights, leaf, 1), self.nodes)

    @property
    def std(self) -> PyTree:
        """The standard deviation of every entry of ``θ``."""
        weights = jnp.exp(self.log_weights)

        def one(leaf, mean):
            return jnp.sqrt(jnp.tensordot(weights, jnp.square(leaf - mean), 1))

        return jax.tree.map(one, self.nodes, self.mean)


def prior_on_nodes(model: DesignModel) -> GridPosterior:
    """The prior as weights on the model's nodes; within ``jax.enable_x64`` in double precision."""
    if model.nodes is None:
        raise InputError(
            f"{model.name} has no nodes, a quadrature rule of its prior; give nodes=, or use "
            "bounds: credax.design.nested"
        )
    nodes, weights = model.nodes()
    nodes, weights = jax.tree.map(jnp.asarray, (nodes, weights))
    density = jax.vmap(model.prior_log_prob)(nodes)
    return GridPosterior(nodes, jnp.log(weights / weights.sum()), density, jnp.zeros(()))


def update_nodes(model: DesignModel, belief: GridPosterior, xi: Any, y: Any) -> GridPosterior:
    """Bayes' rule on the nodes after outcome ``y`` of design ``xi``."""
    xi, y = jnp.asarray(xi), jnp.asarray(y)
    log_probs = jax.vmap(lambda theta: model.outcome_log_prob(y, theta, xi))(belief.nodes)
    evidence = logsumexp(belief.log_weights + log_probs)
    change = log_probs - evidence
    return GridPosterior(
        belief.nodes,
        belief.log_weights + change,
        belief.log_density + change,
        belief.log_evidence + evidence,
    )


def entropy(belief: GridPosterior) -> Float[Array, ""]:
    """Differential entropy of ``θ``, ``-E log p(θ)``."""
    weights = jnp.exp(belief.log_weights)
    return -jnp.sum(jnp.where(weights > 0, weights * belief.log_density, 0.0))


def entropy_reduction(prior: GridPosterior, posterior: GridPosterior) -> Float[Array, ""]:
    """``H[p(θ)] - H[p(θ | ξ, y)]``: negative where an outcome makes ``θ`` less certain.

    For one outcome this is not the KL divergence (`kl_gain`); over all outcomes both have the same
    mean, the expected information gain.
    """
    return entropy(prior) - entropy(posterior)


def kl_gain(prior: GridPosterior, posterior: GridPosterior) -> Float[Array, ""]:
    """``KL(p(θ | ξ, y) || p(θ))``, which is never negative."""
    weights = jnp.exp(posterior.log_weights)
    ratio = posterior.log_weights - prior.log_weights
    return jnp.sum(jnp.where(weights > 0, weights * ratio, 0.0))


def exact(model: DesignModel, designs: Any, belief: GridPosterior | None = None) -> Information:
    """The expected information gain of finitely many outcomes by quadrature over ``θ``.

    ``EIG(ξ) = H[Σ_k w_k p(y | θ_k, ξ)] - Σ_k w_k H[p(y | θ_k, ξ)]`` with the model's nodes, or with
    those of a ``belief`` after outcomes seen. In double precision; ``nodes * outcomes`` numbers per
    design.
    """
    array = check_designs(model, designs)
    if not model.finite:
        raise InputError(
            f"{model.name} has no list of outcomes, so that its information is not a finite sum; "
            "give outcomes=, or use bounds: credax.design.nested"
        )
    check_model(model, array[0])
    with jax.enable_x64(True):
        belief = prior_on_nodes(model) if belief is None else belief
        found = np.asarray(_exact(model, jnp.asarray(array), belief), np.float64)
    zeros = np.zeros_like(found)
    return Information(found, found, found, zeros)


@partial(jax.jit, static_argnums=0)
def _exact(model: DesignModel, designs: Array, belief: GridPosterior) -> Array:
    weights = jnp.exp(belief.log_weights)

    def one(xi):
        log_probs = jax.vmap(lambda theta: model.log_probs(theta, xi))(belief.nodes)
        return listed_information(log_probs, weights)

    return jax.lax.map(one, designs)


def listed_information(
    log_probs: Float[Array, "draws outcomes"], weights: Float[Array, " draws"]
) -> Float[Array, ""]:
    """``H[Σ_k w_k p_k] - Σ_k w_k H[p_k]`` of listed outcomes, for weighted parameters."""
    probs = jnp.exp(log_probs)
    marginal = weights @ probs
    known = weights @ jnp.where(probs > 0, probs * log_probs, 0.0).sum(axis=1)
    return known - jnp.sum(xlogy(marginal, marginal))


def linear_gaussian(matrix: ArrayLike, prior_covariance: ArrayLike, noise_std: ArrayLike) -> float:
    """``½ log det(I + s⁻² X Σ Xᵀ)``: the information of ``y = X θ + s ε`` for Gaussian ``θ``.

    Args:
        matrix: ``X``, ``[outcomes, parameters]``.
        prior_covariance: ``Σ``, ``[parameters, parameters]``.
        noise_std: ``s``, a number or ``[outcomes]``.

    >>> round(linear_gaussian([[3.0]], [[1.0]], 1.0), 9)
    1.151292546
    """
    x, covariance = np.asarray(matrix, np.float64), np.asarray(prior_covariance, np.float64)
    noise = np.broadcast_to(np.asarray(noise_std, np.float64), x.shape[:1])
    if (noise <= 0).any():
        raise InputError(f"noise_std is {noise_std}; give a positive standard deviation")
    scaled = x / noise[:, None]
    gram = np.eye(len(x)) + scaled @ covariance @ scaled.T
    return float(np.log(np.diag(np.linalg.cholesky(gram))).sum())


def warn_of_ceiling(lower: np.ndarray, ceiling: float) -> None:
    """Warn where a lower bound is within 5 % of the largest value that it can have."""
    if np.isfinite(ceiling) and (lower > NEAR_CEILING * ceiling).any():
        warnings.warn(
            f"a lower bound of {lower.max():.3f} is within 5 % of its ceiling {ceiling:.3f}, the "
            "log of one plus the contrastive samples; use more of them (inner=...)",
            CeilingReached,
            stacklevel=3,
        )
