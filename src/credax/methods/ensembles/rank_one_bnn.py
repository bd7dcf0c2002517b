"""Rank-1 Bayesian networks: distributions of rank-one factors (Dusenberry et al. 2020)."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from credax.batch_statistics import has_statistics
from credax.errors import InputError
from credax.methods.ensemble import check_annealing, positive
from credax.methods.ensembles.modulated import Modulated
from credax.methods.ensembles.modulator import Modulator, Parts, draw_units, per_member
from credax.methods.modes import example_variables
from credax.problem import Problem
from credax.structure import Structure
from credax.structure.factored import Factors
from credax.training import Training

_CLIP = 10.0


@dataclass(frozen=True)
class Rank1BNN(Modulated):
    """A mixture of distributions of the factors ``r`` and ``s`` around point estimates ``W, b``.

    ``W_m = W * r sᵀ`` with ``r, s ~ q_m``, each a normal (or Cauchy) per entry and component. The
    loss is ``mean NLL + β (1/K) Σ_k KL(q_k || p) / N - log p(W) / N``: with the mean over
    components the KL of the mixture is bounded from above. ``β`` rises from 0 to 1 over
    ``annealing`` of the training, for components that start at -1 are far from the prior around 1.
    Memory: ``a b + 2 K (a + b)`` numbers for a kernel ``[a, b]``; with ``batch="split"`` a step
    costs about one network's, a prediction ``components * samples``.

    Reference: Dusenberry et al., Efficient and scalable Bayesian neural nets with rank-1 factors,
    ICML 2020.

    >>> Rank1BNN().draws, Rank1BNN(distribution="cauchy").draws
    (1, 4)
    """

    name: ClassVar[str] = "rank1-bnn"
    title: ClassVar[str] = "Rank-1 BNN"

    members: int = 4
    """Components of the mixture."""
    own: Literal["biases", "biases-and-norms", "none"] = "none"
    """Parameters that every component has for itself: biases, also scales and shifts of norms."""
    distribution: Literal["normal", "cauchy"] = "normal"
    """Distribution of factors, of the posterior and of the prior."""
    prior_scale: float = 0.1
    """Standard deviation (Cauchy: scale) of the prior around 1."""
    initial_std: float = math.sqrt(1e-3 / (1 - 1e-3))
    """Standard deviation (Cauchy: scale) with which the posterior starts, around signs."""
    kl_reduction: Literal["mean", "sum"] = "mean"
    """Mean over components (a bound), or their sum as in the released code."""
    annealing: float = 0.8
    """Share of the training over which the weight of the KL rises to 1; 0 is none."""
    log_likelihood: Literal["mean", "mixture"] = "mean"
    """Mean of the components' log-likelihoods, or the tighter one of their mixture (tile)."""
    per_example: bool = False
    """Factors drawn for every row of a batch instead of once per component and step."""
    samples: int | None = None
    """Networks drawn of every component for a prediction: by default 1, of a Cauchy 4."""

    def __post_init__(self):
        Modulated.__post_init__(self)
        positive(self, "prior_scale", "initial_std")
        check_annealing(self)
        if self.samples is not None and self.samples < 1:
            raise InputError(f"samples is {self.samples}; it is at least 1")
        if self.log_likelihood == "mixture" and self.batch != "tile":
            raise InputError(
                "log_likelihood is 'mixture' and batch is 'split', in which a row is seen by one "
                "component only; use batch='tile'"
            )

    @property
    def draws(self) -> int:
        """Networks drawn of every component."""
        if self.samples is not None:
            return self.samples
        return 4 if self.distribution == "cauchy" else 1

    @property
    def options(self) -> dict[str, Any]:
        """The likelihood and the draws of a step."""
        return {"mixture": self.log_likelihood == "mixture", "per_example": self.per_example}

    def dynamics(self, problem, data, training):
        """As for all ensembles of this kind; rows with draws of their own share no statistics."""
        if self.per_example and has_statistics(example_variables(problem, data)):
            raise InputError(
                "per_example is set and the network's batch statistics join its rows; leave it "
                "out, or use filter response or group norm"
            )
        return Modulated.dynamics(self, problem, data, training)

    def modulator(
        self, problem: Problem, structure: Structure, training: Training | None, num_data: int
    ) -> "RandomFactors":
        """Distributions of factors on both sides of every kernel."""
        return RandomFactors(
            structure,
            self.members,
            self.distribution,
            self.prior_scale,
            self.initial_std,
            self.kl_reduction,
            annealing_steps(self.annealing, training, num_data),
            num_data,
        )


def annealing_steps(share: float, training: Training | None, num_data: int) -> float:
    """Steps over which the weight of the KL rises to 1."""
    if training is None:
        return 0.0
    return share * training.epochs * training.steps_per_epoch(num_data)


def annealed(step: Array, steps: float) -> Float[Array, ""]:
    """The weight of the KL at a step: from 0 to 1 in a line, then 1."""
    return jnp.minimum(1.0, step / steps) if steps else jnp.ones(())


class RandomFactors(Modulator):
    """A distribution over the factors of every kernel, per component."""

    distribution: str = eqx.field(static=True, default="normal")
    prior_scale: float = 0.1
    initial_std: float = 0.03
    kl_reduction: str = eqx.field(static=True, default="mean")
    annealing: float = eqx.field(static=True, default=0.0)
    num_data: int = 1

    random: ClassVar[bool] = True

    def init(self, key) -> Parts:
        """Means at random signs, and the standard deviation asked for."""

        def one(key):
            mean = draw_units(self.structure, key, jax.random.rademacher)
            rho = jax.tree.map(lambda m: jnp.full_like(m, inverse_softplus(self.initial_std)), mean)
            return {"mean": mean, "rho": rho}

        return Parts(members=per_member(one, key, self.members))

    def factors(self, common, member, fixed, key) -> Factors:
        """A draw, cut off at ±10; without a key the centre."""
        if key is None:
            return member["mean"]
        return draw_around(key, member["mean"], member["rho"], self.distribution)

    def penalty(self, weights, parts: Parts, key, step) -> Array:
        """``β KL / N``, over all entries of all kernels."""
        each = self.divergence(parts.members)
        total = each.mean() if self.kl_reduction == "mean" else each.sum()
        return annealed(step, self.annealing) * total / self.num_data

    def divergence(self, members) -> Float[Array, " components"]:
        """KL of every component to the prior, in nats."""
        kl = normal_kl if self.distribution == "normal" else cauchy_kl

        def entries(mean, rho):
            found = kl(mean, jax.nn.softplus(rho), 1.0, self.prior_scale)
            return found.reshape(len(found), -1).sum(1)

        leaves = jax.tree.leaves(jax.tree.map(entries, members["mean"], members["rho"]))
        return jnp.stack(leaves).sum(0)


def draw_around(key, mean: Factors, rho: Factors, distribution: str) -> Factors:
    """Centre plus scale times noise, cut off at ±10."""
    centre, restore = ravel_pytree(mean)
    scale = jax.nn.softplus(ravel_pytree(rho)[0])
    noise = jax.random.normal if distribution == "normal" else jax.random.cauchy
    drawn = centre + scale * noise(key, centre.shape, centre.dtype)
    return restore(jnp.clip(drawn, -_CLIP, _CLIP))


def inverse_softplus(value: float) -> float:
    """``log(exp(v) - 1)``.

    >>> round(math.log1p(math.exp(inverse_softplus(0.3))), 6)
    0.3
    """
    return math.log(math.expm1(value))


def normal_kl(mean, std, prior_mean, prior_std) -> Array:
    """``log(σ₀/σ) + (σ² + (μ - μ₀)²) / (2 σ₀²) - 1/2`` of every entry."""
    ratio = (jnp.square(std) + jnp.square(mean - prior_mean)) / (2 * prior_std**2)
    return jnp.log(prior_std / std) + ratio - 0.5


def cauchy_kl(location, scale, prior_location, prior_scale) -> Array:
    """``log(((γ + γ₀)² + (x - x₀)²) / (4 γ γ₀))`` (Chyzak and Nielsen 2019)."""
    distance = jnp.square(scale + prior_scale) + jnp.square(location - prior_location)
    return jnp.log(distance / (4 * scale * prior_scale))
