"""Policies that plan one experiment ahead: the baselines of deep adaptive design."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, PyTree

from credax.design.beliefs.particles import FEW, resample_and_move
from credax.design.contrastive import draw_prior
from credax.design.information import listed_information, prior_on_nodes
from credax.design.model import DesignModel, check_designs
from credax.design.policies import DesignPolicy
from credax.errors import InputError
from credax.keys import as_key


class GreedyPolicy(DesignPolicy):
    """The listed design with the most information now, from the exact posterior on nodes."""

    model: DesignModel = eqx.field(static=True)
    designs: Float[np.ndarray, "designs ..."]

    def start(self):
        """The prior's weights."""
        return prior_on_nodes(self.model).log_weights

    def choose(self, state, number, key):
        """The best of the list."""
        nodes, weights = prior_on_nodes(self.model).nodes, jnp.exp(state)

        def information(xi):
            log_probs = jax.vmap(lambda theta: self.model.log_probs(theta, xi))(nodes)
            return listed_information(log_probs, weights)

        designs = jnp.asarray(self.designs)
        return designs[jnp.argmax(jax.lax.map(information, designs))]

    def update(self, state, design, outcome):
        """Bayes' rule."""
        nodes = prior_on_nodes(self.model).nodes
        of = lambda theta: self.model.outcome_log_prob(outcome, theta, design)  # noqa: E731
        changed = state + jax.vmap(of)(nodes)
        return changed - logsumexp(changed)

    def trained(self):
        """Nothing."""
        return jax.tree.map(lambda _: False, self)


def greedy_policy(model: DesignModel, designs: Any = None) -> GreedyPolicy:
    """The exact greedy policy; outcomes must be listed and the prior must have nodes."""
    if not model.finite or model.nodes is None:
        raise InputError(
            f"{model.name} has no {'nodes of its prior' if model.finite else 'list of outcomes'}, "
            "which the exact greedy policy needs; use myopic_policy"
        )
    return GreedyPolicy(model, _listed(model, designs))


class MyopicState(eqx.Module):
    """Draws from the posterior with their weights, and the history that they saw."""

    theta: PyTree
    log_weights: Float[Array, " particles"]
    designs: Array
    outcomes: Array
    count: Array


class MyopicPolicy(DesignPolicy):
    """The listed design with the most information now, from particles of the posterior.

    The posterior is refitted after every outcome: draws from the prior are weighted, resampled and
    moved. Information of listed outcomes is a sum, that of others prior contrastive estimation with
    the particles as prior.
    """

    model: DesignModel = eqx.field(static=True)
    designs: Float[np.ndarray, "designs ..."]
    theta: PyTree
    """Draws from the prior."""
    key: Any
    rounds: int = eqx.field(static=True)
    outer: int = eqx.field(static=True)
    inner: int = eqx.field(static=True)
    moves: int = eqx.field(static=True)

    def start(self):
        """The prior's draws, and an empty history."""
        particles = len(jax.tree.leaves(self.theta)[0])
        one = jax.tree.map(lambda leaf: leaf[0], self.theta)
        xi = jnp.asarray(self.designs[0])
        y = jax.eval_shape(lambda t: self.model.outcome_sample(self.key, t, xi), one)
        return MyopicState(
            self.theta,
            jnp.full(particles, -jnp.log(particles)),
            jnp.broadcast_to(xi, (self.rounds, *xi.shape)),
            jnp.zeros((self.rounds, *y.shape), y.dtype),
            jnp.int32(0),
        )

    def choose(self, state, number, key):
        """The best of the list; draws depend on the number of the experiment alone."""
        use = jax.random.fold_in(self.key, number)
        find = self._summed if self.model.finite else self._contrasted
        designs = jnp.asarray(self.designs)
        return designs[jnp.argmax(jax.lax.map(lambda xi: find(state, xi, use), designs))]

    def _summed(self, state: MyopicState, xi, key):
        log_probs = jax.vmap(lambda theta: self.model.log_probs(theta, xi))(state.theta)
        return listed_information(log_probs, jnp.exp(state.log_weights))

    def _contrasted(self, state: MyopicState, xi, key):
        first, second, third = jax.random.split(key, 3)
        theta = _drawn(first, state, self.outer)
        others = _drawn(second, state, self.inner)
        keys = jax.random.split(third, self.outer)
        y = jax.vmap(lambda k, t: self.model.outcome_sample(k, t, xi))(keys, theta)
        log_prob = lambda y, t: self.model.outcome_log_prob(y, t, xi)  # noqa: E731
        own = jax.vmap(log_prob)(y, theta)
        each = jax.vmap(lambda y: logsumexp(jax.vmap(lambda t: log_prob(y, t))(others)))(y)
        return (own - jnp.logaddexp(own, each)).mean()

    def update(self, state, design, outcome):
        """Weights of one more outcome; resampled and moved where few draws count."""
        designs = state.designs.at[state.count].set(design)
        outcomes = state.outcomes.at[state.count].set(outcome)
        count = state.count + 1
        of = lambda t: self.model.outcome_log_prob(outcome, t, design)  # noqa: E731
        log_weights = state.log_weights + jax.vmap(of)(state.theta)
        log_weights = log_weights - logsumexp(log_weights)

        def target(theta):
            of = lambda xi, y: self.model.outcome_log_prob(y, theta, xi)  # noqa: E731
            each = jax.vmap(of)(designs, outcomes)
            seen = jnp.where(jnp.arange(self.rounds) < count, each, 0.0).sum()
            return self.model.prior_log_prob(theta) + seen

        # Another stream of the key than the choices have.
        use = jax.random.fold_in(jax.random.fold_in(self.key, 2**20), count)
        moved = resample_and_move(target, state.theta, log_weights, use, self.moves)
        particles = len(log_weights)
        few = jnp.exp(-logsumexp(2 * log_weights)) < FEW * particles
        theta = jax.tree.map(lambda a, b: jnp.where(few, a, b), moved, state.theta)
        log_weights = jnp.where(few, -jnp.log(particles), log_weights)
        return MyopicState(theta, log_weights, designs, outcomes, count)

    def trained(self):
        """Nothing."""
        return jax.tree.map(lambda _: False, self)


def myopic_policy(
    model: DesignModel,
    rounds: int,
    *,
    designs: Any = None,
    particles: int = 500,
    outer: int = 32,
    inner: int = 200,
    moves: int = 3,
    key: Any = 0,
) -> MyopicPolicy:
    """The policy that refits its posterior and looks one experiment ahead.

    Args:
        model: prior and outcomes.
        rounds: experiments of a history at most.
        designs: to choose from; by default the model's list.
        particles: draws that stand for the posterior.
        outer: draws of outcomes per design, where they are not listed.
        inner: contrastive draws per design, where outcomes are not listed.
        moves: Metropolis steps after a resampling.
        key: a seed or a typed key.
    """
    for name, value in (("rounds", rounds), ("particles", particles), ("moves", moves)):
        if value < 1:
            raise InputError(f"{name} is {value}; use at least 1")
    first, second = jax.random.split(as_key(key))
    theta = draw_prior(model, first, particles)
    return MyopicPolicy(model, _listed(model, designs), theta, second, rounds, outer, inner, moves)


class ListedPolicy(DesignPolicy):
    """Another policy whose designs are taken to the nearest one of a list."""

    policy: DesignPolicy
    designs: Float[np.ndarray, "designs ..."]

    def start(self):
        """That of the policy."""
        return self.policy.start()

    def choose(self, state, number, key):
        """The nearest listed design, in units of the list's spread."""
        designs = jnp.asarray(self.designs)
        flat = designs.reshape(len(designs), -1)
        wanted = jnp.ravel(self.policy.choose(state, number, key))
        distance = jnp.square((flat - wanted) / (flat.std(axis=0) + 1e-9)).sum(axis=1)
        return designs[jnp.argmin(distance)]

    def update(self, state, design, outcome):
        """That of the policy."""
        return self.policy.update(state, design, outcome)

    def trained(self):
        """Nothing: the nearest of a list has no gradient."""
        return jax.tree.map(lambda _: False, self)


def listed_policy(model: DesignModel, policy: DesignPolicy, designs: Any = None) -> ListedPolicy:
    """A trained policy for experiments whose designs are a list, such as whole numbers."""
    return ListedPolicy(policy, _listed(model, designs))


def _drawn(key, state: MyopicState, count: int) -> PyTree:
    places = jax.random.categorical(key, state.log_weights, shape=(count,))
    return jax.tree.map(lambda leaf: leaf[places], state.theta)


def _listed(model: DesignModel, designs: Any) -> np.ndarray:
    if designs is None and model.designs is None:
        raise InputError(f"{model.name} has no list of designs; give designs=")
    return np.asarray(check_designs(model, model.designs if designs is None else designs), float)
