"""BatchBALD: a batch whose labels together say most about the members (Kirsch et al. 2019)."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from credax.active import joint
from credax.active.acquisition import bald
from credax.active.candidates import Candidates
from credax.active.choice import Acquisition, Choice, check_count
from credax.active.scored import check_members
from credax.errors import InputError
from credax.keys import numpy_generator
from credax.mixing import require_equal_weights
from credax.prediction import ClassPrediction, Prediction

BLOCK = 256
NEAR_CEILING = 0.9
ERRORS = 4.0
"""Standard errors between what a few configurations say of two candidates, to drop one of them."""


@dataclass(frozen=True)
class BatchBALD(Acquisition):
    """Greedy choice of the batch with the largest joint mutual information of labels and member.

    ``a(x_1..b) = H(y_1..b) - Σ_i mean_s H[P[s, x_i]]``, one row after another; the information is
    submodular, so that the batch has at least ``1 - 1/e`` of the best one's. All configurations of
    the chosen labels are kept while there are at most ``configurations`` of them; beyond, so many
    are drawn, the same number from every member. A score is the joint information of the batch up
    to that row; it never exceeds ``log members``, the ``ceiling``, near which late rows are chosen
    by chance and a warning says so. Per row chosen at most ``2 configurations * members *
    candidates * classes`` operations, far fewer where bounds decide: what a candidate added to a
    smaller batch bounds what it adds now, and of drawn configurations a tenth excludes candidates
    that are 4 standard errors behind. Holds the members' probabilities of the whole pool.

    Reference: Kirsch, van Amersfoort, Gal, BatchBALD: efficient and diverse batch acquisition for
    deep Bayesian active learning, NeurIPS 2019.
    """

    name: ClassVar[str] = "batchbald"
    title: ClassVar[str] = "BatchBALD"

    configurations: int = 10_000
    """Configurations of chosen labels: all of them up to this number, and then so many drawn."""

    def __post_init__(self):
        if self.configurations < 2:
            raise InputError(f"configurations is {self.configurations}; give at least 2")

    def check(self, prediction: Prediction) -> None:
        """Classes, and at least two members that are certain of their probabilities."""
        _check(prediction)

    def choose(self, candidates: Candidates, count: int, *, key: Key[Array, ""]) -> Choice:
        """Exactly ``count`` rows; equal scores are broken at random with ``key``."""
        check_count(candidates, count)
        pool = _pool(candidates)
        chosen, scores = _greedy(pool, count, self.configurations, numpy_generator(key))
        ceiling = float(np.log(pool.members))
        return Choice(chosen, scores, pool.bald, ceiling, _warnings(scores, ceiling))


class Pool(NamedTuple):
    """What the members predict for all candidates, on the host."""

    probs: Float[np.ndarray, "candidates entries members"]
    """Probabilities, and below the classes the members' entropies."""
    bald: Float[np.ndarray, " candidates"]

    @property
    def members(self) -> int:
        """How many members there are."""
        return self.probs.shape[2]

    def chosen(self, rows: Any) -> Float[np.ndarray, "rows classes members"]:
        """Probabilities of some rows."""
        return self.probs[rows, :-1]

    @property
    def rounding(self) -> float:
        """Differences of information that are equal to rounding."""
        return 16 * float(np.finfo(self.probs.dtype).eps)


def joint_information(
    prediction: ClassPrediction, *, configurations: int = 10_000, key: Key[Array, ""] | None = None
) -> Float[np.ndarray, " batch"]:
    """Mutual information of the member and the labels of the first 1, 2, ... rows together.

    Exact while ``classes^rows`` is at most ``configurations``; beyond, an unbiased estimate with
    labels drawn by ``key``.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1]] * 3, [[0.1, 0.9]] * 3])
    >>> joint_information(p).round(6).tolist()
    [0.368064, 0.514375, 0.597782]
    """
    pool = _of_prediction(prediction)
    generator = numpy_generator(jax.random.key(0) if key is None else key)
    state, found = joint.start(pool.members), []
    for row in range(len(pool.probs)):
        if row:
            state = _extended(state, pool.chosen(slice(row)), configurations, generator)
        given = joint.tiles(state, pool.probs.dtype)
        ((_, gain, _),) = joint.information(pool.probs, np.array([row]), given, 1)
        found.append(given.known + float(gain[0]))
    return np.array(found)


def _greedy(pool: Pool, count: int, configurations: int, generator) -> tuple[np.ndarray, ...]:
    """Rows in order of choice, and the joint information up to each."""
    upper, state = pool.bald.copy(), joint.start(pool.members)
    chosen, scores, known = [], [], 0.0
    for number in range(count):
        if number:
            state = _extended(state, pool.chosen(chosen), configurations, generator)
            given = joint.tiles(state, pool.probs.dtype)
            known, (rows, gains) = given.known, _best(pool, upper, given)
        else:
            rows, gains = np.arange(len(upper)), pool.bald
        # Equal to rounding is equal, so that copies of a row are not told apart by their place.
        tied = np.flatnonzero(gains >= gains.max() - pool.rounding)
        place = int(generator.choice(tied))
        chosen.append(int(rows[place]))
        scores.append(known + float(gains[place]))
        upper[chosen[-1]] = -np.inf
    return np.array(chosen), np.array(scores)


def _extended(
    state: joint.Joint, chosen: np.ndarray, configurations: int, generator: np.random.Generator
) -> joint.Joint:
    """The configurations of the labels of all chosen rows; the last one is new."""
    if state.exact and len(state.log_joint) * chosen.shape[1] > configurations:
        return joint.sampled(chosen, configurations, generator)
    return state.extended(chosen[-1], generator)


def _best(pool: Pool, upper: np.ndarray, given: joint.Tiles) -> tuple[np.ndarray, np.ndarray]:
    """Candidates that may add most, with what they add; ``upper`` bounds are made tighter.

    Information is submodular: what a row added to a smaller batch bounds what it adds now. Of many
    drawn configurations a tile is asked first, and all of them about those that are left.
    """
    rows = np.flatnonzero(np.isfinite(upper))
    if given.draws and len(given.mass) > 2:
        rows, _ = _look(pool, rows, upper, given.first(), ERRORS)
    return _look(pool, rows, upper, given, 0.0)


def _look(
    pool: Pool, rows: np.ndarray, upper: np.ndarray, given: joint.Tiles, errors: float
) -> tuple[np.ndarray, np.ndarray]:
    """From the largest bound down, until none reaches the best lower bound: what is left."""
    block = min(BLOCK, 1 << (len(upper) - 1).bit_length())
    order = rows[np.argsort(-upper[rows], kind="stable")]
    bounds, lower, seen, gains = upper[order], -np.inf, 0, []
    for here, mean, error in joint.information(pool.probs, order, given, block):
        upper[here] = mean + ERRORS * error
        lower = max(lower, (mean - errors * error).max())
        gains.append(mean)
        seen += len(here)
        if seen < len(order) and bounds[seen] < lower - pool.rounding:
            break
    left = upper[order[:seen]] >= lower - pool.rounding
    return order[:seen][left], np.concatenate(gains)[left]


def _pool(candidates: Candidates) -> Pool:
    parts = []
    for prediction, rows in candidates.padded_predictions():
        part = _of_prediction(prediction)
        parts.append(Pool(*(array[:rows] for array in part)))
    return Pool(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _of_prediction(prediction: Prediction) -> Pool:
    prediction = _check(prediction)
    probs = joint.with_entropies(prediction.members)
    return Pool(np.asarray(probs), np.asarray(_bald(prediction), np.float64))


def _check(prediction: Prediction) -> ClassPrediction:
    """The prediction, or an error if it has no joint information of classes."""
    if not isinstance(prediction, ClassPrediction):
        raise InputError(
            "batchbald is for classes and the prediction is of numbers; use bald, power-bald or "
            "core-set"
        )
    if prediction.strength is not None:
        raise InputError(
            "batchbald needs members that are certain of their probabilities and these are "
            "Dirichlet distributions; use bald, or another likelihood such as Categorical"
        )
    check_members(prediction, "batchbald")
    remedy = "use bald, or a posterior without weights"
    require_equal_weights(prediction.weights, "batchbald", remedy)
    return prediction


_bald = jax.jit(bald)


def _warnings(scores: np.ndarray, ceiling: float) -> tuple[str, ...]:
    late = np.flatnonzero(scores > NEAR_CEILING * ceiling)
    if not len(late):
        return ()
    return (
        f"from row {late[0] + 1} of the batch on the joint information is above "
        f"{NEAR_CEILING:.0%} of its ceiling, the log of the number of members ({ceiling:.3f}), so "
        "that later rows are chosen nearly by chance; use more members, or a smaller batch",
    )
