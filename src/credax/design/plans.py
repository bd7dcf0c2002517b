"""Total information of plans of several experiments, exactly, where everything can be listed."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlogy
from jaxtyping import Array, Float

from credax.design.information import prior_on_nodes
from credax.design.model import DesignModel, check_designs, check_model
from credax.errors import InputError

MOST = 2**16
"""Histories that are followed at most."""


class Tables(NamedTuple):
    """Outcome probabilities at nodes, and the entropies of outcomes there, for every design."""

    probs: Float[Array, "designs nodes outcomes"]
    entropies: Float[Array, "designs nodes"]
    weights: Float[Array, " nodes"]


class Level(NamedTuple):
    """Histories of outcomes with their probabilities, and the posterior of each on the nodes."""

    chance: Float[Array, " histories"]
    weights: Float[Array, "histories nodes"]

    def gains(self, tables: Tables) -> Float[Array, "histories designs"]:
        """Expected information of one more experiment, for every history and design."""
        marginal = jnp.einsum("hk,dko->hdo", self.weights, tables.probs)
        conditional = jnp.einsum("hk,dk->hd", self.weights, tables.entropies)
        return -xlogy(marginal, marginal).sum(-1) - conditional

    def after(self, tables: Tables, designs: Array) -> "Level":
        """All histories with one more outcome, each of its own design."""
        probs = tables.probs[designs]
        joint = self.weights[:, :, None] * probs
        chance = joint.sum(axis=1)
        posterior = jnp.swapaxes(joint, 1, 2) / jnp.maximum(chance, 1e-300)[..., None]
        return Level((self.chance[:, None] * chance).ravel(), posterior.reshape(-1, joint.shape[1]))


def greedy_plan(model: DesignModel, rounds: int, designs: Any = None) -> float:
    """Expected total information if every experiment is the best next one, given all outcomes."""
    with jax.enable_x64(True):
        tables = _tables(model, designs, rounds)
        level, total = _first(tables), 0.0
        for number in range(rounds):
            gains = level.gains(tables)
            best = jnp.argmax(gains, axis=1)
            total += float(level.chance @ gains[jnp.arange(len(best)), best])
            if number + 1 < rounds:
                level = level.after(tables, best)
    return total


def static_plan(model: DesignModel, plan: Any) -> float:
    """Total information of experiments that are all fixed before the first outcome.

    >>> import credax as cx
    >>> round(static_plan(cx.design.working_memory(), [7.0, 7.0]), 6)
    0.382392
    """
    plan = check_designs(model, plan)
    with jax.enable_x64(True):
        tables = _tables(model, plan, len(plan))
        level, total = _first(tables), 0.0
        for number in range(len(plan)):
            total += float(level.chance @ level.gains(tables)[:, number])
            level = level.after(tables, jnp.full(len(level.chance), number))
    return total


def best_static_plan(
    model: DesignModel, rounds: int, designs: Any = None
) -> tuple[np.ndarray, float]:
    """The best fixed plan by greedy choice, and its information.

    Information is submodular, so that it has at least ``1 - 1/e`` of the best plan's.
    """
    array = check_designs(model, model.designs if designs is None else designs)
    with jax.enable_x64(True):
        tables = _tables(model, array, rounds)
        level, total, plan = _first(tables), 0.0, []
        for _ in range(rounds):
            gains = level.chance @ level.gains(tables)
            plan.append(int(jnp.argmax(gains)))
            total += float(gains[plan[-1]])
            level = level.after(tables, jnp.full(len(level.chance), plan[-1]))
    return array[plan], total


def optimal_plan(model: DesignModel, rounds: int, designs: Any = None) -> float:
    """Expected total information of the best adaptive policy, by dynamic programming."""
    with jax.enable_x64(True):
        tables = _tables(model, designs, 1)
        count, _, outcomes = tables.probs.shape
        if (count * outcomes) ** (rounds - 1) > MOST:
            raise InputError(
                f"rounds is {rounds}: {count} designs with {outcomes} outcomes have more than "
                f"{MOST} histories; use fewer rounds or designs, or greedy_plan"
            )
        return float(_value(tables, _first(tables), rounds)[0])


def _value(tables: Tables, level: Level, rounds: int) -> Array:
    """The most that each history can still gain."""
    gains = level.gains(tables)
    if rounds == 1:
        return gains.max(axis=1)
    count, outcomes = tables.probs.shape[0], tables.probs.shape[2]
    options = []
    for number in range(count):
        after = level.after(tables, jnp.full(len(level.chance), number))
        chance = (after.chance / jnp.repeat(jnp.maximum(level.chance, 1e-300), outcomes)).reshape(
            -1, outcomes
        )
        rest = _value(tables, after, rounds - 1).reshape(-1, outcomes)
        options.append(gains[:, number] + (chance * rest).sum(axis=1))
    return jnp.stack(options).max(axis=0)


def _first(tables: Tables) -> Level:
    return Level(jnp.ones(1), tables.weights[None])


def _tables(model: DesignModel, designs: Any, rounds: int) -> Tables:
    array = check_designs(model, model.designs if designs is None else designs)
    check_model(model, array[0])
    if not model.finite or rounds < 1 or len(model.outcomes) ** (rounds - 1) > MOST:
        raise InputError(
            f"{model.name} has {len(model.outcomes) if model.finite else 'continuous'} outcomes "
            f"and rounds is {rounds}; exact plans need a list of outcomes and at most {MOST} "
            "histories"
        )
    prior = prior_on_nodes(model)

    def one(xi):
        return jnp.exp(jax.vmap(lambda theta: model.log_probs(theta, xi))(prior.nodes))

    probs = jax.lax.map(one, jnp.asarray(array))
    return Tables(probs, -xlogy(probs, probs).sum(-1), jnp.exp(prior.log_weights))
