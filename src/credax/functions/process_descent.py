"""Descent on the objectives of neural processes."""

from typing import Literal, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree

from credax.functions.episodes import Episode, draw_episode
from credax.functions.process_network import Latent, ProcessNetwork
from credax.network import Variables
from credax.problem import Batch, Problem
from credax.training import Training
from credax.training.dynamics import Dynamics, Info, Replicas
from credax.training.schedule import optimiser_for

Objective = Literal["elbo", "npml"]


class Trained(NamedTuple):
    """Parameters of the networks, and of the likelihood itself."""

    network: PyTree
    own: PyTree


class ProcessState(NamedTuple):
    """What is trained, its optimiser, and the noise of the members."""

    trained: Trained
    optimiser: PyTree
    noise: Float[Array, "members latent"]


class Form(NamedTuple):
    """Sizes of a problem as its networks see them."""

    of_tasks: bool
    """Whether a row of the data is a task."""
    columns: int
    values: int
    outputs: int
    smallest: int
    largest: int
    """Sizes of contexts in training."""


def latent_kl(first: Latent, second: Latent) -> Float[Array, " tasks"]:
    """``KL(first || second)`` of diagonal Gaussians."""
    ratio = jnp.square(first.std / second.std)
    away = jnp.square((first.mean - second.mean) / second.std)
    return 0.5 * jnp.sum(ratio + away - 1 - jnp.log(ratio), axis=-1)


class ProcessDescent(Dynamics):
    """Descent on minus the objective of episodes per target point, averaged over tasks.

    Without a latent variable: ``log p(y_T | x_T, C)``. ``elbo``: ``E_{q(z|C,T)} log p(y_T | z, C) -
    KL(q(z|C,T) || q(z|C))``. ``npml``: ``log mean_z p(y_T | z, C)`` with ``z ~ q(z|C)``.
    """

    problem: Problem
    training: Training = eqx.field(static=True)
    num_data: int
    network: ProcessNetwork = eqx.field(static=True)
    form: Form = eqx.field(static=True)
    floor: float = eqx.field(static=True)
    objective: Objective = eqx.field(static=True)
    samples: int = eqx.field(static=True)
    drawn: int = eqx.field(static=True)
    """Members of a prediction."""
    replicas: Replicas = Replicas()  # pyright: ignore[reportIncompatibleMethodOverride]

    scored = False

    def init(self, key, variables: Variables) -> ProcessState:
        """New networks, and the noise of the members."""
        network_key, noise_key = jax.random.split(key)
        form = self.form
        params = self.network.init(network_key, form.columns, form.values, form.outputs)
        trained = Trained(params, self.problem.likelihood.own(variables.params))
        members = jax.vmap(lambda i: jax.random.fold_in(noise_key, i))(jnp.arange(self.drawn))
        size = self.network.latent_size
        noise = jax.vmap(lambda k: jax.random.normal(k, (size,)))(members)
        return ProcessState(trained, self._optimiser().init(trained), noise)

    def step(self, key, state: ProcessState, batch: Batch) -> tuple[ProcessState, Info]:
        """One step of the optimiser on a new episode."""
        episode_key, latent_key = jax.random.split(key)
        form = self.form
        episode = draw_episode(
            episode_key,
            self.problem,
            batch,
            of_tasks=form.of_tasks,
            values=form.values,
            sizes=(form.smallest, form.largest),
        )
        (loss, info), gradient = jax.value_and_grad(self.loss, has_aux=True)(
            state.trained, episode, latent_key
        )
        updates, inner = self._optimiser().update(gradient, state.optimiser, state.trained)
        trained = cast(Trained, optax.apply_updates(state.trained, updates))
        return ProcessState(trained, inner, state.noise), {"loss": loss, **info}

    def loss(self, trained: Trained, episode: Episode, key) -> tuple[Array, Info]:
        """Minus the mean objective per target point; ``nll`` without the divergence."""
        count = jnp.maximum(jnp.sum(episode.targets, axis=-1), 1)
        bound, kl = self.objectives(trained, episode, key)
        some = episode.weight * jnp.any(episode.targets, axis=-1)
        mean = lambda each: jnp.sum(some * each / count) / jnp.maximum(jnp.sum(some), 1)  # noqa: E731
        loss, divergence = -mean(bound), mean(kl)
        info = {"nll": loss - divergence}
        return loss, info | ({"kl": divergence} if self.network.latent_size else {})

    def objectives(
        self, trained: Trained, episode: Episode, key
    ) -> tuple[Float[Array, " tasks"], Float[Array, " tasks"]]:
        """The objective of every task, and the divergence within it."""
        network, params = self.network, trained.network
        context = network.condition(params, episode.given)
        if not network.latent_size:
            return self.log_likelihood(trained, context, None, episode), jnp.zeros(len(episode.x))
        prior = network.latent(params, episode.given)
        q = network.latent(params, episode.whole) if self.objective == "elbo" else prior
        noise = jax.random.normal(key, (self.samples, *q.mean.shape), q.mean.dtype)
        each = jax.vmap(
            lambda e: self.log_likelihood(trained, context, q.mean + q.std * e, episode)
        )(noise)
        if self.objective == "npml":
            bound = jax.nn.logsumexp(each, axis=0) - np.log(self.samples)
            return bound, jnp.zeros_like(bound)
        kl = latent_kl(q, prior)
        return jnp.mean(each, axis=0) - kl, kl

    def log_likelihood(
        self, trained: Trained, context: PyTree, z: Array | None, episode: Episode
    ) -> Float[Array, " tasks"]:
        """``Σ_T log p(y | x, z, C)`` of every task."""
        tasks, points = episode.x.shape[:2]
        z = jnp.zeros((tasks, 0)) if z is None else z
        outputs = self.network.outputs(trained.network, context, z, episode.x)
        outputs = process_outputs(self.problem, outputs, trained.own, self.floor)
        flat = outputs.reshape(tasks * points, -1)
        y = episode.y.reshape(tasks * points, *episode.y.shape[2:])
        each = self.problem.likelihood.log_prob(flat, y).reshape(tasks, points)
        return jnp.sum(jnp.where(episode.targets, each, 0), axis=-1)

    def members(self, state: ProcessState) -> Variables:
        """The networks, with an axis of length one."""
        return Variables(jax.tree.map(lambda leaf: leaf[None], state.trained), {})

    def _optimiser(self) -> optax.GradientTransformation:
        return optimiser_for(self.training, self.num_data)


def process_outputs(
    problem: Problem, outputs: Float[Array, "*batch some"], own: PyTree, floor: float
) -> Float[Array, "*batch all"]:
    """What the likelihood takes, from the decoder's outputs: no deviation below the floor."""
    likelihood = problem.likelihood
    params = likelihood.join({}, own)
    return likelihood.all_outputs(params, likelihood.with_floor(outputs, floor))
