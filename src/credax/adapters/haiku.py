"""Haiku functions as networks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax.tree_util as jtu
from jaxtyping import Array, PyTree

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


def from_haiku(
    function: Callable[..., Array], *, train_argument: str | None = None
) -> "HaikuNetwork":
    """A Haiku function as a network, through ``hk.transform_with_state``.

    - ``function``: maps a batch, ``function(x)``, and makes its Haiku modules inside; not yet
      transformed.
    - ``train_argument``: the argument of ``function`` that switches training: ``"is_training"``,
      ``"train"``, ``"training"`` (given ``train``), ``"deterministic"`` or
      ``"use_running_average"`` (given ``not train``). Left out, those of them that ``function``
      takes are used; name it when ``function`` hides it in ``**kwargs``.

    ``params`` and ``state`` are Haiku's own dicts, two levels deep: the module's full name, which
    may contain slashes (``"mlp/~/linear_0"``), then the array's name. Splitting the names at the
    slashes would let a submodule and a parameter of one name collide.

    ``hk.BatchNorm`` normalises by the *biased* batch variance (divided by the batch size) and
    averages that same variance from zero, divided by ``1 - decay_rate**t``, so the average of equal
    batches is exact from the first. Before any training step its averages are those of the
    activations for the ``x`` given to ``init`` (of one row of zeros for a
    ``jax.ShapeDtypeStruct``).

    >>> import haiku as hk, jax, jax.numpy as jnp
    >>> network = from_haiku(lambda x: hk.Linear(3)(x))
    >>> variables = network.init(jax.random.key(0), jnp.zeros((1, 4)))
    >>> sorted(variables.params["linear"]), network.apply(variables, jnp.ones((5, 4)))[0].shape
    (['b', 'w'], (5, 3))
    """
    hk = _haiku()
    if isinstance(function, hk.Transformed | hk.TransformedWithState):
        raise InputError(
            "function is already transformed; give the function itself, before hk.transform"
        )
    if not callable(function):
        raise InputError(f"function is {kind(function)}; give a function(x) that uses haiku")
    modes = modes_of(function, train_argument, kind(function))
    if not accepts(function, None, **mode_keywords(modes, True)):
        raise InputError(f"function is {kind(function)}; it must be callable as function(x)")
    return HaikuNetwork(function, hk.transform_with_state(function), modes)


@jtu.register_static
@dataclass(frozen=True, eq=False)
class HaikuNetwork:
    """What `from_haiku` returns."""

    function: Callable[..., Array]
    transformed: Any
    modes: Modes

    def init(self, key, x) -> Variables:
        """Variables for inputs shaped like ``x``, drawn in training mode."""
        keywords = mode_keywords(self.modes, True)
        params, state = self.transformed.init(key, example(x), **keywords)
        require_floating(params, "keep it as state by hk.get_state(...)")
        return Variables(params, state)

    def adopted(self, trained: Any) -> Variables:
        """Haiku's params, or the pair (params, state)."""
        if isinstance(trained, Variables):
            return trained
        pair = isinstance(trained, tuple) and len(trained) == 2
        params, state = trained if pair else (trained, {})
        if not isinstance(params, Mapping):
            raise InputError(
                f"variables is {kind(trained)}; give Haiku's params, or the pair (params, state)"
            )
        return Variables(_haiku().data_structures.to_mutable_dict(params), dict(state))

    def apply(self, variables, x, *, key=None, train=False) -> tuple[Array, PyTree]:
        """Outputs for a batch, and the new state."""
        keywords = mode_keywords(self.modes, train)

        def call(key):
            return self.transformed.apply(variables.params, variables.state, key, x, **keywords)

        outputs, state = with_key(call, key, kind(self.function))
        return outputs, state if train else variables.state


def _haiku() -> Any:
    try:
        import haiku
    except ImportError as error:
        raise MissingExtra("dm-haiku", "haiku", "credax.adapters.from_haiku") from error
    return haiku
