"""What records of ensembles share: members, their posterior, and checks of their options."""

import dataclasses
import math
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np
from jaxtyping import Array

from credax.data.dataset import Split
from credax.errors import InputError, unknown
from credax.posterior import Population, population
from credax.problem import Problem
from credax.training import Descent, Training

# The command line offers names and numbers; functions of the step are for Python.
if TYPE_CHECKING:
    Scale = Literal["batch", "data"] | float | Callable[[Array], Array]
else:
    Scale = Literal["batch", "data"] | float


@dataclass(frozen=True)
class Ensemble:
    """A number of networks; what is kept are those that stayed finite."""

    members: int = 5
    """Networks in the ensemble."""

    def __post_init__(self):
        if self.members < 1:
            raise InputError(f"members is {self.members}; an ensemble has at least 1")

    def descent(self, problem: Problem, data: Split, training: Training, **options) -> Descent:
        """Gradient descent for each member."""
        return Descent(problem, training, len(data), self.members, **options)

    def posterior(self, problem, dynamics, states, variables, alive, data) -> Population:
        """The finite members, under their own numbers."""
        kept = np.flatnonzero(alive)
        members = jax.tree.map(lambda leaf: leaf[kept], variables)
        return population(problem, members, data.x, tuple(int(i + dynamics.offset) for i in kept))

    def load(self, path, problem: Problem) -> Population:
        """Read the members back."""
        return Population.load(path, problem)


def choices(record: Any) -> None:
    """Raise one sentence if a field that takes named values holds another one."""
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        hint = typing.get_type_hints(type(record))[field.name]
        options = [hint, *typing.get_args(hint)]
        named = [v for h in options if typing.get_origin(h) is Literal for v in typing.get_args(h)]
        if isinstance(value, str) and named and value not in named:
            raise unknown(field.name, value, named)


def positive(record: Any, *names: str) -> None:
    """Raise one sentence if a number among these fields is not above zero; names pass."""
    for name in names:
        value = getattr(record, name)
        if isinstance(value, int | float) and not (value > 0 and math.isfinite(value)):
            raise InputError(f"{name} is {value}; give a positive number")


def check_keep(keep: float | None) -> None:
    """The share of eigenvalue mass that ssge keeps."""
    if keep is not None and not 0 < keep <= 1:
        raise InputError(f"keep is {keep}; it is a share in (0, 1]")


def scale_of(scale: Scale, *, batch: float, data: float, number: float) -> float | Callable:
    """The repulsion's factor: by name, or a number or schedule times the method's own factor."""
    if isinstance(scale, str):
        return {"batch": batch, "data": data}[scale]
    return Scaled(number, scale) if callable(scale) else number * scale


@dataclass(frozen=True)
class Scaled:
    """A schedule times a number; equal ones compile once."""

    number: float
    schedule: Callable[[Array], Any]

    def __call__(self, step: Array) -> Array:
        """The product at a step."""
        return self.number * self.schedule(step)
