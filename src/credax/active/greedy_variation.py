"""Variation ratio with a reward for rows unlike the batch (Jung, Kim, Lee 2023)."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from credax.active.acquisition import variation_ratio
from credax.active.candidates import Candidates
from credax.active.choice import Acquisition, Choice, check_count
from credax.active.scored import check_members
from credax.errors import InputError
from credax.keys import numpy_generator
from credax.mixing import member_mean
from credax.prediction import ClassPrediction, Prediction

LEAST = 1e-12


@dataclass(frozen=True)
class VariationRatioGreedy(Acquisition):
    """Variation ratio plus ``weight`` times the divergence from the nearest row of the batch.

    ``VR(x) + weight * min_{x' chosen} mean_{s,t} KL(P[s, x'] || P[t, x])``, one row after another;
    the mean is over all pairs of members. Probabilities below 1e-12 count as 1e-12, so that
    divergences of confident members are finite. A score is the sum when the row was chosen. Costs
    ``count * candidates * classes`` operations after one pass over the pool. Reference: Jung, Kim,
    Lee, A simple yet powerful deep active learning with snapshot ensembles, ICLR 2023.
    """

    name: ClassVar[str] = "variation-ratio-greedy"
    title: ClassVar[str] = "Variation ratio (greedy)"

    weight: float = 0.02
    """How much a nat of divergence counts."""

    def __post_init__(self):
        if not self.weight >= 0:
            raise InputError(f"weight is {self.weight}; it is at least 0")

    def check(self, prediction: Prediction) -> None:
        """Classes, and at least two members."""
        if not isinstance(prediction, ClassPrediction):
            raise InputError(
                "variation-ratio-greedy is a score of classes and the prediction is of numbers; "
                "use variance, bald or core-set"
            )
        check_members(prediction, self.name)

    def choose(self, candidates: Candidates, count: int, *, key: Key[Array, ""]) -> Choice:
        """``count`` different rows; equal scores are broken at random with ``key``."""
        check_count(candidates, count)
        parts = []
        for prediction in candidates.predictions():
            self.check(prediction)
            parts.append(_summary(prediction))
        ratio, probs, logs, own = (np.concatenate(a) for a in zip(*parts, strict=True))
        generator = numpy_generator(key)
        nearest, chosen, scores = np.full(len(ratio), np.inf), [], []
        for _ in range(count):
            total = ratio + self.weight * nearest if chosen else ratio.copy()
            total[chosen] = -np.inf
            pick = int(generator.choice(np.flatnonzero(total >= total.max() - 1e-9)))
            chosen.append(pick)
            scores.append(total[pick])
            nearest = np.minimum(nearest, divergence(probs[pick], own[pick], logs))
        return Choice(np.array(chosen), np.array(scores), ratio)


def divergence(
    probs: Float[np.ndarray, " classes"], own: float, logs: Float[np.ndarray, "rows classes"]
) -> Float[np.ndarray, " rows"]:
    """``mean_{s,t} KL(P[s, x'] || P[t, x])`` of all rows ``x``: it needs the members' means only.

    ``probs`` is the mean of ``P[s, x']``, ``own`` the mean of ``Σ_c P log P`` there, ``logs`` the
    means of ``log P[t, x]``.
    """
    return own - logs @ probs


def _summary(prediction) -> tuple[np.ndarray, ...]:
    log_probs = jnp.maximum(prediction.log_probs, np.log(LEAST))
    weights = prediction.weights
    own = member_mean(jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1), weights)
    arrays = variation_ratio(prediction), prediction.probs, member_mean(log_probs, weights), own
    return tuple(np.asarray(a, np.float64) for a in arrays)
