"""All histories of a policy: its total information exactly, where outcomes can be listed."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from credax.design.information import GridPosterior, prior_on_nodes
from credax.design.model import DesignModel, check_model
from credax.design.policies import DesignPolicy
from credax.errors import InputError
from credax.keys import as_key

TOGETHER = 2**21
"""Numbers of one level of histories that are computed at once; more are mapped one by one."""
MOST = 2**18
"""Histories that are followed at most."""
TRAINED = 2**10
"""Histories of the last round that training follows at most."""


def can_enumerate(model: DesignModel, rounds: int, most: int = MOST) -> bool:
    """Whether all histories before the last round are at most so many, and sums are exact."""
    return model.finite and model.nodes is not None and len(model.outcomes) ** (rounds - 1) <= most


def exact_policy_information(
    model: DesignModel, policy: DesignPolicy, rounds: int, *, key: Any = 0
) -> float:
    """Total expected information of a policy, by following every history of outcomes.

    ``Σ_h p(h) EIG(ξ_h | h)`` over all histories of fewer than ``rounds`` outcomes, with the exact
    posterior of each on the model's nodes, in double precision. ``key`` is for policies that draw:
    the value is that of these draws.

    >>> import credax as cx
    >>> model = cx.design.working_memory()
    >>> greedy = cx.design.greedy_policy(model)
    >>> round(exact_policy_information(model, greedy, 3), 6)
    0.545956
    """
    if rounds < 1:
        raise InputError(f"rounds is {rounds}; plan at least 1 experiment")
    if not can_enumerate(model, rounds):
        outcomes = len(model.outcomes) if model.finite else "continuous"
        raise InputError(
            f"{model.name} has {outcomes} outcomes and rounds is {rounds}; all histories need a "
            f"list of outcomes, nodes of the prior and at most {MOST} histories; use "
            "policy_information"
        )
    key = as_key(key)
    check_model(model, policy.choose(policy.start(), jnp.int32(0), key))
    with jax.enable_x64(True):
        prior = prior_on_nodes(model)
        wide = jax.tree.map(lambda v: v.astype(float) if eqx.is_inexact_array(v) else v, policy)
        return float(_compiled(model, wide, rounds, prior, key))


@eqx.filter_jit
def _compiled(model, policy, rounds: int, prior: GridPosterior, key):
    return all_histories(model, policy, rounds, prior, key)


def all_histories(
    model: DesignModel, policy: DesignPolicy, rounds: int, prior: GridPosterior, key: Any
) -> Float[Array, ""]:
    """The total information as a differentiable function of the policy."""
    state = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], policy.start())
    first = (state, prior.log_weights[None], jnp.zeros(1))
    return _from(model, policy, prior.nodes, first, 0, rounds, key)


def _from(model, policy, nodes, level, number: int, rounds: int, key) -> Float[Array, ""]:
    """Information of experiments ``number`` and later, over the histories of one level."""
    state, log_weights, log_chance = level
    if log_weights.size * len(model.outcomes) > TOGETHER and len(log_chance) > 1:
        single = lambda one: _from(  # noqa: E731
            model, policy, nodes, jax.tree.map(lambda leaf: leaf[None], one), number, rounds, key
        )
        return jax.lax.map(single, level).sum()
    use = jax.random.fold_in(key, number)
    xi = jax.vmap(lambda s: policy.choose(s, jnp.int32(number), use))(state)
    log_probs = jax.vmap(lambda x: jax.vmap(lambda t: model.log_probs(t, x))(nodes))(xi)
    joint = log_weights[..., None] + log_probs
    marginal = jax.scipy.special.logsumexp(joint, axis=1)
    known = jnp.sum(_times(jnp.exp(joint), log_probs), axis=(1, 2))
    gain = known - jnp.sum(_times(jnp.exp(marginal), marginal), axis=1)
    total = jnp.exp(log_chance) @ gain
    if number + 1 == rounds:
        return total
    posterior = jnp.swapaxes(joint - jnp.maximum(marginal, -1e30)[:, None], 1, 2)
    y = jnp.asarray(model.outcomes)
    states = jax.vmap(lambda s, x: jax.vmap(lambda y: policy.update(s, x, y))(y))(state, xi)
    after = (states, posterior, log_chance[:, None] + marginal)
    merged = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), after)
    return total + _from(model, policy, nodes, merged, number + 1, rounds, key)


def _times(weight: Array, value: Array) -> Array:
    """Their product, zero where the weight is."""
    return jnp.where(weight > 0, weight * jnp.where(weight > 0, value, 0.0), 0.0)
