"""How well chains have mixed, in what they predict: rank-normalised R-hat, bulk and tail sizes."""

from typing import Any, NamedTuple

import numpy as np

from credax.data.dataset import Dataset, Split
from credax.errors import InputError
from credax.methods.sampling.observed import LEAST_DRAWS, ROWS, observe
from credax.methods.sampling.rank_statistics import Worst, worst
from credax.posterior import Population


class Draws(NamedTuple):
    """Outputs at some training rows ``[chains, draws, values]``, log joints ``[chains, draws]``."""

    predictions: np.ndarray
    log_joint: np.ndarray


class Mixing(NamedTuple):
    """Diagnostics of predictions and of the log joint, of every mode and of all together.

    Across modes R-hat is far from 1 where chains stay in modes with different functions: a fact
    about the posterior, not a failure of each chain, which ``modes`` tells.
    """

    predictions: Worst
    log_joint: Worst
    modes: dict[int, tuple[Worst, Worst]]
    """Predictions and log joint of the two halves of each chain."""
    draws: Draws
    """What was looked at, for plots and statistics of your own."""


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
    numbers = _chains(posterior)
    outputs, joint = observe(posterior.problem, posterior.variables, train, len(numbers), rows)
    modes = {
        number: (worst(outputs[i : i + 1]), worst(joint[i : i + 1]))
        for i, number in enumerate(numbers)
    }
    return Mixing(worst(outputs), worst(joint), modes, Draws(outputs, joint[..., 0]))


def _chains(posterior: Any) -> list[int]:
    """The numbers of the modes, or an error if there are none."""
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
    return [index // draws for index in posterior.indices[::draws]]
