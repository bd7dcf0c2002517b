"""One number for every pair of networks, and how two such numbers go together."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import stats

from credax.errors import InputError


@dataclass(frozen=True)
class PairMatrix:
    """A symmetric quantity of all pairs ``i < j``, as the upper triangle row after row.

    ``standard_error`` is that of the mean over ``inputs`` where the value is one, else None. Pairs
    share networks, so an interval of their mean comes from `mean_interval`.

    >>> pairs = PairMatrix(3, np.array([0.1, 0.2, 0.3], np.float32))
    >>> pairs.square()[2].round(3).tolist()
    [0.2, 0.3, 0.0]
    """

    members: int
    values: Float[np.ndarray, " pairs"]
    inputs: int = 0
    standard_error: Float[np.ndarray, " pairs"] | None = None

    def square(self, diagonal: float = 0.0) -> Float[np.ndarray, "members members"]:
        """The whole matrix, float64."""
        matrix = np.full((self.members, self.members), diagonal)
        rows, columns = pair_indices(self.members)
        matrix[rows, columns] = matrix[columns, rows] = self.values
        return matrix

    def mean_interval(self, resamples: int = 1000, seed: int = 0) -> tuple[float, float, float]:
        """Mean over pairs and a 95 % interval by resampling networks, pairs of copies left out."""
        matrix = self.square()
        values = []
        for counts in _draws(self.members, resamples, seed):
            pairs = counts.sum() ** 2 - np.square(counts).sum()
            values.append(counts @ matrix @ counts / pairs)
        low, high = np.quantile(values, [0.025, 0.975])
        return float(self.values.mean()), float(low), float(high)


@dataclass(frozen=True)
class Association:
    """Correlation of two quantities over pairs, with 95 % intervals by resampling networks."""

    pearson: float
    pearson_interval: tuple[float, float]
    spearman: float
    spearman_interval: tuple[float, float]


def pair_indices(members: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of all pairs ``i < j``."""
    return np.triu_indices(members, 1)


def association(
    first: PairMatrix, second: PairMatrix, *, resamples: int = 500, seed: int = 0
) -> Association:
    """Pearson and Spearman correlation of, say, mutual information in and out of distribution.

    Resamples weight a pair by how often its two networks were drawn; Spearman's ranks are those of
    all pairs, ranked once. Cost: ``resamples`` passes over the pairs.
    """
    if first.members != second.members:
        raise InputError(
            f"first has {first.members} networks and second {second.members}; compare the same ones"
        )
    rows, columns = pair_indices(first.members)
    raw = first.values.astype(np.float64), second.values.astype(np.float64)
    ranks = stats.rankdata(raw[0]), stats.rankdata(raw[1])
    draws: list[tuple[float, float]] = []
    for counts in _draws(first.members, resamples, seed):
        weight = counts[rows] * counts[columns]
        draws.append((_correlation(*raw, weight), _correlation(*ranks, weight)))
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    even = np.ones(len(rows))
    return Association(
        _correlation(*raw, even),
        (float(low[0]), float(high[0])),
        _correlation(*ranks, even),
        (float(low[1]), float(high[1])),
    )


def _draws(members: int, resamples: int, seed: int):
    rng = np.random.default_rng(seed)
    for _ in range(resamples):
        counts = rng.multinomial(members, np.full(members, 1 / members)).astype(float)
        if np.count_nonzero(counts) > 1:
            yield counts


def _correlation(a: np.ndarray, b: np.ndarray, weight: np.ndarray) -> float:
    weight = weight / weight.sum()
    a, b = a - weight @ a, b - weight @ b
    return float((weight * a) @ b / np.sqrt(((weight * a) @ a) * ((weight * b) @ b)))
