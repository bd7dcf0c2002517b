"""Neural processes: a latent variable makes a prediction coherent over a whole function."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from credax.functions.process_descent import Objective
from credax.functions.process_network import SetNetwork
from credax.functions.process_record import NeuralProcessRecord
from credax.functions.set_layers import AGGREGATES, Aggregate


@dataclass(frozen=True)
class NP(NeuralProcessRecord):
    """A neural process: a latent variable given the context, and one function for each value.

    ``z ~ q(z | C)``, a Gaussian of the aggregate of encoded points, outputs ``dec(r, z, x*)``.
    Trained on ``E_{q(z|T)} log p(y_T | z, C) - KL(q(z|T) || q(z|C))``, or by ``npml`` on the
    likelihood itself, ``log mean_z p(y_T | z, C)`` with ``z ~ q(z|C)``. The problem gives the
    likelihood; its network and prior are not used. References: Garnelo et al., Neural processes,
    ICML workshop 2018; Foong et al., Meta-learning stationary stochastic process prediction with
    convolutional neural processes, NeurIPS 2020 (npml).

    >>> NP(latent=32).members
    32
    """

    name: ClassVar[str] = "np"
    title: ClassVar[str] = "Neural process"

    hidden: int = 128
    """Units of every layer."""
    latent: int = 128
    """Numbers of the latent variable."""
    encoder_layers: int = 4
    """Layers of each encoder."""
    decoder_layers: int = 2
    """Hidden layers of the decoder."""
    aggregate: Aggregate = "mean_and_count"
    """Of the encoded points: mean (loses how many there are), mean_and_count or sum."""
    frequencies: int = 8
    """Sines and cosines of each input column that are inputs too; 0 is the published form."""
    empty: Literal["learned", "zero"] = "learned"
    """What stands for a context without points: a learned vector, or zeros."""
    deterministic: bool = True
    """Whether the decoder also sees an aggregate that is not random."""
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
        NeuralProcessRecord.check(self)
        self.at_least(1, "hidden", "latent", "encoder_layers", "decoder_layers")
        self.at_least(1, "samples", "members")
        self.at_least(0, "frequencies")
        self.one_of("aggregate", AGGREGATES)
        self.one_of("empty", ("learned", "zero"))
        self.one_of("objective", ("elbo", "npml"))

    def process(self, points) -> SetNetwork:
        """Two encoders and the decoder."""
        return SetNetwork(
            hidden=self.hidden,
            encoder_layers=self.encoder_layers,
            decoder_layers=self.decoder_layers,
            aggregate=self.aggregate,
            frequencies=self.frequencies,
            empty=self.empty,
            latent_size=self.latent,
            deterministic=self.deterministic,
            latent_floor=self.latent_floor,
        )

    @property
    def training_objective(self) -> tuple[Objective, int]:
        """As the record says."""
        return self.objective, self.samples

    @property
    def drawn(self) -> int:
        """Draws of the latent variable."""
        return self.members
