"""How one member's function becomes the population's: at once, in groups, one by one, sharded.

A strategy turns ``f(own, shared) -> result`` for one member into the same for all: ``own`` and the
result have a leading members axis, ``shared`` has none. All give the same numbers to rounding.
"""

from collections.abc import Callable
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from credax.training.mesh import Layout, automatic
from credax.training.partition import Partition


class Strategy(Protocol):
    """How members run."""

    def __call__(self, function: Callable[[Any, Any], Any], own: Any, shared: Any) -> Any:
        """``function`` for every member."""
        ...


class Vmap(eqx.Module):
    """All members in one batched program."""

    def __call__(self, function, own, shared):
        """`jax.vmap` over the members."""
        return jax.vmap(function, in_axes=(0, None))(own, shared)


class Map(eqx.Module):
    """Groups of ``at_once`` members, one group after another: bounds the memory."""

    at_once: int = 1

    def __call__(self, function, own, shared):
        """`jax.lax.map` over groups; members one by one are not batched at all."""
        size = None if self.at_once == 1 else self.at_once
        return jax.lax.map(lambda one: function(one, shared), own, batch_size=size)


class Unroll(eqx.Module):
    """One member after another in one program, each compiled as if alone.

    The fastest on CPU where a batched operation is slower than its parts (XLA's convolution).
    """

    def __call__(self, function, own, shared):
        """A Python loop, stacked."""
        return _stacked([function(mine, shared) for mine in separate(own)])

    def in_turn(self, functions, late, at_once: int = 1):
        """``functions[i](late[i])``, each ``late`` delayed until earlier members are done.

        What a function computes without ``late`` may be computed at any time, and shared with other
        parts of the program; what depends on it is in memory for about ``at_once`` members only.
        The compiler would else run all members side by side.
        """
        results = []
        for i, (function, mine) in enumerate(zip(functions, separate(late), strict=True)):
            if i >= at_once:
                one = _one_after(results[i - at_once])
                mine = jax.tree.map(lambda leaf, one=one: leaf * one.astype(leaf.dtype), mine)
            results.append(function(mine))
        return _stacked(results)

    def vjp(self, function, params, rest):
        """Values and auxiliaries of ``function(params, rest)``, and a pullback that takes turns."""
        each = []
        for mine, own in zip(separate(params), separate(rest), strict=True):
            one = lambda params, own=own: function(params, own)  # noqa: E731
            each.append(jax.vjp(one, mine, has_aux=True))
        values, pulls, auxiliaries = zip(*each, strict=True)

        def pullback(cotangents):
            back = [lambda late, pull=pull: pull(late)[0] for pull in pulls]
            return self.in_turn(back, cotangents)

        return _stacked(values), pullback, _stacked(auxiliaries)


def _stacked(results) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *results)


def separate(tree: Any) -> list[Any]:
    """The members of a stacked tree, one by one."""
    count = len(jax.tree.leaves(tree)[0])
    return [jax.tree.map(lambda leaf, i=i: leaf[i], tree) for i in range(count)]


def _one_after(tree: Any) -> jax.Array:
    """The number one, which the compiler cannot know before all of ``tree`` is computed."""
    seen = sum(jnp.real(leaf.ravel()[0]) for leaf in jax.tree.leaves(tree))
    seen = jnp.where(jnp.isfinite(seen), seen, 0.0)
    return jnp.where(seen == seen, 1.0, seen)


class Shard(eqx.Module):
    """Members sharded over a mesh with axes ``("members", "data")``; batches over ``"data"``.

    With a third axis ``"model"``, arrays of one member are divided over it by ``partition``.
    """

    mesh: Mesh = eqx.field(static=True, converter=automatic)
    partition: Partition = Partition()

    def __call__(self, function, own, shared):
        """`jax.vmap`, partitioned by the compiler along the members axis."""
        batched = jax.vmap(function, in_axes=(0, None), spmd_axis_name="members")
        return self._constrain(batched(self._constrain(own, "members"), shared), "members")

    @property
    def layout(self) -> Layout:
        """Devices along each axis."""
        return Layout(self.mesh.shape["members"], self.mesh.shape["data"])

    def split_batch(self, batch: Any) -> Any:
        """Rows of a batch over the ``"data"`` axis (inside a member's function)."""
        return self._constrain(batch, "data")

    def place(self, tree: Any, axis: str | None) -> Any:
        """Move arrays to the mesh: their leading axis along ``axis``, or a copy everywhere."""
        if axis is None:
            return jax.device_put(tree, NamedSharding(self.mesh, PartitionSpec()))
        return jax.device_put(tree, self._shardings(tree, axis))

    def _constrain(self, tree: Any, axis: str) -> Any:
        shardings = self._shardings(tree, axis)
        return jax.tree.map(jax.lax.with_sharding_constraint, tree, shardings)

    def _shardings(self, tree: Any, axis: str) -> Any:
        if axis == "members" and self.partition.rules:
            specs = self.partition.specs(tree)
        else:
            specs = jax.tree.map(lambda leaf: PartitionSpec(axis), tree)
        return jax.tree.map(lambda spec: NamedSharding(self.mesh, spec), specs)


def on_host(tree: Any) -> Any:
    """Whole arrays for every process, also of populations distributed over several processes."""

    def whole(leaf):
        if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable:
            return leaf
        return multihost_utils.process_allgather(leaf, tiled=True)

    return jax.tree.map(whole, tree)
