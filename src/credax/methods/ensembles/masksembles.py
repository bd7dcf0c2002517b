"""Masksembles: fixed binary masks on the hidden units of one network (Durasov et al. 2021)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from credax.errors import InputError
from credax.methods.ensembles.modulated import Modulated
from credax.methods.ensembles.modulator import Modulator, Parts
from credax.problem import Problem
from credax.structure import Structure, kernels
from credax.structure.factored import Factors
from credax.structure.labels import Label, Leaf, Product, Sum
from credax.structure.modulate import unit_axes
from credax.training import Training


@dataclass(frozen=True)
class Masksembles(Modulated):
    """``members`` subnetworks of one network, each with a fixed binary mask on its hidden units.

    A mask keeps ``m = C / (s (1 - (1 - 1/s)^M))`` of the ``C`` units of a group (rounded down), so
    that the masks of all members together keep each unit at least once; two masks share about
    ``1/s`` of theirs. ``scale=1`` gives equal members, a large scale nearly disjoint ones. All that
    reads a group of units (also after a residual sum) sees the same mask, and what is kept is not
    rescaled. Memory: one network and ``M C`` numbers per group; with ``batch="split"`` a step costs
    about one network's, a prediction M.

    Reference: Durasov, Bagautdinov, Baque, Fua, Masksembles for uncertainty estimation, CVPR 2021.

    >>> Masksembles().scale
    2.0
    """

    name: ClassVar[str] = "masksembles"
    title: ClassVar[str] = "Masksembles"

    members: int = 4
    """Masks, and members of each mode."""
    scale: float = 2.0
    """Between 1 (equal members) and 6: the greater, the less two masks have in common."""
    own: Literal["biases", "biases-and-norms", "none"] = "none"
    """Parameters that every member has for itself: biases, also scales and shifts of norms."""

    def __post_init__(self):
        Modulated.__post_init__(self)
        if not 1 <= self.scale <= 6:
            raise InputError(f"scale is {self.scale}; give a number from 1 to 6, such as 2")

    def modulator(
        self, problem: Problem, structure: Structure, training: Training | None, num_data: int
    ) -> "Masks":
        """Masks on what kernels read of groups of hidden units."""
        if not structure.groups:
            raise InputError(
                "the network has no hidden units that its trace can tell apart, so there is "
                "nothing to mask; use a network with a hidden layer, or batch-ensemble"
            )
        return Masks(structure, self.members, self.scale)


class Masks(Modulator):
    """One binary mask per member and group of hidden units; nothing of it is trained."""

    scale: float = eqx.field(static=True, default=2.0)

    def init(self, key) -> Parts:
        """Masks from the run's own key."""
        masks = {
            str(group.id): draw_masks(
                jax.random.fold_in(key, group.id), group.size, self.scale, self.members
            )
            for group in self.structure.groups
        }
        return Parts(fixed=masks)

    def factors(self, common, member, fixed, key) -> Factors:
        """The mask of every group that a kernel reads, along all of the kernel's input axes."""
        found = {}
        for path in kernels(self.structure):
            axes = [self.structure.axes[path][i] for i in unit_axes(self.structure, path, "input")]
            if not any(self._masked(axis.label) for axis in axes):
                continue
            mask = jnp.ones((1,))
            for axis in axes:
                mask = mask[..., None] * self._mask(axis.label, fixed, axis.size)
            found[path] = mask
        return Factors(found, {})

    def _masked(self, label: Label) -> bool:
        if isinstance(label, Leaf):
            return label.atom in self.structure.by_atom
        parts = label.factors if isinstance(label, Product) else getattr(label, "segments", ())
        return any(self._masked(part) for part in parts)

    def _mask(self, label: Label, masks, size: int) -> Array:
        """The mask along an axis: of a product the outer product, of a sum one after another."""
        if isinstance(label, Leaf):
            group = self.structure.by_atom.get(label.atom)
            return jnp.ones(size) if group is None else masks[str(group.id)]
        if isinstance(label, Product) and label.factors:
            mask = jnp.ones(1)
            for part in label.factors:
                here = self._mask(part, masks, self._size(part))
                mask = (mask[:, None] * here).reshape(-1)
            return mask
        if isinstance(label, Sum):
            return jnp.concatenate(
                [self._mask(part, masks, self._size(part)) for part in label.segments]
            )
        return jnp.ones(size)

    def _size(self, label: Label) -> int:
        if isinstance(label, Leaf):
            return self.structure.sizes[label.atom]
        if isinstance(label, Product):
            return math.prod(self._size(part) for part in label.factors)
        if isinstance(label, Sum):
            return sum(self._size(part) for part in label.segments)
        return label.size


def ones_per_mask(channels: int, scale: float, members: int) -> int:
    """How many of ``channels`` a mask keeps: ``C / (s (1 - (1 - 1/s)^M))``, rounded down.

    It is at least 1, and enough for the masks together to keep every channel.

    >>> ones_per_mask(64, 2.0, 4), ones_per_mask(50, 2.0, 4), ones_per_mask(8, 1.0, 4)
    (34, 26, 8)
    """
    ones = math.floor(channels / (scale * (1 - (1 - 1 / scale) ** members)) + 1e-9)
    return min(channels, max(1, ones, -(-channels // members)))


def draw_masks(
    key: Key[Array, ""], channels: int, scale: float, members: int
) -> Float[Array, "members channels"]:
    """Masks with the same number of ones that together keep every channel.

    As in the paper each mask takes its ones at random among more positions than channels, and
    positions that none takes are dropped; draws are repeated until exactly ``channels`` are left.
    """
    ones = ones_per_mask(channels, scale, members)
    positions = _positions(channels, ones, members)

    def draw(key):
        order = jax.vmap(lambda key: jax.random.permutation(key, positions))
        return order(jax.random.split(key, members)) < ones

    def again(carry):
        _, key = carry
        key, here = jax.random.split(key)
        return draw(here), key

    def wrong(carry):
        return carry[0].any(0).sum() != channels

    masks, _ = jax.lax.while_loop(wrong, again, again((None, key)))
    used = jnp.argsort(~masks.any(0), stable=True)[:channels]
    return masks[:, used].astype(jnp.float32)


def _positions(channels: int, ones: int, members: int) -> int:
    """The number of positions of which masks take, on average, as many as there are channels."""

    def gap(positions: int) -> float:
        return abs(positions * (1 - (1 - ones / positions) ** members) - channels)

    return min(range(channels, max(channels, members * ones) + 1), key=gap)
