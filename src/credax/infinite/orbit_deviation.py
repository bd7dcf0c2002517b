"""How far a finite ensemble is from invariant on an orbit: its distribution in closed form."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from credax.errors import InputError

DRAWS = 20_000


class OrbitDeviation(NamedTuple):
    """Standard deviation over an orbit against the number of members, at infinite width.

    ``root_expected_variance`` is the root of the expected orbit variance, averaged over points and
    outputs; ``quantiles`` are of the root of each size's orbit variance (same average);
    ``relative`` is each point's root over the size of its mean, the median over points.
    """

    members: tuple[int, ...]
    root_expected_variance: Float[np.ndarray, " sizes"]
    quantiles: Float[np.ndarray, "sizes levels"]
    relative: Float[np.ndarray, " sizes"]
    single: Float[np.ndarray, " points"]
    """Expected orbit variance of one member at each point."""


def orbit_deviation(
    half: Float[np.ndarray, "points group rank"],
    means: Float[np.ndarray, "points group outputs"],
    members: tuple[int, ...],
    quantiles: tuple[float, ...],
) -> OrbitDeviation:
    """The curve from factors of the covariance on each orbit.

    For ``M`` members the orbit variance is ``Σ_k c_k χ²_1 / (|G| M)`` with ``c_k`` the eigenvalues
    of the centred covariance on the orbit, so its mean is ``tr(P C) / (|G| M)``: slope -1/2 in a
    double logarithmic plot, and the intercept is known. Quantiles by Monte Carlo,
    all
    points of all orbits together.
    """
    if min(members) < 1:
        raise InputError(f"members is {members}; ensembles have at least 1")
    centred = half - half.mean(axis=1, keepdims=True)
    single = np.sum(np.square(centred), axis=(1, 2)) / half.shape[1]
    outputs = means.shape[-1]
    expected = float(single.mean())
    rng = np.random.default_rng(0)
    whole = centred.reshape(-1, half.shape[2]) / math.sqrt(half.shape[0] * half.shape[1])
    # The eigenvalues of the smaller Gram matrix determine the distribution of the mean over points.
    gram = whole @ whole.T if len(whole) < half.shape[2] else whole.T @ whole
    weights = np.clip(np.linalg.eigvalsh(gram), 0, None)
    weights = weights[weights > 1e-14 * weights[-1]]
    draws = np.zeros(DRAWS)
    for _ in range(outputs):
        draws += np.square(rng.standard_normal((DRAWS, len(weights)))) @ weights / outputs
    levels = np.quantile(draws, quantiles)
    size = np.sqrt(np.mean(np.square(means.mean(axis=1)), axis=-1))
    with np.errstate(divide="ignore"):
        relative = float(np.median(np.sqrt(single) / size))
    scale = 1 / np.sqrt(np.asarray(members, float))
    return OrbitDeviation(
        tuple(members),
        math.sqrt(expected) * scale,
        np.sqrt(levels)[None] * scale[:, None],
        relative * scale,
        single,
    )


def tail_bound(variance: float, members: int, deviation: float) -> float:
    """An upper bound of ``P(|mean of members - ensemble mean| > deviation)`` (a Gaussian's tail).

    ``√(2/π) (s/d) exp(-d² / 2s²)`` with ``s² = variance / members``.

    >>> tail_bound(1.0, 100, 0.3) < 0.003
    True
    """
    if members < 1 or deviation <= 0 or variance < 0:
        raise InputError(
            f"variance is {variance}, members {members}, deviation {deviation}; give a variance of "
            "at least 0, at least 1 member and a positive deviation"
        )
    std = math.sqrt(variance / members)
    if std == 0:
        return 0.0
    return math.sqrt(2 / math.pi) * std / deviation * math.exp(-(deviation**2) / (2 * std**2))
