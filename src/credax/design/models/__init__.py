"""Models of experiments by name: the registry of the command line."""

from importlib import import_module
from typing import Any

from credax.design.model import DesignModel
from credax.errors import InputError, unknown

_WHERE = {
    "working-memory": ("memory", "working_memory", "how many digits a person remembers"),
    "linear-regression": ("linear", "linear_regression", "coefficients of a line"),
    "death-process": ("death", "death_process", "when to look at a population that dies"),
    "location-finding": ("location", "location_finding", "hidden sources and their signal"),
    "hyperbolic-discounting": (
        "discounting", "hyperbolic_discounting", "money now against more money later",
    ),
    "preference": ("preference", "preference", "the constant elasticity of substitution"),
    "pharmacokinetic": ("kinetics", "pharmacokinetic", "when to draw blood after a dose"),
}  # fmt: skip


def names() -> tuple[str, ...]:
    """Names of all models.

    >>> names()[0]
    'working-memory'
    """
    return tuple(_WHERE)


def about(name: str) -> str:
    """What a model is about, in a few words."""
    return _found(name)[2]


def get(name: str, **options: Any) -> DesignModel:
    """A model by name, with options of its function.

    >>> get("location-finding", sources=1, dimensions=1).name
    'location-finding'
    """
    module, function, _ = _found(name)
    build = getattr(import_module(f"credax.design.models.{module}"), function)
    try:
        return build(**options)
    except TypeError as error:
        raise InputError(f"{name} has no such option: {error}; see help({function})") from error


def _found(name: str) -> tuple[str, str, str]:
    if name not in _WHERE:
        raise unknown("model", name, _WHERE)
    return _WHERE[name]
