"""Node-based Bayesian networks: latents that multiply units (Trinh et al. 2022)."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from credax.errors import InputError
from credax.methods.ensemble import check_annealing, positive
from credax.methods.ensembles.modulated import Modulated
from credax.methods.ensembles.modulator import Modulator, Parts, draw_units, per_member
from credax.methods.ensembles.rank_one_bnn import (
    annealed,
    annealing_steps,
    draw_around,
    inverse_softplus,
    normal_kl,
)
from credax.problem import Problem
from credax.structure import Structure
from credax.structure.factored import Factors
from credax.training import Training

_ROLES = {"inputs": ("input",), "outputs": ("output",), "both": ("input", "output")}


@dataclass(frozen=True)
class NodeBNN(Modulated):
    """Gaussian latents that multiply the units of every layer, as a mixture of components.

    Weights are point estimates; ``q(z) = (1/K) Σ_k N(z; μ_k, σ_k²)`` on the outputs (or inputs) of
    every kernel. The loss is ``mean NLL + β (KL - γ H) / N``. ``KL`` is an upper bound of the
    mixture's: the mean over components, or the cross-entropy minus the entropy bound. ``H`` is the
    lower bound of Kolchinsky and Tracey on the mixture's entropy, or the mean entropy of components
    ("conditional"); ``entropy`` (γ) above 0 widens the latents, for robustness to corruptions.
    Memory: ``a b + 2 K b`` numbers for a kernel ``[a, b]``; with ``batch="split"`` a step costs
    about one network's, a prediction ``members * samples``.

    Reference: Trinh, Heinonen, Acerbi, Kaski, Tackling covariate shift with node-based Bayesian
    neural networks, ICML 2022.

    >>> NodeBNN().latents, NodeBNN().draws
    ('outputs', 8)
    """

    name: ClassVar[str] = "node-bnn"
    title: ClassVar[str] = "Node BNN"

    members: int = 4
    """Components of the mixture."""
    own: Literal["biases", "biases-and-norms", "none"] = "none"
    """Parameters that every component has for itself: biases, also scales and shifts of norms."""
    latents: Literal["outputs", "inputs", "both"] = "outputs"
    """Which units of every kernel a latent multiplies."""
    prior_std: float = 0.3
    """Standard deviation of the prior around 1, with which the posterior starts too."""
    entropy: float = 0.0
    """Weight γ of the entropy beside the KL."""
    kl_type: Literal["mean", "bound"] = "mean"
    """Upper bound of the KL: mean over components, or through the bound on the entropy."""
    entropy_type: Literal["bound", "conditional"] = "bound"
    """Lower bound of the mixture's entropy: Kolchinsky-Tracey, or the components' mean."""
    annealing: float = 0.66
    """Share of the training over which the weight of the KL rises to 1; 0 is none."""
    samples: int = 8
    """Networks drawn of every component for a prediction."""

    def __post_init__(self):
        Modulated.__post_init__(self)
        positive(self, "prior_std", "samples")
        if self.entropy < 0:
            raise InputError(f"entropy is {self.entropy}; give a weight that is not negative")
        check_annealing(self)

    @property
    def draws(self) -> int:
        """Networks drawn of every component."""
        return self.samples

    def modulator(
        self, problem: Problem, structure: Structure, training: Training | None, num_data: int
    ) -> "NodeLatents":
        """Latents on the units asked for."""
        return NodeLatents(
            structure,
            self.members,
            _ROLES[self.latents],
            self.prior_std,
            self.entropy,
            self.kl_type,
            self.entropy_type,
            annealing_steps(self.annealing, training, num_data),
            num_data,
        )


class NodeLatents(Modulator):
    """A mixture of Gaussians over latents that multiply units."""

    roles: tuple[str, ...] = eqx.field(static=True, default=("output",))
    prior_std: float = 0.3
    entropy: float = 0.0
    kl_type: str = eqx.field(static=True, default="mean")
    entropy_type: str = eqx.field(static=True, default="bound")
    annealing: float = eqx.field(static=True, default=0.0)
    num_data: int = 1

    random: ClassVar[bool] = True

    def init(self, key) -> Parts:
        """Means drawn from the prior, standard deviations as it has."""

        def one(key):
            noise = draw_units(self.structure, key, jax.random.normal, self.roles)
            mean = jax.tree.map(lambda leaf: 1 + self.prior_std * leaf, noise)
            rho = jax.tree.map(lambda m: jnp.full_like(m, inverse_softplus(self.prior_std)), mean)
            return {"mean": mean, "rho": rho}

        return Parts(members=per_member(one, key, self.members))

    def factors(self, common, member, fixed, key) -> Factors:
        """A draw of the latents; without a key their mean."""
        if key is None:
            return member["mean"]
        return draw_around(key, member["mean"], member["rho"], "normal")

    def penalty(self, weights, parts: Parts, key, step) -> Array:
        """``β (KL - γ H) / N``: N is the number of rows in all, whatever the batch has."""
        mean, std = _flat(parts.members["mean"]), jax.nn.softplus(_flat(parts.members["rho"]))
        bound = mixture_entropy_bound(mean, std)
        if self.kl_type == "mean":
            divergence = normal_kl(mean, std, 1.0, self.prior_std).sum(1).mean()
        else:
            divergence = cross_entropy(mean, std, self.prior_std) - bound
        conditional = self.entropy_type == "conditional"
        entropy = normal_entropy(std).mean() if conditional else bound
        loss = divergence - self.entropy * entropy
        return annealed(step, self.annealing) * loss / self.num_data


def _flat(factors: Any) -> Float[Array, "components latents"]:
    leaves = [leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(factors)]
    return jnp.concatenate(leaves, axis=1)


def normal_entropy(std: Float[Array, "components latents"]) -> Float[Array, " components"]:
    """Entropy of every component, in nats."""
    return jnp.sum(jnp.log(std) + 0.5 * math.log(2 * math.pi * math.e), axis=1)


def cross_entropy(mean, std, prior_std) -> Float[Array, ""]:
    """``-E_q log p`` of the mixture under the prior ``N(1, prior_std²)``."""
    square = (jnp.square(std) + jnp.square(mean - 1)) / (2 * prior_std**2)
    constant = 0.5 * math.log(2 * math.pi) + jnp.log(prior_std)
    return jnp.sum(square + constant, axis=1).mean()


def mixture_entropy_bound(
    mean: Float[Array, "components latents"], std: Float[Array, "components latents"]
) -> Float[Array, ""]:
    """A lower bound of the entropy of a uniform mixture of diagonal Gaussians.

    ``(1/K) Σ_k H(q_k) - (1/K) Σ_k log (1/K) Σ_j exp(-BD(q_k, q_j))`` with Bhattacharyya distances;
    exact for one component. Reference: Kolchinsky and Tracey, Estimating mixture entropy with
    pairwise distances, 2017.
    """
    total = jnp.square(std[:, None]) + jnp.square(std[None])
    product = std[:, None] * std[None]
    each = jnp.square(mean[:, None] - mean[None]) / (4 * total)
    distance = jnp.sum(each + 0.5 * jnp.log(total / (2 * product)), axis=-1)
    overlap = jax.nn.logsumexp(-distance, axis=1) - math.log(len(mean))
    return normal_entropy(std).mean() - overlap.mean()
