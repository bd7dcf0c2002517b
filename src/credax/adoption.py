"""A network that was trained elsewhere, as a population."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from credax.errors import InputError
from credax.files import tree_names
from credax.likelihood import LearnedNoise, Likelihood
from credax.network import Network, TakesTrained, Variables
from credax.partly_trained import PartlyTrained
from credax.posterior import Population, population
from credax.problem import Problem


def adopt(
    network: Problem | Network,
    variables: Any = None,
    *,
    x: Any,
    likelihood: Likelihood | None = None,
) -> Population:
    """Networks that you trained yourself, as a `Population` of one or several members.

    Use it as ``around=`` of Laplace, SWAG, HMC, MC dropout and the like, or predict with it.

    - ``network``: a `Problem`, or a network and its ``likelihood``. Units in which the network was
      trained are the problem's ``inputs`` and ``targets``.
    - ``variables``: what was trained: `Variables`, or what the network's library calls so (an NNX
      or Equinox module, Linen's dict of collections, Haiku's params or (params, state)); a list of
      several gives several members. None takes those of a network made with ``fixed=True``.
    - ``x``: raw inputs like those it was trained on; only their shape and type are read.

    >>> import credax as cx
    >>> line = cx.Problem(cx.networks.MLP((), outputs=1), cx.Gaussian(0.1))
    >>> dense = {"kernel": jnp.array([[2.0]]), "bias": jnp.array([1.0])}
    >>> adopt(line, {"0_dense": dense}, x=np.zeros((1, 1))).predict(np.array([[3.0]])).mean.tolist()
    [7.0]
    """
    problem = _problem(network, likelihood)
    rows = np.asarray(x) if not isinstance(x, jax.ShapeDtypeStruct) else np.zeros(x.shape, x.dtype)
    if rows.ndim < 2 or rows.dtype.kind not in "biuf":
        raise InputError(
            f"x has shape {rows.shape} and type {rows.dtype}; give raw inputs, rows first"
        )
    example = jax.ShapeDtypeStruct((1, *rows.shape[1:]), rows.dtype)
    key = jax.random.key(0)
    if variables is None:
        each = [problem.init(key, example)]
    else:
        given = variables if isinstance(variables, list) else [variables]
        if not given:
            raise InputError("variables is an empty list; give at least one trained network")
        start = problem.init(key, example)
        each = [_checked(_whole(problem, one, start), start, i) for i, one in enumerate(given)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(a) for a in leaves]), *each)
    return population(problem, stacked, rows)


def _problem(network: Any, likelihood: Likelihood | None) -> Problem:
    if isinstance(network, Problem):
        if likelihood is not None:
            raise InputError("likelihood is given and the problem has its own; leave it out")
        return network
    if likelihood is None:
        raise InputError(
            "likelihood is missing; say how outputs become predictions, such as "
            "likelihood=credax.Categorical(), or give a credax.Problem"
        )
    return Problem(network, likelihood)


def _whole(problem: Problem, given: Any, start: Variables) -> Variables:
    """The given variables in the form of the problem's own."""
    likelihood, network = problem.likelihood, _inner(problem.network)
    part = network if isinstance(network, PartlyTrained) else None
    network = network if part is None else part.network
    if isinstance(network, TakesTrained):
        found = network.adopted(given)
    else:
        found = given if isinstance(given, Variables) else Variables(given)
    weights, own = found.params, likelihood.own(start.params)
    if likelihood.learns and _is_joined(weights):
        # Otherwise a noise level was not trained along: it starts where training would start.
        weights, own = likelihood.weights(weights), likelihood.own(weights)
    if part is not None:
        return Variables(likelihood.join(part.kept(weights), own), {})
    return Variables(likelihood.join(weights, own), found.state)


def _inner(network: Any) -> Any:
    return network.network if isinstance(network, LearnedNoise) else network


def _is_joined(params: Any) -> bool:
    return isinstance(params, dict) and set(params) == {"network", "noise"}


def _checked(found: Variables, start: Variables, position: int) -> Variables:
    """The same arrays in the structure of the network's own, or a sentence that names one."""
    own = dict(zip(tree_names(start), jax.tree.leaves(start), strict=True))
    arrays = dict(zip(tree_names(found), jax.tree.leaves(found), strict=True))
    where = f"variables[{position}]"
    for name in own:
        if name not in arrays:
            raise InputError(
                f"{where} has no array {name!r}, which the network needs; it has "
                f"{', '.join(list(arrays)[:4]) or 'none'}: was it trained with this network?"
            )
    for name, array in arrays.items():
        if name not in own:
            raise InputError(
                f"{where} has the array {name!r}, which the network does not know; it has "
                f"{', '.join(list(own)[:4])}: was it trained with this network?"
            )
        if np.shape(array) != own[name].shape:
            raise InputError(
                f"{where} has {name!r} of shape {np.shape(array)} and the network needs "
                f"{own[name].shape}; give the network the same sizes"
            )
        if not np.all(np.isfinite(np.asarray(array, np.float64))):
            raise InputError(f"{where} holds NaN or infinity in {name!r}; restore it from a copy")
    leaves = [jnp.asarray(arrays[name], array.dtype) for name, array in own.items()]
    return jax.tree.unflatten(jax.tree.structure(start), leaves)
