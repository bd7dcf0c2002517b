"""Code of the user's own, named on the command line as ``FILE.py:NAME``.

It runs because the user names it, never because a run folder does: a folder keeps the file's name
and digest, and a changed file is refused.
"""

import runpy
from pathlib import Path
from typing import Any, NamedTuple

from credax.description import file_digest
from credax.errors import InputError
from credax.likelihood import Likelihood
from credax.network import Network
from credax.reading import check_record
from credax.reading.records import TEXT, WHOLE, Optional

_FIELDS = {"file": TEXT, "name": TEXT, "digest": TEXT, "outputs": Optional(WHOLE)}


class OwnCode(NamedTuple):
    """A name in a file, what it stands for, and the file's digest."""

    file: str
    name: str
    digest: str
    value: Any

    def to_json(self) -> dict[str, Any]:
        """What a run folder keeps."""
        return {"file": self.file, "name": self.name, "digest": self.digest}


def is_own(text: Any) -> bool:
    """Whether a flag names code: ``FILE.py:NAME``."""
    return isinstance(text, str) and ".py:" in text


def read_own(text: str, flag: str) -> OwnCode:
    """What ``FILE.py:NAME`` stands for; the file is run."""
    file, _, name = text.rpartition(":")
    if not Path(file).is_file():
        raise InputError(f"{flag} is {text!r} and there is no file {file}; give FILE.py:NAME")
    digest = file_digest(file)
    found = runpy.run_path(file)
    if name not in found:
        known = ", ".join([n for n in found if not n.startswith("_")][:8]) or "nothing"
        raise InputError(f"{flag} is {text!r} and {file} has no {name!r}; it has {known}")
    return OwnCode(file, name, digest, found[name])


def own_network(code: OwnCode, outputs: int, options: dict[str, Any]) -> Network:
    """The network that a factory makes for so many outputs, or that the name itself is."""
    text, value = f"{code.file}:{code.name}", code.value
    if isinstance(value, Network) and not isinstance(value, type):
        if options:
            raise InputError(
                f"network_options are given and network {text} is a ready network; leave them out, "
                "or name a function of outputs and options"
            )
        return value
    if not callable(value):
        raise InputError(
            f"network is {text}, a {type(value).__name__}; name a function outputs -> network, or "
            "a network"
        )
    try:
        network = value(outputs, **options)
    except TypeError as error:
        raise InputError(
            f"network is {text}, which cannot be called with the number of outputs"
            + (f" and {', '.join(options)}" if options else "")
            + f" ({error})"
        ) from error
    if not isinstance(network, Network):
        raise InputError(
            f"network is {text}, which returned a {type(network).__name__}; it must return a "
            "credax network: wrap modules of other libraries by credax.adapters"
        )
    return network


def own_likelihood(code: OwnCode) -> Likelihood:
    """The likelihood that a name stands for: an object, or a class or function that makes one."""
    text, value = f"{code.file}:{code.name}", code.value
    found = value() if callable(value) and not isinstance(value, Likelihood) else value
    if not isinstance(found, Likelihood):
        raise InputError(
            f"likelihood is {text}, a {type(found).__name__}; name an object of a class that "
            "derives from credax.Likelihood, or the class"
        )
    return found


def own_augmentation(code: OwnCode) -> Any:
    """A function ``(key, x, y) -> (x, y)`` of a raw batch."""
    if not callable(code.value):
        raise InputError(
            f"augment has {code.file}:{code.name}, a {type(code.value).__name__}; name a function "
            "(key, x, y) -> (x, y) of a batch"
        )
    return code.value


def code_section(config: dict[str, Any], where: Path) -> dict[str, dict[str, Any]]:
    """What a run keeps of the user's own code, by flag."""
    section = config.get("code", {})
    if not isinstance(section, dict):
        raise InputError(f"{where} has a section code that is no object; restore the file")
    for flag, entry in section.items():
        check_record(entry, _FIELDS, f"{where}, code, {flag},")
    return section


def refuse_changed(entry: dict[str, Any], digest: str, file: str, run: Path) -> None:
    """Raise an error if a file is not the one that a run was trained with."""
    if digest != entry["digest"]:
        raise InputError(
            f"{file} is not what the run in {run} was trained with: its content has changed; "
            "restore it, or train again with another --out"
        )
