"""The result of a trace: axes, groups of hidden units, and the scalings each group allows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import jax

from credax.structure.labels import Label, Leaf


class Place(NamedTuple):
    """One leaf of one parameter axis: the same unit group may stand at several places."""

    path: str
    position: int


@dataclass(frozen=True)
class Axis:
    """One axis of an array: its label and what it is for.

    ``role`` is "input" (contracted with an activation), "output" (free in that contraction),
    "elementwise" (biases, scales), "window", "stacked" (steps of a loop) or "data".
    """

    size: int
    label: Label
    role: str


@dataclass(frozen=True)
class Contraction:
    """How an array is read by a product or a convolution."""

    bias: str | None
    read_once: bool
    feature_group_count: int


@dataclass(frozen=True)
class Occurrence:
    """Where a group stands: an array, its axis, and the leaf of that axis."""

    path: str
    axis: int
    place: Place
    role: str


@dataclass(frozen=True)
class UnitGroup:
    """Hidden units that may be permuted, and rescaled in the directions ``scalings``.

    The order and the scales may differ for every index of ``base`` (atoms, groups or pinned).
    A scaling maps places to exponents: with factors λ the array there is multiplied by λ to that
    power, and the network computes the same.
    """

    id: int
    atom: int
    size: int
    base: tuple[int, ...]
    base_sizes: tuple[int, ...]
    occurrences: tuple[Occurrence, ...]
    scalings: tuple[Mapping[Place, Fraction], ...]
    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    first_equation: int


@dataclass(frozen=True, eq=False)
class Structure:
    """Axes, groups and pins of a network; made by `trace`, compared by identity.

    ``pinned`` maps atoms without symmetry to the reason, ``shifts`` maps arrays to a number that
    the network adds to them and that is scaled along, ``error`` is the greatest relative change of
    outputs under a random symmetry, where it was measured. ``factors`` are the arrays that multiply
    activations unit by unit (the scales of norms).
    """

    axes: Mapping[str, tuple[Axis, ...]]
    groups: tuple[UnitGroup, ...]
    pinned: Mapping[int, str]
    sizes: Mapping[int, int]
    contractions: Mapping[str, Contraction]
    shifts: Mapping[str, float]
    statistics: str
    epsilon: str
    pairs: tuple[tuple[str, str], ...] = ()
    first_use: Mapping[str, int] = field(default_factory=dict)
    factors: frozenset[str] = frozenset()
    error: float | None = None
    by_atom: Mapping[int, UnitGroup] = field(default_factory=dict)
    network: Any = field(default=None, repr=False)
    """What was traced, with ``example`` inputs and the ``tree`` of its variables."""
    example: Any = field(default=None, repr=False)
    tree: Any = field(default=None, repr=False)
    single: bool = False
    """Whether the network computes in less than float64 whatever it is given."""

    @cached_property
    def run(self) -> Any:
        """The network's outputs for variables and inputs, compiled once per structure."""
        return jax.jit(lambda v, a: self.network.apply(v, a, train=False)[0])

    def exponents(self, group: UnitGroup, place: Place) -> list[tuple[int, Fraction]]:
        """Which scalings of a group act at a place, and in which power."""
        return [(k, row[place]) for k, row in enumerate(group.scalings) if place in row]

    def is_bias(self, path: str) -> bool:
        """Whether an array is only ever added: neither contracted nor a factor."""
        return path not in self.contractions and path not in self.factors

    def labels(self, path: str) -> tuple[Label, ...]:
        """The labels of an array's axes."""
        return tuple(axis.label for axis in self.axes[path])

    @property
    def depth_first(self) -> tuple[UnitGroup, ...]:
        """Groups with those that rest on others first."""
        return tuple(sorted(self.groups, key=lambda group: (-len(group.base), group.id)))


def place_of(leaf: Leaf) -> Place:
    """Where a parameter's leaf stands: its form is its own unknown."""
    ((path, position),) = leaf.form
    return Place(path, position)
