"""Packed-Ensembles: independent narrow networks on the same batches (Laurent et al. 2023)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from credax.data.dataset import Split
from credax.errors import InputError
from credax.methods.ensemble import Ensemble, positive
from credax.network import HasWidth, Network
from credax.posterior import Population
from credax.problem import Problem
from credax.training import Descent, Training
from credax.training.dynamics import Replicas

if TYPE_CHECKING:
    Narrow = Callable[[float], Network] | None
else:
    # The command line has no function to give.
    import tyro

    Narrow = Annotated[Any, tyro.conf.Suppress]


@dataclass(frozen=True)
class PackedEnsemble(Ensemble):
    """``members`` networks of ``alpha / members`` times the width, trained on the same batches.

    A network ``alpha`` times as wide whose layers are cut into ``members`` groups *is* that many
    independent narrow networks; here they are a mapped population of the narrow network instead of
    grouped convolutions. The loss is the sum of the members' losses, so that each follows its own
    gradient. ``groups`` (γ) cuts the convolutions of every member further. Memory and step: about
    ``alpha² / members`` networks, so that ``alpha=2, members=4`` costs one network.

    The network is narrowed by its own ``with_width`` (all of `credax.networks` but OptuNet), or by
    ``narrow``, a function from a factor to a network. Widths that do not divide are rounded up with
    a warning.

    Reference: Laurent et al., Packed-Ensembles for efficient uncertainty estimation, ICLR 2023.

    >>> PackedEnsemble(members=4, alpha=2.0).factor
    0.5
    """

    name: ClassVar[str] = "packed-ensemble"
    title: ClassVar[str] = "Packed-Ensemble"

    members: int = 4
    """Networks in the ensemble."""
    alpha: float = 2.0
    """Width of all members together over that of the given network."""
    groups: int = 1
    """Groups of every member's convolutions (γ), but of the first."""
    narrow: Narrow = field(default=None, kw_only=True)
    """A function from a factor of width to a network, for networks without `with_width`."""

    def __post_init__(self):
        Ensemble.__post_init__(self)
        positive(self, "alpha")
        if self.groups < 1:
            raise InputError(f"groups is {self.groups}; it is at least 1")
        if self.narrow is not None and self.groups != 1:
            raise InputError(
                f"groups is {self.groups} and narrow is given; let that function return a network "
                "with groups, and leave groups out"
            )

    @property
    def factor(self) -> float:
        """Width of a member over that of the given network."""
        return self.alpha / self.members

    def loads_by(self) -> tuple[str, ...]:
        """Members are networks that ``narrow`` makes."""
        return ("narrow",)

    def trained_problem(self, problem: Problem) -> Problem:
        """The problem of one narrow member."""
        return problem.with_network(self._narrowed)

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Descent:
        """Gradient descent on shared batches, once per member; ``problem`` is the narrow one."""
        replicas = Replicas(self.members, shared_batches=True)
        return Descent(problem, training, len(data), replicas)

    def posterior(self, problem, dynamics, states, variables, alive, data) -> Population:
        """The finite members, networks of the narrow problem."""
        narrow = self.trained_problem(problem)
        return Ensemble.posterior(self, narrow, dynamics, states, variables, alive, data)

    def load(self, path, problem: Problem) -> Population:
        """Read the members back."""
        return Population.load(path, self.trained_problem(problem))

    def _narrowed(self, network: Network) -> Network:
        if self.narrow is not None:
            return self.narrow(self.factor)
        if not isinstance(network, HasWidth):
            raise InputError(
                f"the network is a {type(network).__name__} without with_width, so it cannot be "
                "made narrower; give narrow=, a function from a factor to a network, or use "
                "batch-ensemble"
            )
        return network.with_width(self.factor, self.groups)
