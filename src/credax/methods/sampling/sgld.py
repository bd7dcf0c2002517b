"""Stochastic gradient Langevin dynamics (Welling and Teh 2011), plain or preconditioned."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from credax.data.dataset import Split
from credax.methods.sampling.stochastic import Sampler, refuse_optimiser, spread_captures
from credax.problem import Problem
from credax.training import Training
from credax.training.collecting import Collecting


@dataclass(frozen=True)
class SGLD(Sampler):
    """Gradient descent with the noise that makes its iterates samples of the posterior.

    ``θ' = θ - r g + sqrt(2 r T / N) ξ`` on the mean loss, N the number of rows; on a Gaussian of
    precision A (per row) the variance is too large by ``1/(1 - r A/2)``. With
    ``preconditioner="rmsprop"``: ``θ' = θ - r G g + sqrt(2 r T G / N) ξ``, ``G = 1/(1e-5 +
    sqrt(s))`` (Li et al. 2016, without the drift correction). One chain per mode. Costs one
    training and ``samples`` copies of the network. Reference: Welling and Teh, ICML 2011.

    >>> SGLD().temperature
    1.0
    """

    name: ClassVar[str] = "sgld"
    title: ClassVar[str] = "SGLD"

    burn_in: float = 0.5
    """Share of the training before the first sample."""
    temperature: float = 1.0
    """Factor of the noise's variance: 1 samples the posterior, 0 is SGD, bit for bit."""
    preconditioner: Literal["none", "rmsprop"] = "none"
    """Steps of one length for all parameters, or scaled by their squared gradients."""
    rate: Literal["constant", "training"] = "constant"
    """A constant learning rate, or the training's schedule."""
    modes: int = 1
    """Independent chains, mixed uniformly."""

    def settings(self, training: Training, num_data: int) -> Training:
        """The training with the sampler's rate."""
        refuse_optimiser(training, self.title)
        training = training.replace(optimiser="sgd", momentum=0.0)
        return training.replace(schedule="constant") if self.rate == "constant" else training

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Collecting:
        """Langevin dynamics with a buffer of samples."""
        steps = training.epochs * training.steps_per_epoch(len(data))
        captures = spread_captures(self.samples, self.burn_in, steps)
        return self.chain(problem, data, training, captures, preconditioner=self.preconditioner)
