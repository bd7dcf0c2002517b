"""Several experiments at once, as one."""

import dataclasses
import itertools

import jax
import numpy as np

from credax.design.model import DesignModel
from credax.errors import InputError

MOST_OUTCOMES = 4096


def several(model: DesignModel, count: int) -> DesignModel:
    """The model of ``count`` experiments done at once: designs and outcomes on a leading axis.

    Outcomes that were listed are listed together while there are at most 4096 of them.

    >>> import credax as cx
    >>> both = several(cx.design.working_memory(), 2)
    >>> both.outcomes.tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    if count < 1:
        raise InputError(f"count is {count}; there is at least 1 experiment")

    def sample(key, theta, xi):
        keys = jax.random.split(key, count)
        return jax.vmap(lambda key, one: model.outcome_sample(key, theta, one))(keys, xi)

    def log_prob(y, theta, xi):
        return jax.vmap(lambda y, one: model.outcome_log_prob(y, theta, one))(y, xi).sum()

    outcomes = None
    if model.finite and len(model.outcomes) ** count <= MOST_OUTCOMES:
        outcomes = np.array(list(itertools.product(np.asarray(model.outcomes), repeat=count)))
    bounds = None
    if model.bounds is not None:
        bounds = tuple(np.stack([np.asarray(bound)] * count) for bound in model.bounds)
    return dataclasses.replace(
        model,
        outcome_sample=sample,
        outcome_log_prob=log_prob,
        outcomes=outcomes,
        designs=None,
        bounds=bounds,
        name=f"{count} of {model.name}",
        title=f"{model.title}, {count} at once",
    )


def choices_of_designs(designs: np.ndarray, count: int) -> np.ndarray:
    """All unordered choices of ``count`` designs with repetition, ``[choices, count, ...]``."""
    places = itertools.combinations_with_replacement(range(len(designs)), count)
    return np.asarray(designs)[np.array(list(places))]
