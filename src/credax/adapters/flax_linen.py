"""Flax Linen modules as networks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.tree_util as jtu
from jaxtyping import Array, Key, PyTree

from credax.adapters.calling import (
    Modes,
    accepts,
    example,
    kind,
    mode_keywords,
    modes_of,
    with_key,
)
from credax.adapters.nested import require_floating
from credax.errors import InputError, MissingExtra
from credax.network import Variables


def from_linen(
    module: Any, *, train_argument: str | None = None, streams: Sequence[str] = ("dropout",)
) -> "LinenNetwork":
    """A Flax Linen module as a network.

    - ``module``: a ``flax.linen.Module`` that maps a batch, ``module(x)``.
    - ``train_argument``: the argument of ``__call__`` that switches training: ``"train"``,
      ``"training"``, ``"is_training"`` (given ``train``), ``"deterministic"`` or
      ``"use_running_average"`` (given ``not train``). Left out, those of them that ``__call__``
      takes are used; name it when ``__call__`` hides it in ``**kwargs``.
    - ``streams``: names of the random streams that ``key`` seeds.

    The ``params`` collection is ``params``, as Linen's own dict by submodule name. All other
    collections (``batch_stats``) are ``state``, one entry each; they may change in training only.
    Metadata boxes such as ``nn.Partitioned`` are taken off. ``init(key, x)`` draws what
    ``module.init(key, x)`` draws.

    ``nn.BatchNorm`` normalises by the *biased* batch variance (divided by the batch size) and
    averages that same variance, ``new = momentum * old + (1 - momentum) * batch``, from mean zero
    and variance one without correction for the start.

    >>> import jax, jax.numpy as jnp
    >>> import flax.linen as nn
    >>> network = from_linen(nn.Dense(3))
    >>> variables = network.init(jax.random.key(0), jnp.zeros((1, 4)))
    >>> sorted(variables.params), network.apply(variables, jnp.ones((5, 4)))[0].shape
    (['bias', 'kernel'], (5, 3))
    """
    flax = _flax()
    if not isinstance(module, flax.linen.Module):
        raise InputError(f"module is {kind(module)}; give a flax.linen.Module, such as nn.Dense(3)")
    name = type(module).__name__
    if not callable(module):
        raise InputError(f"{name} has no __call__ method; give it one that takes (x)")
    modes = modes_of(module, train_argument, f"{name}.__call__")
    if not accepts(module, None, **mode_keywords(modes, True)):
        raise InputError(f"{name}.__call__ does not take (x); give {name} such a method")
    return LinenNetwork(module, modes, tuple(streams))


@jtu.register_static
@dataclass(frozen=True, eq=False)
class LinenNetwork:
    """What `from_linen` returns."""

    module: Any
    modes: Modes
    streams: tuple[str, ...]

    def init(self, key, x) -> Variables:
        """Variables for inputs shaped like ``x``, drawn in training mode."""
        core = _flax().core
        rngs = {"params": key} | self._seeded(jax.random.fold_in(key, 1))
        drawn = self.module.init(rngs, example(x), **mode_keywords(self.modes, True))
        collections = core.unfreeze(core.meta.unbox(drawn))
        params = collections.pop("params", {})
        require_floating(params, "keep it in another collection by self.variable(...)")
        return Variables(params, collections)

    def adopted(self, trained: Any) -> Variables:
        """Linen's own dict of collections, or the ``params`` collection alone."""
        core = _flax().core
        if isinstance(trained, Variables):
            return trained
        if not isinstance(trained, Mapping):
            raise InputError(
                f"variables is {kind(trained)}; give the dict of collections, such as "
                '{"params": ..., "batch_stats": ...}, or its params'
            )
        collections = dict(core.unfreeze(core.meta.unbox(trained)))
        if "params" not in collections:
            collections = {"params": collections}
        return Variables(collections.pop("params"), collections)

    def apply(self, variables, x, *, key=None, train=False) -> tuple[Array, PyTree]:
        """Outputs for a batch, and the new state."""
        errors = _flax().errors
        name, state = type(self.module).__name__, variables.state

        def call(key):
            return self.module.apply(
                {"params": variables.params, **state},
                x,
                rngs=self._seeded(key),
                mutable=list(state) if train else [],
                **mode_keywords(self.modes, train),
            )

        try:
            outputs, updated = with_key(call, key, name)
        except errors.ModifyScopeVariableError as error:
            raise InputError(
                f"{name} changes its state outside training; let its __call__ take 'train' and "
                "hand it to the layers that carry state"
            ) from error
        return outputs, {**state, **updated} if train else state

    def _seeded(self, key: Key[Array, ""] | None) -> dict[str, Key[Array, ""]]:
        if key is None:
            return {}
        return {name: jax.random.fold_in(key, index) for index, name in enumerate(self.streams)}


def _flax() -> Any:
    try:
        import flax
        import flax.linen
    except ImportError as error:
        raise MissingExtra("flax", "flax", "credax.adapters.from_linen") from error
    return flax
