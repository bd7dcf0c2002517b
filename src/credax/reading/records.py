"""What a record of a file must hold: fields by name with the kind of each."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from credax.errors import DamagedFile

Kind = Callable[[Any, str], "str | None"]
"""Given a value and its name: what is wrong with it in words, or None."""

MOST_ENTRIES = 2**40
"""The product of the sides of a shape, and of anything a file declares."""


class Optional(NamedTuple):
    """A field that may be left out."""

    kind: Kind


def check_record(
    content: Any,
    fields: Mapping[str, "Kind | Optional"],
    where: Any,
    *,
    extra: bool = False,
    remedy: str = "restore it or remove it",
) -> dict[str, Any]:
    """The content itself if it is an object with these fields, else an error that names one.

    Args:
        content: what was read.
        fields: the kind of every field; those in `Optional` may be missing.
        where: the file, for the sentence.
        extra: allow fields that are not named.
        remedy: what to do.
    """
    problem = record(fields, extra=extra)(content, "")
    if problem is not None:
        raise DamagedFile(
            f"{where} does not hold what it should: {problem}" + (remedy and f"; {remedy}")
        )
    return content


def kind(words: str, fits: Callable[[Any], bool]) -> Kind:
    """A kind of value by a test and what to call it."""

    def check(value: Any, name: str) -> str | None:
        return None if fits(value) else f"{name or 'it'} is {_short(value)}, not {words}"

    return check


def maybe(inner: Kind) -> Kind:
    """The same, or null."""
    return lambda value, name: None if value is None else inner(value, name)


def list_of(inner: Kind, length: int | None = None) -> Kind:
    """A list, every entry of one kind."""

    def check(value: Any, name: str) -> str | None:
        if not isinstance(value, list):
            return f"{name} is {_short(value)}, not a list"
        if length is not None and len(value) != length:
            return f"{name} has {len(value)} entries, not {length}"
        problems = (inner(entry, f"{name}[{i}]") for i, entry in enumerate(value))
        return next((problem for problem in problems if problem), None)

    return check


def map_of(inner: Kind) -> Kind:
    """An object with any names, every value of one kind."""

    def check(value: Any, name: str) -> str | None:
        if not isinstance(value, dict):
            return f"{name or 'it'} is {_short(value)}, not an object"
        problems = (inner(entry, f"{name}.{key}".strip(".")) for key, entry in value.items())
        return next((problem for problem in problems if problem), None)

    return check


def record(fields: Mapping[str, Kind | Optional], *, extra: bool = False) -> Kind:
    """An object with these fields."""

    def check(value: Any, name: str) -> str | None:
        if not isinstance(value, dict):
            return f"{name or 'it'} is {_short(value)}, not an object"
        inside = f"{name}." if name else ""
        for field, wanted in fields.items():
            if field not in value:
                if isinstance(wanted, Optional):
                    continue
                return f"{inside}{field} is missing"
            inner = wanted.kind if isinstance(wanted, Optional) else wanted
            problem = inner(value[field], f"{inside}{field}")
            if problem is not None:
                return problem
        odd = sorted(set(value) - set(fields))
        return f"{inside}{odd[0][:40]} is not known" if odd and not extra else None

    return check


def one_of(*known: Any) -> Kind:
    """One of some values."""
    return kind(f"one of {', '.join(map(str, known))}", lambda v: isinstance(v, str) and v in known)


def _is_whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_finite(value: Any) -> bool:
    return _is_number(value) and math.isfinite(value)


def _is_shape(value: Any) -> bool:
    sides = isinstance(value, list) and len(value) <= 32 and all(map(_is_whole, value))
    return sides and math.prod(max(side, 1) for side in value) <= MOST_ENTRIES


def _are_numbers(value: Any, nested: int = 8) -> bool:
    if isinstance(value, list) and nested:
        return all(_are_numbers(entry, nested - 1) for entry in value)
    return _is_finite(value)


def _is_dtype(value: Any) -> bool:
    try:
        return isinstance(value, str) and np.dtype(value).kind in "biuf"
    except (TypeError, ValueError):
        return value == "bfloat16"


def _short(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


TEXT = kind("text", lambda v: isinstance(v, str))
FLAG = kind("true or false", lambda v: isinstance(v, bool))
WHOLE = kind("a whole number from 0", _is_whole)
COUNT = kind("a whole number from 1", lambda v: _is_whole(v) and v > 0)
NUMBER = kind("a finite number", _is_finite)
ANY_NUMBER = kind("a number", _is_number)
NUMBERS = kind("a finite number or lists of them", _are_numbers)
SHAPE = kind("a shape: whole numbers from 0 with a product below 2^40", _is_shape)
DTYPE = kind("a type of numbers such as float32", _is_dtype)
OBJECT = kind("an object", lambda v: isinstance(v, dict))
LIST = kind("a list", lambda v: isinstance(v, list))
ANYTHING = kind("anything", lambda v: True)
