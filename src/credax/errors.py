"""Errors a user can act on: which argument, what came, what is allowed, what to do."""

import difflib
import importlib
import warnings
from collections.abc import Iterable
from typing import Any


class InputError(ValueError):
    """What the user gave cannot be used; the message is one sentence that says what to do."""


class DamagedFile(InputError):
    """A file is truncated or altered, or does not hold what it should."""


class FolderInUse(InputError):
    """Another process is at work in the folder; it may be free later."""


class MissingExtra(ImportError):
    """An optional package is not installed; the message names the pip command."""

    def __init__(self, package: str, extra: str, purpose: str):
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed; "
            f"run: pip install 'credax[{extra}]'"
        )


def optional(package: str, extra: str, purpose: str) -> Any:
    """A package of an extra, without the warnings of its own imports, or `MissingExtra`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtra(package, extra, purpose) from error


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not in a registry, with the nearest known name.

    >>> str(unknown("method", "deep-ensembel", ["single", "deep-ensemble"]))
    "unknown method 'deep-ensembel'; did you mean 'deep-ensemble'? Known: deep-ensemble, single"
    """
    known = sorted(known)
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return InputError(f"unknown {kind} {name!r}; {hint}Known: {', '.join(known)}")
