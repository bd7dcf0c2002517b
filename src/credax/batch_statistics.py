"""Batch statistics of given parameters, recomputed exactly from the training inputs.

An average or a draw of parameters has no running statistics of its own. Per layer the triples
(count, mean, M2) of minibatches are merged (Chan, Golub, LeVeque 1983):
``M2 += M2_b + d² n n_b / (n + n_b)``, ``mean += d n_b / (n + n_b)`` with ``d = mean_b - mean``.
"""

from functools import partial
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from credax.errors import InputError
from credax.network import Variables
from credax.problem import Problem
from credax.train_mode import using_train_mode

Passes = Literal["one", "sequential"]
_VARIANCES = ("variance", "var")


class Moments(NamedTuple):
    """Rows seen, their mean and their sum of squared deviations, in double precision."""

    rows: int
    mean: np.ndarray
    m2: np.ndarray


def merge(first: Moments | None, second: Moments) -> Moments:
    """The moments of two disjoint sets of rows together.

    >>> batches = [np.array([1.0, 2.0]), np.array([3.0, 7.0, 8.0])]
    >>> parts = [Moments(len(b), b.mean(), b.var() * len(b)) for b in batches]
    >>> both = merge(*parts)
    >>> round(float(both.mean), 6), round(float(both.m2 / both.rows), 6)
    (4.2, 7.76)
    """
    if first is None:
        return second
    count = first.rows + second.rows
    shift = second.mean - first.mean
    mean = first.mean + shift * (second.rows / count)
    m2 = first.m2 + second.m2 + shift**2 * (first.rows * second.rows / count)
    return Moments(count, mean, m2)


def has_statistics(variables: Variables) -> bool:
    """Whether the network carries state."""
    return bool(jax.tree.leaves(variables.state))


def refresh(
    problem: Problem,
    variables: Variables,
    x: np.ndarray,
    *,
    batch_size: int = 512,
    passes: Passes = "one",
) -> Variables:
    """Stacked members ``[members, ...]`` with batch statistics of raw inputs ``x``.

    The rows are passed through in near-equal batches of at most ``batch_size``, in training mode,
    dropout off (for credax's layers), without augmentation. ``passes="one"`` is exact for the first
    normalised layer; deeper layers see activations normalised by their own batch. With
    ``"sequential"`` there is one pass per layer, earlier ones with their running statistics: the
    statistics of the whole data in one batch, for any batch size. A network without state comes
    back as it is.
    """
    if not has_statistics(variables):
        return variables
    members = len(jax.tree.leaves(variables)[0])
    parts = np.array_split(np.arange(len(x)), -(-len(x) // batch_size))
    one = [
        _refresh_one(problem, jax.tree.map(lambda leaf, i=i: leaf[i], variables), x, parts, passes)
        for i in range(members)
    ]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *one)


def _refresh_one(problem, variables: Variables, x, parts, passes: Passes) -> Variables:
    layers = 1 if passes == "one" else count_normalisations(problem, variables, x)
    for use_running_average in range(layers):
        totals: dict[str, Moments] = {}
        for rows in parts:
            found = statistics(problem, variables, np.asarray(x[rows]), use_running_average)
            for name, (mean, variance) in found.items():
                mean, variance = np.asarray(mean, np.float64), np.asarray(variance, np.float64)
                part = Moments(len(rows), mean, variance * len(rows))
                totals[name] = merge(totals.get(name), part)
        # Layers that use running statistics report those, and so keep them.
        moments = {name: (m.mean, m.m2 / m.rows) for name, m in totals.items()}
        variables = Variables(variables.params, with_statistics(variables.state, moments))
    return variables


def count_normalisations(problem: Problem, variables: Variables, x) -> int:
    """How many of credax's batch normalisations one application passes."""
    example = jax.ShapeDtypeStruct((2, *x.shape[1:]), x.dtype)
    with using_train_mode(dropout=False) as mode:
        jax.eval_shape(partial(_train, problem), variables, example)
    if mode.seen == 0:
        raise InputError(
            "passes is 'sequential' and the network's normalisation is not credax's own; "
            "use passes='one'"
        )
    return mode.seen


@eqx.filter_jit
def statistics(
    problem: Problem, variables: Variables, x, use_running_average: int = 0
) -> dict[str, Any]:
    """Mean and biased variance of each normalised layer on one batch of raw inputs, by name.

    A foreign average is ``new = (1 - a) old + a batch``: from old 0 and old 1 follow ``a`` and the
    batch's own statistics. credax's own, started with weight zero, are the batch's at once.
    """
    with using_train_mode(dropout=False, use_running_average=use_running_average):
        zero = _train(problem, Variables(variables.params, _reset(variables.state, 0.0)), x)
    low = _pairs(zero, "")
    own = {name: "weight" in node for name, node in low.items()}
    if all(own.values()):
        return {name: _values(node) for name, node in low.items()}
    one = _train(problem, Variables(variables.params, _reset(variables.state, 1.0)), x)
    high, found = _pairs(one, ""), {}
    for name, node in low.items():
        values = zip(_values(node), _values(high[name]), strict=True)
        found[name] = tuple(zero / (1 - (one - zero)) for zero, one in values)
    return found


def with_statistics(state: PyTree, moments: dict[str, Any], where: str = "") -> PyTree:
    """The state with other means and variances, by the names that `statistics` gives."""
    if where in moments:
        mean, variance = moments[where]
        new = {"mean": mean, _variance_name(state): variance}
        if "weight" in state:
            new["weight"] = 1.0
        cast = {name: jnp.asarray(value, state[name].dtype) for name, value in new.items()}
        return type(state)({**state, **cast})
    if isinstance(state, dict):
        items = {k: with_statistics(v, moments, f"{where}/{k}") for k, v in state.items()}
        return type(state)(items)
    return state


def _train(problem: Problem, variables: Variables, x) -> PyTree:
    prepared = problem.prepare_inputs(x)
    return problem.outputs(variables, prepared, key=jax.random.key(0), train=True)[1]


def _reset(state: PyTree, value: float) -> PyTree:
    if isinstance(state, dict) and "weight" in state and _variance_name(state):
        # The next batch replaces what is held, and a layer that uses running statistics keeps it.
        return type(state)({**state, "weight": jnp.zeros_like(state["weight"])})
    if isinstance(state, dict) and _variance_name(state):
        return type(state)({k: jnp.full_like(v, value) for k, v in state.items()})
    if isinstance(state, dict):
        return type(state)({k: _reset(v, value) for k, v in state.items()})
    return state


def _pairs(state: PyTree, where: str) -> dict[str, Any]:
    """The nodes that hold a mean and a variance, by their path."""
    if isinstance(state, dict) and _variance_name(state):
        return {where: state}
    if isinstance(state, dict):
        found = {}
        for name, inner in state.items():
            found |= _pairs(inner, f"{where}/{name}")
        return found
    if jax.tree.leaves(state):
        raise InputError(
            f"the network's state at {where or 'its root'} is not a mean and a variance; batch "
            "statistics can be recomputed for credax and flax networks: use one of those, or a "
            "network without state"
        )
    return {}


def _variance_name(node) -> str:
    return next((n for n in _VARIANCES if n in node and "mean" in node), "")


def _values(node) -> tuple[Any, Any]:
    return node["mean"], node[_variance_name(node)]
