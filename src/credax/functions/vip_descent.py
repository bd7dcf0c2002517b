"""Descent on the evidence or the energy of a variational implicit process."""

from typing import Literal, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from credax.errors import InputError
from credax.functions.combination import (
    Coefficients,
    Features,
    divergence,
    features_of,
    gaussian_energy,
    log_evidence,
    moments,
    sampled_energy,
)
from credax.functions.implicit import leaf_scale
from credax.network import Variables
from credax.problem import Batch, Problem
from credax.training import Training
from credax.training.dynamics import Dynamics, Info, Replicas
from credax.training.schedule import optimiser_for


class WeightPrior(NamedTuple):
    """Means and log standard deviations of the weights, in units of one over root inputs."""

    mean: PyTree
    log_std: PyTree


class Implicit(NamedTuple):
    """What is trained: the prior, the factors' Gaussian, the likelihood's own parameters."""

    prior: WeightPrior
    mean: Float[Array, " draws"]
    root: Float[Array, "draws draws"]
    """A lower triangle; the diagonal is a logarithm."""
    own: PyTree


class ImplicitState(NamedTuple):
    """What is trained, its optimiser, the fixed noise of the networks, that of the members."""

    trained: Implicit
    optimiser: PyTree
    fixed: PyTree
    noise: Float[Array, "members draws"]


def drawn_weights(prior: WeightPrior, fixed: PyTree) -> PyTree:
    """The networks' weights: ``(mean + std z) / √inputs`` with the fixed noise ``z``."""

    def one(mean, log_std, z):
        return (mean + jnp.exp(log_std) * z) * leaf_scale(z.shape[1:])

    return jax.tree.map(one, prior.mean, prior.log_std, fixed)


def function_values(
    problem: Problem, weights: PyTree, x: Float[Array, "points ..."]
) -> Float[Array, "draws points outputs"]:
    """Outputs of stacked networks that depend on the input, at points in standard units."""
    likelihood = problem.likelihood
    shape = jax.eval_shape(problem.init, jax.random.key(0), x[:1]).params
    own = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), likelihood.own(shape))

    def one(w):
        outputs, _ = problem.outputs(Variables(likelihood.join(w, own), {}), x)
        return likelihood.network_outputs(outputs)

    return jax.vmap(one)(weights)


class VIPDescent(Dynamics):
    """Descent on minus the log evidence (all rows), or the alpha energy, per row."""

    problem: Problem
    training: Training = eqx.field(static=True)
    num_data: int
    draws: int = eqx.field(static=True)
    alpha: float = eqx.field(static=True)
    normalisation: Literal["population", "sample"] = eqx.field(static=True)
    every_weight: bool = eqx.field(static=True)
    prior_kl: float
    samples: int = eqx.field(static=True)
    drawn: int = eqx.field(static=True)
    """Members of a prediction."""
    whole: Batch | None = None
    """All rows, where every step takes their exact evidence and no minibatch."""
    replicas: Replicas = Replicas()  # pyright: ignore[reportIncompatibleMethodOverride]

    scored = False

    def init(self, key, variables: Variables) -> ImplicitState:
        """A standard prior, its fixed noise, and factors as before any data."""
        if jax.tree.leaves(variables.state):
            raise InputError(
                "the network carries batch statistics, which no draw of weights has; use one "
                "without, such as MLP"
            )
        weights = self.problem.weights(variables.params)
        leaves, structure = jax.tree.flatten(weights)
        fixed_key, noise_key = jax.random.split(key)
        keys = jax.random.split(fixed_key, len(leaves))
        fixed = [
            jax.random.normal(k, (self.draws, *leaf.shape), leaf.dtype)
            for k, leaf in zip(keys, leaves, strict=True)
        ]
        zero = [jnp.zeros(w.shape if self.every_weight else (), w.dtype) for w in leaves]
        prior = WeightPrior(*(jax.tree.unflatten(structure, zero) for _ in range(2)))
        own = self.problem.likelihood.own(variables.params)
        start = jnp.zeros(self.draws), jnp.zeros((self.draws, self.draws))
        trained = Implicit(prior, *start, own)
        members = jax.vmap(lambda i: jax.random.fold_in(noise_key, i))(jnp.arange(self.drawn))
        normal = jax.vmap(lambda k: jax.random.normal(k, (self.draws,)))(members)
        inner = self._optimiser().init(trained)
        return ImplicitState(trained, inner, jax.tree.unflatten(structure, fixed), normal)

    def step(self, key, state: ImplicitState, batch: Batch) -> tuple[ImplicitState, Info]:
        """One step of the optimiser."""
        (loss, info), gradient = jax.value_and_grad(self.loss, has_aux=True)(
            state.trained, state.fixed, batch, key
        )
        updates, inner = self._optimiser().update(gradient, state.optimiser, state.trained)
        trained = cast(Implicit, optax.apply_updates(state.trained, updates))
        return state._replace(trained=trained, optimiser=inner), {"loss": loss, **info}

    def loss(self, trained: Implicit, fixed: PyTree, batch: Batch, key):
        """Minus the objective over ``N``, of a batch in standard units."""
        weights = drawn_weights(trained.prior, fixed)
        batch = batch if self.whole is None else self.whole
        values = function_values(self.problem, weights, batch.x)
        features = features_of(values, self.normalisation)
        penalty = self.prior_kl * standard_divergence(trained.prior) / self.num_data
        if self.whole is not None:
            noise = self._noise(trained, features)
            value = -log_evidence(features, batch.y, noise) / self.num_data
            return value + penalty, {"nll": value}
        q = self.coefficients(trained)
        each = self._energy(trained, features, q, batch, key)
        nll = -jnp.sum(batch.weight * each) / jnp.sum(batch.weight)
        kl = divergence(q)
        return nll + kl / self.num_data + penalty, {"nll": nll, "kl": kl}

    def coefficients(self, trained: Implicit) -> Coefficients:
        """The Gaussian of the factors."""
        diagonal = jnp.exp(jnp.diag(trained.root))
        return Coefficients(trained.mean, jnp.tril(trained.root, -1) + jnp.diag(diagonal))

    def members(self, state: ImplicitState) -> Variables:
        """What is trained, with an axis of length one."""
        return Variables(jax.tree.map(lambda leaf: leaf[None], state.trained._asdict()), {})

    def _noise(self, trained: Implicit, features: Features) -> Array:
        params = self.problem.likelihood.join({}, trained.own)
        noise = self.problem.likelihood.noise_variance(params, features.mean[0])
        # One level for all targets, in standard units.
        return jnp.mean(noise)

    def _energy(self, trained, features, q, batch, key) -> Float[Array, " points"]:
        likelihood = self.problem.likelihood
        if likelihood.has_one_noise:
            mean, variance = moments(features, q)
            noise = self._noise(trained, features)
            return gaussian_energy(mean, variance, batch.y, noise, self.alpha)
        params = likelihood.join({}, trained.own)

        def log_prob(values):
            return likelihood.log_prob(likelihood.all_outputs(params, values), batch.y)

        return sampled_energy(log_prob, features, q, key, self.samples, self.alpha)

    def _optimiser(self) -> optax.GradientTransformation:
        return optimiser_for(self.training, self.num_data)


def standard_divergence(prior: WeightPrior) -> Float[Array, ""]:
    """``KL(N(mean, std²) || N(0, 1))`` of the prior's weights in their own units."""

    def one(mean, log_std):
        return jnp.sum(0.5 * (jnp.exp(2 * log_std) + mean**2 - 1) - log_std)

    return sum(jax.tree.leaves(jax.tree.map(one, prior.mean, prior.log_std)), start=jnp.zeros(()))
