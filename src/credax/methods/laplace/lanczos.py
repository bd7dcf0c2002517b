"""Leading eigenpairs of a symmetric matrix known by its products only (Lanczos 1950)."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

_SMALL = 1e-10


def leading_eigenpairs(
    product: Callable[[np.ndarray], np.ndarray], size: int, count: int, *, seed: int = 0
) -> tuple[Float[np.ndarray, " count"], Float[np.ndarray, "size count"]]:
    """The ``count`` largest eigenvalues, falling, and their vectors as columns.

    ``min(size, 2 count + 10)`` products, in double precision and reorthogonalised against all
    vectors before; where the space of the products is exhausted (a matrix of low rank) a random
    direction begins another. Memory: as many vectors as products. Ritz values are never above the
    eigenvalues, so that the rest of the spectrum is underestimated. By hand, because a product is a
    pass over the data: `scipy.sparse.linalg.eigsh` takes an unknown number of them.

    >>> values, vectors = leading_eigenpairs(lambda v: np.array([3.0, 1.0, 2.0]) * v, 3, 2)
    >>> values.round(9).tolist(), np.abs(vectors[:, 0]).round(9).tolist()
    ([3.0, 2.0], [1.0, 0.0, 0.0])
    """
    rng = np.random.default_rng(seed)
    steps = min(size, 2 * count + 10)
    basis, image = np.zeros((steps, size)), np.zeros((steps, size))
    vector = rng.standard_normal(size)
    for i in range(steps):
        basis[i] = _orthogonal(vector, basis[:i], rng)
        image[i] = product(basis[i])
        vector = image[i]
    # The projection itself instead of the three-term recurrence: right after a fresh start too.
    small = basis @ image.T
    values, vectors = np.linalg.eigh(0.5 * (small + small.T))
    order = np.argsort(values)[::-1][:count]
    return np.maximum(values[order], 0.0), basis.T @ vectors[:, order]


def _orthogonal(vector: np.ndarray, basis: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    length = np.linalg.norm(vector)
    for _ in range(2):  # twice is enough
        vector = vector - basis.T @ (basis @ vector)
    if np.linalg.norm(vector) <= _SMALL * max(length, _SMALL):
        return _orthogonal(rng.standard_normal(len(vector)), basis, rng)
    return vector / np.linalg.norm(vector)
