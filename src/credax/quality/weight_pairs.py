"""How far apart the weights, or the representations, of every pair of networks are."""

from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from credax.errors import InputError, unknown
from credax.quality.blocks import as_blocks
from credax.quality.distances import BLOCK_ENTRIES, distances_by_array
from credax.quality.pairs import PairMatrix, pair_indices


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
