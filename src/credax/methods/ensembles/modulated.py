"""What records of ensembles around one shared network have in common."""

import abc
from dataclasses import dataclass
from typing import Any, Literal

import jax
import numpy as np

from credax.data.dataset import Split
from credax.errors import InputError
from credax.methods.ensemble import choices
from credax.methods.ensembles.modulated_descent import ModulatedDescent
from credax.methods.ensembles.modulated_posterior import ModulatedPosterior, Shared
from credax.methods.ensembles.modulator import Modulator, Parts, named, own_leaves
from credax.methods.modes import Kept, Modes
from credax.methods.traced import structure_with_kernels
from credax.problem import Problem
from credax.structure import Structure
from credax.training import Training


@dataclass(frozen=True)
class Modulated(Modes):
    """Abstract: ``members`` that share one network and differ by factors on its kernels."""

    members: int = 4
    """Members of each mode."""
    batch: Literal["split", "tile"] = "split"
    """Each row of a batch to one member (the cost of one network), or every row to all."""
    own: Literal["biases", "biases-and-norms", "none"] = "biases"
    """Parameters that every member has for itself: biases, also scales and shifts of norms."""

    def __post_init__(self):
        Modes.__post_init__(self)
        choices(self)
        if self.members < 1:
            raise InputError(f"members is {self.members}; there is at least 1")

    @abc.abstractmethod
    def modulator(
        self, problem: Problem, structure: Structure, training: Training | None, num_data: int
    ) -> Modulator:
        """What multiplies the kernels; ``training`` is None when a stored posterior is read."""

    @property
    def draws(self) -> int:
        """Networks drawn of every member for a prediction: a hook, 1 here."""
        return 1

    @property
    def options(self) -> dict[str, Any]:
        """Further fields of `ModulatedDescent`: a hook, none here."""
        return {}

    def dynamics(self, problem: Problem, data: Split, training: Training) -> ModulatedDescent:
        """Descent of the shared network and of what members add, one replica per mode."""
        if self.batch == "split" and training.batch_size < self.members:
            raise InputError(
                f"batch_size is {training.batch_size} and members is {self.members}; with "
                "batch='split' every member needs a row: use larger batches, fewer members, or "
                "batch='tile'"
            )
        example = jax.ShapeDtypeStruct((1, *data.x.shape[1:]), data.x.dtype)
        structure = structure_with_kernels(problem, example, "multiply")
        return ModulatedDescent(
            self.descent(problem, data, training),
            self.modulator(problem, structure, training, len(data)),
            own_leaves(structure, problem, self.own),
            self.batch,
            **self.options,
        )

    def posterior(self, problem, dynamics, states, variables, alive, data) -> Any:
        """What is kept of the modes whose members all stayed finite: they share their weights."""
        finite = np.asarray(alive).reshape(dynamics.replicas.count, -1).all(1)
        if not finite.any():
            raise InputError(
                "a member of every mode has non-finite weights, and members share theirs; lower "
                "the learning rate or clip gradients (clip_norm)"
            )
        return Modes.posterior(self, problem, dynamics, states, variables, finite, data)

    def result(
        self, problem: Problem, dynamics: ModulatedDescent, kept: Kept, data: Split
    ) -> ModulatedPosterior:
        """Shared weights, members' own, and the seeds of their draws."""
        states = jax.tree.map(jax.numpy.asarray, kept.states)
        trained = states.trained
        parts = Parts(trained.common, trained.members, states.fixed)
        shared = Shared(trained.weights, trained.own, parts, states.carried)
        number = jax.numpy.arange(self.members * self.draws)
        fold = jax.vmap(lambda key: jax.vmap(lambda i: jax.random.fold_in(key, i))(number))
        seeds = jax.random.key_data(fold(kept.keys))
        seeds = seeds.reshape(len(kept.modes), self.members, self.draws, -1)
        dtype = str(np.asarray(data.x[:0]).dtype)
        return ModulatedPosterior(
            problem, dynamics.modulator, shared, seeds, kept.modes, tuple(data.x.shape[1:]), dtype
        )

    def load(self, path, problem: Problem) -> ModulatedPosterior:
        """Read the members back."""
        return ModulatedPosterior.load(path, problem, self.stored_shapes)

    def stored_shapes(self, problem: Problem, x: Any) -> tuple[Modulator, Shared]:
        """The modulator for raw inputs shaped like ``x``, and shapes of what a mode stores."""
        structure = structure_with_kernels(problem, x, "multiply")
        modulator, own = (
            self.modulator(problem, structure, None, 1),
            own_leaves(structure, problem, self.own),
        )

        def one(key) -> Shared:
            variables, parts = problem.init(key, x), modulator.init(key)
            arrays = named(variables.params)
            repeat = lambda leaf: jax.numpy.stack([leaf] * self.members)  # noqa: E731
            mine = {name: repeat(arrays.pop(name)) for name in own}
            return Shared(arrays, mine, parts, jax.tree.map(repeat, variables.state))

        return modulator, jax.eval_shape(one, jax.random.key(0))
