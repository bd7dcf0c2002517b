"""Scores of priors over function values or features, for repulsion outside weight space."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from credax.methods.repulsive import kernels
from credax.methods.repulsive.embeddings import Functions
from credax.methods.repulsive.repulsive import StepContext
from credax.network import Variables
from credax.prior import GaussianPrior


class FunctionPrior(eqx.Module):
    """``score(z) = ∇ log p(z)`` of a prior over what members are compared by.

    - ``"cauchy"``: ``log p = -Σ log(1 + scale z²)``; ``"gauss"``: ``-Σ scale z²``;
    - ``"moments"``: a Gaussian fitted at four points (the first and the last two) to networks drawn
      from the weight prior, eigenvalues at least 1e-3 (Wang et al. 2019);
    - ``"spectral"``: the spectral Stein estimate from such networks (Shi et al. 2018).

    Networks are drawn from the problem's Gaussian prior, or, where that is flat, as they are
    initialised; fresh ones every step.
    """

    kind: Literal["cauchy", "gauss", "moments", "spectral"]
    scale: float = 1e-6
    draws: int = 40
    space: Functions | None = None

    def score(
        self,
        z: Float[Array, "members batch outputs"],
        context: StepContext,
        alive: Bool[Array, " members"],
    ) -> Array:
        """The prior's score at every member's values; zero where a member has diverged."""
        score = self._score(z, context, alive)
        return jnp.where(alive.reshape(-1, *(1,) * (z.ndim - 1)), score, 0.0)

    def _score(self, z, context: StepContext, alive) -> Array:
        if self.kind == "cauchy":
            return -2 * self.scale * z / (1 + self.scale * jnp.square(z))
        if self.kind == "gauss":
            return -2 * self.scale * z
        drawn = self._prior_values(context)
        return gaussian_score(z, drawn) if self.kind == "moments" else sample_score(z, drawn, alive)

    def _prior_values(self, context: StepContext) -> Float[Array, "draws batch outputs"]:
        assert self.space is not None
        problem, key = context.problem, jax.random.fold_in(context.keys[0], 3)
        x, weight = self.space.where(context.batch, context.keys[0])
        prior = problem.prior
        known = isinstance(prior, GaussianPrior)
        precision = jnp.asarray(prior.precision_for(context.num_data) if known else 0.0)
        deviation = jnp.where(precision > 0, precision, 1.0) ** -0.5

        def one(key):
            variables = problem.network.init(key, x)
            if known:
                leaves, tree = jax.tree.flatten(variables.params)
                keys = jax.random.split(jax.random.fold_in(key, 1), len(leaves))
                # A flat prior has no draws: networks as they are initialised stand for it.
                drawn = [
                    jnp.where(
                        precision > 0,
                        jax.random.normal(k, leaf.shape, leaf.dtype) * deviation,
                        leaf,
                    )
                    for k, leaf in zip(keys, leaves, strict=True)
                ]
                variables = Variables(jax.tree.unflatten(tree, drawn), variables.state)
            return problem.outputs(variables, x)[0]

        outputs = jax.vmap(one)(jax.random.split(key, self.draws))
        return self.space.values(problem, outputs) * weight[:, None]


def gaussian_score(
    z: Float[Array, "members points outputs"],
    drawn: Float[Array, "draws points outputs"],
    points: int = 2,
    floor: float = 1e-3,
) -> Float[Array, "members points outputs"]:
    """Score of a Gaussian with the draws' moments at the first and last points, zero elsewhere.

    ``-Σ^-1 (z - μ)``, each output on its own, eigenvalues of ``Σ`` at least ``floor``.
    """
    count = z.shape[1]
    rows = np.unique([*range(min(points, count)), *range(max(0, count - points), count)])
    sample = drawn[:, rows]
    mean = sample.mean(0)
    centred = sample - mean
    covariance = jnp.einsum("sbk,sck->kbc", centred, centred) / len(drawn)
    values, vectors = jnp.linalg.eigh(covariance)
    inverse = jnp.einsum("kbe,ke,kce->kbc", vectors, 1 / jnp.maximum(values, floor), vectors)
    score = -jnp.einsum("kbc,mck->mbk", inverse, z[:, rows] - mean)
    return jnp.zeros_like(z).at[:, rows].set(score)


def sample_score(
    z: Float[Array, "members points outputs"],
    drawn: Float[Array, "draws points outputs"],
    alive: Bool[Array, " members"],
    ridge: float = 0.01,
    keep: float = 0.95,
) -> Float[Array, "members points outputs"]:
    """The spectral Stein estimate, at the members, of the score of what the draws come from."""
    members = len(z)
    both = jnp.concatenate([z.reshape(members, -1), drawn.reshape(len(drawn), -1)])
    d2 = kernels.distances_from_gram(kernels.gram_of(both))
    h = kernels.spectral_bandwidth(d2, jnp.concatenate([alive, jnp.ones(len(drawn), bool)]))
    across, inner = jnp.exp(-d2[:members, members:] / h), jnp.exp(-d2[members:, members:] / h)
    return (kernels.spectral_score(across, inner, h, ridge, keep) @ both[members:]).reshape(z.shape)
