"""One number for every pair of networks: distances of weights, alignment, and correlations."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from scipy import stats

from credax.errors import InputError, unknown
from credax.quality.blocks import as_blocks
from credax.quality.distances import BLOCK_ENTRIES, distances_by_array


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


def pairwise_weight_distance(
    source: Any, *, norm: Literal["l1", "l2"] = "l2", block_entries: int = BLOCK_ENTRIES
) -> PairMatrix:
    """Distance of the weights of every pair, streamed over coordinates as in the MMD.

    >>> float(pairwise_weight_distance(np.array([[0.0, 0.0], [3.0, 4.0]])).values[0])
    5.0
    """
    if norm not in ("l1", "l2"):
        raise unknown("norm", norm, ["l1", "l2"])
    blocks = as_blocks(source)
    total = np.zeros((blocks.members, blocks.members))
    for _, part in distances_by_array(blocks, block_entries=block_entries):
        total += part.absolute if norm == "l1" else part.squared
    values = total[pair_indices(blocks.members)]
    values = values if norm == "l1" else np.sqrt(values)
    return PairMatrix(blocks.members, values.astype(np.float32))


def pairwise_weight_cosine(source: Any, *, block_entries: int = BLOCK_ENTRIES) -> PairMatrix:
    """Cosine of the angle between the weights of every pair; about the origin, not the mean.

    >>> float(pairwise_weight_cosine(np.array([[1.0, 0.0], [1.0, 0.0]])).values[0])
    1.0
    """
    blocks = as_blocks(source)
    gram = np.zeros((blocks.members, blocks.members))
    width = max(1, block_entries // blocks.members)
    for path, size in blocks.paths.items():
        for low in range(0, size, width):
            rows = np.asarray(blocks.read(path, slice(low, min(low + width, size))), np.float64)
            gram += rows @ rows.T
    lengths = np.sqrt(np.diagonal(gram))
    if not (lengths > 0).all():
        zero = int(np.argmin(lengths > 0))
        raise InputError(f"member {zero} has weights that are all zero; it has no direction")
    cosine = (gram / lengths[:, None] / lengths[None])[pair_indices(blocks.members)]
    return PairMatrix(blocks.members, cosine.astype(np.float32))


def pairwise_kernel_alignment(
    representations: Float[np.ndarray, "members inputs features"],
) -> PairMatrix:
    """Centred alignment of the linear kernels of every pair's representations of the same inputs.

    ``|F_iᵀ F_j|² / (|F_iᵀ F_i| |F_jᵀ F_j|)`` in Frobenius norm, features centred over inputs: 1
    when one is the other rotated or scaled, 0 when they are unrelated (Kornblith et al. 2019).
    Memory: members times features squared for one network at a time; float64.

    >>> F = np.arange(12.0).reshape(1, 6, 2)
    >>> float(pairwise_kernel_alignment(np.concatenate([F, 3 * F])).values[0])
    1.0
    """
    features = np.asarray(representations, np.float64)
    if features.ndim != 3:
        raise InputError(
            f"representations has shape {features.shape}; give [members, inputs, features]"
        )
    features = features - features.mean(1, keepdims=True)
    members = len(features)
    overlap = np.zeros((members, members))
    for i in range(members):
        products = np.einsum("nf,jng->jfg", features[i], features[i:], optimize=True)
        overlap[i, i:] = np.square(products).sum((1, 2))
    own = np.sqrt(np.diagonal(overlap))
    if not (own > 0).all():
        still = int(np.argmin(own > 0))
        raise InputError(f"member {still} says the same of every input; alignment is not defined")
    values = (overlap / own[:, None] / own[None])[pair_indices(members)]
    return PairMatrix(members, values.astype(np.float32))
