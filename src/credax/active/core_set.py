"""CoreSet: a batch that covers the pool in feature space (Sener and Savarese 2018)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Array, Float, Key

from credax.active.candidates import Candidates
from credax.active.choice import Acquisition, Choice, check_count
from credax.keys import numpy_generator

ROWS = 1024


@dataclass(frozen=True)
class CoreSet(Acquisition):
    """k-centre greedy: again and again the row that is farthest from all labelled and chosen ones.

    ``x = argmax_x min_{x' labelled or chosen} ||f(x) - f(x')||``, with ``f`` the inputs of the last
    linear layer, of all members side by side over ``√members``. The largest distance left is at
    most twice the best possible. Without labelled rows the first is drawn at random. A score is the
    distance when the row was chosen. Costs ``(labelled + count) * candidates * features``
    operations. Reference: Sener and Savarese, Active learning for convolutional neural networks: a
    core-set approach, ICLR 2018.
    """

    name: ClassVar[str] = "core-set"
    title: ClassVar[str] = "CoreSet"

    def choose(self, candidates: Candidates, count: int, *, key: Key[Array, ""]) -> Choice:
        """``count`` different rows; equal distances are broken at random with ``key``."""
        check_count(candidates, count)
        features = candidates.features(candidates.x)
        labelled, known = candidates.labelled_x, None
        if labelled is not None and len(labelled):
            known = _nearest(features, candidates.features(labelled))
        return k_centre(features, count, known, key)


def k_centre(
    features: Float[np.ndarray, "rows features"],
    count: int,
    squared: Float[np.ndarray, " rows"] | None,
    key: Key[Array, ""],
) -> Choice:
    """Rows by farthest-first traversal; ``squared`` are distances to what is there already.

    >>> import jax
    >>> x = np.array([[0.0], [1.0], [5.0], [5.1]])
    >>> k_centre(x, 2, np.square(x[:, 0]), jax.random.key(0)).indices.tolist()
    [3, 1]
    """
    generator = numpy_generator(key)
    before = None if squared is None else np.sqrt(squared)
    distance = np.full(len(features), np.inf) if squared is None else squared.astype(np.float64)
    chosen, scores = [], []
    for _ in range(count):
        pick = int(generator.choice(np.flatnonzero(distance == distance.max())))
        chosen.append(pick)
        scores.append(np.sqrt(distance[pick]))
        gaps = np.square(features - features[pick]).sum(axis=1)
        distance = np.minimum(distance, gaps)
        # A chosen row is not chosen again, even where all that is left are copies of it.
        distance[chosen] = -1.0
    if before is None:
        # There is no distance to nothing.
        scores[0] = 0.0
    return Choice(np.array(chosen), np.array(scores), before)


def _nearest(features: np.ndarray, others: np.ndarray) -> Float[np.ndarray, " rows"]:
    """Squared distance to the nearest of ``others``, in blocks of those."""
    least = np.full(len(features), np.inf)
    norms = np.square(features).sum(axis=1)
    for start in range(0, len(others), ROWS):
        block = others[start : start + ROWS]
        gaps = norms[:, None] - 2 * features @ block.T + np.square(block).sum(axis=1)
        least = np.minimum(least, gaps.min(axis=1))
    return np.maximum(least, 0.0)
