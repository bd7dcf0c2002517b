"""Variants to compare: ``swag:modes=5`` on the command line, or a grid in a TOML file."""

import ast
import dataclasses
import hashlib
import itertools
import re
import tomllib
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from credax import methods
from credax.cli.config import Task
from credax.cli.recipes import for_method
from credax.errors import InputError, unknown
from credax.reading import read_text
from credax.reading.settings import fits
from credax.training.config import Training

LONGEST = 60
"""Characters of a folder's name; a longer one ends in a digest."""


@dataclass(frozen=True)
class Variant:
    """A method with chosen options, on a task with chosen options, and the name of its folders."""

    method: Any
    task: Task
    label: str


def read_variants(
    texts: tuple[str, ...],
    grid: str | None,
    task: Task,
    members: int | None,
    flags: Sequence[str] = (),
) -> list[Variant]:
    """The variants of ``--methods`` and ``--grid``; each pair of equal ones is an error.

    ``flags`` are those of the command: settings of the recipe that a method cannot have are left
    out, chosen ones are not.
    """
    chosen = (
        [split_options(text) for text in texts] if grid is None else read_grid(Path(grid), texts)
    )
    found = [_variant(name, options, task, members, flags) for name, options in chosen]
    seen: set[str] = set()
    for variant in found:
        if variant.label in seen:
            raise InputError(f"methods has {variant.label} twice; give each variant once")
        seen.add(variant.label)
    return found


def read_grid(path: Path, names: tuple[str, ...]) -> list[tuple[str, dict[str, Any]]]:
    """Methods and options of a TOML file: a table per method, and ``all`` for options of every one.

    A list is swept over, all combinations of several; a list inside a list is one value. Without
    tables of methods those of ``--methods`` are taken::

        [all]
        learning_rate = [0.01, 0.1]
        [swag]
        modes = [1, 5]
        [forde]
    """
    try:
        content = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"grid is {path}, which is not TOML: {error}; correct that line") from None
    for name, part in content.items():
        if not isinstance(part, dict):
            raise InputError(
                f"grid is {path}, which has {name!r} outside a table; write it below [all] or "
                "below a method, such as [swag]"
            )
    shared = content.pop("all", {})
    tables = content or {name: dict(split_options(name)[1]) for name in names}
    found = []
    for name, part in tables.items():
        axes = {**shared, **part}
        for option, values in axes.items():
            if values == []:
                raise InputError(f"grid is {path}, which has no value for {option}; give some")
        lists = [v if isinstance(v, list) else [v] for v in axes.values()]
        for values in itertools.product(*lists):
            found.append((split_options(name)[0], dict(zip(axes, values, strict=True))))
    return found


def split_options(text: str, flag: str = "methods") -> tuple[str, dict[str, Any]]:
    """``name:option=value:option=value``."""
    name, *rest = text.split(":")
    options = {}
    for part in rest:
        option, equals, value = part.partition("=")
        if not equals or not option:
            raise InputError(
                f"{flag} has {text!r}; write options as name=value after a colon, such as "
                "swag:modes=5:rank=20"
            )
        try:
            options[option] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            options[option] = value
    return name, options


def _variant(
    name: str, options: dict[str, Any], task: Task, members: int | None, flags: Sequence[str]
) -> Variant:
    record = methods.get(name)
    base = for_method(task.training, record, list(flags))
    fields = {f.name for f in dataclasses.fields(record)}
    # A method whose number of members is fixed (MNF) has another type there.
    counted = any(f.name == "members" and f.type is int for f in dataclasses.fields(record))
    if members is not None and counted:
        options = {"members": members, **options} if "members" not in options else options
    own, training, rest = {}, {}, {}
    for option, value in options.items():
        place, kind = (
            (own, record)
            if option in fields
            else (training, Training)
            if option in _names(Training)
            else (rest, Task)
        )
        if kind is Task and option not in _TASK:
            known = [*fields, *_names(Training), *_TASK]
            raise unknown(f"option of method '{name}'", option, known)
        place[option] = _checked(name, option, value, kind)
    changed = dataclasses.replace(task, **rest, training=base.replace(**training))
    shown = {n: v for n, v in options.items() if n != "members" or v != members}
    return Variant(record(**own), changed, _label(name, shown))


# Of the task, what is not about the data: a comparison has one data set.
_TASK = ("network", "network_options", "likelihood", "weight_decay")


def _names(record: type) -> set[str]:
    return {f.name for f in dataclasses.fields(record)}


def _checked(name: str, option: str, value: Any, record: type) -> Any:
    wanted = typing.get_type_hints(record)[option]
    value = tuple(value) if isinstance(value, list) else value
    if not fits(value, wanted):
        text = wanted.__name__ if isinstance(wanted, type) else str(wanted)
        raise InputError(
            f"methods has {name}:{option}={value!r}; {option} takes {text.replace('typing.', '')}"
        )
    # JSON and compiled programs tell 1 from 1.0.
    return float(value) if wanted is float and type(value) is int else value


def _label(name: str, options: dict[str, Any]) -> str:
    parts = [f"{n}={v}" for n, v in options.items()]
    label = "-".join([name, *(re.sub(r"[^\w.=+-]+", ".", part).strip(".") for part in parts)])
    if len(label) <= LONGEST:
        return label
    digest = hashlib.sha256(repr(sorted(options.items())).encode()).hexdigest()[:8]
    return f"{label[: LONGEST - 9]}-{digest}"
