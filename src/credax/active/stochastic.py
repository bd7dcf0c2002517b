"""Batches drawn by perturbed scores: the price of one scoring, without copies of one row."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Array, Float, Key

from credax.active import registry
from credax.active.candidates import Candidates
from credax.active.choice import Acquisition, Choice, Scored, check_count, largest
from credax.errors import InputError
from credax.keys import numpy_generator
from credax.prediction import Prediction

Kind = Literal["power", "softmax", "softrank"]


@dataclass(frozen=True)
class PowerBALD(Acquisition):
    """Rows drawn without replacement, with probabilities that rise with their scores.

    With Gumbel noise ``g`` of scale ``1 / coldness`` the largest of ``log a + g`` (power, so that a
    row is drawn with a probability in proportion to ``a^coldness``), ``a + g`` (softmax) or ``-log
    rank + g`` (softrank, ranks from 1). Costs one scoring, whatever the batch; a coldness of
    infinity is the plain choice of the largest. Scores are those before the noise. Reference:
    Kirsch et al., Stochastic batch acquisition: a simple baseline for deep active learning, TMLR
    2023.
    """

    name: ClassVar[str] = "power-bald"
    title: ClassVar[str] = "PowerBALD"

    kind: Kind = "power"
    """What is perturbed: the log of the score, the score, or minus the log of its rank."""
    coldness: float = 1.0
    """How strongly scores decide; 0 is random."""
    of: str = "bald"
    """Name of the acquisition that scores every row by itself."""

    def __post_init__(self):
        if self.kind not in ("power", "softmax", "softrank"):
            raise InputError(f"kind is {self.kind!r}; choose 'power', 'softmax' or 'softrank'")
        if not self.coldness >= 0:
            raise InputError(f"coldness is {self.coldness}; it is at least 0")
        if not issubclass(registry.get(self.of), Scored):
            raise InputError(
                f"of is {self.of!r}, which does not score rows one by one; choose one that does, "
                "such as bald or entropy"
            )

    def check(self, prediction: Prediction) -> None:
        """As the acquisition whose scores are perturbed."""
        registry.get(self.of)().check(prediction)

    def choose(self, candidates: Candidates, count: int, *, key: Key[Array, ""]) -> Choice:
        """``count`` different rows in the order in which they were drawn."""
        check_count(candidates, count)
        scores = registry.get(self.of)().scores(candidates)
        generator = numpy_generator(key)
        perturbed = self.coldness * self._levels(scores, generator)
        perturbed = perturbed + generator.gumbel(size=len(scores))
        indices = largest(perturbed, count, key)
        return Choice(indices, scores[indices], scores)

    def _levels(self, scores: Float[np.ndarray, " rows"], generator) -> np.ndarray:
        if self.kind == "softmax":
            return scores
        if self.kind == "softrank":
            order = generator.permutation(len(scores))
            order = order[np.argsort(-scores[order], kind="stable")]
            ranks = np.empty(len(scores))
            ranks[order] = np.arange(1, len(scores) + 1)
            return -np.log(ranks)
        if scores.min() < 0:
            raise InputError(
                f"of is {self.of!r}, whose scores are negative, and a power needs numbers of at "
                "least 0; use kind='softrank'"
            )
        # A score of zero comes last, and not before another by -inf + noise = -inf.
        return np.log(np.maximum(scores, 1e-30))
