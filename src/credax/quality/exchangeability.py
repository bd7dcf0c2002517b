"""Are the units of a layer exchangeable, as independent training makes them?

With independent, layer-wise identical initialisation every unit of a layer has the same marginal
posterior; samplers that stay in one ordering of the units do not (Laurent et al. 2024, corollary).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

from credax.errors import InputError
from credax.quality.blocks import as_blocks
from credax.quality.distances import distances_by_array
from credax.quality.kernels import bandwidth_grid, distance_for, kernel, pooled_pairs
from credax.quality.mmd import PUBLISHED

Rows = Float[np.ndarray, "members units inputs"]


@dataclass(frozen=True)
class IndexTest:
    """Which unit holds the layer's largest weight, counted over networks.

    ``statistic`` is ``Σ (O - E)² / E``; ``null`` says where the p-value comes from: the chi-square
    distribution, multinomial draws (fewer than five expected per index), or
    chains relabelled as wholes.
    """

    counts: Int[np.ndarray, " units"]
    expected: float
    statistic: float
    p_value: float
    null: str


@dataclass(frozen=True)
class RowTest:
    """Mean over units of ``MMD²_u(rows of the unit, rows of all others)`` and its p-value.

    ``members`` networks were compared, in ``chains`` chains (as many as networks if independent).
    """

    statistic: float
    p_value: float
    members: int
    chains: int


@dataclass(frozen=True)
class Exchangeability:
    """Both tests of every layer; ``adjusted`` are Holm's p-values of the row tests."""

    index: dict[str, IndexTest]
    rows: dict[str, RowTest]
    adjusted: dict[str, float]

    @property
    def rejected(self) -> tuple[str, ...]:
        """The layers whose units are not exchangeable at a family-wise level of 5 %."""
        return tuple(name for name, p in self.adjusted.items() if p <= 0.05)


def unit_rows(source: Any, axes: Mapping[str, int] | None = None) -> dict[str, Rows]:
    """The incoming weights of every unit, ``[members, units, inputs]``, layer by layer.

    ``axes[path]`` is the axis of units in one member's array; by default the last axis of every
    array called ``kernel`` but the last such array (the head), which suits `credax.networks`.

    >>> unit_rows({"a": np.zeros((5, 2, 3))}, {"a": -1})["a"].shape
    (5, 3, 2)
    """
    arrays = getattr(as_blocks(source), "arrays", source)
    if axes is None:
        kernels = [name for name in arrays if name.split("/")[-1] == "kernel"]
        axes = dict.fromkeys(kernels[:-1], -1)
    if not axes:
        raise InputError(
            "axes is empty and no two arrays are called kernel; give axes={path: axis of units}"
        )
    rows = {}
    for name, axis in axes.items():
        array = np.asarray(arrays[name])
        moved = np.moveaxis(array, axis if axis < 0 else axis + 1, 1)
        rows[name] = moved.reshape(*moved.shape[:2], -1)
    return rows


def compare_units(
    source: Any,
    axes: Mapping[str, int] | None = None,
    *,
    chains: Sequence[int] | None = None,
    permutations: int = 999,
    most_rows: int = 2048,
    seed: int = 0,
) -> Exchangeability:
    """Test every layer of a population.

    Args:
        source: a `Population`, `Variables` or a mapping of arrays ``[members, ...]``.
        axes: see `unit_rows`.
        chains: the chain of every member, for draws that depend on each other: units are then
            relabelled chain by chain. A failed test on few chains means "not mixed over
            permutations", not "wrong target".
        permutations: relabellings of the row test.
        most_rows: rows (members times units) of the row test; members are taken evenly.
        seed: of relabelling.

    Memory: about ``48 most_rows²`` bytes (200 MB); cost ``O(20 most_rows²)`` per layer, then
    ``members² units`` additions a relabelling.
    """
    layers = unit_rows(source, axes)
    index = {n: index_test(r, chains=chains, seed=seed) for n, r in layers.items()}
    options = {"permutations": permutations, "most_rows": most_rows, "seed": seed}
    rows = {n: row_test(r, chains=chains, **options) for n, r in layers.items()}
    adjusted = holm([test.p_value for test in rows.values()])
    return Exchangeability(index, rows, dict(zip(rows, adjusted, strict=True)))


def index_test(
    rows: Rows, *, chains: Sequence[int] | None = None, draws: int = 9999, seed: int = 0
) -> IndexTest:
    """Chi-square test that the unit with the largest weight is any unit with the same chance.

    >>> weights = np.zeros((64, 16, 1))
    >>> weights[:, 3] = 1.0
    >>> index_test(weights).statistic
    960.0
    """
    rows = np.asarray(rows)
    members, units = rows.shape[:2]
    largest = rows.reshape(members, units, -1).max(-1).argmax(1)
    counts = np.bincount(largest, minlength=units)
    expected = members / units
    statistic = _chi_square(counts, expected)
    rng = np.random.default_rng(seed)
    if chains is not None:
        of_chain = _labels(chains, members)
        table = np.zeros((of_chain.max() + 1, units), int)
        np.add.at(table, (of_chain, largest), 1)
        null = np.array(
            [_chi_square(rng.permuted(table, axis=1).sum(0), expected) for _ in range(draws)]
        )
        name = f"{len(table)} chains relabelled"
    elif expected < 5:
        null = _chi_square(rng.multinomial(members, np.full(units, 1 / units), draws), expected)
        name = "multinomial draws"
    else:
        p_value = float(stats.chi2.sf(statistic, units - 1))
        return IndexTest(counts, expected, float(statistic), p_value, "chi-square")
    p_value = (1 + int(np.sum(null >= statistic - 1e-9))) / (draws + 1)
    return IndexTest(counts, expected, float(statistic), p_value, name)


def _chi_square(counts: np.ndarray, expected: float) -> Any:
    return np.sum(np.square(counts - expected), axis=-1) / expected


def row_test(
    rows: Rows,
    *,
    chains: Sequence[int] | None = None,
    permutations: int = 999,
    most_rows: int = 2048,
    seed: int = 0,
) -> RowTest:
    """Compare each unit's incoming weights with those of the other units, over the population.

    The null relabels the units of every network by its own random permutation: exact for
    independent networks. Kernels are those of `maximum_mean_discrepancy`, with bandwidths from all
    pooled distances. As the sum of all kernel values is fixed, only the sum over pairs of the same
    label changes with the labels, and that is what is compared.
    """
    rows = np.asarray(rows)
    if rows.ndim < 3 or min(rows.shape[:2]) < 2:
        raise InputError(
            f"rows has shape {rows.shape}; give [members, units, inputs] with two of each at least"
        )
    labels = np.arange(len(rows)) if chains is None else _labels(chains, len(rows))
    keep = max(2, most_rows // rows.shape[1])
    if len(rows) > keep:
        chosen = np.linspace(0, len(rows) - 1, keep).astype(int)
        rows, labels = rows[chosen], np.unique(labels[chosen], return_inverse=True)[1]
    members, units = rows.shape[:2]
    matrix = _mean_kernel(rows.reshape(members * units, -1))
    rng = np.random.default_rng(seed)
    plain = np.tile(np.arange(units), (members, 1))
    observed = _same_label(matrix, plain)
    reached = 0
    for _ in range(permutations):
        orders = rng.permuted(np.tile(np.arange(units), (labels.max() + 1, 1)), axis=1)
        reached += _same_label(matrix, orders[labels]) >= observed * (1 - 1e-12)
    p_value = (1 + int(reached)) / (permutations + 1)
    value = _mean_discrepancy(observed, matrix.sum(), members, units)
    return RowTest(value, p_value, members, int(labels.max()) + 1)


def _mean_kernel(rows: np.ndarray) -> np.ndarray:
    (distances,) = (d for _, d in distances_by_array(as_blocks(rows)))
    total = np.zeros_like(distances.squared)
    for name in PUBLISHED:
        distance = distance_for(name, distances)
        for h in bandwidth_grid(pooled_pairs(distance), 10):
            total += kernel(name).profile(distance / h) / (10 * len(PUBLISHED))
    np.fill_diagonal(total, 0)
    return total


def _same_label(matrix: np.ndarray, orders: np.ndarray) -> float:
    """The kernel summed over pairs of networks' rows with one label."""
    places = np.arange(len(orders))[:, None] * orders.shape[1] + orders
    return sum(float(matrix[np.ix_(rows, rows)].sum()) for rows in places.T)


def _mean_discrepancy(same: float, total: float, members: int, units: int) -> float:
    """``mean_i MMD²_u(unit i, others)`` from two sums: over pairs of one label, and of all."""
    m, n = members, members * (units - 1)
    cross = total - same  # Σ_i Σ_{a in i, b not in i}
    others = units * total - same - 2 * cross
    return (same / (m * (m - 1)) + others / (n * (n - 1)) - 2 * cross / (m * n)) / units


def _labels(chains: Sequence[int], members: int) -> np.ndarray:
    if len(chains) != members:
        raise InputError(f"chains has {len(chains)} entries; give one for each of {members} draws")
    return np.unique(np.asarray(chains), return_inverse=True)[1]


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: all at most ``α`` may be called found at family-wise level ``α``.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1)
    return adjusted.tolist()


def effective_draws(series: Float[np.ndarray, "draws ..."]) -> float:
    """The effective sample size of one chain: ``N / (1 + 2 Σ ρ_t)``, least over columns.

    The sum stops before the first pair ``ρ_t + ρ_{t+1}`` below zero (Geyer 1992). Not blackjax's,
    which is in an extra and needs several chains.
    """
    flat = np.asarray(series, np.float64).reshape(len(series), -1)
    flat = flat - flat.mean(0)
    draws = len(flat)
    spectrum = np.fft.rfft(flat, 2 * draws, axis=0)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=0)[:draws] / draws
    moving = covariance[0] > 0
    if not moving.any():
        return 1.0
    rho = covariance[:, moving] / covariance[0, moving]
    pairs = rho[: draws // 2 * 2].reshape(-1, 2, rho.shape[1]).sum(1)
    going = np.logical_and.accumulate(pairs > 0, axis=0)
    time = 2 * np.sum(pairs * going, axis=0) - 1
    return float(np.min(np.minimum(draws / np.maximum(time, 1e-12), draws)))
