"""Relabelling and resampling of a kernel matrix: p-values, intervals, equal sizes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from credax.errors import InputError

CHUNK = 256


@dataclass(frozen=True)
class Settings:
    """How many draws of each kind, and their seed."""

    permutations: int = 2000
    resamples: int = 1000
    repeats: int = 50
    seed: int = 0


@dataclass(frozen=True)
class Bootstrap:
    """A 95 % interval and standard deviation by resampling ``runs`` and reference networks.

    With one run only the references vary, and the interval says nothing about other runs.
    """

    low: float
    high: float
    deviation: float
    runs: int


@dataclass(frozen=True)
class EqualSizes:
    """Mean and deviation against random subsets of the reference as large as ``x``."""

    mean: float
    deviation: float
    size: int


def permutation_p_value(matrix: Float[np.ndarray, "all all"], m: int, settings: Settings) -> float:
    """``(1 + #{relabelled ≥ observed}) / (B + 1)`` of the unbiased statistic.

    With ``s`` the indicator of the relabelled ``x`` and ``K`` without its diagonal,
    ``sᵀKs``, ``1ᵀKs`` and ``1ᵀK1`` give all three sums: one matrix product for many labels.
    """
    kernel = matrix.copy()
    np.fill_diagonal(kernel, 0)
    rng = np.random.default_rng(settings.seed)
    rows, total = kernel.sum(1), kernel.sum()
    observed = _unbiased(kernel[:m, :m].sum(), rows[:m].sum(), total, m, len(kernel) - m)
    above = 0
    for start in range(0, settings.permutations, CHUNK):
        count = min(CHUNK, settings.permutations - start)
        order = np.argsort(rng.random((count, len(kernel))), axis=1)[:, :m]
        chosen = np.zeros((count, len(kernel)))
        np.put_along_axis(chosen, order, 1.0, axis=1)
        inside = np.einsum("bi,bi->b", chosen @ kernel, chosen)
        values = _unbiased(inside, chosen @ rows, total, m, len(kernel) - m)
        # Equal labellings differ by rounding alone; they count as reached.
        above += int(np.sum(values >= observed - 1e-12 * max(1.0, abs(observed))))
    return (1 + above) / (settings.permutations + 1)


def _unbiased(inside, touching, total, m: int, n: int):
    cross = touching - inside
    outside = total - inside - 2 * cross
    return inside / (m * (m - 1)) + outside / (n * (n - 1)) - 2 * cross / (m * n)


def bootstrap(
    matrix: Float[np.ndarray, "all all"], m: int, runs: Sequence[int] | None, settings: Settings
) -> Bootstrap:
    """Resample runs of ``x`` and networks of ``y`` with replacement, on the kernel already there.

    A run drawn twice gives no new pairs with itself: pairs inside a run and pairs of different runs
    are averaged apart and weighted as in the data, so duplicates do not push the value up.
    """
    runs = list(range(m)) if runs is None else list(runs)
    if len(runs) != m:
        raise InputError(f"runs has {len(runs)} entries; give one for each of the {m} members of x")
    rng = np.random.default_rng(settings.seed + 1)
    x = _Half.of(matrix[:m, :m], np.unique(runs, return_inverse=True)[1])
    y = _Half.of(matrix[m:, m:], np.arange(len(matrix) - m))
    between = np.zeros((x.groups, y.groups))
    np.add.at(between, x.group, matrix[:m, m:])
    values = []
    for start in range(0, settings.resamples, CHUNK):
        count = min(CHUNK, settings.resamples - start)
        chosen, other = x.draw(rng, count), y.draw(rng, count)
        pairs = (chosen @ x.sizes) * (other @ y.sizes)
        cross = np.einsum("br,br->b", chosen @ between, other) / pairs
        values.append(x.mean(chosen) + y.mean(other) - 2 * cross)
    values = np.concatenate(values)
    values = values[np.isfinite(values)]
    low, high = np.quantile(values, [0.025, 0.975])
    return Bootstrap(float(low), float(high), float(values.std(ddof=1)), x.groups)


@dataclass(frozen=True)
class _Half:
    """One population's kernel summed by groups (runs)."""

    group: np.ndarray
    groups: int
    sizes: np.ndarray
    inside: np.ndarray
    across: np.ndarray
    share: float

    @classmethod
    def of(cls, matrix: np.ndarray, group: np.ndarray) -> "_Half":
        groups = int(group.max()) + 1
        sizes = np.bincount(group).astype(float)
        indicator = np.zeros((len(group), groups))
        indicator[np.arange(len(group)), group] = 1
        sums = indicator.T @ matrix @ indicator
        inside = np.diagonal(sums) - indicator.T @ np.diagonal(matrix)
        np.fill_diagonal(sums, 0)
        share = float((sizes * (sizes - 1)).sum() / (len(group) * (len(group) - 1)))
        return cls(group, groups, sizes, inside, sums, share)

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """How often each group is drawn, ``[count, groups]``."""
        chances = np.full(self.groups, 1 / self.groups)
        return rng.multinomial(self.groups, chances, size=count).astype(float)

    def mean(self, chosen: np.ndarray) -> np.ndarray:
        """The mean over pairs of distinct networks, for each draw; NaN where there are none."""
        with np.errstate(invalid="ignore", divide="ignore"):
            inside = (chosen @ self.inside) / (chosen @ (self.sizes * (self.sizes - 1)))
            weighted = chosen * self.sizes
            pairs = weighted.sum(1) ** 2 - (weighted**2).sum(1)
            across = np.einsum("br,br->b", chosen @ self.across, chosen) / pairs
        if self.share == 0:
            return across
        return inside if self.share == 1 else self.share * inside + (1 - self.share) * across


def equal_sizes(matrix: Float[np.ndarray, "all all"], m: int, settings: Settings) -> EqualSizes:
    """The unbiased statistic against ``m`` random references, several times."""
    rng = np.random.default_rng(settings.seed + 2)
    kernel = matrix.copy()
    np.fill_diagonal(kernel, 0)
    inner = kernel[:m, :m].sum() / (m * (m - 1))
    values = []
    for _ in range(settings.repeats):
        rows = m + rng.choice(len(kernel) - m, m, replace=False)
        outer = kernel[np.ix_(rows, rows)].sum() / (m * (m - 1))
        values.append(inner + outer - 2 * kernel[:m, rows].mean())
    return EqualSizes(float(np.mean(values)), float(np.std(values, ddof=1)), m)
