"""Distances between all networks of two populations, summed over blocks of coordinates.

Absolute and squared differences are sums over coordinates, so any blocking gives the same sums.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import pdist, squareform

from credax.errors import InputError
from credax.quality.blocks import Blocks, common_paths

BLOCK_ENTRIES = 2**23


@dataclass(frozen=True)
class Distances:
    """Sums over coordinates for all pairs of the first population followed by the second.

    ``absolute`` is ``Σ|x - y|`` and ``squared`` is ``Σ(x - y)²``, each ``[m + n, m + n]`` float64.
    """

    absolute: Float[np.ndarray, "all all"]
    squared: Float[np.ndarray, "all all"]

    def __add__(self, other: "Distances") -> "Distances":
        return Distances(self.absolute + other.absolute, self.squared + other.squared)


def distances_by_array(
    x: Blocks,
    y: Blocks | None = None,
    *,
    coordinates: int | None = None,
    seed: int = 0,
    block_entries: int = BLOCK_ENTRIES,
) -> Iterator[tuple[str, Distances]]:
    """Distances of one array after another: their sum is the distance of whole networks.

    ``coordinates`` keeps that many coordinates of the network, drawn uniformly without repeats
    (and multiplies by what was left out, which is unbiased for both sums); by default all are read.

    Memory: ``32 (m + n)²`` bytes of sums beside a block of ``block_entries`` numbers (64 MiB in
    float64 by default), whatever the networks' size; one block is one slice of one array for all
    members. Cost: ``(m + n)² / 2`` absolute differences and as many products a coordinate.
    """
    paths = common_paths(x, y) if y is not None else dict(x.paths)
    total = sum(paths.values())
    if coordinates is not None and not 0 < coordinates <= total:
        raise InputError(
            f"coordinates is {coordinates}; give a number from 1 to the network's {total}"
        )
    chosen = None
    if coordinates is not None:
        chosen = np.sort(np.random.default_rng(seed).choice(total, coordinates, replace=False))
    members = x.members + (0 if y is None else y.members)
    width = max(1, block_entries // members)
    start = 0
    for path, size in paths.items():
        absolute = np.zeros(members * (members - 1) // 2)
        squared = np.zeros((members, members))
        for low in range(0, size, width):
            piece = slice(low, min(low + width, size))
            rows = _read(x, y, path, piece)
            if chosen is not None:
                inside = chosen[(chosen >= start + low) & (chosen < start + piece.stop)]
                rows = rows[:, inside - start - low]
            if rows.shape[1]:
                absolute += pdist(rows, "cityblock")
                squared += _squared(rows)
        start += size
        scale = 1.0 if coordinates is None else total / coordinates
        yield path, Distances(squareform(absolute) * scale, squared * scale)


def _read(x: Blocks, y: Blocks | None, path: str, piece: slice) -> np.ndarray:
    parts = [x.read(path, piece)] + ([] if y is None else [y.read(path, piece)])
    rows = np.concatenate([np.asarray(part, np.float64) for part in parts])
    if not np.isfinite(rows).all():
        member = int(np.argmin(np.isfinite(rows).all(1)))
        side, row = ("x", member) if member < x.members else ("y", member - x.members)
        raise InputError(
            f"member {row} of {side} is not finite in {path}; leave it out before comparing"
        )
    return rows


def _squared(rows: np.ndarray) -> np.ndarray:
    """``|a|² + |b|² - 2ab`` of centred rows: a matrix product instead of all differences."""
    rows = rows - rows.mean(0)
    gram = rows @ rows.T
    lengths = np.diagonal(gram)
    squared = np.maximum(lengths[:, None] + lengths[None] - 2 * gram, 0)
    np.fill_diagonal(squared, 0)
    return squared
