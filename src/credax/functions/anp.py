"""Attentive neural processes: every target looks at the context points that matter to it."""

from dataclasses import dataclass
from typing import Any, ClassVar

from credax.errors import InputError
from credax.functions.process_network import Attention
from credax.functions.set_record import LatentProcess


@dataclass(frozen=True)
class ANP(LatentProcess):
    """A neural process whose deterministic path attends to the context from every target.

    ``r(x*) = Σ_i w_i(x*) enc(x_i, y_i)`` with multihead attention from ``x*`` to the ``x_i``; with
    uniform weights it is the neural process. The problem gives the likelihood; its network and
    prior are not used. Reference: Kim et al., Attentive neural processes, ICLR 2019.

    >>> ANP(heads=4).attention
    'multihead'
    """

    name: ClassVar[str] = "anp"
    title: ClassVar[str] = "Attentive neural process"

    sizes: ClassVar[tuple[str, ...]] = (*LatentProcess.sizes, "heads")

    attention: Attention = "multihead"
    """From targets to the context; uniform gives all points one weight."""
    heads: int = 8
    """Heads of the attention; they divide the hidden units."""
    self_attention: bool = False
    """Whether points of a context also look at each other in the encoders."""

    def check(self) -> None:
        """Known words, heads that divide the units."""
        LatentProcess.check(self)
        self.one_of("attention", ("multihead", "uniform"))
        if self.hidden % self.heads:
            raise InputError(
                f"hidden is {self.hidden} and heads is {self.heads}; give a number of heads that "
                "divides the hidden units"
            )

    def networks(self) -> dict[str, Any]:
        """Two encoders, attention and the decoder."""
        names = ("attention", "heads", "self_attention")
        own = {name: getattr(self, name) for name in names}
        return LatentProcess.networks(self) | own
