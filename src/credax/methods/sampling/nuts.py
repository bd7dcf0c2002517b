"""The no-U-turn sampler on the whole data (Hoffman and Gelman 2014), by blackjax."""

from dataclasses import dataclass
from typing import ClassVar

from credax.errors import InputError
from credax.methods.sampling.hamiltonian import HamiltonianRecord


@dataclass(frozen=True)
class NUTS(HamiltonianRecord):
    """Chains of Hamiltonian Monte Carlo that choose the length of each trajectory themselves.

    A trajectory doubles until its ends turn towards each other or ``depth`` doublings are done; the
    next state is drawn from it. Chains are modes; R-hat, effective sample size and divergences are
    in the posterior's ``diagnostics``. ``epochs`` and ``batch_size`` of the training are not used.
    Costs up to ``2^depth`` gradients of all rows per transition. Reference: Hoffman and Gelman,
    JMLR 15, 2014.

    >>> NUTS().depth
    10
    """

    name: ClassVar[str] = "nuts"
    title: ClassVar[str] = "NUTS"

    depth: int = 10
    """Most doublings of a trajectory."""
    modes: int = 1
    """Independent chains, mixed uniformly."""

    def __post_init__(self):
        HamiltonianRecord.__post_init__(self)
        if self.depth < 1:
            raise InputError(f"depth is {self.depth}; a trajectory doubles at least once")

    def options(self) -> dict[str, int | None]:
        """The most doublings."""
        return {"max_num_doublings": self.depth}
