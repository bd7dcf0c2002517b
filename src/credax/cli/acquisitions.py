"""Acquisitions on the command line: ``batchbald:samples=100`` is a name with options."""

import dataclasses
import typing
from typing import Any

from credax.active import registry
from credax.cli.variants import split_options
from credax.errors import InputError, unknown
from credax.reading.settings import fits


def read_acquisition(text: str) -> Any:
    """The record that a name with options stands for."""
    name, options = split_options(text, "acquisitions")
    record = registry.get(name)
    hints = typing.get_type_hints(record)
    known = [f.name for f in dataclasses.fields(record)]
    for option, value in options.items():
        if option not in known:
            raise unknown(f"option of acquisition '{name}'", option, known)
        if not fits(value, hints[option]):
            raise InputError(f"acquisitions has {name}:{option}={value!r}; it takes another type")
    return record(**options)
