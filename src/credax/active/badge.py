"""BADGE: a batch of different, large gradients (Ash et al. 2020)."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Key

from credax.active.candidates import Candidates
from credax.active.choice import Acquisition, Choice, check_count
from credax.errors import InputError
from credax.keys import numpy_generator
from credax.mixing import require_equal_weights
from credax.prediction import ClassPrediction


@dataclass(frozen=True)
class BADGE(Acquisition):
    """k-means++ on the gradients that the last layer would get from the label that is predicted.

    The embedding of a row is ``g = (p - e_ŷ) hᵀ``: the gradient of the cross-entropy by the kernel
    of the last linear layer, ``h`` its inputs, ``p`` the probabilities and ``ŷ`` the most probable
    class. Of an ensemble every network ``s`` has its own ``p_s`` and ``h_s``, the label is the
    mixture's, and the embeddings stand side by side over ``√networks``. The first row is the one of
    largest norm; the others are drawn with probabilities in proportion to the squared distance to
    the nearest chosen one. A score is that distance (the first one's norm). Embeddings are never
    formed: a product of two is ``(a·a')(h·h')``; costs ``count * candidates * networks`` times
    ``features + classes`` operations. Reference: Ash et al., Deep batch active learning by diverse,
    uncertain gradient lower bounds, ICLR 2020.
    """

    name: ClassVar[str] = "badge"
    title: ClassVar[str] = "BADGE"

    def choose(self, candidates: Candidates, count: int, *, key: Key[Array, ""]) -> Choice:
        """``count`` different rows, drawn with ``key``."""
        check_count(candidates, count)
        return k_means_plus_plus(gradient_embeddings(candidates), count, key)


class Embeddings(NamedTuple):
    """Outer products ``errors ⊗ hidden``, one per row and network, over ``√networks``."""

    errors: Float[np.ndarray, "rows networks classes"]
    hidden: Float[np.ndarray, "rows networks features"]

    def products(self, row: int) -> Float[np.ndarray, " rows"]:
        """Products of all rows' embeddings with one row's."""
        errors = np.einsum("rnc,nc->rn", self.errors, self.errors[row])
        hidden = np.einsum("rnf,nf->rn", self.hidden, self.hidden[row])
        return (errors * hidden).mean(axis=1)

    def squared_norms(self) -> Float[np.ndarray, " rows"]:
        """Squared norms of all rows' embeddings."""
        errors, hidden = (np.square(a).sum(axis=-1) for a in (self.errors, self.hidden))
        return (errors * hidden).mean(axis=1)


def gradient_embeddings(candidates: Candidates) -> Embeddings:
    """The factors of the candidates' gradient embeddings."""
    last = candidates.last_layer(candidates.x)
    if not isinstance(last.prediction, ClassPrediction):
        raise InputError(
            "badge needs the gradient of a predicted class and the prediction is of numbers; use "
            "core-set, or bald"
        )
    remedy = "use bald, or a posterior without weights"
    require_equal_weights(last.prediction.weights, "badge", remedy)
    labels = np.concatenate([np.asarray(part.mean).argmax(-1) for part in candidates.predictions()])
    errors = np.exp(np.swapaxes(np.asarray(last.prediction.log_probs), 0, 1))
    errors[np.arange(len(labels)), :, labels] -= 1.0
    return Embeddings(errors, last.hidden)


def k_means_plus_plus(embeddings: Embeddings, count: int, key: Key[Array, ""]) -> Choice:
    """Rows by D² sampling from the one of largest norm on."""
    generator = numpy_generator(key)
    norms = np.asarray(embeddings.squared_norms(), np.float64)
    distance, chosen, scores = np.full(len(norms), np.inf), [], []
    for number in range(count):
        if number == 0:
            pick = int(generator.choice(np.flatnonzero(norms == norms.max())))
        else:
            # Where nothing but copies of chosen rows is left, all are equal.
            left = np.ones(len(norms))
            left[chosen] = 0.0
            weights = distance * left if (distance * left).sum() > 0 else left
            pick = int(generator.choice(len(norms), p=weights / weights.sum()))
        chosen.append(pick)
        scores.append(np.sqrt(distance[pick] if number else norms[pick]))
        gaps = norms + norms[pick] - 2 * embeddings.products(pick)
        distance = np.minimum(distance, np.maximum(gaps, 0.0))
    return Choice(np.array(chosen), np.array(scores), np.sqrt(norms))
