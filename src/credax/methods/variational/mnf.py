"""Multiplicative normalising flows on weights (Louizos and Welling 2017)."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from credax.errors import InputError
from credax.likelihood import require_posterior
from credax.methods.ensemble import check_annealing, positive
from credax.methods.ensembles.modulated import Modulated
from credax.methods.ensembles.modulator import Modulator, Parts, weight_names
from credax.methods.ensembles.rank_one_bnn import annealed, annealing_steps, inverse_softplus
from credax.methods.variational.flows import (
    gaussian_log_density,
    init_flow,
    run_flow,
    standardised,
    times,
)
from credax.prior import GaussianPrior
from credax.problem import Problem
from credax.structure import Structure, kernels
from credax.structure.factored import PREFIX, Factors
from credax.structure.modulate import unit_axes
from credax.training import Training

_WANTED = "MNF needs a Gaussian one: give weight_decay, or prior=GaussianPrior(precision=1.0)"


@dataclass(frozen=True)
class MNF(Modulated):
    """Gaussian weights whose means are multiplied by a random vector with a flexible distribution.

    ``q(W) = ∫ q(W|z) q(z) dz``, ``q(W|z) = Π N(w_ij; z_i μ_ij, σ_ij²)``: ``z`` is a Gaussian that
    went through a normalising flow, one entry per input unit of a dense kernel and per filter of a
    convolution (whose bias it multiplies too). Minimised is ``mean NLL + β [KL(q(W|z) || p) +
    log q(z) - log r(z|W)] / N``, an upper bound of the negative evidence bound of ``q(W)`` by an
    auxiliary posterior ``r`` with a flow of its own; all constants are kept, so that the bracket is
    a number in nats. Biases and scales of norms are independent Gaussians. Memory: twice one
    network, and the flows: ``3 a h`` numbers per step and kernel of ``a`` inputs. Every draw has
    kernels of its own.

    ``z`` starts around 1, as in mean-field inference (the released code starts flows around 0).
    Reference: Louizos and Welling, Multiplicative normalizing flows for variational Bayesian neural
    networks, ICML 2017.

    >>> MNF().flow_steps, MNF().draws
    (2, 100)
    """

    name: ClassVar[str] = "mnf"
    title: ClassVar[str] = "MNF"

    members: Literal[1] = 1
    """One distribution per mode."""
    own: Literal["none"] = "none"
    """Nothing: there is one distribution."""
    flow: Literal["coupling", "planar"] = "coupling"
    """Steps of the flows: gated RealNVP with alternating masks, or planar."""
    flow_steps: int = 2
    """Steps of the flow of ``z``; 0 leaves a Gaussian."""
    auxiliary_steps: int = 2
    """Steps of the auxiliary posterior's flow."""
    hidden: tuple[int, int] = (50, 100)
    """Hidden units of a step, of the flow and of the auxiliary one."""
    initial_std: float = math.exp(-9)
    """Standard deviation of weights at the start."""
    largest_std: float = 0.5
    """The standard deviation of weights is cut off here."""
    initial_variance: float = 0.1
    """Variance of ``z`` before the flow, at the start."""
    annealing: float = 0.0
    """Share of the training over which the weight of the divergence rises to 1; 0 is none."""
    samples: int = 100
    """Networks drawn for a prediction."""

    def __post_init__(self):
        Modulated.__post_init__(self)
        positive(self, "initial_std", "largest_std", "initial_variance", "samples")
        if self.members != 1:
            raise InputError(
                f"members is {self.members}; there is one distribution per mode: use modes and "
                "samples"
            )
        for name in ("flow_steps", "auxiliary_steps"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} is {getattr(self, name)}; it is at least 0")
        check_annealing(self)

    @property
    def draws(self) -> int:
        """Networks drawn."""
        return self.samples

    def modulator(
        self, problem: Problem, structure: Structure, training: Training | None, num_data: int
    ) -> "FlowWeights":
        """Distributions of all weights that the prior covers."""
        precision: Any = 1.0
        if training is not None:
            require_posterior(problem.likelihood, self.title)
            precision = _precision(problem, num_data)
        return FlowWeights(
            structure,
            1,
            tuple(weight_names(structure, problem)),
            self.flow == "planar",
            (self.flow_steps, self.auxiliary_steps),
            self.hidden,
            (self.initial_std, self.largest_std, self.initial_variance),
            precision,
            annealing_steps(self.annealing, training, num_data),
            num_data,
        )


def _precision(problem: Problem, num_data: int) -> Any:
    prior = problem.prior
    if not isinstance(prior, GaussianPrior):
        raise InputError(f"the prior is {type(prior).__name__}; {_WANTED}")
    if isinstance(prior.weight_decay, int | float) and prior.weight_decay == 0:
        raise InputError(f"the prior is flat; {_WANTED}")
    return prior.precision_for(num_data)


class FlowWeights(Modulator):
    """Means are the shared weights; standard deviations, flows and auxiliary nets are common."""

    names: tuple[str, ...] = eqx.field(static=True, default=())
    planar: bool = eqx.field(static=True, default=False)
    steps: tuple[int, int] = eqx.field(static=True, default=(2, 2))
    hidden: tuple[int, int] = eqx.field(static=True, default=(50, 100))
    scales: tuple[float, float, float] = eqx.field(static=True, default=(1e-4, 0.5, 0.1))
    precision: Any = 1.0
    annealing: float = eqx.field(static=True, default=0.0)
    num_data: int = 1

    random: ClassVar[bool] = True

    @property
    def covered(self) -> frozenset[str]:
        """All weights: their prior is in the divergence."""
        return frozenset(self.names)

    def init(self, key) -> Parts:
        """Narrow Gaussians, and flows close to the identity."""
        shapes = {
            name: tuple(axis.size for axis in self.structure.axes[PREFIX + name])
            for name in self.names
        }
        rho = {
            n: jnp.full(s, inverse_softplus(self.scales[0]), jnp.float32) for n, s in shapes.items()
        }
        flows = {}
        for number, path in enumerate(kernels(self.structure)):
            size = math.prod(self._units(path))
            first, second, third = jax.random.split(jax.random.fold_in(key, number), 3)
            flows[path] = {
                "mean": jnp.ones(size),
                "log_variance": jnp.full(size, math.log(self.scales[2]), jnp.float32),
                "flow": init_flow(first, size, self.steps[0], self.hidden[0], self.planar),
                "auxiliary": init_flow(second, size, self.steps[1], self.hidden[1], self.planar),
                "reader": 0.01 * jax.random.normal(third, (3, size)),
            }
        return Parts({"rho": rho, "flows": flows})

    def factors(self, common, member, fixed, key) -> Factors:
        """None: a draw has kernels of its own."""
        return Factors({}, {})

    def drawn(self, arrays, common, key) -> dict[str, Array]:
        """Every weight drawn; without a key at the mean of its Gaussian and of ``z`` before."""
        keys = None if key is None else jax.random.split(key, 2)
        multiplied = dict(arrays)
        for number, (path, flow) in enumerate(common["flows"].items()):
            noise = jnp.zeros_like(flow["mean"])
            if keys is not None:
                noise = jax.random.normal(jax.random.fold_in(keys[0], number), noise.shape)
            z, _ = draw_latent(flow, noise)
            for name, factor in self._spread(path, z):
                multiplied[name] = multiplied[name] * factor
        if keys is None:
            return multiplied
        for number, name in enumerate(self.names):
            noise = jax.random.normal(
                jax.random.fold_in(keys[1], number), arrays[name].shape, arrays[name].dtype
            )
            multiplied[name] = multiplied[name] + self._std(common["rho"][name]) * noise
        return multiplied

    def penalty(self, weights, parts: Parts, key, step) -> Array:
        """``β / N`` times the divergence of a draw of ``z``."""
        total = self.divergence(weights, parts.common, key)
        return annealed(step, self.annealing) * total / self.num_data

    def divergence(self, weights, common, key) -> Float[Array, ""]:
        """``KL(q(W|z) || p) + log q(z) - log r(z|W)`` over all weights, for one draw, in nats."""
        means, total = dict(weights), jnp.zeros(())
        for number, (path, flow) in enumerate(common["flows"].items()):
            first, second = jax.random.split(jax.random.fold_in(key, number))
            z, log_q = draw_latent(flow, jax.random.normal(first, flow["mean"].shape))
            for name, factor in self._spread(path, z):
                means[name] = means[name] * factor
            name = path.removeprefix(PREFIX)
            log_r = auxiliary_log_density(
                flow,
                z,
                self._rows(path, means[name]),
                self._rows(path, self._std(common["rho"][name])),
                second,
            )
            total += log_q - log_r
        for name in self.names:
            total += gaussian_kl(means[name], self._std(common["rho"][name]), self.precision)
        return total

    def _std(self, rho):
        return jnp.minimum(jax.nn.softplus(rho), self.scales[1])

    def _axes(self, path: str) -> tuple[int, ...]:
        """The axes of a kernel that ``z`` goes along: inputs, of a convolution outputs."""
        window = any(axis.role == "window" for axis in self.structure.axes[path])
        return unit_axes(self.structure, path, "output" if window else "input")

    def _units(self, path: str) -> tuple[int, ...]:
        return tuple(self.structure.axes[path][i].size for i in self._axes(path))

    def _rows(self, path: str, kernel) -> Float[Array, "units rest"]:
        """A kernel as a matrix with one row per entry of ``z``."""
        axes = self._axes(path)
        rest = [i for i in range(kernel.ndim) if i not in axes]
        return kernel.transpose(*axes, *rest).reshape(math.prod(self._units(path)), -1)

    def _spread(self, path: str, z):
        """The names of what ``z`` multiplies, with ``z`` in their shape."""
        shape = [1] * len(self.structure.axes[path])
        for axis, size in zip(self._axes(path), self._units(path), strict=True):
            shape[axis] = size
        yield path.removeprefix(PREFIX), z.reshape(shape)
        bias = self.structure.contractions[path].bias
        window = any(axis.role == "window" for axis in self.structure.axes[path])
        if window and bias is not None and bias.removeprefix(PREFIX) in self.names:
            yield bias.removeprefix(PREFIX), z.reshape(self._units(path))


def draw_latent(flow: dict[str, Any], noise) -> tuple[Array, Array]:
    """``z`` and ``log q(z)``, from the standard noise it starts with."""
    start, log_density = standardised(flow["mean"], flow["log_variance"], noise)
    z, log_det = run_flow(flow["flow"], start)
    return z, log_density - log_det


def auxiliary_log_density(
    flow: dict[str, Any],
    z: Float[Array, " units"],
    mean: Float[Array, "units rest"],
    std: Float[Array, "units rest"],
    key: Any,
) -> Float[Array, ""]:
    """``log r(z|W)`` for a draw of what it reads of ``W``.

    ``a_j = tanh(Σ_i c_i w_ij)`` with the sum drawn by itself, ``N(Σ c z μ, Σ c² σ²)``; the mean
    over j times two vectors gives mean and log-precision of ``z`` after the auxiliary flow.
    """
    reader, location, precision = flow["reader"]
    variance = times(jnp.square(reader), jnp.square(std))
    noise = jax.random.normal(key, variance.shape)
    seen = jnp.tanh(times(reader, mean) + jnp.sqrt(variance + 1e-30) * noise).mean()
    moved, log_det = run_flow(flow["auxiliary"], z)
    log_precision = precision * seen
    noise = jnp.exp(0.5 * log_precision) * (moved - location * seen)
    return gaussian_log_density(noise) + 0.5 * jnp.sum(log_precision) + log_det


def gaussian_kl(mean, std, precision) -> Float[Array, ""]:
    """KL of independent Gaussians to ``N(0, 1/precision)``, summed, in nats."""
    square = precision * (jnp.square(std) + jnp.square(mean))
    return 0.5 * jnp.sum(square - 1 - 2 * jnp.log(std) - jnp.log(precision))
