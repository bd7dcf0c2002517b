"""Laplace in function space: the curvature by the kernel matrix of the training rows.

The linearised network under the prior ``N(0, 1/δ)`` on its weights is a Gaussian process with the
kernel ``J(x) J(x')ᵀ / δ``. With ``A`` the rows ``Sᵀ J`` of the training data, ``AᵀA`` is the
curvature and ``AAᵀ`` the kernel matrix, ``[rows columns, rows columns]``: both have the same
eigenvalues above zero, and by Woodbury's identity the same posterior.
"""

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credax.methods.laplace.curvature import parts, roots
from credax.methods.laplace.subset import Subset
from credax.network import Variables
from credax.problem import Problem

# Of the greatest eigenvalue: what is below is rounding of the kernel matrix.
_SMALL = 1e-14

_compiled = eqx.filter_jit(roots)


def kernel_eigenpairs(
    problem: Problem, variables: Variables, subset: Subset, data, rows: int, kind: str = "ggn"
) -> tuple[Float[np.ndarray, " rank"], Float[np.ndarray, "params rank"]]:
    """All eigenpairs of the curvature, falling, from those of the kernel matrix.

    As many as rows times columns of ``S``, or as weights if those are fewer. ``M³`` for ``M`` rows
    times columns, and ``M²`` times the number of weights; memory ``2 M`` times that number.
    """
    found = []
    for number, part in enumerate(parts(data.x, data.y, rows)):
        block = np.asarray(_compiled(problem, variables, subset, part, kind), np.float64)
        kept = min(len(block), len(data) - number * len(block))
        found.append(block[:kept].reshape(-1, block.shape[-1]))
    a = np.concatenate(found)
    values, vectors = np.linalg.eigh(a @ a.T)
    order = np.argsort(values)[::-1][: min(a.shape)]
    values, vectors = values[order], vectors[:, order]
    large = values > _SMALL * max(values[0], 0.0)
    scale = np.where(large, 1 / np.sqrt(np.where(large, values, 1.0)), 0.0)
    return np.where(large, values, 0.0), a.T @ (vectors * scale)
