"""Neural processes: a latent variable makes a prediction coherent over a whole function."""

from dataclasses import dataclass
from typing import Any, ClassVar

from credax.functions.set_record import LatentProcess


@dataclass(frozen=True)
class NP(LatentProcess):
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

    deterministic: bool = True
    """Whether the decoder also sees an aggregate that is not random."""

    def networks(self) -> dict[str, Any]:
        """Two encoders and the decoder."""
        return LatentProcess.networks(self) | {"deterministic": self.deterministic}
