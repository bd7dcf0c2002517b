"""Attentive neural processes: every target looks at the context points that matter to it."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from credax.errors import InputError
from credax.functions.process_descent import Objective
from credax.functions.process_network import Attention, SetNetwork
from credax.functions.process_record import NeuralProcessRecord
from credax.functions.set_layers import AGGREGATES, Aggregate


@dataclass(frozen=True)
class ANP(NeuralProcessRecord):
    """A neural process whose deterministic path attends to the context from every target.

    ``r(x*) = Σ_i w_i(x*) enc(x_i, y_i)`` with multihead attention from ``x*`` to the ``x_i``; with
    uniform weights it is the neural process. The problem gives the likelihood; its network and
    prior are not used. Reference: Kim et al., Attentive neural processes, ICLR 2019.

    >>> ANP(heads=4).attention
    'multihead'
    """

    name: ClassVar[str] = "anp"
    title: ClassVar[str] = "Attentive neural process"

    hidden: int = 128
    """Units of every layer."""
    latent: int = 128
    """Numbers of the latent variable."""
    encoder_layers: int = 4
    """Layers of each encoder."""
    decoder_layers: int = 2
    """Hidden layers of the decoder."""
    attention: Attention = "multihead"
    """From targets to the context; uniform gives all points one weight."""
    heads: int = 8
    """Heads of the attention; they divide the hidden units."""
    self_attention: bool = False
    """Whether points of a context also look at each other in the encoders."""
    aggregate: Aggregate = "mean_and_count"
    """Of the latent path: mean (loses how many points there are), mean_and_count or sum."""
    frequencies: int = 8
    """Sines and cosines of each input column that are inputs too; 0 is the published form."""
    empty: Literal["learned", "zero"] = "learned"
    """What stands for a context without points: a learned vector, or zeros."""
    objective: Objective = "elbo"
    """Evidence bound, or logarithm of a mean over draws of the latent variable (npml)."""
    samples: int = 1
    """Draws of the latent variable per step; give 8 or more for npml."""
    latent_floor: float = 0.1
    """Least standard deviation of the latent variable."""
    members: int = 32
    """Draws of the latent variable in a prediction."""

    def check(self) -> None:
        """Sizes from 1, known words, heads that divide the units."""
        NeuralProcessRecord.check(self)
        self.at_least(1, "hidden", "latent", "encoder_layers", "decoder_layers", "heads")
        self.at_least(1, "samples", "members")
        self.one_of("attention", ("multihead", "uniform"))
        self.at_least(0, "frequencies")
        self.one_of("aggregate", AGGREGATES)
        self.one_of("empty", ("learned", "zero"))
        self.one_of("objective", ("elbo", "npml"))
        if self.hidden % self.heads:
            raise InputError(
                f"hidden is {self.hidden} and heads is {self.heads}; give a number of heads that "
                "divides the hidden units"
            )

    def process(self, points) -> SetNetwork:
        """Two encoders, attention and the decoder."""
        return SetNetwork(
            hidden=self.hidden,
            encoder_layers=self.encoder_layers,
            decoder_layers=self.decoder_layers,
            aggregate=self.aggregate,
            frequencies=self.frequencies,
            empty=self.empty,
            latent_size=self.latent,
            latent_floor=self.latent_floor,
            attention=self.attention,
            heads=self.heads,
            self_attention=self.self_attention,
        )

    @property
    def training_objective(self) -> tuple[Objective, int]:
        """As the record says."""
        return self.objective, self.samples

    @property
    def drawn(self) -> int:
        """Draws of the latent variable."""
        return self.members
