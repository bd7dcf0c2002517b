"""Adaptive design: believe, choose, observe, repeat."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import jax
import numpy as np

from credax.design.beliefs.belief import NONE, Belief, Experiments, check_outcome
from credax.design.beliefs.gaussian import laplace_belief, variational_belief
from credax.design.beliefs.grid import grid_belief
from credax.design.beliefs.particles import particle_belief
from credax.design.choosing import Recommendation, recommend
from credax.design.model import DesignModel
from credax.errors import InputError, unknown
from credax.keys import as_key

Kind = Literal["auto", "grid", "particles", "laplace", "variational"]


def believe(
    model: DesignModel, seen: Experiments = NONE, *, belief: Kind = "auto", key: Any = 0
) -> Belief:
    """The posterior of ``θ`` after some experiments: on a grid, by draws, or a Gaussian.

    "auto" takes the grid where the model has nodes, else particles. The result depends on the
    history and the key alone.
    """
    kind = ("particles" if model.nodes is None else "grid") if belief == "auto" else belief
    if kind not in get_args(Kind):
        raise unknown("belief", kind, get_args(Kind))
    key = as_key(key)
    if kind == "grid":
        return grid_belief(model, seen)
    if kind == "particles":
        return particle_belief(model, seen, key)
    return (laplace_belief if kind == "laplace" else variational_belief)(model, seen, key)


class Round(NamedTuple):
    """One experiment: what was expected of it, what came, and what is believed then."""

    design: np.ndarray
    outcome: np.ndarray
    recommendation: Recommendation
    belief: Belief


def adapt(
    model: DesignModel,
    experiment: Callable[[np.ndarray], Any],
    rounds: int,
    *,
    designs: Any = None,
    belief: Kind = "auto",
    seen: Experiments = NONE,
    key: Any = 0,
    **options: Any,
) -> list[Round]:
    """Choose a design by its expected information, observe its outcome, update; ``rounds`` times.

    Args:
        model: prior and outcomes.
        experiment: ``experiment(design) -> outcome``, the real world or a simulation of it.
        rounds: experiments.
        designs: to choose from; by default the model's list.
        belief: how the posterior is represented (`believe`).
        seen: experiments done before.
        key: a seed or a typed key.
        **options: of `recommend`.

    >>> import credax as cx
    >>> remembers = lambda length: int(length < 6)
    >>> found = adapt(cx.design.working_memory(), remembers, 3)
    >>> [int(round.design) for round in found]
    [7, 6, 5]
    """
    if rounds < 1:
        raise InputError(f"rounds is {rounds}; do at least 1 experiment")
    key, found = as_key(key), []
    now = believe(model, seen, belief=belief, key=key)
    for _ in range(rounds):
        use = jax.random.fold_in(key, len(seen))
        choice = recommend_next(now.model, use, designs, **options)
        outcome = check_outcome(model, choice.design, experiment(choice.design))
        seen = seen.and_then(choice.design, outcome)
        now = believe(model, seen, belief=belief, key=key)
        found.append(Round(choice.design, outcome, choice, now))
    return found


def recommend_next(
    model: DesignModel, key: Any, designs: Any = None, **options: Any
) -> Recommendation:
    """`recommend`, whose draws use ``key`` where the value is not exact."""
    if model.finite and model.nodes is not None:
        options = {n: v for n, v in options.items() if n not in ("outer", "inner")}
        return recommend(model, designs, **options)
    return recommend(model, designs, key=key, **options)
