"""Hamiltonian Monte Carlo on the whole data (Neal 2011), by blackjax."""

from dataclasses import dataclass
from typing import ClassVar

from credax.errors import InputError
from credax.methods.sampling.hamiltonian import HamiltonianRecord


@dataclass(frozen=True)
class HMC(HamiltonianRecord):
    """Chains of Hamiltonian Monte Carlo on the posterior of all rows.

    ``p ~ N(0, M)``, then leapfrog steps ``p += ε/2 ∇log π; q += ε M⁻¹ p; p += ε/2 ∇log π``,
    accepted with probability ``min(1, exp(-ΔH))``. The number of steps is drawn anew for each
    trajectory: one fixed length can be a period of the posterior. Chains are modes; R-hat,
    effective sample size and divergences are in the posterior's ``diagnostics``. ``epochs`` and
    ``batch_size`` of the training are not used. One leapfrog step is the Metropolis-adjusted
    Langevin algorithm (MALA). Costs ``leapfrog_steps`` gradients of all rows per transition.
    Reference: Neal, MCMC using Hamiltonian dynamics, 2011.

    >>> HMC().settings(__import__("credax").Training(), num_data=50).batch_size
    50
    """

    name: ClassVar[str] = "hmc"
    title: ClassVar[str] = "HMC"

    leapfrog_steps: int | None = None
    """Leapfrog steps L per transition, on average: the length is drawn from 1 to 2 L - 1. Without a
    number each chain takes as many as make a quarter of a period, at most 256."""
    modes: int = 1
    """Independent chains, mixed uniformly."""

    def __post_init__(self):
        HamiltonianRecord.__post_init__(self)
        if self.leapfrog_steps is not None and self.leapfrog_steps < 1:
            raise InputError(
                f"leapfrog_steps is {self.leapfrog_steps}; it is at least 1, or left out"
            )

    def options(self) -> dict[str, int | None]:
        """Leapfrog steps."""
        return {"num_integration_steps": self.leapfrog_steps}
