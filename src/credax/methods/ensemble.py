"""What records of ensembles share: members, their posterior, and checks of their options."""

import dataclasses
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import numpy as np

from credax.data.dataset import Split
from credax.errors import InputError, unknown
from credax.posterior import Population, population
from credax.problem import Problem
from credax.training import Descent, Training


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
        return population(problem, members, data.x, tuple(int(i) + dynamics.offset for i in kept))

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


def scale_of(
    scale: str | float | Callable, *, batch: float, data: float, number: float
) -> float | Callable:
    """The repulsion's factor: by name, or a number times the method's own factor."""
    if callable(scale):
        return lambda step: number * scale(step)
    if isinstance(scale, str):
        return {"batch": batch, "data": data}[scale]
    return number * scale
