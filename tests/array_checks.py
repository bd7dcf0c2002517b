"""Shapes and dtypes of jaxtyping annotations, checked by beartype while tests run.

`conftest.py` installs this for the whole package before its first import. Only array annotations
are checked: tests of error messages pass wrong scalars on purpose, and pyright checks the rest.
NumPy arrays pass wherever JAX arrays do, as they do when the package is used; what is no array
(a list, a shape in a template) is not looked at.
"""

import types
import typing

import jax
import jaxtyping
import numpy as np
from beartype import beartype
from beartype.vale import Is

NO_ARRAY = typing.Annotated[object, Is[lambda value: not isinstance(value, jax.Array | np.ndarray)]]


def install() -> None:
    """Check credax from its first import on; an import before this would escape."""
    jaxtyping.Array = jax.Array | np.ndarray
    jaxtyping.install_import_hook("credax", "array_checks.check_arrays")


def check_arrays(function):
    """Beartype on the array annotations of a function, and nothing else."""
    hints = function.__annotations__.items()
    hints = {name: hint | NO_ARRAY for name, hint in hints if _is_array(hint)}
    if not hints:
        return function
    copy = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    copy.__annotations__ = hints
    return beartype(copy)


def _is_array(hint) -> bool:
    options = typing.get_args(hint) if _is_union(hint) else (hint,)
    arrays = [o for o in options if isinstance(o, type) and issubclass(o, jaxtyping.AbstractArray)]
    return bool(arrays) and all(o in arrays or o is type(None) for o in options)


def _is_union(hint) -> bool:
    return isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
