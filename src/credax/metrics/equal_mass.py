"""Bins that hold equally many rows: where sorted rows are cut, and sums between the cuts."""

from typing import Any, NamedTuple

from credax.errors import InputError
from credax.metrics.namespace import namespace
from credax.metrics.ranking import Blocks


def check_bins(name: str, bins: int) -> None:
    """Refuse fewer than one bin."""
    if bins < 1:
        raise InputError(f"{name} is {bins}; give at least one")


def split_cuts(count: Any, bins: int) -> Any:
    """Cuts of ``count`` rows into bins that differ by at most one row, larger ones first."""
    xp = namespace(count)
    whole = xp.floor(count / bins)
    left = count - whole * bins
    steps = xp.arange(1, bins, dtype=count.dtype)
    return steps * whole + xp.minimum(steps, left)


def rounded_cuts(count: Any, bins: int) -> Any:
    """Cuts at ``round(r count / bins)``, halves to even."""
    xp = namespace(count)
    exact = xp.arange(1, bins, dtype=count.dtype) * count
    whole = xp.floor(exact / bins)
    left = exact - whole * bins
    odd = whole - 2 * xp.floor(whole / 2)
    return whole + ((2 * left > bins) | ((2 * left == bins) & (odd == 1)))


class Ranges(NamedTuple):
    """Sums over the rows of each range: weights, weighted scores, hits."""

    weight: Any
    score: Any
    hit: Any


def range_sums(blocks: Blocks, cuts: Any, score: Any) -> Ranges:
    """Sums over ranges of rising rows; a block that a cut separates is shared evenly."""
    xp = namespace(blocks)
    rows = xp.flip(blocks.count)
    ends = xp.concat([xp.zeros_like(rows[:1]), xp.cumsum(rows)])
    at = xp.concat([ends[:1], cuts, ends[-1:]])

    def share(values):
        summed = xp.cumsum(xp.flip(values))
        summed = xp.concat([xp.zeros_like(summed[:1]), summed])
        return xp.diff(xp.interp(at, ends, summed))

    return Ranges(share(blocks.weight), share(score), share(blocks.hit))


def score_sums(blocks: Blocks) -> Any:
    """Weighted sum of the scores of each block."""
    xp = namespace(blocks)
    return blocks.weight * xp.where(blocks.weight > 0, blocks.score, 0)


def cut_bound(blocks: Blocks, cuts: Any, correct: Any) -> Any:
    """``Σ 2 min(Σ correct + Σ score, Σ (1 - correct) + Σ (1 - score))`` over the bins that are cut.

    Rows within a bin are taken to be equal; if a cut separates them, the deviations
    ``correct - score`` on its sides may differ, together by at most twice their absolute sum.
    """
    xp = namespace(blocks)
    ends = xp.cumsum(xp.flip(blocks.count))
    starts = ends - xp.flip(blocks.count)
    cut = xp.any((cuts[:, None] > starts) & (cuts[:, None] < ends), axis=0)
    mass = xp.flip(correct + score_sums(blocks))
    rest = 2 * xp.flip(blocks.weight) - mass
    return xp.sum(xp.where(cut, 2 * xp.minimum(mass, rest), 0)) / xp.sum(blocks.weight)
