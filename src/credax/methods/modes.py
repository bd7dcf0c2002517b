"""What records of one-mode methods share: ``modes`` of them side by side, fresh or around others.

The loop runs one replica per mode, each with its own key; a method says what it keeps of one mode's
states, and gets those of all finite modes stacked. Nothing else implements multi-mode.
"""

import abc
import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from credax.batch_statistics import has_statistics
from credax.data.dataset import Split
from credax.errors import InputError
from credax.keys import wrap
from credax.network import Variables, take_members
from credax.posterior import Population
from credax.problem import Problem
from credax.training import Descent, Training
from credax.training.collecting import Collecting, capture_table
from credax.training.dynamics import Replicas

if TYPE_CHECKING:
    Around = Population | None
else:
    # The command line has no trained population to continue from.
    import tyro

    Around = Annotated[Any, tyro.conf.Suppress]


class Kept(NamedTuple):
    """The finite modes: their own numbers, and their final states stacked."""

    modes: tuple[int, ...]
    states: Any

    @property
    def keys(self) -> Key[Array, " modes"]:
        """One key per mode for draws, from the seeds in collected states."""
        return wrap(self.states.seed)


@dataclass(frozen=True)
class Modes(abc.ABC):
    """``modes`` independent copies of a one-mode method, mixed uniformly."""

    modes: int = 1
    """Independent runs, mixed uniformly."""
    around: Around = dataclasses.field(default=None, kw_only=True)
    """A trained population to continue from, one mode per member, instead of new networks."""

    def __post_init__(self):
        if self.modes < 1:
            raise InputError(f"modes is {self.modes}; there is at least 1")
        around = self.around
        left_out = (1, type(self).__dataclass_fields__["modes"].default)
        if isinstance(around, Population) and self.modes not in (*left_out, around.num_members):
            raise InputError(
                f"modes is {self.modes} and around has {around.num_members} members; there is one "
                "mode per member: leave modes out"
            )

    @abc.abstractmethod
    def dynamics(self, problem: Problem, data: Split, training: Training) -> Any:
        """The pure functions that the loop runs, one replica per mode."""

    def beginning_at(self, population: Population) -> Any:
        """The same record, with these networks to begin at, one mode each."""
        return dataclasses.replace(self, modes=1, around=population)

    @property
    def num_modes(self) -> int:
        """Independent runs: those asked for, or one per member that is continued."""
        return self.modes if self.around is None else self.around.num_members

    def posterior(self, problem, dynamics, states, variables, alive, data) -> Any:
        """What the method keeps of the modes that stayed finite."""
        kept = np.flatnonzero(alive)
        states = take_members(states, kept)
        modes = tuple(int(mode) for mode in kept)
        return self.result(problem, dynamics, Kept(modes, states), data)

    @abc.abstractmethod
    def result(self, problem: Problem, dynamics: Any, kept: Kept, data: Split) -> Any:
        """The posterior of the finite modes."""

    def load(self, path, problem: Problem) -> Any:
        """Read the members back."""
        return Population.load(path, problem)

    def descent(self, problem: Problem, data: Split, training: Training, **options) -> Descent:
        """Gradient descent for each mode, from new networks or from those of ``around``.

        ``options`` are further fields of `Replicas`.
        """
        if training.keep_best:
            raise InputError(
                "keep_best is set; it keeps one network per mode and this method keeps what it "
                "collects along the trajectory: leave it out"
            )
        around, modes = self.around, self.modes
        if around is not None:
            if not isinstance(around, Population):
                raise InputError(
                    f"around is a {type(around).__name__}; give a Population, such as what "
                    "DeepEnsemble returns"
                )
            options["start"], modes = around.variables, around.num_members
        return Descent(problem, training, len(data), Replicas(modes, **options))


def collecting(
    inner: Any, collector: Any, captures: list[int], training: Training, data: Split
) -> Collecting:
    """The dynamics with a collector after the given steps."""
    total = training.epochs * training.steps_per_epoch(len(data))
    return Collecting(inner, collector, capture_table(captures, total))


def regular_captures(
    start: float, every: int | None, training: Training, num_data: int
) -> tuple[int, list[int]]:
    """The step at which collecting begins, and the steps after which a network is captured.

    ``start`` is a share of the training, rounded down to whole epochs; captures follow ``every``
    steps (an epoch for None) after it, up to the last step.

    >>> regular_captures(0.5, None, Training(epochs=4, batch_size=10), num_data=30)
    (6, [9, 12])
    """
    per_epoch = training.steps_per_epoch(num_data)
    first = math.floor(start * training.epochs) * per_epoch
    every = per_epoch if every is None else every
    return first, list(range(first + every, training.epochs * per_epoch + 1, every))


def check_captures(start: float, every: int | None) -> None:
    """Raise an error if these are no shares and steps."""
    if not 0 <= start < 1:
        raise InputError(f"start is {start}; give a share of the training in [0, 1)")
    if every is not None and every < 1:
        raise InputError(f"every is {every}; give at least 1 step, or leave it out for an epoch")


def averaging_settings(training: Training, start: float, ratio: float | None) -> Training:
    """The rate of weight averaging: high, then a linear decrease, then constant.

    The base rate up to ``start / 2``, then down to ``ratio`` times it at ``0.9 start``, constant
    after (timgaripov/swa); None leaves the schedule alone, and so does an optimiser or a learning
    rate that brings its own.
    """
    if ratio is None or training.brings_schedule:
        return training
    if start == 0:
        base: Any = training.learning_rate
        rate = base * ratio
        return training.replace(schedule="constant", learning_rate=rate)
    milestones = (0.5 * start, 0.9 * start)
    return training.replace(schedule="piecewise-linear", milestones=milestones, final_ratio=ratio)


def members_of_modes(kept: Kept, variables: Variables) -> tuple[Variables, tuple[int, ...]]:
    """Leaves ``[modes, draws, ...]`` as members, mode by mode, and their numbers."""
    draws = jax.tree.leaves(variables)[0].shape[1]
    flat = jax.tree.map(lambda leaf: jnp.reshape(leaf, (-1, *leaf.shape[2:])), variables)
    return flat, tuple(mode * draws + i for mode in kept.modes for i in range(draws))


def example_variables(problem: Problem, data: Split) -> Variables:
    """Shapes of one network's variables."""
    example = jax.ShapeDtypeStruct((1, *data.x.shape[1:]), data.x.dtype)
    return jax.eval_shape(problem.init, jax.random.key(0), example)


def carries_statistics(problem: Problem, data: Split) -> bool:
    """Whether the problem's network has batch statistics."""
    return has_statistics(example_variables(problem, data))
