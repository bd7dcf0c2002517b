"""What an acquisition is, and what it returns: positions in the pool, in order of choice."""

import abc
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Key

from credax.active.candidates import Candidates
from credax.errors import InputError
from credax.keys import numpy_generator
from credax.prediction import Prediction


class Choice(NamedTuple):
    """Rows to label next, in the order in which they were chosen."""

    indices: Int[np.ndarray, " count"]
    """Positions in the candidates."""
    scores: Float[np.ndarray, " count"]
    """Score of each one when it was chosen; what it measures is the acquisition's own."""
    all_scores: Float[np.ndarray, " candidates"] | None = None
    """Score of every candidate before the first one was chosen."""
    ceiling: float | None = None
    """What a score cannot exceed: the log of the number of members, for BatchBALD."""
    warnings: tuple[str, ...] = ()
    """Sentences for the user."""


@dataclass(frozen=True)
class Acquisition(abc.ABC):
    """Abstract: a frozen record of options that chooses rows to label."""

    name: ClassVar[str]
    title: ClassVar[str]

    def check(self, prediction: Prediction) -> None:  # noqa: B027
        """Raise an error if it cannot choose by such predictions; a hook, by default it can.

        Asked before anything is trained too, with shapes in place of numbers.
        """

    @abc.abstractmethod
    def choose(self, candidates: Candidates, count: int, *, key: Key[Array, ""]) -> Choice:
        """``count`` different candidates; equal scores are broken at random with ``key``."""


@dataclass(frozen=True)
class Scored(Acquisition):
    """Abstract: an acquisition that is a function of each row's prediction alone."""

    @abc.abstractmethod
    def score(self, prediction: Prediction) -> Float[Array, " batch"]:
        """One score per row, larger is queried first; pure, so that it can be compiled."""

    def scores(self, candidates: Candidates) -> Float[np.ndarray, " candidates"]:
        """The score of every candidate, chunk by chunk; a hook where targets are needed too."""
        return scores_of(self, candidates)

    def choose(self, candidates: Candidates, count: int, *, key: Key[Array, ""]) -> Choice:
        """The rows of the largest scores; among equal ones at random with ``key``."""
        check_count(candidates, count)
        scores = self.scores(candidates)
        indices = largest(scores, count, key)
        return Choice(indices, scores[indices], scores)


def check_count(candidates: Candidates, count: int) -> None:
    """Raise an error if so many rows cannot be chosen."""
    if count < 1:
        raise InputError(f"count is {count}; choose at least 1 row")
    if count > len(candidates):
        raise InputError(
            f"count is {count} and there are {len(candidates)} candidates; choose at most so many"
        )


def scores_of(
    acquisition: Scored, candidates: Candidates, *more: Any
) -> Float[np.ndarray, " candidates"]:
    """``acquisition.score(prediction, *more)`` of all candidates, one compiled program."""
    parts = [
        np.asarray(_score(acquisition, prediction, *more))[:rows]
        for prediction, rows in candidates.padded_predictions()
    ]
    scores = np.concatenate(parts).astype(np.float64)
    if np.isnan(scores).any():
        raise InputError(
            f"the score {acquisition.name!r} is NaN for candidate {int(np.isnan(scores).argmax())};"
            " look at its prediction, or choose another acquisition"
        )
    return scores


@partial(jax.jit, static_argnums=0)
def _score(acquisition: Any, prediction: Prediction, *more: Any) -> Array:
    return acquisition.score(prediction, *more)


def largest(
    scores: Float[np.ndarray, " candidates"], count: int, key: Key[Array, ""]
) -> Int[np.ndarray, " count"]:
    """Positions of the largest scores, falling; equal ones in random order, never by position.

    Linear in the number of candidates.

    >>> largest(np.array([0.1, 0.9, 0.5]), 2, jax.random.key(0)).tolist()
    [1, 2]
    """
    last = np.partition(scores, len(scores) - count)[len(scores) - count]
    above = np.flatnonzero(scores > last)
    generator = numpy_generator(key)
    tied = generator.permutation(np.flatnonzero(scores == last))[: count - len(above)]
    chosen = generator.permutation(np.concatenate([above, tied]))
    return chosen[np.argsort(-scores[chosen], kind="stable")]
