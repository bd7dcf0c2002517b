"""How one member's function becomes the population's: at once, in groups, one by one, sharded.

A strategy turns ``f(own, shared) -> result`` for one member into the same for all: ``own`` and the
result have a leading members axis, ``shared`` has none. All give the same numbers to rounding.
"""

from collections.abc import Callable
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from credax.errors import InputError


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
        """`jax.lax.map` over groups."""
        return jax.lax.map(lambda one: function(one, shared), own, batch_size=self.at_once)


class Unroll(eqx.Module):
    """One member after another in one program, each compiled as if alone.

    The fastest on CPU where a batched operation is slower than its parts (XLA's convolution).
    """

    def __call__(self, function, own, shared):
        """A Python loop, stacked."""
        count = len(jax.tree.leaves(own)[0])
        results = [
            function(jax.tree.map(lambda leaf, i=i: leaf[i], own), shared) for i in range(count)
        ]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *results)


class Shard(eqx.Module):
    """Members spread over a mesh with axes ``("members", "data")``; batches over ``"data"``."""

    mesh: Mesh = eqx.field(static=True)

    def __call__(self, function, own, shared):
        """`jax.vmap`, partitioned by the compiler along the members axis."""
        return self.place(jax.vmap(function, in_axes=(0, None))(own, shared))

    def place(self, tree: Any) -> Any:
        """Constrain (inside jit) or move (outside) a population to its devices."""
        sharding = NamedSharding(self.mesh, PartitionSpec("members"))
        return jax.tree.map(lambda leaf: jax.lax.with_sharding_constraint(leaf, sharding), tree)

    def check(self, members: int) -> None:
        """Members must divide evenly over the mesh."""
        devices = self.mesh.shape["members"]
        if members % devices:
            raise InputError(
                f"members is {members} and the mesh has {devices} devices along 'members'; "
                "choose a multiple, or members='vmap'"
            )


def default_mesh() -> Mesh:
    """All devices along the members axis."""
    return jax.make_mesh((len(jax.devices()), 1), ("members", "data"))
