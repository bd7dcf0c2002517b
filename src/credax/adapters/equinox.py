"""Equinox modules as networks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.tree_util as jtu
from jaxtyping import Array, Key, PyTree

from credax.adapters.calling import accepts, kind, takes, with_key
from credax.adapters.nested import Name, find, is_floating, name_of, nest
from credax.errors import InputError
from credax.network import Variables


def from_equinox(
    make: Callable[[Key[Array, ""]], Any] | eqx.Module | tuple[eqx.Module, eqx.nn.State],
    *,
    fixed: bool = False,
    axis_name: str = "batch",
) -> "EquinoxNetwork":
    """An Equinox module as a network.

    - ``make``: a function ``make(key) -> module``; the module maps one example,
      ``module(x)`` or, with stateful layers, ``module(x, state) -> (outputs, state)``, and takes
      ``key=`` if it uses dropout. ``make`` may also return the pair that
      ``eqx.nn.make_with_state`` gives.
    - ``fixed``: accept a ready module (or the pair) as ``make``. ``init`` then ignores its key and
      returns that module's own numbers, so every member of a population starts the same.
    - ``axis_name``: the name given to the batch axis, the one ``eqx.nn.BatchNorm`` was told.

    Floating-point arrays of the module are ``params``. ``state`` holds the values of its
    ``StateIndex`` fields, and its other arrays (integers, booleans), which never change. Both are
    dicts by attribute name, list items by their number: ``{"layers": {"0": {"weight": ...}}}``.
    ``train`` sets every ``inference`` flag by ``eqx.nn.inference_mode``.

    ``eqx.nn.BatchNorm`` normalises by the *biased* batch variance (divided by the batch size) and
    averages that same variance. With ``mode="ema"`` it normalises by the running average even in
    training, and the first batch sets it. With ``mode="batch"`` the kept variance starts at one but
    is divided by ``1 - momentum**t`` on use, so after ``t`` batches of variance ``v`` evaluation
    sees ``v + momentum**t / (1 - momentum**t)``: too large until ``t`` passes a few times
    ``1 / (1 - momentum)``.

    >>> import jax, jax.numpy as jnp
    >>> network = from_equinox(lambda key: eqx.nn.Linear(4, 3, key=key))
    >>> variables = network.init(jax.random.key(0), jnp.zeros((1, 4)))
    >>> sorted(variables.params), network.apply(variables, jnp.ones((5, 4)))[0].shape
    (['bias', 'weight'], (5, 3))
    """
    ready = isinstance(make, eqx.Module) or _is_pair(make)
    if ready and not fixed:
        raise InputError(
            "make is a ready module, whose parameters cannot be drawn again for each "
            "member; give a function make(key) that builds it, or fixed=True to start every "
            "member from these parameters"
        )
    if not ready and (fixed or not accepts(make, None)):
        wanted = "a ready module with fixed=True" if fixed else "a function make(key) -> eqx.Module"
        raise InputError(f"make is {kind(make)}; give {wanted}")
    function: Any = (lambda key: make) if ready else make
    skeleton = eqx.filter_eval_shape(lambda key: _whole(function(key)), jax.random.key(0))
    _check_arrays(skeleton)
    _check_call(skeleton)
    _check_layers(skeleton, axis_name)
    return EquinoxNetwork(function, skeleton, axis_name)


@jtu.register_static
@dataclass(frozen=True, eq=False)
class EquinoxNetwork:
    """What `from_equinox` returns: ``make``, and its module with shapes in place of arrays."""

    make: Callable[[Key[Array, ""]], Any]
    skeleton: Any
    axis_name: str

    def init(self, key, x) -> Variables:
        """Variables drawn by ``make(key)``; the module's own sizes decide the shapes, not ``x``."""
        trained, carried = _arrays(_whole(self.make(key)))
        return jax.tree.map(jnp.asarray, Variables(nest(trained), nest(carried)))

    def adopted(self, trained: Any) -> Variables:
        """The variables of a module like ``make``'s, or of its pair with a state."""
        if isinstance(trained, Variables):
            return trained
        if not (isinstance(trained, eqx.Module) or _is_pair(trained)):
            raise InputError(
                f"variables is {kind(trained)}; give the trained eqx.Module, or the pair (module, "
                "state)"
            )
        arrays, carried = _arrays(_whole(trained))
        return Variables(nest(arrays), nest(carried))

    def apply(self, variables, x, *, key=None, train=False) -> tuple[Array, PyTree]:
        """Outputs for a batch, one example at a time under ``jax.vmap``, and the new state."""
        whole = eqx.nn.inference_mode(self._filled(variables), not train)
        module = eqx.nn.delete_init_state(whole)
        stateful, keyed = bool(_indices(self.skeleton)), takes(module, "key")

        def one(row, state, key):
            keywords = {"key": key} if keyed else {}
            return module(row, state, **keywords) if stateful else (module(row, **keywords), state)

        def batch(key):
            keys = None if key is None else jax.random.split(key, x.shape[0])
            run = jax.vmap(one, (0, None, 0), (0, None), axis_name=self.axis_name)
            return run(x, eqx.nn.State(whole), keys)

        outputs, state = with_key(batch, key, type(module).__name__)
        return outputs, self._updated(variables.state, state) if train else variables.state

    def _filled(self, variables: Variables) -> Any:
        def fill(path, leaf):
            if _is_index(leaf):
                # the first key of an inner path is the field StateIndex.init
                return jtu.tree_map_with_path(
                    lambda inner, _: find(variables.state, name_of(path + inner[1:])), leaf
                )
            if not isinstance(leaf, jax.ShapeDtypeStruct):
                return leaf
            return find(variables.params if is_floating(leaf) else variables.state, name_of(path))

        return jtu.tree_map_with_path(fill, self.skeleton, is_leaf=_is_index)

    def _updated(self, old: PyTree, state: eqx.nn.State) -> PyTree:
        carried = {name: find(old, name) for name in _arrays(self.skeleton)[1]}
        for path, index in _indices(self.skeleton):
            for inner, leaf in jtu.tree_leaves_with_path(state.get(index)):
                carried[name_of(path + inner)] = leaf
        return nest(carried)


def _arrays(module: Any) -> tuple[dict[Name, Any], dict[Name, Any]]:
    """Arrays (or shapes) by name: those to train, and those only carried along."""
    trained, carried = {}, {}
    for path, leaf in jtu.tree_leaves_with_path(module, is_leaf=_is_index):
        if _is_index(leaf):
            for inner, value in jtu.tree_leaves_with_path(leaf.init):
                carried[name_of(path + inner)] = value
        elif eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct):
            (trained if is_floating(leaf) else carried)[name_of(path)] = leaf
    return trained, carried


def _indices(module: Any) -> list[tuple[Any, eqx.nn.StateIndex]]:
    leaves = jtu.tree_leaves_with_path(module, is_leaf=_is_index)
    return [(path, leaf) for path, leaf in leaves if _is_index(leaf)]


def _whole(made: Any) -> Any:
    """The module with its initial state inside, as arrays; a (module, state) pair is joined."""
    module, state = made if _is_pair(made) else (made, None)

    def put(leaf):
        if not _is_index(leaf):
            return leaf
        if state is not None:
            # the place for the value holds an empty node, which tree_at must be told is the place
            leaf = eqx.tree_at(
                lambda index: index.init,
                leaf,
                state.get(leaf),
                is_leaf=lambda node: node is leaf.init,
            )
        return jax.tree.map(jnp.asarray, leaf)

    return jax.tree.map(put, module, is_leaf=_is_index)


def _check_arrays(skeleton: Any) -> None:
    if not isinstance(skeleton, eqx.Module):
        raise InputError(
            f"make returned a {type(skeleton).__name__}; it must return an eqx.Module, or the "
            "pair that eqx.nn.make_with_state gives"
        )
    if any(not jax.tree.leaves(index.init) for _, index in _indices(skeleton)):
        raise InputError(
            "make gave a module whose initial state was taken out; give the whole pair "
            "(module, state) that eqx.nn.make_with_state returned"
        )
    for name, leaf in _arrays(skeleton)[1].items():
        if not any(
            jnp.issubdtype(leaf.dtype, saved) for saved in (jnp.floating, jnp.integer, bool)
        ):
            raise InputError(
                f"array '{'/'.join(name)}' has dtype {leaf.dtype}, which is neither trained nor "
                "saved; keep a complex array as two real ones, and pass a random key to __call__"
            )


def _check_call(skeleton: Any) -> None:
    name = type(skeleton).__name__
    if not callable(skeleton):
        raise InputError(f"{name} has no __call__ method; give it one that takes (x)")
    stateful = bool(_indices(skeleton))
    keywords = {"key": None} if takes(skeleton, "key") else {}
    if not accepts(skeleton, *(None, None) if stateful else (None,), **keywords):
        wanted = "(x, state), because it has stateful layers" if stateful else "(x)"
        raise InputError(f"{name}.__call__ does not take {wanted}; give {name} such a method")
    if _layers(skeleton, eqx.nn.Dropout) and not takes(skeleton, "key"):
        raise InputError(
            f"{name} holds a Dropout, but its __call__ takes no 'key'; "
            "add an argument key=None and hand it to the Dropout"
        )


def _check_layers(skeleton: Any, axis_name: str) -> None:
    for layer in _layers(skeleton, eqx.nn.BatchNorm):
        names = layer.axis_name if isinstance(layer.axis_name, tuple | list) else [layer.axis_name]
        if axis_name not in names:
            raise InputError(
                f"axis_name is {axis_name!r}, but a BatchNorm of {type(skeleton).__name__} "
                f"averages over {layer.axis_name!r}; give both the same name"
            )


def _layers(module: Any, layer: type) -> list[Any]:
    leaves = jax.tree.leaves(module, is_leaf=lambda node: isinstance(node, layer))
    return [leaf for leaf in leaves if isinstance(leaf, layer)]


def _is_index(node: Any) -> bool:
    return isinstance(node, eqx.nn.StateIndex)


def _is_pair(made: Any) -> bool:
    return isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], eqx.nn.State)
