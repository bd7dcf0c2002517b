"""A run read back from its folder alone: problem, method, members, names and kept rows."""

import dataclasses
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from credax import likelihood, methods, networks, prior
from credax.data.about import About
from credax.data.dataset import Split
from credax.errors import InputError
from credax.files import read_json
from credax.likelihood import LearnedNoise
from credax.posterior import Posterior
from credax.problem import Problem
from credax.reading import check_record, check_settings, damage
from credax.reading.records import COUNT, OBJECT, TEXT, WHOLE, Optional, list_of, maybe
from credax.standardise import Standardise
from credax.training.describe import FORMAT, describe_problem
from credax.training.hooks import check_loads
from credax.training.run import RunFolder
from credax.training.stored import StoredRows, stored_rows


def _check_key(value: Any, name: str) -> str | None:
    """The words of a random key, plain or under ``data``; without any there is no seed."""
    words = value.get("data") if isinstance(value, dict) else value
    return list_of(WHOLE)(words, name) or (None if words else f"{name} is empty")


_FIELDS = {
    "format": Optional(COUNT),
    "credax": Optional(TEXT),
    "seed": Optional(WHOLE),
    "task": Optional(OBJECT),
    "dataset": Optional(OBJECT),
    "validation_rows": Optional(maybe(OBJECT)),
    "key": _check_key,
}


class CannotRebuild(InputError):
    """A network, likelihood or prior that only its author's code can make."""


def open_run(folder: str | Path, problem: Problem | None = None) -> "SavedRun":
    """A run that `credax.fit` or ``credax fit`` left in a folder.

    The problem is built again from what the folder says. One with a network, likelihood or prior of
    your own must be given, and must agree with the folder.

    >>> import tempfile, credax as cx
    >>> place, data = tempfile.mkdtemp(), cx.data.load("toy/two-moons", train=40)
    >>> line = cx.Problem(cx.networks.MLP((), outputs=2), cx.Categorical())
    >>> _ = cx.fit(line, "single", data, training=cx.Training(1), folder=place, progress=False)
    >>> open_run(place).posterior().predict(data.test.x[:3]).probs.shape
    (3, 2)
    """
    path = Path(folder)
    config = read_config(path)
    if config.get("format", 1) > FORMAT:
        raise InputError(
            f"{path} was written by a newer credax ({config.get('credax', 'unknown version')}); "
            "use that version"
        )
    return SavedRun(RunFolder(path), config, problem)


def load(folder: str | Path, problem: Problem | None = None) -> Posterior:
    """The posterior of a finished run, made by `credax.fit` or ``credax fit``.

    ``folder`` may be an address on the Hugging Face Hub, ``hf://user/name[@revision]``. A run with
    a network, likelihood or prior of your own needs ``problem``, as in `open_run`.

    >>> import tempfile, credax as cx
    >>> place, data = tempfile.mkdtemp(), cx.data.load("toy/two-moons", train=40)
    >>> line = cx.Problem(cx.networks.MLP((), outputs=2), cx.Categorical())
    >>> _ = cx.fit(line, "single", data, training=cx.Training(1), folder=place, progress=False)
    >>> cx.load(place).predict(data.test.x[:3]).probs.shape
    (3, 2)
    """
    if isinstance(folder, str) and folder.startswith("hf://"):
        from credax.hub import pull

        folder = pull(folder)
    return open_run(folder, problem).posterior()


def read_config(path: Path) -> dict[str, Any]:
    """The configuration of a run, its main sections checked."""
    if not (path / "config.json").exists():
        raise InputError(f"{path} is not a run: it has no config.json; see: credax list runs")
    config = read_json(path / "config.json")
    sections = ("method", "training", "problem", "rows")
    bad = [
        n for n in sections if not isinstance(config, dict) or not isinstance(config.get(n), dict)
    ]
    if bad or not isinstance(config["method"].get("name"), str):
        raise InputError(
            f"{path / 'config.json'} is not the configuration of a credax run: its section "
            f"{(bad or ['method.name'])[0]!r} is missing or not an object; restore the file"
        )
    return check_record(config, _FIELDS, path / "config.json", extra=True)


@dataclass(frozen=True)
class SavedRun:
    """A run folder read back; `open_run` makes it."""

    folder: RunFolder
    config: dict[str, Any]
    given: Problem | None = field(default=None, repr=False)

    @property
    def is_described(self) -> bool:
        """Whether the folder alone says all; runs of the first format point at their data."""
        return "format" in self.config

    @cached_property
    def about(self) -> About:
        """Names, shapes and digests of the data."""
        if not self.is_described:
            rows = {"train": self.config["rows"], "validation": self.config.get("validation_rows")}
            return About(rows={name: part for name, part in rows.items() if part})
        file = self.folder.path / "config.json"
        check_record(self.config, {"dataset": OBJECT}, file, extra=True)
        return About.from_json(self.config["dataset"], file)

    @cached_property
    def problem(self) -> Problem:
        """Network, likelihood, prior and units."""
        if self.given is not None:
            return _agreed(self.given, self.config, self.folder.path)
        return rebuild_problem(self.config["problem"], self.folder.path)

    @cached_property
    def method(self) -> Any:
        """The record; settings that only code can hold have their defaults."""
        settings = {n: v for n, v in self.config["method"].items() if n not in ("name", "files")}
        record = methods.get(self.config["method"]["name"])
        return build_method(record, settings, self.folder.path)

    @property
    def seed(self) -> int:
        """The seed, or the last word of the key where that is all there is."""
        if "seed" in self.config:
            return self.config["seed"]
        key = self.config["key"]
        return int(np.ravel(key["data"] if isinstance(key, dict) else key)[-1])

    @cached_property
    def stored(self) -> StoredRows:
        """The rows that the folder keeps, in the run's units."""
        kept = stored_rows(self.folder.path)
        if kept.test is None:
            return kept
        units = self.problem.inputs, self.problem.targets
        return kept._replace(test=Split(kept.test.x, kept.test.y, *units))

    def posterior(self) -> Posterior:
        """The members; a run that is not finished is said to be so."""
        if not self.folder.finished:
            raise InputError(
                f"the run in {self.folder.path} is not finished; run its command again to go on"
            )
        check_loads(self.method, self.config["method"], self.folder.path)
        return self.method.load(self.folder.members, self.problem)


def build_method(record: type, settings: dict[str, Any], path: Path) -> Any:
    """A record from stored settings. Objects do not come back, and reading members needs none."""
    known = {f.name for f in dataclasses.fields(record)}
    extra = sorted(set(settings) - known)
    if extra:
        raise InputError(
            f"{path} has the setting {extra[0]!r} that {record.__name__} does not know; was it "
            "written by another version of credax?"
        )
    plain = {n: _tuples(v) for n, v in settings.items() if not isinstance(v, dict)}
    check_settings(record, plain, path)
    with damage(path, "restore its config.json", problem="has settings of another type"):
        return record(**plain)


def rebuild_problem(description: Mapping[str, Any], path: Path) -> Problem:
    """The problem that `describe_problem` described, if its parts are those of credax."""
    parts = {}
    for name in ("network", "likelihood", "prior", "inputs", "targets"):
        try:
            with damage(path, "restore its config.json", problem=f"does not describe a {name}"):
                parts[name] = rebuild(description.get(name))
        except CannotRebuild as error:
            raise CannotRebuild(
                f"the {name} of the run in {path} is {error}, which only your code can make; give "
                "--problem FILE.py:NAME, where NAME is its credax.Problem, or in Python "
                "credax.open_run(folder, problem)"
            ) from None
    units = all(isinstance(parts[name], Standardise | None) for name in ("inputs", "targets"))
    if not units or not isinstance(parts["prior"], prior.Prior | None):
        raise InputError(f"{path} does not describe a prior and units; restore its config.json")
    network = parts.pop("network")
    network = network.network if isinstance(network, LearnedNoise) else network
    return Problem(network, parts.pop("likelihood"), **parts)


def rebuild(description: Any) -> Any:
    """The value of a description, for plain values and records of credax."""
    if isinstance(description, list):
        return tuple(map(rebuild, description))
    if not isinstance(description, dict):
        return description
    if "array" in description:
        return np.asarray(description["array"], description["dtype"])
    if "float" in description:
        return float(description["float"])
    kind = description.get("type")
    record = _records().get(kind) if isinstance(kind, str) else None
    if record is None:
        raise CannotRebuild(str(kind or description.get("function") or "an object"))
    fields = {n: rebuild(value) for n, value in description.items() if n != "type"}
    if record is not Standardise:  # its numbers must be those of the members' file
        check_settings(record, fields, kind)
    try:
        return record(**fields)
    except TypeError as error:
        raise CannotRebuild(f"{kind} of another version ({error})") from error


def _records() -> dict[str, type]:
    """Records of credax by the name that descriptions give them."""
    modules = (networks, likelihood, prior)
    found = [value for m in modules for value in vars(m).values() if inspect.isclass(value)]
    return {f"credax.{value.__qualname__}": value for value in [*found, Standardise]}


def _agreed(problem: Problem, config: dict[str, Any], path: Path) -> Problem:
    """The given problem, in the run's units, after checking that it is the run's."""
    stored = config["problem"]
    if "format" not in config:
        return problem
    own = describe_problem(problem)
    for name in ("network", "likelihood", "prior"):
        if own[name] != stored[name]:
            raise InputError(
                f"the {name} of the given problem is not that of the run in {path}; give the one "
                "it was trained with"
            )
    for name in ("inputs", "targets"):
        if own[name] is not None and own[name] != stored[name]:
            raise InputError(
                f"{name} of the given problem standardise otherwise than the run in {path}; leave "
                "them out: the run's own are used"
            )
    with damage(path, "restore its config.json", problem="does not describe its units"):
        return problem.with_units(rebuild(stored["inputs"]), rebuild(stored["targets"]))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
