"""How well chains have mixed: split R-hat and effective sample size, for samples of any shape.

By hand, because SGLD and its kin need neither blackjax nor ArviZ, which are extras; tests compare
with blackjax.
"""

from typing import Any

import jax
import numpy as np

MOST_PARAMETERS = 4096


def split_rhat(samples: np.ndarray) -> np.ndarray:
    """R-hat of ``[chains, draws, ...]``, each chain cut in two halves (Gelman et al. 2013).

    ``sqrt(((n - 1)/n W + B/n) / W)`` with within-chain variance W and between-chain variance B.
    """
    samples = np.asarray(samples, np.float64)
    half = samples.shape[1] // 2
    halves = np.concatenate([samples[:, :half], samples[:, -half:]])
    within = halves.var(axis=1, ddof=1).mean(0)
    between = half * halves.mean(1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(((half - 1) / half * within + between / half) / within)


def effective_sample_size(samples: np.ndarray) -> np.ndarray:
    """Independent draws that ``[chains, draws, ...]`` are worth, by Geyer's monotone sequence.

    ``M N / (-1 + 2 Σ P_t)``, where ``P_t`` are sums of adjacent autocorrelations while positive,
    made non-increasing. Reference: Geyer 1992; Gelman et al. 2013.
    """
    samples = np.asarray(samples, np.float64)
    chains, draws = samples.shape[:2]
    flat = samples.reshape(chains, draws, -1)
    centred = flat - flat.mean(1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, 2 * draws, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum, 2 * draws, axis=1)[:, :draws] / draws
    covariance = covariance.mean(0)
    within = covariance[0] * draws / (draws - 1)
    total = within * (draws - 1) / draws
    if chains > 1:
        total = total + flat.mean(1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = 1 - (within - covariance) / total
    correlation[0] = 1.0
    even = draws - draws % 2
    pairs = correlation[:even:2] + correlation[1:even:2]
    positive = np.cumprod(pairs > 0, axis=0).astype(bool)
    monotone = np.minimum.accumulate(np.where(positive, pairs, 0), axis=0)
    time = -1 + 2 * monotone.sum(0)
    size = np.where(within > 0, chains * draws / np.maximum(time, 1 / np.log10(chains * draws)), 0)
    return size.reshape(samples.shape[2:])


def diagnose(samples: Any) -> dict[str, float]:
    """Worst R-hat and effective sample size over the parameters of ``[chains, draws, ...]`` leaves.

    Looked at are means and squared deviations (a chain on a periodic orbit has a good mean and a
    bad variance) of at most 4096 parameters, evenly spread; fewer than four draws give no estimate.
    ``draws`` is how many each chain has. Weights are not identified: for predictions see
    `credax.quality.mixing`.
    """
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(samples)]
    chains, draws = leaves[0].shape[:2]
    counted: dict[str, float] = {"draws": int(draws)}
    if draws < 4:
        return counted
    flat = np.concatenate([leaf.reshape(chains, draws, -1) for leaf in leaves], axis=2)
    flat = flat[:, :, :: max(1, -(-flat.shape[2] // MOST_PARAMETERS))]
    flat = np.concatenate([flat, np.square(flat - flat.mean((0, 1)))], axis=2)
    rhat, size = split_rhat(flat), effective_sample_size(flat)
    moved = np.isfinite(rhat)
    if not moved.any():
        return counted
    found = {"r_hat": rhat[moved].max(), "effective_sample_size": size[moved].min()}
    return counted | {name: float(value) for name, value in found.items()}
