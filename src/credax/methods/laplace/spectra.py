"""Eigenpairs of the factors of a Kronecker block: sums of outer products of rows."""

from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

# Smaller matrices are always decomposed in double precision, and at once.
SMALL = 1024
# From this share of the full rank on, one decomposition is cheaper than a basis and its rest.
_FULL = 0.75


def eigenpairs(
    matrix: Float[np.ndarray, "size size"], dtype: Any, rank: int
) -> tuple[Float[np.ndarray, "size size"], Float[np.ndarray, " size"]]:
    """All eigenvectors and eigenvalues, in double precision; negative values are rounding.

    A matrix of more than ``SMALL`` rows is decomposed in the precision ``dtype`` in which it was
    summed, which is what its eigenvalues are known to; of fewer outer products than rows
    (``rank``), by a matrix of that size: a pivoted Cholesky factor ``L``, the eigenpairs of ``LᵀL``
    and any basis of the rest, whose eigenvalues are zero.
    """
    size = len(matrix)
    if size <= SMALL:
        return _decomposed(matrix, np.float64)
    if rank < _FULL * size:
        found = _of_low_rank(matrix, dtype)
        if found is not None:
            return found
    return _decomposed(matrix, dtype)


def _decomposed(matrix, dtype):
    values, vectors = np.linalg.eigh(matrix.astype(dtype))
    return vectors.astype(np.float64), np.maximum(values.astype(np.float64), 0.0)


def _of_low_rank(matrix, dtype):
    size = len(matrix)
    tolerance = size * np.finfo(dtype).eps * np.max(np.diag(matrix))
    cholesky: Any = scipy.linalg.get_lapack_funcs("pstrf", dtype=np.float64)
    factor, pivots, rank, _ = cholesky(matrix, tol=tolerance, lower=1)
    if not 0 < rank < _FULL * size:
        return None
    lower = np.zeros((size, rank))
    lower[pivots - 1] = np.tril(factor)[:, :rank]
    vectors, values = _decomposed(lower.T @ lower, np.float64 if rank <= SMALL else dtype)
    kept = values > tolerance
    basis = lower @ (vectors[:, kept] / np.sqrt(values[kept]))
    # Householder's Q spans the same space first, and then all that is orthogonal to it.
    whole, _ = np.linalg.qr(basis, mode="complete")
    count = basis.shape[1]
    values = np.concatenate([values[kept], np.zeros(size - count)])
    return np.concatenate([basis, whole[:, count:]], axis=1), values
