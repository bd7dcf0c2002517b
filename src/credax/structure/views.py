"""Arrays seen in their factors: every axis split at its sums and opened at its products."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from credax.structure.labels import Label, Leaf, Product, Sum

MEMBERS = -1  # the atom of a leading members axis


def namespace(array) -> Any:
    """numpy for numpy arrays, jax.numpy for the rest: host arrays cost no compilation."""
    return np if isinstance(array, np.ndarray | np.generic) else jnp


class View(NamedTuple):
    """A piece of an array, one axis for each leaf; ``leaves[i]`` is None where none is needed."""

    array: Any
    leaves: tuple[Leaf | None, ...]

    def axis(self, atom: int) -> int:
        """The one axis of an atom."""
        (found,) = (i for i, leaf in enumerate(self.leaves) if leaf and leaf.atom == atom)
        return found


def length(label: Label, sizes: Mapping[int, int]) -> int:
    """How many indices a label has."""
    if isinstance(label, Leaf):
        return sizes[label.atom]
    if isinstance(label, Product):
        return math.prod(length(part, sizes) for part in label.factors)
    if isinstance(label, Sum):
        return sum(length(part, sizes) for part in label.segments)
    return label.size


def opened(array, labels, sizes):
    """The array with every product opened into its factors, and their labels."""
    shape, flat = [], []
    for size, label in zip(array.shape, labels, strict=True):
        if isinstance(label, Product) and label.factors:
            flat += label.factors
            shape += [length(part, sizes) for part in label.factors]
        else:
            flat.append(label)
            shape.append(size)
    array = array.reshape(shape)
    if any(isinstance(label, Product) and label.factors for label in flat):
        return opened(array, flat, sizes)
    return array, flat


def transform(array, labels, sizes, act: Callable[[View], Any]):
    """The array after ``act`` on every piece; ``act`` keeps a view's shape."""
    shape = array.shape
    array, flat = opened(array, labels, sizes)
    sums = [i for i, label in enumerate(flat) if isinstance(label, Sum)]
    if not sums:
        view = View(array, tuple(leaf if isinstance(leaf, Leaf) else None for leaf in flat))
        return act(view).reshape(shape)
    pieces = [
        transform(piece, [*flat[: sums[0]], segment, *flat[sums[0] + 1 :]], sizes, act)
        for piece, segment in _segments(array, sums[0], flat[sums[0]], sizes)
    ]
    return namespace(array).concatenate(pieces, sums[0]).reshape(shape)


def pieces(array, labels, sizes) -> list[View]:
    """The views of an array: one where no axis is a sum."""
    found = []

    def keep(view: View):
        found.append(view)
        return view.array

    transform(array, labels, sizes, keep)
    return found


def _segments(array, axis: int, label: Sum, sizes):
    start = 0
    for segment in label.segments:
        stop = start + length(segment, sizes)
        yield array[(slice(None),) * axis + (slice(start, stop),)], segment
        start = stop


def broadcast(vector, view: View, base: tuple[int, ...], axis: int):
    """A vector ``[base..., units]`` with its axes where the view has them, 1 elsewhere."""
    targets = [*(view.axis(atom) for atom in base), axis]
    order = sorted(range(len(targets)), key=targets.__getitem__)
    shape = [1] * len(view.leaves)
    for target, size in zip(targets, vector.shape, strict=True):
        shape[target] = size
    return vector.transpose(order).reshape(shape)
