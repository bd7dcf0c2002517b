"""Acquisitions that score every row by itself, as records for the command line and for JSON."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Array, Float, Key

from credax.active import acquisition
from credax.active.acquisition import Part
from credax.active.candidates import Candidates
from credax.active.choice import Acquisition, Choice, Scored, check_count, largest, scores_of
from credax.errors import InputError
from credax.keys import numpy_generator
from credax.prediction import ClassPrediction, Prediction


@dataclass(frozen=True)
class Random(Acquisition):
    """Rows at random: what every other acquisition must be compared with."""

    name: ClassVar[str] = "random"
    title: ClassVar[str] = "Random"

    def choose(self, candidates: Candidates, count: int, *, key: Key[Array, ""]) -> Choice:
        """``count`` rows, every set of them equally likely; scores are uniform numbers."""
        check_count(candidates, count)
        scores = numpy_generator(key).random(len(candidates))
        indices = largest(scores, count, key)
        return Choice(indices, scores[indices], scores)


@dataclass(frozen=True)
class Entropy(Scored):
    """Entropy of the mixture, ``H[p̄]``: maximum entropy sampling."""

    name: ClassVar[str] = "entropy"
    title: ClassVar[str] = "Entropy"

    def score(self, prediction: Prediction) -> Float[Array, " batch"]:
        """See `credax.active.entropy`."""
        return acquisition.entropy(prediction)


@dataclass(frozen=True)
class BALD(Scored):
    """Mutual information of label and member (Houlsby et al. 2011)."""

    name: ClassVar[str] = "bald"
    title: ClassVar[str] = "BALD"

    quadrature: bool = False
    """Numbers: the entropy of the mixture itself, and not of one Gaussian with its moments."""

    def check(self, prediction: Prediction) -> None:
        """A single member knows no disagreement."""
        check_members(prediction, self.name)

    def score(self, prediction: Prediction) -> Float[Array, " batch"]:
        """See `credax.active.bald`; a single member is refused, for it knows no disagreement."""
        self.check(prediction)
        return acquisition.bald(prediction, self.quadrature)


@dataclass(frozen=True)
class VariationRatio(Scored):
    """Share of members that do not vote for the modal class (Freeman 1965)."""

    name: ClassVar[str] = "variation-ratio"
    title: ClassVar[str] = "Variation ratio"

    def check(self, prediction: Prediction) -> None:
        """A single member knows no disagreement."""
        check_members(prediction, self.name)

    def score(self, prediction: Prediction) -> Float[Array, " batch"]:
        """See `credax.active.variation_ratio`; a single member is refused."""
        self.check(prediction)
        return acquisition.variation_ratio(prediction)


@dataclass(frozen=True)
class VariationRatioSoft(Scored):
    """One minus the largest mean probability: least confidence."""

    name: ClassVar[str] = "variation-ratio-soft"
    title: ClassVar[str] = "Variation ratio (soft)"

    def score(self, prediction: Prediction) -> Float[Array, " batch"]:
        """See `credax.active.variation_ratio_soft`."""
        return acquisition.variation_ratio_soft(prediction)


@dataclass(frozen=True)
class PredictiveVariance(Scored):
    """Variance of the label: its one-hot vector's, or that of numbers."""

    name: ClassVar[str] = "variance"
    title: ClassVar[str] = "Variance"

    part: Part = "total"
    """All of it, or what the members' disagreement adds (epistemic)."""

    def __post_init__(self):
        if self.part not in ("total", "epistemic"):
            raise InputError(f"part is {self.part!r}; choose 'total' or 'epistemic'")

    def check(self, prediction: Prediction) -> None:
        """A single member has no epistemic part."""
        if self.part == "epistemic":
            check_members(prediction, "variance (epistemic)")

    def score(self, prediction: Prediction) -> Float[Array, " batch"]:
        """See `credax.active.predictive_variance`."""
        self.check(prediction)
        return acquisition.predictive_variance(prediction, self.part)


@dataclass(frozen=True)
class MeanStd(Scored):
    """Standard deviation over members, mean over classes (Gal et al. 2017)."""

    name: ClassVar[str] = "mean-std"
    title: ClassVar[str] = "Mean STD"

    def check(self, prediction: Prediction) -> None:
        """A single member knows no disagreement."""
        check_members(prediction, self.name)

    def score(self, prediction: Prediction) -> Float[Array, " batch"]:
        """See `credax.active.mean_std`; a single member is refused."""
        self.check(prediction)
        return acquisition.mean_std(prediction)


@dataclass(frozen=True)
class Margin(Scored):
    """A small gap between the two largest mean probabilities."""

    name: ClassVar[str] = "margin"
    title: ClassVar[str] = "Margin"

    def score(self, prediction: Prediction) -> Float[Array, " batch"]:
        """See `credax.active.margin`."""
        return acquisition.margin(prediction)


@dataclass(frozen=True)
class VoteEntropy(Scored):
    """Entropy of the members' votes (Dagan and Engelson 1995)."""

    name: ClassVar[str] = "vote-entropy"
    title: ClassVar[str] = "Vote entropy"

    def check(self, prediction: Prediction) -> None:
        """A single member knows no disagreement."""
        check_members(prediction, self.name)

    def score(self, prediction: Prediction) -> Float[Array, " batch"]:
        """See `credax.active.vote_entropy`; a single member is refused."""
        self.check(prediction)
        return acquisition.vote_entropy(prediction)


@dataclass(frozen=True)
class EPIG(Scored):
    """Information about the labels of target rows (Bickford Smith et al. 2023)."""

    name: ClassVar[str] = "epig"
    title: ClassVar[str] = "EPIG"

    def check(self, prediction: Prediction) -> None:
        """A single member knows no disagreement."""
        check_members(prediction, self.name)

    def score(
        self, prediction: Prediction, targets: Prediction | None = None
    ) -> Float[Array, " batch"]:
        """See `credax.active.epig`; without ``targets`` the rows themselves are the targets."""
        self.check(prediction)
        return acquisition.epig(prediction, prediction if targets is None else targets)

    def scores(self, candidates: Candidates) -> Float[np.ndarray, " candidates"]:
        """The score of every candidate for one set of target rows."""
        return scores_of(self, candidates, candidates.targets())


def check_members(prediction: Prediction, name: str) -> None:
    """Raise an error for a single member; one with a Dirichlet of its own says enough by itself."""
    own = isinstance(prediction, ClassPrediction) and prediction.strength is not None
    if prediction.num_members == 1 and not own:
        raise InputError(
            f"the posterior has 1 member and {name} measures disagreement, which is then zero "
            "everywhere; use at least 2 members, or the acquisition entropy"
        )
