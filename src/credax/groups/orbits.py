"""Orbits of inputs, and data sets augmented by a group: in full, at random, in closed batches."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from credax.data.dataset import Split
from credax.errors import InputError
from credax.groups.action import Gather, Matrices, Representation, Trivial, check_shape, every


@dataclass(frozen=True, eq=False)
class Orbit:
    """Every element on every point: ``points`` is ``[points, group, ...]``."""

    points: Float[np.ndarray, "points group ..."]
    representation: Representation

    @property
    def flat(self) -> np.ndarray:
        """All points of all orbits as rows: what a posterior predicts."""
        return self.points.reshape(-1, *self.points.shape[2:])

    def fold(self, outputs: Any) -> np.ndarray:
        """Outputs ``[..., points * group, outputs]`` as ``[..., points, group, outputs]``."""
        outputs = np.asarray(outputs)
        points, group = self.points.shape[:2]
        if outputs.shape[-2] != points * group:
            raise InputError(
                f"outputs has shape {outputs.shape}; these orbits have {points} times {group} rows"
            )
        return outputs.reshape(*outputs.shape[:-2], points, group, outputs.shape[-1])


def orbit(x: Any, representation: Representation) -> Orbit:
    """The orbits of inputs ``[points, ...]``.

    >>> from credax.groups import sign_flip
    >>> orbit(np.array([[1.0, 2.0]]), sign_flip(2)).points.tolist()
    [[[1.0, 2.0], [-1.0, -2.0]]]
    """
    return Orbit(every(representation, np.asarray(x)), representation)


@dataclass(frozen=True, eq=False)
class Augmented:
    """All points of all orbits with their targets; row ``i * group + g`` is element g on row i."""

    x: np.ndarray
    y: np.ndarray
    permutation: Int[np.ndarray, "group rows"]
    """``x[permutation[g]]`` is element g on every row: the group permutes the augmented rows."""
    stabilisers: Int[np.ndarray, " points"]
    """How many elements leave each original point alone."""


def augment(
    x: Any, y: Any, inputs: Representation, outputs: Representation | None = None
) -> Augmented:
    """The fully augmented set ``(ρ_X(g) x_i, ρ_Y(g) y_i)``; points that repeat are kept."""
    x, y, group = np.asarray(x), np.asarray(y), inputs.group
    if len(x) != len(y):
        raise InputError(f"x has {len(x)} rows and y has {len(y)}; give one target per row")
    if outputs is not None:
        check_shape(y, outputs, "y")
    whole = orbit(x, inputs)
    turned = every(outputs or Trivial(group, y.shape[1:]), y)
    base = np.arange(len(x))[:, None] * group.order
    # g (h x_i) = (g h) x_i
    permutation = np.stack([(base + group.product[g]).reshape(-1) for g in range(group.order)])
    same = np.isclose(whole.points, whole.points[:, :1], rtol=0, atol=1e-12)
    fixed = same.reshape(len(x), group.order, -1).all(-1).sum(1)
    return Augmented(whole.flat, turned.reshape(-1, *y.shape[1:]), permutation, fixed)


def full_orbit(
    split: Split, inputs: Representation, outputs: Representation | None = None
) -> Split:
    """A training split with every row's whole orbit, in the same units.

    Units must be the same for all inputs (one mean and scale), or standardising would break the
    symmetry; such units are refused.
    """
    for name, unit in (("inputs", split.inputs), ("targets", split.targets)):
        if (
            unit is not None
            and np.size(unit.mean) > 1
            and np.ptp(unit.mean) + np.ptp(unit.scale) > 0
        ):
            raise InputError(
                f"{name} are standardised entry by entry, which the group does not commute with; "
                "use one mean and one scale for all entries"
            )
    whole = augment(split.x, split.y, inputs, outputs)
    return Split(
        whole.x.astype(split.x.dtype), whole.y.astype(split.y.dtype), split.inputs, split.targets
    )


@dataclass(frozen=True, eq=False)
class RandomElement:
    """A new random element for every row of every batch, for ``Training(augment=...)``."""

    inputs: Representation
    outputs: Representation | None = None

    def __call__(self, key, x, y):
        """The turned rows and targets of a batch."""
        which = jax.random.randint(key, (len(x),), 0, self.inputs.group.order)
        outputs = self.outputs or Trivial(self.inputs.group, y.shape[1:])
        return _each(self.inputs, which, x), _each(outputs, which, y)


@dataclass(frozen=True, eq=False)
class OrbitBatch:
    """Batches closed under the group: the whole orbits of the batch's first rows.

    For ``Training(augment=...)``; the batch size must be a multiple of the group's order.
    """

    inputs: Representation
    outputs: Representation | None = None

    def __call__(self, key, x, y):
        """Whole orbits, as many rows as there were."""
        order = self.inputs.group.order
        if len(x) % order:
            raise InputError(
                f"batch_size is {len(x)}; with closed orbits it must be a multiple of {order}"
            )
        outputs = self.outputs or Trivial(self.inputs.group, y.shape[1:])
        rows = len(x) // order
        turned = every(self.inputs, x[:rows]), every(outputs, y[:rows])
        return tuple(t.reshape(-1, *t.shape[2:]) for t in turned)


def _each(representation: Any, which, x):
    """Another element for every row, without computing all of them where that can be."""
    if isinstance(representation, Trivial):
        return x
    if isinstance(representation, Matrices):
        matrices = jnp.asarray(representation.matrices, x.dtype)[which]
        return jnp.einsum("bij,b...j->b...i", matrices, x)
    if isinstance(representation, Gather):
        indices = jnp.asarray(representation.indices)[which]
        flat = x.reshape(len(x), indices.shape[1], -1)
        found = jax.vmap(lambda row, index: row[index])(flat, indices)
        if representation.weights is not None:
            kind = x.dtype if jnp.issubdtype(x.dtype, jnp.floating) else jnp.float32
            found = found * jnp.asarray(representation.weights, kind)[which][..., None]
        return (found.sum(2) if found.shape[2] > 1 else found[:, :, 0]).reshape(x.shape)
    turned = every(representation, x)
    return jax.vmap(lambda row, element: row[element])(turned, which)
