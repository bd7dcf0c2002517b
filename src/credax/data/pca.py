"""Principal components of inputs, accumulated in blocks: no array of all rows times all inputs.

The second moment is ``C = Σ_b X_b^T X_b / (N - 1)`` in float64 over blocks of rows in standard
units, flattened (height, width, channel). It is not centred by default, as in the released code of
FoRDE; ``centre=True`` subtracts the mean by a rank-one update.
"""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg

from credax.data.dataset import Split
from credax.errors import DamagedFile, InputError
from credax.files import write_atomic
from credax.reading import not_finite, read_npz

BLOCK = 4096
EXACT = 4096
OVERSAMPLING, PASSES = 32, 4

Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Components:
    """Leading eigenvectors (columns) and eigenvalues of the second moment, greatest first.

    ``total`` is its trace; ``next_value`` and ``last_value`` are the first eigenvalue left out and
    the least one (zero where none is left out).
    """

    vectors: np.ndarray
    values: np.ndarray
    total: float
    next_value: float
    last_value: float
    rows: int
    centred: bool

    @property
    def dimension(self) -> int:
        """Length of a flattened input."""
        return len(self.vectors)

    @property
    def explained(self) -> float:
        """Share of the total that is kept."""
        return float(self.values.sum() / self.total)

    def truncate(self, rank: int | float | None) -> "Components":
        """Fewer components: a number of them, or the share of the total to keep."""
        kept = self._count(rank)
        if kept == len(self.values):
            return self
        return Components(
            self.vectors[:, :kept],
            self.values[:kept],
            self.total,
            float(self.values[kept]),
            self.last_value if len(self.values) < self.dimension else float(self.values[-1]),
            self.rows,
            self.centred,
        )

    def _count(self, rank: int | float | None) -> int:
        if rank is None:
            return len(self.values)
        if isinstance(rank, float) and 0 < rank <= 1:
            shares = np.cumsum(self.values) / self.total
            if shares[-1] < rank and len(self.values) < self.dimension:
                raise InputError(
                    f"rank is {rank} and the {len(self.values)} components at hand explain only "
                    f"{shares[-1]:.3f}; compute more of them"
                )
            return min(int(np.searchsorted(shares, rank)) + 1, len(self.values))
        if int(rank) != rank or not 1 <= rank <= self.dimension:
            raise InputError(
                f"rank is {rank}; give a whole number from 1 to {self.dimension} (the length of an "
                "input), or a share of the variance between 0 and 1"
            )
        if rank > len(self.values):
            raise InputError(
                f"rank is {rank} and there are {len(self.values)} components; compute more of them"
            )
        return int(rank)

    def save(self, path: str | Path) -> None:
        """Keep them in one ``.npz`` file."""
        buffer = io.BytesIO()
        np.savez(buffer, **self.__dict__)
        write_atomic(path, buffer.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> "Components":
        """Read what `save` (or ``credax pca``) wrote."""
        if not Path(path).exists():
            raise InputError(f"there is no file {path}; make it with: credax pca DATA {path}")
        problem, remedy = "does not hold principal components", "make it with: credax pca"
        content: dict[str, Any] = read_npz(path, problem=problem, remedy=remedy)
        reason = _wrong(content)
        if reason:
            raise DamagedFile(f"{path} {problem} ({reason}); {remedy}")
        for name in ("total", "next_value", "last_value"):
            content[name] = float(content[name])
        return cls(**{**content, "rows": int(content["rows"]), "centred": bool(content["centred"])})


def _wrong(content: dict[str, np.ndarray]) -> str:
    """What is wrong with the arrays of a file of components, if anything."""
    kinds = {"vectors": ("f", 2), "values": ("f", 1), "total": ("f", 0), "next_value": ("f", 0)}
    kinds |= {"last_value": ("f", 0), "rows": ("iu", 0), "centred": ("b", 0)}
    odd = sorted(kinds.keys() ^ content.keys())
    if odd:
        return f"{odd[0][:80]} is {'missing' if odd[0] in kinds else 'not known'}"
    for name, (kind, ndim) in kinds.items():
        array = content[name]
        if array.dtype.kind not in kind or array.ndim != ndim or not_finite(array) is not None:
            return f"{name} has type {array.dtype} and shape {array.shape}, or is not finite"
    vectors, values = content["vectors"], content["values"]
    if not 0 < len(values) <= len(vectors) or vectors.shape[1] != len(values):
        return f"{len(values)} values belong to vectors of shape {vectors.shape}"
    if min(content["total"], content["rows"]) <= 0 or values.min() < 0:
        return "a variance or the number of rows is not positive"
    return ""


def blocks_of(split: Split, block: int = BLOCK) -> Iterator[np.ndarray]:
    """Rows in standard units, flattened, a block at a time in float64."""
    for start in range(0, len(split), block):
        rows = np.asarray(split.x[start : start + block], np.float64)
        if split.inputs is not None:
            rows = (rows - np.asarray(split.inputs.mean)) / np.asarray(split.inputs.scale)
        yield rows.reshape(len(rows), -1)


def second_moment(
    split: Split, centre: bool = False, block: int = BLOCK, report: Report | None = None
) -> np.ndarray:
    """``X^T X / (N - 1)`` in float64, minus the mean's part if ``centre``."""
    if len(split) < 2:
        raise InputError(f"x has {len(split)} rows; principal components need at least 2")
    dimension = int(np.prod(split.x.shape[1:], dtype=int))
    moment, total = np.zeros((dimension, dimension)), np.zeros(dimension)
    done = 0
    for rows in blocks_of(split, block):
        moment += rows.T @ rows
        total += rows.sum(0)
        done += len(rows)
        if report is not None:
            report(done, len(split))
    if centre:
        moment -= np.outer(total, total) / len(split)
    return moment / (len(split) - 1)


def principal_components(
    split: Split,
    rank: int | float | None = None,
    centre: bool = False,
    exact: bool | None = None,
    report: Report | None = None,
) -> Components:
    """Leading principal components of a split's inputs.

    Up to 4096 inputs by a symmetric eigensolver on the second moment; beyond, the leading ``rank``
    by randomised subspace iteration (32 more columns than asked, 4 passes over the rows), which
    never forms the matrix (Halko, Martinsson, Tropp 2011).
    """
    dimension = int(np.prod(split.x.shape[1:], dtype=int))
    exact = dimension <= EXACT if exact is None else exact
    if not exact:
        if rank is None or (isinstance(rank, float) and rank <= 1):
            raise InputError(
                f"rank is {rank} and inputs have {dimension} entries; above {EXACT} give a whole "
                "number such as 512"
            )
        return _randomised(split, int(rank), centre, report)
    values, vectors = scipy.linalg.eigh(second_moment(split, centre, report=report))
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    whole = Components(vectors, values, float(values.sum()), 0.0, 0.0, len(split), centre)
    return whole.truncate(rank)


def _randomised(split: Split, rank: int, centre: bool, report: Report | None) -> Components:
    dimension = int(np.prod(split.x.shape[1:], dtype=int))
    if not 1 <= rank <= dimension:
        raise InputError(f"rank is {rank}; give a whole number from 1 to {dimension}")
    width = min(rank + OVERSAMPLING, dimension, len(split))
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((dimension, width)))[0]
    product, trace = basis, 0.0
    for number in range(PASSES + 1):
        product, trace = _times_moment(split, basis, centre)
        if report is not None:
            report(number + 1, PASSES + 1)
        if number < PASSES:
            basis = np.linalg.qr(product)[0]
    small = basis.T @ product
    values, rotation = scipy.linalg.eigh(0.5 * (small + small.T))
    values, rotation = np.maximum(values[::-1], 0.0), rotation[:, ::-1]
    following = float(values[rank]) if rank < width else 0.0
    return Components(
        basis @ rotation[:, :rank], values[:rank], trace, following, 0.0, len(split), centre
    )


def _times_moment(split: Split, basis: np.ndarray, centre: bool) -> tuple[np.ndarray, float]:
    product, total, trace = np.zeros_like(basis), np.zeros(len(basis)), 0.0
    for rows in blocks_of(split):
        product += rows.T @ (rows @ basis)
        total += rows.sum(0)
        trace += float(np.square(rows).sum())
    if centre:
        product -= np.outer(total, total @ basis) / len(split)
        trace -= float(total @ total) / len(split)
    return product / (len(split) - 1), trace / (len(split) - 1)
