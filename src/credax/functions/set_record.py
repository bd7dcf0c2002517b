"""What the records of processes on sets share: sizes of their networks, and a latent variable."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from credax.functions.process_descent import Objective
from credax.functions.process_network import SetNetwork
from credax.functions.process_record import NeuralProcessRecord
from credax.functions.set_layers import ACTIVATIONS, AGGREGATES, Activation, Aggregate


@dataclass(frozen=True)
class SetProcess(NeuralProcessRecord):
    """Abstract: encoders of points, an aggregate of them, a decoder.

    With ``frequencies=0``, ``set_blocks=0``, ``activation="relu"`` and ``aggregate="mean"`` the
    networks are those published.
    """

    sizes: ClassVar[tuple[str, ...]] = ("hidden", "encoder_layers", "decoder_layers")

    hidden: int = 128
    """Units of every layer."""
    encoder_layers: int = 4
    """Layers of each encoder."""
    decoder_layers: int = 2
    """Hidden layers of the decoder."""
    aggregate: Aggregate = "mean_and_count"
    """Of encoded points: mean (loses how many there are), mean_and_count or sum."""
    set_blocks: int = 2
    """Residual blocks, twice as wide, that an aggregate passes; 0 is the published form."""
    activation: Activation = "gelu"
    """Between layers; relu is the published form."""
    frequencies: int = 8
    """Sines and cosines of each input column that are inputs too; 0 is the published form."""
    empty: Literal["learned", "zero"] = "learned"
    """What stands for a context without points: a learned vector, or zeros."""

    def check(self) -> None:
        """Sizes from 1, known words."""
        NeuralProcessRecord.check(self)
        self.at_least(1, *self.sizes)
        self.at_least(0, "frequencies", "set_blocks")
        self.one_of("aggregate", AGGREGATES)
        self.one_of("activation", tuple(ACTIVATIONS))
        self.one_of("empty", ("learned", "zero"))

    def process(self, points) -> SetNetwork:
        """The networks of these settings."""
        return SetNetwork(**self.networks())

    def networks(self) -> dict[str, Any]:
        """Settings of the networks; records add their own."""
        names = ("aggregate", "set_blocks", "activation", "frequencies", "empty")
        return {name: getattr(self, name) for name in (*SetProcess.sizes, *names)}


@dataclass(frozen=True)
class LatentProcess(SetProcess):
    """Abstract: a process on sets with a latent variable, one function for each of its values."""

    sizes: ClassVar[tuple[str, ...]] = (*SetProcess.sizes, "latent", "samples", "members")

    latent: int = 128
    """Numbers of the latent variable."""
    objective: Objective = "elbo"
    """Evidence bound, or logarithm of a mean over draws of the latent variable (npml)."""
    samples: int = 1
    """Draws of the latent variable per step; give 8 or more for npml."""
    latent_floor: float = 0.1
    """Least standard deviation of the latent variable."""
    members: int = 32
    """Draws of the latent variable in a prediction."""

    def check(self) -> None:
        """Sizes from 1, known words."""
        SetProcess.check(self)
        self.one_of("objective", ("elbo", "npml"))

    def networks(self) -> dict[str, Any]:
        """With a latent variable."""
        own = {"latent_size": self.latent, "latent_floor": self.latent_floor}
        return SetProcess.networks(self) | own

    @property
    def training_objective(self) -> tuple[Objective, int]:
        """As the record says."""
        return self.objective, self.samples

    @property
    def drawn(self) -> int:
        """Draws of the latent variable."""
        return self.members
