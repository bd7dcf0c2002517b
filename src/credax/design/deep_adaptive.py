"""Deep adaptive design: policies trained by the information of a whole sequence of experiments."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from credax.design.contrastive import contrast, draw_prior
from credax.design.information import Information, warn_of_ceiling
from credax.design.model import DesignModel, check_model
from credax.design.policies import DesignPolicy
from credax.errors import InputError
from credax.keys import as_key


@dataclass(frozen=True)
class PolicyTraining:
    """Adam on the sequential contrastive bound, with a rate that decays step by step.

    The default rate is for networks; the designs of a `StaticPolicy` are few numbers of order one
    and want about 0.05.
    """

    steps: int = 2000
    batch: int = 256
    """Rollouts per step."""
    inner: int = 256
    """Contrastive parameters per step, which all rollouts share."""
    learning_rate: float = 1e-3
    final_rate: float = 1e-5

    def __post_init__(self):
        for name in ("steps", "batch", "inner"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; use at least 1")


class Rollout(NamedTuple):
    """One history, ``log p(h | θ_0)``, and ``log p(h | θ_l)`` of contrastive parameters."""

    designs: Array
    outcomes: Array
    own: Float[Array, ""]
    others: Float[Array, " inner"]


def roll_out(
    model: DesignModel, policy: DesignPolicy, theta: Any, others: Any, key: Any, rounds: int
) -> Rollout:
    """Let the policy choose ``rounds`` designs for one true ``θ``.

    Designs and outcomes are shared by all contrastive parameters. Gradients pass through outcomes
    that are continuous; listed ones are constants.
    """

    def experiment(carry, number):
        state, own, each = carry
        first, second = jax.random.split(jax.random.fold_in(key, number))
        xi = policy.choose(state, number, first)
        y = model.outcome_sample(second, theta, xi)
        y = jax.lax.stop_gradient(y) if model.finite else y
        own = own + model.outcome_log_prob(y, theta, xi)
        each = each + jax.vmap(lambda t: model.outcome_log_prob(y, t, xi))(others)
        return (policy.update(state, xi, y), own, each), (xi, y)

    count = len(jax.tree.leaves(others)[0])
    begin = (policy.start(), jnp.zeros(()), jnp.zeros(count))
    (_, own, each), (designs, outcomes) = jax.lax.scan(experiment, begin, jnp.arange(rounds))
    return Rollout(designs, outcomes, own, each)


def train_policy(
    model: DesignModel,
    policy: DesignPolicy,
    rounds: int,
    training: PolicyTraining | None = None,
    *,
    key: Any = 0,
) -> tuple[DesignPolicy, Float[np.ndarray, " steps"]]:
    """Maximise the sequential prior contrastive bound of all rounds together; its values too.

    ``E[log p(h|θ_0) - log 1/(L+1) Σ_{l=0..L} p(h|θ_l)]``, at most ``log(L + 1)``. Outcomes that are
    listed use the score function with the mean as baseline, continuous ones are reparametrised.
    """
    if rounds < 1:
        raise InputError(f"rounds is {rounds}; plan at least 1 experiment")
    training, key = training or PolicyTraining(), as_key(key)
    first = policy.choose(policy.start(), jnp.int32(0), key)
    check_model(model, first)
    trained, values = _train(model, policy, rounds, training, key)
    if not np.isfinite(np.asarray(values)).all():
        raise InputError(
            f"the bound of {model.name} is not finite after step "
            f"{int(np.argmin(np.isfinite(values)))}; lower learning_rate"
        )
    return trained, np.asarray(values)


@eqx.filter_jit
def _train(model, policy, rounds: int, training: PolicyTraining, key):
    ratio = training.final_rate / training.learning_rate
    rate = optax.exponential_decay(training.learning_rate, training.steps, ratio)
    optimiser = optax.adam(rate)
    params, static = eqx.partition(policy, policy.trained())

    def objective(params, key):
        policy = eqx.combine(params, static)
        bound, found = _sequential(model, policy, rounds, key, training.batch, training.inner)
        if not model.finite:
            return bound, bound
        gain = jax.lax.stop_gradient(found[0] - bound)
        return bound + (gain * found[1]).mean(), bound

    def step(carry, key):
        params, state = carry
        (_, bound), gradient = jax.value_and_grad(objective, has_aux=True)(params, key)
        updates, state = optimiser.update(jax.tree.map(jnp.negative, gradient), state)
        return (eqx.apply_updates(params, updates), state), bound

    keys = jax.random.split(key, training.steps)
    (params, _), values = jax.lax.scan(step, (params, optimiser.init(params)), keys)
    return eqx.combine(params, static), values


def _sequential(model, policy, rounds, key, batch: int, inner: int):
    """The bound's mean, and of every rollout its term and ``log p(h|θ_0)``."""
    first, second, third = jax.random.split(key, 3)
    theta, others = draw_prior(model, first, batch), draw_prior(model, second, inner)
    keys = jax.random.split(third, batch)
    found = jax.vmap(lambda t, k: roll_out(model, policy, t, others, k, rounds))(theta, keys)
    each = logsumexp(found.others, axis=1)
    terms = found.own - jnp.logaddexp(found.own, each) + jnp.log(inner + 1)
    return terms.mean(), (terms, found.own)


def policy_information(
    model: DesignModel,
    policy: DesignPolicy,
    rounds: int,
    *,
    outer: int = 2048,
    inner: int = 10_000,
    key: Any = 0,
    block: int = 64,
    chunk: int = 2000,
) -> Information:
    """Total expected information of a policy between the sequential bounds, one number each.

    Contrastive parameters are drawn anew for every block of rollouts and summed in chunks: memory
    is ``block * chunk`` numbers, whatever ``inner`` is.
    """
    if outer < 2 * block:
        block = max(1, outer // 2)
    blocks, chunks = -(-outer // block), -(-inner // chunk)
    chunk = -(-inner // chunks)
    inner = chunk * chunks
    lower, upper = _evaluate(model, policy, rounds, as_key(key), blocks, block, chunks, chunk)
    lower, upper = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    errors = [v.std(ddof=1) / math.sqrt(blocks) for v in (lower, upper)]
    ceiling, low = math.log(inner + 1), np.array([lower.mean()])
    warn_of_ceiling(low, ceiling)
    return Information(low, None, np.array([upper.mean()]), np.array([max(errors)]), ceiling)


@eqx.filter_jit
def _evaluate(model, policy, rounds: int, key, blocks: int, size: int, chunks: int, chunk: int):
    def one(key):
        first, second, third = jax.random.split(key, 3)
        theta = draw_prior(model, first, size)
        none = draw_prior(model, second, 1)
        run = jax.vmap(lambda t, k: roll_out(model, policy, t, none, k, rounds))
        found = run(theta, jax.random.split(third, size))

        def add(total, key):
            others = draw_prior(model, key, chunk)
            each = jax.vmap(partial(_history_sum, model, others))(found.designs, found.outcomes)
            return jnp.logaddexp(total, each), None

        keys = jax.random.split(second, chunks)
        sums, _ = jax.lax.scan(add, jnp.full(size, -jnp.inf), keys)
        return contrast(found.own, sums, chunks * chunk)

    return jax.lax.map(one, jax.random.split(key, blocks))


def _history_sum(model, others, designs, outcomes):
    """``log Σ_l p(h|θ_l)`` of one history."""

    def of(theta):
        return jax.vmap(lambda xi, y: model.outcome_log_prob(y, theta, xi))(designs, outcomes).sum()

    return logsumexp(jax.vmap(of)(others))
