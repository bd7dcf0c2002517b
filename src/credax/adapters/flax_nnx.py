"""Flax NNX modules as networks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.tree_util as jtu
from jaxtyping import Array, Key, PyTree

from credax.adapters.calling import (
    Modes,
    accepts,
    kind,
    mode_keywords,
    modes_of,
    takes,
    with_key,
)
from credax.adapters.nested import Name, find, name_of, nest, require_floating
from credax.errors import InputError, MissingExtra
from credax.network import Variables


def from_nnx(make: Any, *, fixed: bool = False) -> "NnxNetwork":
    """A Flax NNX module as a network.

    - ``make``: a function ``make(rngs: nnx.Rngs) -> nnx.Module``; the module maps a batch,
      ``module(x)``.
    - ``fixed``: accept a ready module as ``make``. ``init`` then returns that module's own
      numbers, so every member of a population starts the same.

    ``nnx.Param`` variables are ``params``; every other variable (``BatchStat``, caches, your own
    types) is ``state``, both as dicts by attribute name: ``{"layers": {"0": {"kernel": ...}}}``.
    Random streams are neither: each call to ``apply`` seeds them anew from its ``key``. ``train``
    switches by ``module.train()`` and ``module.eval()``; a ``__call__`` that takes ``train``,
    ``training``, ``is_training``, ``deterministic``, ``use_running_average`` or ``rngs`` is handed
    those too. Variables created during a call (by ``sow``) are dropped.

    ``nnx.BatchNorm`` normalises by the *biased* batch variance (divided by the batch size) and
    averages that same variance, ``new = momentum * old + (1 - momentum) * batch``, from mean zero
    and variance one without correction for the start.

    >>> import jax, jax.numpy as jnp
    >>> from flax import nnx
    >>> network = from_nnx(lambda rngs: nnx.Linear(4, 3, rngs=rngs))
    >>> variables = network.init(jax.random.key(0), jnp.zeros((1, 4)))
    >>> sorted(variables.params), network.apply(variables, jnp.ones((5, 4)))[0].shape
    (['bias', 'kernel'], (5, 3))
    """
    nnx = _nnx()
    if isinstance(make, nnx.Module) and not fixed:
        raise InputError(
            f"make is a ready {type(make).__name__}, whose parameters cannot be drawn again for "
            "each member; give a function make(rngs) that builds it, or fixed=True to start every "
            "member from these parameters"
        )
    if fixed:
        if not isinstance(make, nnx.Module):
            raise InputError(f"make is {kind(make)}; give a ready module with fixed=True")
        make = _Ready(*nnx.split(make))
    if not accepts(make, None):
        raise InputError(f"make is {kind(make)}; give a function make(rngs) -> nnx.Module")
    calls = []

    def split(key):
        module = _made(make, key)
        calls.append(_call_of(module))
        graph, state = nnx.split(module)
        _refuse_bare_arrays(module, state)
        return graph, state

    graph, state = jax.eval_shape(split, jax.random.key(0))
    params, streams, _ = nnx.split_state(state, nnx.Param, nnx.RngState, ...)
    require_floating(nest(_leaves(params)), "keep it in an nnx.Variable of another type")
    return NnxNetwork(
        make=make,
        call=calls[0],
        graph=graph,
        structure=jax.tree.structure(state),
        names=tuple(_leaves(state)),
        trained=frozenset(_leaves(params)),
        streams=tuple(_leaves(streams).items()),
    )


@dataclass(frozen=True, eq=False)
class _Ready:
    """Makes a ready module again, whatever the random streams."""

    graph: Any
    state: Any

    def __call__(self, rngs: Any) -> Any:
        return _nnx().merge(self.graph, self.state)


class _Call(NamedTuple):
    """What a module is called, and with."""

    name: str
    modes: Modes
    takes_rngs: bool


@jtu.register_static
@dataclass(frozen=True, eq=False)
class NnxNetwork:
    """What `from_nnx` returns: ``make``, and how to put its module together from arrays."""

    make: Callable[[Any], Any]
    call: _Call
    graph: Any
    structure: Any
    names: tuple[Name, ...]
    trained: frozenset[Name]
    streams: tuple[tuple[Name, jax.ShapeDtypeStruct], ...]

    def init(self, key, x) -> Variables:
        """Variables drawn by ``make(nnx.Rngs(key))``; the module decides the shapes, not ``x``."""
        leaves = _leaves(_nnx().state(_made(self.make, key)))
        params = nest({name: leaves[name] for name in self.names if name in self.trained})
        return Variables(params, self._carried(leaves))

    def adopted(self, trained: Any) -> Variables:
        """The variables of a module like ``make``'s, of its ``nnx.State``, or of a pure dict."""
        nnx = _nnx()
        if isinstance(trained, Variables):
            return trained
        state = nnx.state(trained) if isinstance(trained, nnx.Module) else trained
        if not isinstance(state, nnx.State | Mapping):
            raise InputError(
                f"variables is {kind(trained)}; give the trained nnx.Module, its nnx.State, or a "
                "dict of arrays by attribute name"
            )
        leaves, streams = _leaves(state), dict(self.streams)
        missing = [n for n in self.names if n not in leaves and n not in streams]
        unknown = [n for n in leaves if n not in self.names]
        for names, text in ((missing, "lacks"), (unknown, "holds"))[:: 1 if missing else -1]:
            if names:
                raise InputError(
                    f"variables {text} the array '{'/'.join(names[0])}'; the network was made "
                    f"with {', '.join('/'.join(n) for n in self.names[:4])}, ...: give a module "
                    "built by the same code"
                )
        params = nest({name: leaves[name] for name in self.names if name in self.trained})
        return Variables(params, self._carried(leaves))

    def apply(self, variables, x, *, key=None, train=False) -> tuple[Array, PyTree]:
        """Outputs for a batch, and the new state."""
        nnx = _nnx()

        def run(key):
            module = nnx.merge(self.graph, self._filled(variables, key))
            module.train() if train else module.eval()
            keywords: dict[str, Any] = mode_keywords(self.call.modes, train)
            if self.call.takes_rngs:
                fresh = len(self.streams)
                keywords["rngs"] = None if key is None else nnx.Rngs(jax.random.fold_in(key, fresh))
            return module(x, **keywords), self._carried(_leaves(nnx.state(module)))

        outputs, state = with_key(run, key, self.call.name)
        return outputs, state if train else variables.state

    def _carried(self, leaves: dict[Name, Any]) -> dict[str, Any]:
        streams = dict(self.streams)
        names = [name for name in self.names if name not in self.trained and name not in streams]
        # a variable may hold a Python number, whose weak type would not survive a scan
        return nest(
            {name: jnp.asarray(leaves[name], jnp.result_type(leaves[name])) for name in names}
        )

    def _filled(self, variables: Variables, key: Key[Array, ""] | None) -> Any:
        streams = {
            name: _seeded(struct, key, index) for index, (name, struct) in enumerate(self.streams)
        }

        def value(name):
            if name in streams:
                return streams[name]
            return find(variables.params if name in self.trained else variables.state, name)

        return jax.tree.unflatten(self.structure, [value(name) for name in self.names])


def _seeded(struct: jax.ShapeDtypeStruct, key: Key[Array, ""] | None, index: int) -> Array | None:
    """A random stream's counter at zero, or its key; None for no key fails when it is drawn on."""
    if not jnp.issubdtype(struct.dtype, jax.dtypes.prng_key):
        return jnp.zeros(struct.shape, struct.dtype)
    if key is None:
        return None
    own = jax.random.fold_in(key, index)
    return jax.random.split(own, struct.shape) if struct.shape else own


def _leaves(state: Any) -> dict[Name, Any]:
    """Arrays of an NNX state by name; the ``.value`` of each variable is left out of the name."""
    return {
        name_of(tuple(part for part in path if part != jtu.GetAttrKey("value"))): leaf
        for path, leaf in jtu.tree_leaves_with_path(state)
    }


def _made(make: Callable[[Any], Any], key: Key[Array, ""]) -> Any:
    nnx = _nnx()
    module = make(nnx.Rngs(key))
    if not isinstance(module, nnx.Module):
        raise InputError(f"make returned a {type(module).__name__}; it must return an nnx.Module")
    return module


def _call_of(module: Any) -> _Call:
    name = type(module).__name__
    if not callable(module):
        raise InputError(f"{name} has no __call__ method; give it one that takes (x)")
    call = _Call(name, modes_of(module, None, name), takes(module, "rngs"))
    keywords = {"rngs": None} if call.takes_rngs else {}
    if not accepts(module, None, **mode_keywords(call.modes, True), **keywords):
        raise InputError(f"{name}.__call__ does not take (x); give {name} such a method")
    return call


def _refuse_bare_arrays(module: Any, state: Any) -> None:
    # NNX takes an unmarked array for a constant when it is traced, so it would leak the tracer
    nnx = _nnx()
    known = set(_leaves(state))
    for path, node in nnx.iter_modules(module):
        for attribute, value in vars(node).items():
            name = (*map(str, path), attribute)
            if isinstance(value, jax.Array) and name not in known:
                raise InputError(
                    f"{type(module).__name__} keeps a bare array at '{'/'.join(name)}'; wrap it "
                    "as nnx.Variable(array), or nnx.Param(array) if it is to be trained"
                )


def _nnx() -> Any:
    try:
        from flax import nnx
    except ImportError as error:
        raise MissingExtra("flax", "flax", "credax.adapters.from_nnx") from error
    return nnx
