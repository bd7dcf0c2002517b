"""How well chains have mixed, in what they predict: rank-normalised R-hat, bulk and tail sizes."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import special, stats

from credax.data.dataset import Dataset, Split
from credax.errors import InputError
from credax.methods.sampling.chains import effective_sample_size, split_rhat
from credax.methods.sampling.log_joint import log_joint
from credax.network import Variables
from credax.posterior import Population
from credax.problem import Problem

LEAST_DRAWS = 4
ROWS = 50
"""Training rows at which predictions are compared."""
Draws = Float[np.ndarray, "chains draws ..."]


class Worst(NamedTuple):
    """The worst over some quantities: R-hat should be below 1.01, sizes above 400 in all."""

    r_hat: float
    bulk: float
    """Effective sample size of the middle of the distribution."""
    tail: float
    """Effective sample size of its 5 % and 95 % quantiles."""


class Mixing(NamedTuple):
    """Diagnostics of predictions and of the log joint, of every mode and of all together.

    Across modes R-hat is far from 1 where chains stay in modes with different functions: a fact
    about the posterior, not a failure of each chain, which ``modes`` tells.
    """

    predictions: Worst
    log_joint: Worst
    modes: dict[int, tuple[Worst, Worst]]
    """Predictions and log joint of the two halves of each chain."""


def mixing(posterior: Population, data: Split | Dataset, *, rows: int = ROWS) -> Mixing:
    """Diagnostics of chains by what they predict, not by their weights.

    Weights are not identified: units may be exchanged and signs flipped without another function,
    so chains that agree in all predictions disagree in their weights. Looked at are the outputs of
    the network at ``rows`` training rows, evenly spread, and the log joint of all of them.
    ``posterior`` is what a sampler returned.

    References: Vehtari et al., Rank-normalization, folding, and localization: an improved R-hat,
    Bayesian Analysis 2021; Izmailov et al., What are Bayesian neural network posteriors really
    like?, ICML 2021 (predictions in place of weights).
    """
    train = data.train if isinstance(data, Dataset) else data
    numbers, draws = _chains(posterior)
    chosen = np.unique(np.linspace(0, len(train) - 1, rows).astype(int))
    whole = jnp.asarray(train.x), jnp.asarray(train.y)
    outputs, joint = _values(
        posterior.problem, posterior.variables, jnp.asarray(train.x[chosen]), *whole
    )
    shape = (len(numbers), draws, -1)
    found = [np.asarray(a, np.float64).reshape(shape) for a in (outputs, joint)]
    modes = {
        number: (worst(found[0][i : i + 1]), worst(found[1][i : i + 1]))
        for i, number in enumerate(numbers)
    }
    return Mixing(worst(found[0]), worst(found[1]), modes)


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
    """The larger R-hat of ranks, and of ranks of the distance from the median."""
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


def _chains(posterior: Any) -> tuple[list[int], int]:
    """The numbers of the modes and the draws of each; or an error if there are none."""
    draws = posterior.diagnostics.get("draws") if isinstance(posterior, Population) else None
    if not isinstance(draws, int):
        raise InputError(
            f"posterior is a {type(posterior).__name__} that no sampler made; give what cx.fit "
            "returned for mile, hmc, nuts, sgld, sghmc or cyclical-sgmcmc"
        )
    if draws < LEAST_DRAWS or len(posterior.indices) % draws:
        raise InputError(
            f"posterior has {len(posterior.indices)} members of chains with {draws} draws; give "
            f"whole chains of at least {LEAST_DRAWS}"
        )
    return [index // draws for index in posterior.indices[::draws]], draws


@eqx.filter_jit
def _values(problem: Problem, variables: Variables, few, x, y) -> tuple[Array, Array]:
    """Outputs at a few rows, and the log joint of all, of every member."""
    at = problem.prepare_inputs(few)

    def one(member: Variables):
        outputs, _ = problem.outputs(member, at)
        return outputs.reshape(-1), log_joint(problem, x, y, member.params)

    return jax.lax.map(one, variables)
