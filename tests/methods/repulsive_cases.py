"""How tests drive a repulsive dynamics: from given variables, one step at a time."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import credax as cx
from credax.data import Split
from credax.problem import Batch
from credax.training.members import Vmap

# One step of plain descent at rate one: the gradient is what the parameters lose.
UNIT = cx.Training(
    epochs=1, batch_size=2, learning_rate=1.0, momentum=0.0, schedule="constant", strategy="vmap"
)


def batch_of(x, y) -> Batch:
    return Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones(len(y), jnp.asarray(x).dtype))


def dynamics_of(record, problem, x, y, training=UNIT):
    return record.dynamics(problem, Split(np.asarray(x), np.asarray(y)), training)


@eqx.filter_jit
def _start(dynamics, x, seed):
    keys = jax.random.split(jax.random.key(seed), dynamics.replicas.count)
    variables = jax.vmap(lambda key: dynamics.descent.problem.init(key, x))(keys)
    return dynamics.init(keys, variables, Vmap())


def start(dynamics, x, seed=0, params=None):
    """First states of all members, or such states with given parameters."""
    state = _start(dynamics, jnp.asarray(x), seed)
    if params is None:
        return state
    variables = state.descent.variables._replace(params=params)
    return state._replace(descent=state.descent._replace(variables=variables))


@eqx.filter_jit
def _step(dynamics, state, batch, strategy, alive):
    keys = jax.random.split(jax.random.key(9), dynamics.replicas.count)
    return dynamics.step(keys, state, batch, strategy, alive)


def step(dynamics, state, batch, strategy=None, alive=None):
    """One step: the next state and what was reported."""
    alive = np.ones(dynamics.replicas.count, bool) if alive is None else np.asarray(alive)
    return _step(dynamics, state, batch, Vmap() if strategy is None else strategy, alive)


def gradient(dynamics, state, batch, strategy=None, alive=None):
    """What the parameters lose in one step at rate one."""
    new, _ = step(dynamics, state, batch, strategy, alive)
    params = lambda s: s.descent.variables.params  # noqa: E731
    return jax.tree.map(lambda a, b: np.asarray(a - b), params(state), params(new))


def largest_scaled(a, b) -> float:
    """``max |a - b|`` over the greatest ``|a|``, of all leaves."""
    pairs = list(zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))
    greatest = max(float(np.abs(x).max()) for x, _ in pairs)
    return max(float(np.abs(x - y).max()) for x, y in pairs) / greatest
