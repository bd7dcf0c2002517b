"""An optimiser with a name, for run folders that can say nothing else of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from credax.errors import InputError
from credax.training.config import is_transformation


@dataclass(frozen=True, eq=False)
class NamedOptimiser:
    """A gradient transformation and the text that stands for it in ``config.json``."""

    init: Callable[[Any], Any]
    update: Callable[..., Any]
    name: str


def named_optimiser(optimiser: Any, name: str) -> NamedOptimiser:
    """The optimiser under a name, so that a run with it can be resumed.

    A run folder describes an optimiser by its functions and what they close over; one that holds
    other objects (a file, a lock, a handle of another library) has no such description and needs
    a name: a text that you change when the optimiser changes.

    >>> import optax
    >>> named_optimiser(optax.sgd(0.1), "plain steps, version 1").name
    'plain steps, version 1'
    """
    if not is_transformation(optimiser):
        raise InputError(
            f"optimiser is a {type(optimiser).__name__}; give an optax.GradientTransformation"
        )
    if not isinstance(name, str) or not name:
        raise InputError(f"name is {name!r}; give a text that changes when the optimiser does")
    return NamedOptimiser(optimiser.init, optimiser.update, name)
