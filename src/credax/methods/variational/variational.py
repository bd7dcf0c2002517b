"""Variational inference: descent on the evidence bound of a Gaussian over the parameters."""

import abc
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree, UInt32

from credax.batch_statistics import has_statistics
from credax.data.dataset import Split
from credax.errors import InputError
from credax.gaussian_posterior import GaussianPosterior, gaussian_posterior
from credax.gaussians import FullGaussian, LowRankGaussian, WeightGaussian
from credax.likelihood import require_posterior
from credax.methods.ensemble import check_annealing, choices
from credax.methods.laplace.layers import find_layers
from credax.methods.modes import Kept, Modes, example_variables
from credax.methods.variational.families import Family
from credax.methods.variational.local_noise import Estimator, check_estimator, noisy_outputs
from credax.network import Variables
from credax.prior import GaussianPrior
from credax.problem import Batch, Problem
from credax.structure.linear_layers import LinearLayer
from credax.training import Descent, Training
from credax.training.dynamics import Dynamics, Info, Replicas

Divergence = Literal["analytic", "path"]


class VariationalState(NamedTuple):
    """Parameters of the Gaussian, parameters outside the prior, network state, optimiser."""

    free: PyTree
    points: PyTree
    carried: PyTree
    optimiser: PyTree
    steps: Int[Array, ""]
    seed: UInt32[Array, "..."]


class Variational(Dynamics):
    """Descent on ``mean NLL under draws + weight · T · KL(q || prior) / N``.

    The KL is a sum over all weights of all layers. ``weight`` rises from 0 to 1 over ``annealing``
    steps; with ``blundell`` batch i of B per epoch has weight ``B 2^-i / (1 - 2^-B)``. Parameters
    that the prior does not cover (a learned noise level) are point estimates. ``divergence="path"``
    takes the KL at the draw, ``log q(w) - log p(w)``, with gradients through the draw only (Roeder
    et al. 2017): its noise vanishes where the Gaussian is exact, and any prior will do.
    """

    descent: Descent
    family: Family
    scale: float
    draws: int = 1
    temperature: float = 1.0
    annealing: int = 0
    blundell: bool = False
    divergence: Divergence = "analytic"
    estimator: Estimator = "shared"
    layers: dict[str, LinearLayer] | None = None
    """Kernels whose noise differs from row to row, for other estimators than shared."""

    @property
    def replicas(self) -> Replicas:
        """As the wrapped dynamics has."""
        return self.descent.replicas

    def init(self, key, variables: Variables) -> VariationalState:
        """A narrow Gaussian around a network."""
        weights, points = split_params(self.descent.problem, variables.params)
        free = self.family.start(jax.random.fold_in(key, 2**31 - 4), weights, self.scale)
        optimiser = self.descent.optimiser().init((free, points))
        seed = jax.random.key_data(jax.random.fold_in(key, 2**31 - 2))
        return VariationalState(free, points, variables.state, optimiser, jnp.int32(0), seed)

    def step(self, key, state: VariationalState, batch: Batch) -> tuple[VariationalState, Info]:
        """One step of the optimiser on the bound."""
        (loss, (carried, info)), gradient = jax.value_and_grad(self.loss, has_aux=True)(
            (state.free, state.points), state.carried, batch, key, state.steps
        )
        optimiser = self.descent.optimiser()
        current = (state.free, state.points)
        updates, inner = optimiser.update(gradient, state.optimiser, current)
        free, points = cast(tuple, optax.apply_updates(current, updates))
        new = VariationalState(free, points, carried, inner, state.steps + 1, state.seed)
        return new, {"loss": loss, **info}

    def members(self, state: VariationalState) -> Variables:
        """The network at the Gaussian's mean, with an axis of length one."""
        params = join_params(self.descent.problem, state.free["mean"], state.points)
        return jax.tree.map(lambda leaf: leaf[None], Variables(params, state.carried))

    def loss(self, current, carried, batch: Batch, key, steps):
        """The negative bound over N; each of ``draws`` sub-batches has its own draw."""
        free, points = current
        gaussian = self.family.gaussian(free)
        keys = jax.random.split(key, self.draws)
        groups = jax.tree.map(lambda a: _groups(a, self.draws), batch)

        def one(key, group):
            noise, inner = jax.random.split(key)
            return self.expected(gaussian, points, carried, group, noise, inner)

        if self.draws == 1:
            sums, new, weights = one(keys[0], jax.tree.map(lambda a: a[0], groups))
        else:
            sums, new, weights = jax.vmap(one)(keys, groups)
            sums, new = jnp.sum(sums), jax.tree.map(lambda a: a.mean(0), new)
        nll = sums / jnp.sum(batch.weight)
        kl = self.kl(gaussian, weights)
        info = {"nll": nll, "kl": kl}
        if not self.temperature:
            return nll, (new, info)
        factor = self.temperature * self.weight(steps) / self.descent.num_data
        return nll + factor * kl, (new, info)

    def expected(self, gaussian: WeightGaussian, points, carried, batch: Batch, noise, key):
        """Sum of ``-log p`` over rows under one draw, the new state, and the draw."""
        problem = self.descent.problem
        if self.layers is not None:
            assert isinstance(gaussian, LowRankGaussian)
            assert self.estimator != "shared"
            join = lambda weights: join_params(problem, weights, points)  # noqa: E731
            outputs = noisy_outputs(
                problem, gaussian, join, carried, batch.x, noise, self.layers, self.estimator
            )
            log_prob = problem.likelihood.log_prob(outputs, batch.y)
            return -jnp.sum(batch.weight * log_prob), carried, gaussian.mean
        drawn = gaussian.draw(noise)
        params = join_params(problem, drawn, points)
        variables = Variables(params, carried)
        outputs, new = problem.outputs(variables, batch.x, key=key, train=True)
        return (
            -jnp.sum(batch.weight * problem.likelihood.log_prob(outputs, batch.y)),
            new,
            drawn,
        )

    def kl(self, gaussian: WeightGaussian, drawn: PyTree) -> Float[Array, ""]:
        """KL from the prior to the Gaussian, in nats, in closed form or at the draws."""
        if not self.temperature:
            return jnp.zeros(())
        prior, num_data = self.descent.problem.prior, self.descent.num_data
        if self.divergence == "analytic":
            assert isinstance(prior, GaussianPrior)
            return gaussian_kl(gaussian, prior.precision_for(num_data))
        fixed = jax.lax.stop_gradient(gaussian)

        def at(w):
            return fixed.log_prob(w) - prior.log_prob(w, num_data=num_data)

        return at(drawn) if self.draws == 1 else jnp.mean(jax.vmap(at)(drawn))

    def weight(self, steps: Array) -> Float[Array, ""]:
        """The KL's factor at a step, whose mean over an epoch is the annealing's."""
        risen = jnp.minimum(1.0, (steps + 1) / self.annealing) if self.annealing else 1.0
        if not self.blundell:
            return jnp.asarray(risen)
        batches = self.descent.training.steps_per_epoch(self.descent.num_data)
        number = steps % batches + 1
        return risen * batches * 2.0**-number / (1 - 2.0**-batches)


def gaussian_kl(gaussian: WeightGaussian, precision: float) -> Float[Array, ""]:
    """``KL(q || N(0, 1/τ)) = τ/2 E|w|² - P/2 log(τ/2π) - H(q)``, summed over all weights."""
    count = sum(leaf.size for leaf in jax.tree.leaves(gaussian.mean))
    constant = 0.5 * count * jnp.log(precision / (2 * jnp.pi))
    return 0.5 * precision * gaussian.second_moment() - constant - gaussian.entropy()


def split_params(problem: Problem, params: PyTree) -> tuple[PyTree, PyTree]:
    """The weights that the prior covers, and the rest."""
    return problem.weights(params), problem.likelihood.own(params)


def join_params(problem: Problem, weights: PyTree, points: PyTree) -> PyTree:
    """What `split_params` split."""
    return problem.likelihood.join(weights, points)


def with_points(problem: Problem, gaussian: WeightGaussian, points: PyTree) -> WeightGaussian:
    """The Gaussian of all parameters: those outside the prior have standard deviation 0."""
    if not jax.tree.leaves(points):
        return gaussian
    mean = join_params(problem, gaussian.mean, points)
    if isinstance(gaussian, LowRankGaussian):
        rank = jax.tree.leaves(gaussian.columns)[0].shape[0]
        std = join_params(problem, gaussian.std, jnp.zeros_like(points))
        none = jnp.zeros((rank, *points.shape), points.dtype)
        return LowRankGaussian(mean, std, join_params(problem, gaussian.columns, none))
    extra = points.size
    return FullGaussian(mean, jnp.pad(gaussian.factor, (0, extra)))


def _groups(a: Array, count: int) -> Array:
    if len(a) % count:
        raise InputError(
            f"draws is {count} and batch_size is {len(a)}; give draws that divide the batch"
        )
    return a.reshape(count, len(a) // count, *a.shape[1:])


@dataclass(frozen=True)
class VariationalRecord(Modes):
    """What the records of variational methods share; each has its own family."""

    title: ClassVar[str]

    samples: int = 100
    """Networks drawn from each mode's Gaussian and kept."""
    initial_scale: float = 0.01
    """Standard deviation of every weight at the start."""
    draws: int = 1
    """Draws of the weights per step, each for its own part of the batch."""
    temperature: float = 1.0
    """Factor of the KL: 1 is the evidence bound, 0 maximum likelihood under weight noise."""
    annealing: float = 0.0
    """Share of the training over which the KL's weight rises from 0 to 1."""
    minibatch_weights: Literal["uniform", "blundell"] = "uniform"
    """The KL's share of each batch in an epoch: equal, or halving from batch to batch."""
    divergence: Literal["auto", "analytic", "path"] = "auto"
    """The KL in closed form, or at the draw; auto is closed for a Gaussian prior."""

    def __post_init__(self):
        Modes.__post_init__(self)
        choices(self)
        for name in ("samples", "draws"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it is at least 1")
        if not self.temperature >= 0:
            raise InputError(f"temperature is {self.temperature}; a factor is not negative")
        check_annealing(self)
        if not (self.initial_scale > 0 or (self.initial_scale == 0 and self.temperature == 0)):
            raise InputError(
                f"initial_scale is {self.initial_scale}; give a positive number (0 only with "
                "temperature=0)"
            )

    @abc.abstractmethod
    def family(self) -> Family:
        """The family of Gaussians."""

    def weight_noise(self) -> Estimator:
        """How weights are drawn for the rows of a batch: one draw for all."""
        return "shared"

    def kernels(
        self, problem: Problem, data: Split, divergence: str
    ) -> dict[str, LinearLayer] | None:
        """Kernels whose noise differs from row to row: those of the mean field's estimators."""
        estimator = self.weight_noise()
        if estimator == "shared":
            return None
        if divergence == "path":
            raise InputError(
                f"estimator is {estimator!r}, which draws no weights, and divergence is 'path', "
                "which needs them; use divergence='analytic' with a Gaussian prior"
            )
        shapes = example_variables(problem, data)
        zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        layers = find_layers(problem, zeros, jax.ShapeDtypeStruct(data.x.shape, data.x.dtype))
        check_estimator(estimator, layers, has_statistics(zeros))
        return layers

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Variational:
        """Descent on the bound, one Gaussian per mode."""
        require_posterior(problem.likelihood, self.title)
        prior = problem.prior
        gaussian = isinstance(prior, GaussianPrior)
        flat = isinstance(prior, GaussianPrior) and not prior.precision_for(len(data))
        if flat and self.temperature:
            raise InputError(
                "the prior is flat (weight_decay=0), and the KL to it is infinite; give the "
                "problem a weight_decay or a prior"
            )
        divergence = self.divergence
        if divergence == "auto":
            divergence = "analytic" if gaussian else "path"
        if divergence == "analytic" and not gaussian:
            raise InputError(
                "divergence is 'analytic' and the prior is no Gaussian; use divergence='path'"
            )
        per_epoch = training.steps_per_epoch(len(data))
        return Variational(
            self.descent(problem, data, training),
            self.family(),
            self.initial_scale,
            self.draws,
            self.temperature,
            round(self.annealing * training.epochs * per_epoch),
            self.minibatch_weights == "blundell",
            divergence,
            self.weight_noise(),
            self.kernels(problem, data, divergence),
        )

    def result(
        self, problem: Problem, dynamics: Variational, kept: Kept, data: Split
    ) -> GaussianPosterior:
        """Each mode's Gaussian, and draws from it with batch statistics of their own."""
        states = jax.tree.map(jnp.asarray, kept.states)

        def one(free, points):
            return with_points(problem, dynamics.family.gaussian(free), points)

        gaussian = jax.vmap(one)(states.free, states.points)
        return gaussian_posterior(
            problem, gaussian, states.carried, kept.modes, kept.keys, self.samples, data
        )

    def load(self, path, problem: Problem) -> GaussianPosterior:
        """Read Gaussians and draws back."""
        return GaussianPosterior.load(path, problem)
