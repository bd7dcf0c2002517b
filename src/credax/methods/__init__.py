"""Methods: how a population is made. One file a method; one line each in the registry."""

from importlib import import_module

from credax.errors import unknown

REGISTRY = {
    "single": ("credax.methods.single", "Single", "one network (maximum a posteriori)"),
    "deep-ensemble": (
        "credax.methods.deep_ensemble",
        "DeepEnsemble",
        "independent networks, mixed (Lakshminarayanan et al. 2017)",
    ),
}


def names() -> list[str]:
    """The methods, as on the command line."""
    return list(REGISTRY)


def get(name: str):
    """The record class of a method, by its name on the command line."""
    if name not in REGISTRY:
        raise unknown("method", name, REGISTRY)
    module, record, _ = REGISTRY[name]
    return getattr(import_module(module), record)


def describe(name: str) -> str:
    """One line about a method."""
    return REGISTRY[name][2]
