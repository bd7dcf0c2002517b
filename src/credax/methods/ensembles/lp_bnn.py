"""LP-BNN: BatchEnsemble whose input factors pass an autoencoder (Franchi et al. 2023)."""

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from credax.errors import InputError
from credax.methods.ensemble import positive
from credax.methods.ensembles.modulated import Modulated
from credax.methods.ensembles.modulator import Modulator, Parts, draw_units, per_member
from credax.problem import Problem
from credax.structure import Structure, kernels, unit_shape
from credax.structure.factored import Factors
from credax.training import Training


@dataclass(frozen=True)
class LPBNN(Modulated):
    """BatchEnsemble with input factors decoded from a noisy latent, one autoencoder per kernel.

    ``r̂_m = decode(μ(r_m) + f σ(r_m) ε)`` takes the place of ``r_m`` in ``W * r_m s_mᵀ``, with
    ``μ, σ`` of ``latent`` numbers and ``f = noise``. The loss is ``mean NLL + Σ_layers mean_m
    [ mean (r̂_m - r_m)² + KL(N(μ, f² σ²) || N(0, 1)) / N ]``: the KL is that of the distribution
    drawn from, noise factor included. Memory: BatchEnsemble's, and ``2 a h + 2 h² + a + 3 h``
    numbers of an autoencoder for a kernel of ``a`` inputs and ``h`` latents; with ``batch="split"``
    a step costs about one network's, a prediction ``members * samples``.

    Reference: Franchi, Bursuc, Aldea, Dubuisson, Bloch, Encoding the latent posterior of Bayesian
    neural networks for uncertainty quantification, 2023.

    >>> LPBNN().latent, LPBNN().noise
    (32, 0.01)
    """

    name: ClassVar[str] = "lp-bnn"
    title: ClassVar[str] = "LP-BNN"

    members: int = 4
    """Members of each mode."""
    latent: int = 32
    """Numbers of the latent."""
    noise: float = 0.01
    """Factor on the latent's standard deviation, in the draw and in the KL."""
    samples: int = 1
    """Networks drawn of every member for a prediction."""
    rate_multiplier: float = 0.5
    """Learning rate of the factors over that of everything else."""

    def __post_init__(self):
        Modulated.__post_init__(self)
        positive(self, "rate_multiplier")
        for name in ("latent", "samples"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it is at least 1")
        if self.noise < 0:
            raise InputError(f"noise is {self.noise}; give a factor that is not negative")

    @property
    def draws(self) -> int:
        """Networks drawn of every member."""
        return self.samples

    @property
    def options(self):
        """The learning rate of factors."""
        return {"rate_multiplier": self.rate_multiplier}

    def modulator(
        self, problem: Problem, structure: Structure, training: Training | None, num_data: int
    ) -> "EncodedFactors":
        """Factors on both sides of every kernel, those of inputs through an autoencoder."""
        return EncodedFactors(structure, self.members, self.latent, self.noise, num_data)


class EncodedFactors(Modulator):
    """Trained vectors per member, and an autoencoder per kernel that all members share."""

    latent: int = eqx.field(static=True, default=32)
    noise: float = eqx.field(static=True, default=0.01)
    num_data: int = 1

    random: ClassVar[bool] = True

    def init(self, key) -> Parts:
        """Random signs, and autoencoders with weights of variance one over their inputs."""
        first, second = jax.random.split(key)
        one = lambda key: draw_units(self.structure, key, jax.random.rademacher)  # noqa: E731
        paths = kernels(self.structure)
        keys = jax.random.split(second, len(paths))
        coders = {
            path: _autoencoder(key, _size(self.structure, path), self.latent)
            for path, key in zip(paths, keys, strict=True)
        }
        return Parts(coders, per_member(one, first, self.members))

    def factors(self, common, member: Factors, fixed, key) -> Factors:
        """Decoded input factors; without a key of the latent's mean."""
        keys = jax.random.split(jax.random.key(0) if key is None else key, len(common))
        found = {}
        for (path, coder), here in zip(common.items(), keys, strict=True):
            given = member.inputs[path]
            mean, std = encode(coder, given.reshape(-1))
            noise = 0.0 if key is None else self.noise * std * jax.random.normal(here, mean.shape)
            found[path] = decode(coder, mean + noise).reshape(given.shape)
        return Factors(found, member.outputs)

    def penalty(self, weights, parts: Parts, key, step) -> Array:
        """Errors of reconstruction and KL divergences, over layers, the mean over members."""

        def one(member: Factors, key):
            decoded = self.factors(parts.common, member, (), key).inputs
            total = jnp.zeros(())
            for path, coder in parts.common.items():
                total += jnp.mean(jnp.square(decoded[path] - member.inputs[path]))
                mean, std = encode(coder, member.inputs[path].reshape(-1))
                # Without noise the KL is infinite whatever the mean; what is left pulls the mean.
                pull = 0.5 * jnp.sum(jnp.square(mean))
                kl = latent_kl(mean, self.noise * std) if self.noise else pull
                total += kl / self.num_data
            return total

        return jax.vmap(one)(parts.members, jax.random.split(key, self.members)).mean()


def _size(structure: Structure, path: str) -> int:
    size = 1
    for length in unit_shape(structure, path, "input"):
        size *= length
    return size


def _autoencoder(key, inputs: int, latent: int) -> dict[str, Array]:
    """Dense layers: inputs to hidden, hidden to mean and log-variance, latent to inputs."""
    shapes = {
        "hidden": (inputs, latent),
        "mean": (latent, latent),
        "log_variance": (latent, latent),
        "output": (latent, inputs),
    }
    keys = jax.random.split(key, len(shapes))
    found = {}
    for (name, shape), here in zip(shapes.items(), keys, strict=True):
        found[name] = jax.random.normal(here, shape) / jnp.sqrt(shape[0])
        found[f"{name}_bias"] = jnp.zeros(shape[1])
    return found


def encode(coder: dict[str, Array], r: Float[Array, " inputs"]):
    """Mean and standard deviation of the latent of an input factor."""
    hidden = jax.nn.relu(r @ coder["hidden"] + coder["hidden_bias"])
    mean = hidden @ coder["mean"] + coder["mean_bias"]
    log_variance = hidden @ coder["log_variance"] + coder["log_variance_bias"]
    return mean, jnp.exp(0.5 * log_variance)


def decode(coder: dict[str, Array], latent: Float[Array, " latent"]) -> Float[Array, " inputs"]:
    """The input factor of a latent."""
    return latent @ coder["output"] + coder["output_bias"]


def latent_kl(mean, std) -> Float[Array, ""]:
    """KL of ``N(mean, std²)`` to the standard normal, in nats."""
    return 0.5 * jnp.sum(jnp.square(std) + jnp.square(mean) - 1 - 2 * jnp.log(std))
