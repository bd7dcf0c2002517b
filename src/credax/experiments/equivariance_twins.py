"""What stays of an ensemble's equivariance error with infinitely many members, from pairs of twins.

With normal parameters ``z``, a start ``s`` and an element ``g`` the pair ``f_{s(gz)}(gx)`` and
``g f_{s(z)}(x)`` has the means whose difference is the floor: ``gz`` is as likely as ``z``. If
start, data and optimiser commute with the group the pair is equal, so the difference is known to
rounding from one pair; in a curve against members their variance hides it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from credax import groups
from credax.network import Network, Variables

BATCHES = 16


class Floor(NamedTuple):
    """A squared error that no number of members removes, and its standard error."""

    level: float
    error: float
    pair: float
    """Mean squared difference of one pair: zero where everything commutes with the group."""


def twin_floor(
    network: Network,
    start: Callable[[Any], Any],
    optimiser: optax.GradientTransformation,
    rows: tuple[np.ndarray, np.ndarray],
    inputs: groups.Matrices,
    output: groups.Matrices,
    points: np.ndarray,
    *,
    pairs: int,
    steps: int,
    element: int,
    seed: int = 0,
) -> Floor:
    """``‖E f(gx) - g E f(x)‖²``, mean over points, of networks trained on ``rows`` in full batches.

    Estimated without bias: the squared mean difference minus its own variance, with a standard
    error over batches of pairs. Cost: twice ``pairs`` trainings.
    """
    x, y = (jnp.asarray(part, jnp.float32) for part in rows)
    turned = jnp.asarray(inputs.apply(element, points), jnp.float32)
    here = jnp.asarray(points, jnp.float32)
    turn = jnp.asarray(output.matrices[element], jnp.float32)

    def outputs(params, at):
        return network.apply(Variables(params, {}), at)[0]

    def loss(params):
        return 0.5 * jnp.mean(jnp.sum(jnp.square(outputs(params, x) - y), axis=-1))

    def trained(params):
        def step(carry, _):
            params, state = carry
            updates, state = optimiser.update(jax.grad(loss)(params), state, params)
            return (optax.apply_updates(params, updates), state), None

        return jax.lax.scan(step, (params, optimiser.init(params)), length=steps)[0][0]

    def pair(key):
        normal = network.init(key, x).params
        one, other = start(normal), start(groups.twin(normal, element, inputs, output))
        return outputs(trained(other), turned) - outputs(trained(one), here) @ turn.T

    keys = jax.random.split(jax.random.key(seed), pairs)
    gaps = np.asarray(jax.jit(jax.vmap(pair))(keys), np.float64)
    return _floor(gaps)


def _floor(gaps: np.ndarray) -> Floor:
    """From differences ``[pairs, points, outputs]``: products of different pairs have no bias."""
    pairs = len(gaps)
    level = _product(gaps)
    # Leave one batch of pairs out at a time.
    parts = np.array_split(np.arange(pairs), BATCHES)
    each = np.array([_product(np.delete(gaps, part, axis=0)) for part in parts])
    error = np.sqrt((BATCHES - 1) / BATCHES * np.sum(np.square(each - each.mean())))
    return Floor(level, float(error), float(np.mean(np.sum(np.square(gaps), axis=-1))))


def _product(gaps: np.ndarray) -> float:
    """Mean over points of the product of two different pairs' differences."""
    pairs = len(gaps)
    whole = np.sum(np.square(gaps.sum(0)), axis=-1) - np.sum(np.square(gaps), axis=(0, 2))
    return float(np.mean(whole) / (pairs * (pairs - 1)))
