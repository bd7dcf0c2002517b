"""Settings of a dataclass out of JSON: names and types by its annotations."""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any

from credax.errors import DamagedFile
from credax.reading.jsons import RESTORE


def check_settings(record: type, values: Any, where: Any, *, remedy: str = RESTORE) -> None:
    """Refuse values that are not the fields of a dataclass: unknown, missing or of another type.

    Fields with a default may be missing; a list stands for a tuple, as JSON has no tuples.
    """
    if not isinstance(values, Mapping):
        raise DamagedFile(f"{where} is no object of settings; {remedy}")
    hints = typing.get_type_hints(record)
    for field in dataclasses.fields(record):
        needed = field.default is dataclasses.MISSING and field.default_factory is field.default
        if field.name not in values:
            if needed:
                raise DamagedFile(f"{where} has no {field.name}; {remedy}")
        elif not fits(values[field.name], hints[field.name]):
            raise DamagedFile(f"{where} has a {field.name} that it cannot have; {remedy}")
    known = {field.name for field in dataclasses.fields(record)}
    odd = sorted(set(values) - known)
    if odd:
        raise DamagedFile(f"{where} has {odd[0][:40]!r}, which is not known; {remedy}")


def fits(value: Any, wanted: Any) -> bool:
    """Whether a value from a file can be what an annotation says; NaN is no number."""
    origin, inside = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is typing.Literal:
        return any(type(value) is type(known) and value == known for known in inside)
    if origin in (types.UnionType, typing.Union):
        return any(fits(value, part) for part in inside)
    if origin is tuple:
        if not isinstance(value, tuple | list):
            return False
        if inside[-1] is Ellipsis:
            inside = (inside[0],) * len(value)
        return len(value) == len(inside) and all(map(fits, value, inside))
    if origin is dict:
        whole = isinstance(value, dict) and all(fits(key, inside[0]) for key in value)
        return whole and all(fits(entry, inside[1]) for entry in value.values())
    if origin is list:
        return isinstance(value, list) and all(fits(entry, inside[0]) for entry in value)
    if wanted is float:
        exact = type(value) is int and abs(value) <= 2**53
        return exact or (type(value) is float and not math.isnan(value))
    if wanted in (int, bool, str):
        return type(value) is wanted
    if wanted is type(None):
        return value is None
    if wanted is Any or not isinstance(wanted, type):
        return True
    # Records inside are objects in JSON; they are checked where they are made.
    inner = dataclasses.is_dataclass(wanted) and isinstance(value, Mapping)
    return inner or isinstance(value, wanted)
