"""What records of ensembles share: members, their posterior, and checks of their options."""

import abc
import dataclasses
import math
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Array

from credax.data.dataset import Split
from credax.errors import InputError, unknown
from credax.network import take_members
from credax.posterior import Population, population
from credax.problem import Problem
from credax.training import Descent, Training
from credax.training.dynamics import Replicas

# The command line offers names and numbers; functions of the step are for Python.
if TYPE_CHECKING:
    Scale = Literal["batch", "data"] | float | Callable[[Array], Array]
else:
    Scale = Literal["batch", "data"] | float


@dataclass(frozen=True)
class Ensemble(abc.ABC):
    """A number of networks; what is kept are those that stayed finite."""

    members: int = 5
    """Networks in the ensemble."""

    def __post_init__(self):
        if self.members < 1:
            raise InputError(f"members is {self.members}; an ensemble has at least 1")

    @property
    def expected_members(self) -> int:
        """As many as are asked for."""
        return self.members

    @abc.abstractmethod
    def dynamics(self, problem: Problem, data: Split, training: Training) -> Any:
        """The pure functions that the loop runs."""

    def descent(self, problem: Problem, data: Split, training: Training, **options) -> Descent:
        """Gradient descent on shared batches for each member; ``options`` are `Replicas`'."""
        replicas = Replicas(self.members, **{"shared_batches": True, **options})
        return Descent(problem, training, len(data), replicas)

    def posterior(self, problem, dynamics, states, variables, alive, data) -> Population:
        """The finite members, under their own numbers."""
        kept = np.flatnonzero(alive)
        members = take_members(variables, kept)
        numbers = tuple(int(i + dynamics.replicas.offset) for i in kept)
        return population(problem, members, data.x, numbers)

    def load(self, path, problem: Problem) -> Population:
        """Read the members back."""
        return Population.load(path, problem)


def choices(record: Any) -> None:
    """Raise an error if a field that takes named values holds another one."""
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        hint = typing.get_type_hints(type(record))[field.name]
        options = [hint, *typing.get_args(hint)]
        named = [v for h in options if typing.get_origin(h) is Literal for v in typing.get_args(h)]
        if isinstance(value, str) and named and value not in named:
            raise unknown(field.name, value, named)


def positive(record: Any, *names: str) -> None:
    """Raise an error if a number among these fields is not above zero; names pass."""
    for name in names:
        value = getattr(record, name)
        if isinstance(value, int | float) and not (value > 0 and math.isfinite(value)):
            raise InputError(f"{name} is {value}; give a positive number")


def check_annealing(record: Any) -> None:
    """The share of the training over which the weight of a divergence rises to 1."""
    if not 0 <= record.annealing <= 1:
        raise InputError(f"annealing is {record.annealing}; give a share of the training in [0, 1]")


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
