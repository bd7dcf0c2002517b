"""How a foreign network is called: which arguments it takes, its training mode, its key."""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from credax.errors import InputError, unknown

# What each argument is called in the wild, and its value while training.
MODES = {
    "train": True,
    "training": True,
    "is_training": True,
    "deterministic": False,
    "use_running_average": False,
}

Modes = tuple[tuple[str, bool], ...]


def kind(value: Any) -> str:
    """What a value is, for an error message: ``a dict``, ``the function make(key)``."""
    if inspect.isfunction(value) or inspect.isclass(value):
        try:
            arguments = ", ".join(inspect.signature(value).parameters)
        except ValueError:
            arguments = "..."
        return f"{value.__name__}({arguments})"
    return f"of type {type(value).__name__}"


def accepts(call: Any, *arguments: Any, **keywords: Any) -> bool:
    """Whether ``call`` can be called with these arguments, by its signature."""
    if not callable(call):
        return False
    try:
        inspect.signature(call).bind(*arguments, **keywords)
    except TypeError:
        return False
    except ValueError:  # some built-in callables have no signature to ask
        return True
    return True


def takes(call: Callable[..., Any], keyword: str) -> bool:
    """Whether ``call`` has an argument of that name that can be given by keyword."""
    parameter = inspect.signature(call).parameters.get(keyword)
    return parameter is not None and parameter.kind in (
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )


def modes_of(call: Callable[..., Any], train_argument: str | None, where: str) -> Modes:
    """The arguments that switch training on, as (name, value while training).

    With ``train_argument=None`` they are found in the signature of ``call`` by the names in
    `MODES`; a given name must be one of them and must be taken.
    """
    if train_argument is None:
        return tuple((name, value) for name, value in MODES.items() if takes(call, name))
    if train_argument not in MODES:
        raise unknown("train_argument", train_argument, MODES)
    if not takes(call, train_argument) and not _takes_any(call):
        taken = ", ".join(inspect.signature(call).parameters)
        raise InputError(
            f"train_argument is {train_argument!r}, but {where} takes ({taken}); name one of its "
            "arguments, or leave train_argument out if it has no training mode"
        )
    return ((train_argument, MODES[train_argument]),)


def mode_keywords(modes: Modes, train: bool) -> dict[str, bool]:
    """The keywords to call with, in or out of training."""
    return {name: value == train for name, value in modes}


def with_key(
    call: Callable[[Key[Array, ""] | None], Any], key: Key[Array, ""] | None, where: str
) -> Any:
    """``call(key)``; when it fails for want of a key, one sentence that asks for one.

    A network is not asked beforehand whether it draws random numbers, because none of the
    libraries can say: without a key it is tried, and only if it fails and would succeed with a key
    is the key to blame.
    """
    try:
        return call(key)
    except Exception as error:
        if key is not None or not _succeeds(call):
            raise
        raise InputError(
            f"key is None, but {where} draws random numbers in this mode; "
            "give apply a key, such as key=jax.random.key(0)"
        ) from error


def example(x: Any) -> Array:
    """Something to call a network on: ``x`` itself, or one row of zeros for a ShapeDtypeStruct."""
    if isinstance(x, jax.ShapeDtypeStruct):
        return jnp.zeros((1, *x.shape[1:]), x.dtype)
    return x


def _succeeds(call: Callable[[Key[Array, ""]], Any]) -> bool:
    try:
        jax.eval_shape(call, jax.random.key(0))
    except Exception:
        return False
    return True


def _takes_any(call: Callable[..., Any]) -> bool:
    parameters = inspect.signature(call).parameters.values()
    return any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
