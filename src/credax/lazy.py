"""Packages whose names are imported when first used: the command line starts without jax."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_names(package: str, where: dict[str, str]) -> tuple[Callable[[str], Any], list[str]]:
    """``__getattr__`` and ``__all__`` of a package, from names to the modules that hold them.

    A name that maps to itself is a submodule.
    """

    def getattribute(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{where[name]}")
        return module if where[name] == name else getattr(module, name)

    return getattribute, list(where)
