"""Conditional neural processes: a prediction from the mean of encoded context points."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from credax.functions.process_network import SetNetwork
from credax.functions.process_record import NeuralProcessRecord
from credax.functions.set_layers import AGGREGATES, Aggregate


@dataclass(frozen=True)
class CNP(NeuralProcessRecord):
    """A conditional neural process: trained on tasks, it predicts a new one from its context.

    ``r = mean_i enc(x_i, y_i)`` over the context, outputs ``dec(r, x*)``, trained on ``log p(y_T |
    x_T, C)`` of random contexts. Targets are independent given the context: it has no draws of
    functions but their mean. The problem gives the likelihood; its network and prior are not used.
    Reference: Garnelo et al., Conditional neural processes, ICML 2018.

    >>> CNP(hidden=64).aggregate
    'mean_and_count'
    """

    name: ClassVar[str] = "cnp"
    title: ClassVar[str] = "Conditional neural process"

    hidden: int = 128
    """Units of every layer."""
    encoder_layers: int = 4
    """Layers of the encoder."""
    decoder_layers: int = 2
    """Hidden layers of the decoder."""
    aggregate: Aggregate = "mean_and_count"
    """Of the encoded points: mean (loses how many there are), mean_and_count or sum."""
    frequencies: int = 8
    """Sines and cosines of each input column that are inputs too; 0 is the published form."""
    empty: Literal["learned", "zero"] = "learned"
    """What stands for a context without points: a learned vector, or zeros."""

    def check(self) -> None:
        """Sizes from 1, known words."""
        NeuralProcessRecord.check(self)
        self.at_least(1, "hidden", "encoder_layers", "decoder_layers")
        self.at_least(0, "frequencies")
        self.one_of("aggregate", AGGREGATES)
        self.one_of("empty", ("learned", "zero"))

    def process(self, points) -> SetNetwork:
        """Encoder, aggregation, decoder."""
        return SetNetwork(
            hidden=self.hidden,
            encoder_layers=self.encoder_layers,
            decoder_layers=self.decoder_layers,
            aggregate=self.aggregate,
            frequencies=self.frequencies,
            empty=self.empty,
        )
