"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox, Guestrin 2014)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from credax.data.dataset import Split
from credax.errors import InputError
from credax.methods.sampling.stochastic import Sampler, refuse_optimiser, spread_captures
from credax.problem import Problem
from credax.training import Training
from credax.training.collecting import Collecting


@dataclass(frozen=True)
class SGHMC(Sampler):
    """Descent with momentum, friction and the noise that balances it.

    ``v' = (1 - a) v - r g + sqrt(2 a r T / N) ξ``, ``θ' = θ + v'`` on the mean loss, N the number
    of rows. ``a = 1`` is SGLD, ``T = 0`` is SGD with momentum ``1 - a``. On a Gaussian of precision
    A (per row) the variance is too large by ``1/(1 - r A/(2 (2 - a)))``. One chain per mode. Costs
    one training and ``samples`` copies of the network. Reference: Chen, Fox, Guestrin, ICML 2014.

    >>> SGHMC().friction
    0.1
    """

    name: ClassVar[str] = "sghmc"
    title: ClassVar[str] = "SGHMC"

    burn_in: float = 0.5
    """Share of the training before the first sample."""
    friction: float = 0.1
    """Share of the velocity lost in a step: one minus the momentum."""
    temperature: float = 1.0
    """Factor of the noise's variance: 1 samples the posterior, 0 is SGD with momentum."""
    preconditioner: Literal["none", "rmsprop"] = "none"
    """Steps of one length for all parameters, or scaled by their squared gradients."""
    rate: Literal["constant", "training"] = "constant"
    """A constant learning rate, or the training's schedule."""
    modes: int = 1
    """Independent chains, mixed uniformly."""

    def __post_init__(self):
        Sampler.__post_init__(self)
        check_friction(self.friction)

    def settings(self, training: Training, num_data: int) -> Training:
        """The training with the sampler's rate and momentum."""
        refuse_optimiser(training, self.title)
        training = training.replace(optimiser="sgd", momentum=1 - self.friction, nesterov=False)
        return training.replace(schedule="constant") if self.rate == "constant" else training

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Collecting:
        """Langevin dynamics with friction and a buffer of samples."""
        steps = training.epochs * training.steps_per_epoch(len(data))
        captures = spread_captures(self.samples, self.burn_in, steps)
        return self.chain(
            problem,
            data,
            training,
            captures,
            preconditioner=self.preconditioner,
            friction=self.friction,
        )


def check_friction(friction: float) -> None:
    """Raise an error if this is no share of a velocity."""
    if not 0 < friction <= 1:
        raise InputError(f"friction is {friction}; it lies in (0, 1], and 1 is SGLD")
