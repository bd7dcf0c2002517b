"""All metrics of one prediction in one call."""

from collections.abc import Iterable
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from credax.errors import InputError
from credax.metrics.checks import check, without_broken_members
from credax.metrics.registry import get, names, task_of
from credax.prediction import Prediction


def evaluate(
    prediction: Prediction,
    y,
    metrics: Iterable[str] | None = None,
    *,
    nan: Literal["raise", "drop_member"] = "raise",
) -> dict[str, float]:
    """Every metric that applies to the prediction, by name, in the registry's order.

    ``y`` is ``[batch]`` integers for classes, ``[batch]`` or ``[batch, targets]`` numbers for
    regression; ``metrics`` chooses some by name. A member with NaN or infinity is an error that
    names it, unless ``nan="drop_member"`` leaves such members out.

    >>> from credax.prediction import ClassPrediction
    >>> p = ClassPrediction.from_probs(np.array([[[0.75, 0.25], [0.5, 0.5]]]))
    >>> evaluate(p, np.array([0, 0]), ["accuracy", "brier"])
    {'accuracy': 1.0, 'brier': 0.3125}
    """
    y = np.asarray(y)
    if nan == "drop_member":
        prediction = without_broken_members(prediction)
    elif nan != "raise":
        raise InputError(f'nan is {nan!r}; give "raise" or "drop_member"')
    check(prediction, y)
    chosen = _chosen(metrics, prediction)
    values = _values(prediction, jnp.asarray(y), chosen)
    return {name: float(value) for name, value in zip(chosen, values, strict=True)}


def _chosen(metrics: Iterable[str] | None, prediction: Prediction) -> tuple[str, ...]:
    task = task_of(prediction)
    applicable = names(task)
    if metrics is None:
        return applicable
    if isinstance(metrics, str):
        raise InputError(f"metrics is the string {metrics!r}; give a list of names: [{metrics!r}]")
    wanted = {get(name).name for name in metrics}
    misfits = sorted(wanted - set(applicable))
    if misfits:
        raise InputError(
            f"metric {misfits[0]!r} is not for {task}; choose from {', '.join(applicable)}"
        )
    return tuple(name for name in applicable if name in wanted)


@partial(jax.jit, static_argnums=2)
def _values(prediction, y, chosen):
    return tuple(get(name)(prediction, y) for name in chosen)
