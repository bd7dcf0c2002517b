"""Deep adaptive design: policies trained by the information of a whole sequence of experiments."""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Key, PyTree

from credax.design.contrastive import contrast, draw_prior, log_sum_of_draws
from credax.design.histories import TRAINED, all_histories, can_enumerate
from credax.design.information import Information, prior_on_nodes, warn_of_ceiling
from credax.design.model import DesignModel, check_model
from credax.design.policies import DesignPolicy
from credax.errors import InputError
from credax.keys import as_key

Outcomes = Literal["auto", "reparametrised", "enumerated", "score"]


@dataclass(frozen=True)
class PolicyTraining:
    """Adam on the information of all rounds, with a rate that decays step by step.

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
    outcomes: Outcomes = "auto"
    """How gradients treat outcomes: through those that are continuous ("reparametrised"), by the
    score function ("score"), or over all histories of listed ones ("enumerated", which needs
    neither rollouts nor contrastive parameters); "auto" enumerates up to 1024 histories."""

    def __post_init__(self):
        for name in ("steps", "batch", "inner"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; use at least 1")
        if self.outcomes not in get_args(Outcomes):
            raise InputError(
                f"outcomes is {self.outcomes!r}; give {', '.join(map(repr, get_args(Outcomes)))}"
            )

    def way(self, model: DesignModel, rounds: int) -> str:
        """How outcomes of this model are treated."""
        countable = can_enumerate(model, rounds, TRAINED)
        if self.outcomes == "auto":
            listed = "enumerated" if countable else "score"
            return listed if model.finite else "reparametrised"
        if self.outcomes == "enumerated" and not countable:
            raise InputError(
                f"outcomes is 'enumerated', and {model.name} has more than {TRAINED} histories of "
                f"{rounds} rounds, or no list of outcomes and nodes; use 'auto'"
            )
        if self.outcomes == "reparametrised" and model.finite:
            raise InputError(
                f"outcomes is 'reparametrised' and those of {model.name} are listed; use 'auto'"
            )
        return self.outcomes


class Rollout(NamedTuple):
    """One history, and ``log p(h | θ_0)`` of the parameter that it comes from."""

    designs: Array
    outcomes: Array
    own: Float[Array, ""]


def roll_out(
    model: DesignModel,
    policy: DesignPolicy,
    theta: PyTree,
    key: Key[Array, ""],
    rounds: int,
    constant_outcomes: bool = False,
) -> Rollout:
    """Let the policy choose ``rounds`` designs for one true ``θ``."""

    def experiment(carry, number):
        state, own = carry
        first, second = jax.random.split(jax.random.fold_in(key, number))
        xi = policy.choose(state, number, first)
        y = model.outcome_sample(second, theta, xi)
        y = jax.lax.stop_gradient(y) if constant_outcomes else y
        own = own + model.outcome_log_prob(y, theta, xi)
        return (policy.update(state, xi, y), own), (xi, y)

    begin = (policy.start(), jnp.zeros(()))
    (_, own), (designs, outcomes) = jax.lax.scan(experiment, begin, jnp.arange(rounds))
    return Rollout(designs, outcomes, own)


def train_policy(
    model: DesignModel,
    policy: DesignPolicy,
    rounds: int,
    training: PolicyTraining | None = None,
    *,
    key: Any = 0,
) -> tuple[DesignPolicy, Float[np.ndarray, " steps"]]:
    """Maximise the information of all rounds together; the objective's values too.

    The sequential prior contrastive bound
    ``E[log p(h|θ_0) - log 1/(L+1) Σ_{l=0..L} p(h|θ_l)]``, at most ``log(L + 1)``; where all
    histories are enumerated, the information itself. Reference: Foster, Ivanova, Malik, Rainforth,
    Deep adaptive design, ICML 2021.
    """
    if rounds < 1:
        raise InputError(f"rounds is {rounds}; plan at least 1 experiment")
    training, key = training or PolicyTraining(), as_key(key)
    way = training.way(model, rounds)
    check_model(model, policy.choose(policy.start(), jnp.int32(0), key))
    trained, values = _train(model, policy, rounds, training, way, key)
    if not np.isfinite(np.asarray(values)).all():
        raise InputError(
            f"the objective of {model.name} is not finite after step "
            f"{int(np.argmin(np.isfinite(values)))}; lower learning_rate"
        )
    return trained, np.asarray(values)


@eqx.filter_jit
def _train(model, policy, rounds: int, training: PolicyTraining, way: str, key):
    ratio = training.final_rate / training.learning_rate
    rate = optax.exponential_decay(training.learning_rate, training.steps, ratio)
    optimiser = optax.adam(rate)
    params, static = eqx.partition(policy, policy.trained())

    def objective(params, key):
        policy = eqx.combine(params, static)
        if way == "enumerated":
            value = all_histories(model, policy, rounds, prior_on_nodes(model), key)
            return value, value
        return _sequential(model, policy, rounds, key, training, way == "score")

    def step(carry, key):
        params, state = carry
        (_, bound), gradient = jax.value_and_grad(objective, has_aux=True)(params, key)
        updates, state = optimiser.update(jax.tree.map(jnp.negative, gradient), state)
        return (eqx.apply_updates(params, updates), state), bound

    keys = jax.random.split(key, training.steps)
    (params, _), values = jax.lax.scan(step, (params, optimiser.init(params)), keys)
    return eqx.combine(params, static), values


def _sequential(model, policy, rounds: int, key, training: PolicyTraining, score: bool):
    """A number whose gradient is that of the sequential bound, and the bound."""
    first, second, third = jax.random.split(key, 3)
    theta = draw_prior(model, first, training.batch)
    others = draw_prior(model, second, training.inner)
    run = jax.vmap(lambda t, k: roll_out(model, policy, t, k, rounds, score))
    found = run(theta, jax.random.split(third, training.batch))

    def over_others(designs, outcomes):
        def at(xi, y):
            return jax.vmap(lambda t: model.outcome_log_prob(y, t, xi))(others)

        # Parameters on the last axis, which is long: rounds are few.
        return logsumexp(jax.vmap(at)(designs, outcomes).sum(axis=0))

    each = jax.vmap(over_others)(found.designs, found.outcomes)
    terms = found.own - jnp.logaddexp(found.own, each) + jnp.log(training.inner + 1)
    bound = terms.mean()
    if not score:
        return bound, bound
    # The baseline of each rollout is the mean of the others.
    scale = training.batch / max(training.batch - 1, 1)
    gain = jax.lax.stop_gradient((terms - bound) * scale)
    return bound + (gain * found.own).mean(), bound


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

    Prior contrastive estimation below, nested Monte Carlo above, from the same rollouts.
    Contrastive parameters are drawn anew for every block of rollouts and summed in chunks: memory
    is ``block * chunk`` numbers, whatever ``inner`` is.
    """
    for name, value in (("rounds", rounds), ("inner", inner), ("block", block), ("chunk", chunk)):
        if value < 1:
            raise InputError(f"{name} is {value}; use at least 1")
    if outer < 2:
        raise InputError(f"outer is {outer}; use at least 2 rollouts")
    block = block if outer >= 2 * block else max(1, outer // 2)
    blocks = -(-outer // block)
    lower, upper = _evaluate(model, policy, rounds, as_key(key), blocks, block, inner, chunk)
    lower, upper = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    errors = [v.std(ddof=1) / math.sqrt(blocks) for v in (lower, upper)]
    ceiling, low = math.log(inner + 1), np.array([lower.mean()])
    warn_of_ceiling(low, ceiling)
    return Information(low, None, np.array([upper.mean()]), np.array([max(errors)]), ceiling)


@eqx.filter_jit
def _evaluate(model, policy, rounds: int, key, blocks: int, size: int, inner: int, chunk: int):
    def one(key):
        first, second, third = jax.random.split(key, 3)
        theta = draw_prior(model, first, size)
        run = jax.vmap(lambda t, k: roll_out(model, policy, t, k, rounds))
        found = run(theta, jax.random.split(third, size))

        # Rounds first: the histories of a block are many more, and the last axis is the fast one.
        designs, outcomes = (jnp.swapaxes(v, 0, 1) for v in (found.designs, found.outcomes))

        def log_probs(other):
            of = jax.vmap(lambda xi, y: model.outcome_log_prob(y, other, xi))
            return jax.vmap(of)(designs, outcomes).sum(axis=0)

        return contrast(found.own, log_sum_of_draws(model, log_probs, second, inner, chunk), inner)

    return jax.lax.map(one, jax.random.split(key, blocks))
