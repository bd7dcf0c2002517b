"""Rows in the order of a score, rows of equal score as one block: the state behind every curve.

Rows of equal score have no order, so each counts as the mean of its block; blocks therefore hold
all that a curve needs, and the bins of a sketch are coarser blocks.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from credax.metrics.namespace import namespace, ratio
from credax.metrics.streaming import Statistic

SKETCH_BINS = 2**16


class Scored(NamedTuple):
    """Rows as they are gathered: a score, what is counted (error, correct, OOD), and a weight."""

    score: Any
    hit: Any
    weight: Any


class Blocks(NamedTuple):
    """Rows of equal score, scores falling: how many, their weight, the weight of their hits.

    Inside a compiled program the arrays are as long as the rows, and unused blocks count nothing.
    """

    score: Any
    count: Any
    weight: Any
    hit: Any

    @property
    def mean_hit(self) -> Any:
        """Mean of what is counted in each block."""
        return ratio(self.hit, self.weight)

    @property
    def mean_weight(self) -> Any:
        """Mean weight of the rows of each block."""
        return ratio(self.weight, self.count)

    @property
    def before(self) -> tuple[Any, Any]:
        """Weight and hits of all blocks of higher score."""
        xp = namespace(self)
        return xp.cumsum(self.weight) - self.weight, xp.cumsum(self.hit) - self.hit


def blocks_of(rows: Scored) -> Blocks:
    """Sort rows by falling score and join those of equal score."""
    rows = Scored(*(a.reshape(-1) for a in rows))
    return _host_blocks(rows) if isinstance(rows.score, np.ndarray) else _device_blocks(rows)


def rows_of(rows: Scored) -> Blocks:
    """Every row as its own block: among equal scores, the rows' own order rises with the score."""
    rows = Scored(*(a.reshape(-1) for a in rows))
    xp = namespace(rows)
    kept = rows.weight > 0
    order = xp.flip(xp.argsort(xp.where(kept, rows.score, -xp.inf), stable=True))
    kept, weight = kept[order], xp.where(kept, rows.weight, 0)[order]
    hit = xp.where(kept, weight * rows.hit[order], 0)
    return Blocks(rows.score[order], kept.astype(weight.dtype), weight, hit)


def _host_blocks(rows: Scored) -> Blocks:
    order = np.argsort(-rows.score)
    score = rows.score[order]
    starts = np.flatnonzero(np.concatenate([[True], score[1:] != score[:-1]]))
    weight = rows.weight[order]
    hit = weight * rows.hit[order]
    if starts.size == score.size:
        return Blocks(score, np.ones(score.size), weight, hit)
    count = np.diff(np.append(starts, score.size)).astype(float)
    add = np.add.reduceat
    return Blocks(score[starts], count, add(weight, starts), add(hit, starts))


def _device_blocks(rows: Scored) -> Blocks:
    kept = rows.weight > 0
    size = rows.score.shape[0]
    order = jnp.argsort(jnp.where(kept, -rows.score, jnp.inf))
    kept, score = kept[order], rows.score[order]
    weight = jnp.where(kept, rows.weight[order], 0)
    hit = jnp.where(kept, weight * rows.hit[order], 0)
    new = jnp.concatenate([jnp.zeros(1, bool), (score[1:] != score[:-1]) | (kept[1:] != kept[:-1])])
    block = jnp.cumsum(new)
    columns = jnp.stack([kept.astype(weight.dtype), weight, hit], axis=-1)
    sums = jax.ops.segment_sum(columns, block, size)
    top = jax.ops.segment_max(jnp.where(kept, score, -jnp.inf), block, size)
    return Blocks(top, *sums.T)


class Sketch(NamedTuple):
    """Bins of a score, rising: rows, weight, hits and scores added up, ``[..., bins]``."""

    count: Any
    weight: Any
    hit: Any
    score: Any


def sketch_index(score: Any, bins: int, low: float, high: float) -> Any:
    """The bin of each score; the first and the last bin are open outwards."""
    return jnp.clip(jnp.floor((score - low) * (bins / (high - low))), 0, bins - 1).astype(jnp.int32)


def sketch_sums(rows: Scored, bins: int, low: float, high: float) -> Sketch:
    """Rows added up in equal-width bins of the score."""
    kept = rows.weight > 0
    weight = jnp.where(kept, rows.weight, 0)
    values = kept, weight, weight * rows.hit, weight * rows.score
    index = sketch_index(rows.score, bins, low, high).reshape(-1)
    columns = [jnp.where(kept, v, 0).astype(weight.dtype).reshape(-1) for v in values]
    return Sketch(*(jax.ops.segment_sum(c, index, bins) for c in columns))


def sketch_blocks(sketch: Sketch) -> Blocks:
    """The bins of a sketch that hold rows, as blocks of falling score."""
    xp = namespace(sketch)
    score = xp.where(sketch.weight > 0, ratio(sketch.score, sketch.weight), -xp.inf)
    return Blocks(*(xp.flip(a, axis=-1) for a in (score, sketch.count, sketch.weight, sketch.hit)))


def harmonic(start: Any, count: Any) -> Any:
    """``Σ_{j=1..count} 1/(start + j)`` for any ``start`` of at least 0 and whole ``count``.

    >>> float(harmonic(np.array([0.0]), np.array([3.0]))[0].round(12))
    1.833333333333
    """
    xp = namespace((start, count))
    single = count / (start + 1)
    if xp is np:
        several = count > 1
        if several.any():
            single[several] = _harmonic_of_many(start[several], count[several], xp)
        return single
    return xp.where(count > 1, _harmonic_of_many(start, count, xp), single)


def _harmonic_of_many(start: Any, count: Any, xp: Any) -> Any:
    # Twelve terms one by one; from there on the expansion of digamma is exact to rounding.
    shift = 12
    head = sum(count / ((start + j) * (start + count + j)) for j in range(1, shift + 1))
    low = start + shift + 0.5
    high = low + count
    return head + xp.log1p(count / low) + _tail(high) - _tail(low)


def _tail(x: Any) -> Any:
    square = 1 / (x * x)
    return square * (1 / 24 - square * (7 / 960 - square * (31 / 8064 - square * 127 / 30720)))


@cache
def ranking(
    rows: Callable[[Any, Any], Scored],
    sketch: tuple[float, float] | None = None,
    bins: int = SKETCH_BINS,
    prepare: Callable[[Sketch], Blocks] = sketch_blocks,
) -> Statistic:
    """All rows sorted by score, or ``bins`` equal-width bins of it between the ends ``sketch``."""
    if sketch is None:
        return Statistic(rows, None, blocks_of)
    low, high = sketch
    return Statistic(rows, lambda rows: sketch_sums(rows, bins, low, high), prepare)
