"""What a value is, in plain data: values with equal descriptions give equal numbers.

A run keeps such a description of every setting. Short values are kept as they are, long ones by
digest: arrays by their bytes, functions by their code, what they close over and what they call.
"""

import dataclasses
import enum
import functools
import hashlib
import json
import math
import re
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from credax.errors import InputError
from credax.reading import open_regular

SHORT_ARRAY = 64
LONG_TEXT = 4000
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def describe(value: Any, where: str = "value", seen: tuple[int, ...] = ()) -> Any:
    """``value`` as JSON data; an error if nothing stable can be said of it.

    ``where`` names the value in that sentence. Objects that hold other than numbers, texts,
    arrays, functions and records are described by their attribute ``name``, if they have one.

    >>> describe((1, 2.5, None)), describe(np.arange(2.0))
    ([1, 2.5, None], {'array': [0.0, 1.0], 'dtype': 'float64'})
    """
    if value is None or isinstance(value, bool | int | str):
        return value.name if isinstance(value, enum.Enum) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if id(value) in seen:
        return {"repeated": len(seen) - seen.index(id(value))}
    seen = (*seen, id(value))
    if isinstance(value, np.generic | np.ndarray | jax.Array):
        return _array(value)
    if isinstance(value, np.dtype | jax.ShapeDtypeStruct | jax.tree_util.PyTreeDef):
        return {"text": _ADDRESS.sub("", str(value))}
    if isinstance(value, dict):
        items = sorted(value.items(), key=lambda item: str(item[0]))
        return {str(k): describe(v, f"{where}[{k!r}]", seen) for k, v in items}
    if isinstance(value, set | frozenset):
        return sorted((describe(v, where, seen) for v in value), key=json.dumps)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [describe(v, f"{where}[{i}]", seen) for i, v in enumerate(value)]
    if callable(value) and (_importable(value) or isinstance(value, type)):
        return _imported(value, where, seen)
    if isinstance(value, types.FunctionType | functools.partial | types.MethodType):
        return _function(value, where, seen)
    wrapped = getattr(value, "__wrapped__", None)
    if callable(value) and callable(wrapped):
        return {"type": type_name(type(value)), "of": describe(wrapped, where, seen)}
    return _record(value, where, seen)


def shortened(description: Any) -> Any:
    """The description itself, or its digest where it is long, such as that of a population."""
    text = json.dumps(description, sort_keys=True)
    if len(text) <= LONG_TEXT:
        return description
    kind = description.get("type") if isinstance(description, dict) else None
    return {"type": kind, "digest": digest(text)} if kind else {"digest": digest(text)}


def digest(content: bytes | str) -> str:
    """128 bits that stand for the content."""
    data = content.encode() if isinstance(content, str) else content
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def file_digest(path: str | Path) -> str:
    """128 bits that stand for a file's content."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def type_name(kind: type) -> str:
    """``credax.MLP`` for records of credax, wherever they are defined, else the full name."""
    if kind.__module__.split(".")[0] == "credax":
        return f"credax.{kind.__qualname__}"
    return f"{kind.__module__}.{kind.__qualname__}"


def _array(value: Any) -> dict[str, Any]:
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        data = np.asarray(jax.random.key_data(value)).tolist()
        return {"key": str(jax.random.key_impl(value)), "data": data}
    array = np.ascontiguousarray(value)
    finite = array.dtype.kind not in "fc" or bool(np.isfinite(array).all())
    if array.size <= SHORT_ARRAY and array.dtype.kind in "biuf" and finite:
        return {"array": np.asarray(value).tolist(), "dtype": str(array.dtype)}
    return {
        "digest": digest(array.tobytes()),
        "shape": list(np.shape(value)),
        "dtype": str(array.dtype),
    }


def _record(value: Any, where: str, seen: tuple[int, ...]) -> dict[str, Any]:
    kind = type(value)
    head: dict[str, Any] = {"type": type_name(kind)}
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    elif hasattr(value, "_fields"):
        names = list(value._fields)
    elif hasattr(value, "__dict__") and not isinstance(value, types.ModuleType):
        names = sorted(vars(value))
    else:
        names = None
    try:
        if names is None:
            raise InputError(
                f"{where} is a {head['type']}, of which a run folder can keep no stable "
                "description; give the object that holds it an attribute name (a text that changes "
                "when it does; for an optimiser credax.training.named_optimiser), or fit without "
                "folder"
            )
        if not _is_library(kind.__module__):
            head["code"] = _class_code(kind, where, seen)
        own = {n: getattr(value, n) for n in names if hasattr(value, n)}
        return head | {n: describe(v, f"{where}.{n}", seen) for n, v in own.items()}
    except InputError:
        if isinstance(getattr(value, "name", None), str):
            return {"type": head["type"], "name": getattr(value, "name")}  # noqa: B009
        raise


def _importable(value: Any) -> bool:
    """Whether its module and name lead back to this very object."""
    found: Any = sys.modules.get(getattr(value, "__module__", None) or "")
    for part in getattr(value, "__qualname__", "").split("."):
        found = getattr(found, part, None)
    return found is value and found is not None


def _imported(value: Any, where: str, seen: tuple[int, ...]) -> dict[str, Any]:
    name = f"{value.__module__}.{value.__qualname__}"
    if _is_library(value.__module__):
        return {"function": name}
    if isinstance(value, type):
        return {"function": name, "code": _class_code(value, where, seen[:-1])}
    if isinstance(value, types.FunctionType):
        return _function(value, where, seen)
    wrapped = getattr(value, "__wrapped__", None)
    return (
        {"function": name, "of": describe(wrapped, where, seen)}
        if wrapped
        else _record(value, where, seen)
    )


def _function(value: Any, where: str, seen: tuple[int, ...]) -> dict[str, Any]:
    if isinstance(value, functools.partial):
        parts = (value.func, value.args, value.keywords)
        return {"partial": describe(parts, where, seen)}
    if isinstance(value, types.MethodType):
        own = describe(value.__self__, where, seen)
        return {"method": value.__func__.__qualname__, "of": own}
    cells = [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
    rest = [value.__defaults__, value.__kwdefaults__, cells]
    if not _is_installed(value.__code__.co_filename):
        rest += [_code(value.__code__), _globals(value)]
    inside = shortened({"type": "function", "parts": describe(rest, where, seen)})
    name = f"{value.__module__}.{value.__qualname__}"
    return {"function": name, "code": digest(json.dumps(inside, sort_keys=True))}


def _filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _code(code: types.CodeType) -> list[Any]:
    """What a function does; not where it is written."""
    constants = [
        _code(c) if isinstance(c, types.CodeType) else _constant(c) for c in code.co_consts
    ]
    return [code.co_code.hex(), list(code.co_names), list(code.co_varnames), constants]


def _constant(value: Any) -> str:
    # The order of a frozenset differs from process to process.
    return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)


def _globals(function: types.FunctionType) -> dict[str, Any]:
    """What the function uses of its own module: an edited helper is another function."""
    found = {}
    for name in sorted(_names(function.__code__)):
        value = function.__globals__.get(name)
        plain = isinstance(value, bool | int | float | str | tuple | np.ndarray | jax.Array)
        if plain or _is_own(value):
            found[name] = value
    return found


def _is_own(value: Any) -> bool:
    """Whether a user writes and edits it: a function, a class, or an object that is called."""
    if isinstance(value, types.FunctionType):
        return not _is_installed(value.__code__.co_filename)
    return callable(value) and not _is_library(getattr(value, "__module__", None) or "builtins")


def _names(code: types.CodeType) -> set[str]:
    inner = [_names(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*inner)


def _class_code(kind: type, where: str, seen: tuple[int, ...]) -> str:
    if id(kind) in seen:
        return "repeated"
    seen = (*seen, id(kind))
    plain = types.FunctionType | bool | int | float | str | tuple
    own = {
        name: describe(member, f"{where}.{name}", seen)
        for name, member in sorted(vars(kind).items())
        if isinstance(member, plain)
        and name not in ("__doc__", "__module__", "__qualname__")
        and not name.startswith("__dataclass")
        and name not in _MADE
    }
    return digest(json.dumps(own, sort_keys=True))


# Methods that decorators write anew for every class; the fields say the same.
_MADE = {"__firstlineno__", "__static_attributes__", "__annotations__", "__match_args__"}
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")})


@functools.lru_cache(maxsize=4096)
def _is_library(module: str) -> bool:
    """Installed code, which its version stands for; not what a user writes and edits."""
    top = module.split(".")[0]
    if top == "credax" or top in sys.builtin_module_names or top in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(top), "__file__", None)
    return file is not None and _is_installed(file)


@functools.lru_cache(maxsize=4096)
def _is_installed(file: str) -> bool:
    """Whether a source file is that of an installed package, of Python or of credax."""
    places = [Path(place) for place in _LIBRARIES] + [Path(__file__).parent]
    path = Path(file).resolve()
    return file[:1] != "<" and any(path.is_relative_to(place.resolve()) for place in places)
