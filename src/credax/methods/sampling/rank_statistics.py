"""Rank-normalised R-hat and effective sample sizes, of chains of any quantities."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special, stats

from credax.methods.sampling.chains import effective_sample_size, split_rhat

Draws = Float[np.ndarray, "chains draws ..."]


class Worst(NamedTuple):
    """The worst over some quantities: R-hat should be below 1.01, sizes above 400 in all."""

    r_hat: float
    bulk: float
    """Effective sample size of the middle of the distribution."""
    tail: float
    """Effective sample size of its 5 % and 95 % quantiles."""


def worst(samples: Draws) -> Worst:
    """The worst of all quantities that vary; NaN if none does."""
    values = np.asarray(samples, np.float64).reshape(*samples.shape[:2], -1)
    values = values[..., np.ptp(values, axis=(0, 1)) > 0]
    if not values.shape[-1]:
        return Worst(np.nan, np.nan, np.nan)
    sizes = bulk_size(values), tail_size(values)
    return Worst(float(rank_rhat(values).max()), *(float(size.min()) for size in sizes))


def rank_normalised(samples: Draws) -> Draws:
    """``Φ⁻¹((rank - 3/8) / (S + 1/4))`` over all chains: Gaussian scores whatever the tails."""
    count = samples.shape[0] * samples.shape[1]
    ranks = stats.rankdata(samples.reshape(count, -1), axis=0)
    return special.ndtri((ranks - 0.375) / (count + 0.25)).reshape(samples.shape)


def rank_rhat(samples: Draws) -> Float[np.ndarray, "..."]:
    """The larger R-hat of ranks, and of ranks of the distance from the median.

    Reference: Vehtari et al., Bayesian Analysis 2021.
    """
    folded = np.abs(samples - np.median(samples, axis=(0, 1)))
    return np.maximum(*(split_rhat(rank_normalised(s)) for s in (samples, folded)))


def bulk_size(samples: Draws) -> Float[np.ndarray, "..."]:
    """The effective sample size of the normalised ranks of halves of chains."""
    return effective_sample_size(rank_normalised(_split(samples)))


def tail_size(samples: Draws) -> Float[np.ndarray, "..."]:
    """The smaller effective sample size of being below the 5 % and the 95 % quantile."""
    sizes = [
        effective_sample_size(_split(samples <= np.quantile(samples, q, axis=(0, 1))) * 1.0)
        for q in (0.05, 0.95)
    ]
    return np.minimum(*sizes)


def _split(samples: np.ndarray) -> np.ndarray:
    half = samples.shape[1] // 2
    return np.concatenate([samples[:, :half], samples[:, -half:]])
