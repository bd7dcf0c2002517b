"""A run is a folder: what was asked, how it went, where it stands, what came out.

``config.json`` (fully resolved), ``rows.safetensors`` (a sample of the test rows, digests of the
training rows), ``metrics.jsonl`` (one line per record), ``state.safetensors`` with ``state.json``
(the checkpoint, and the one before it), ``members.safetensors`` (the result). Every file is
written under a temporary name, synced and renamed.
"""

import json
import os
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from credax.errors import FolderInUse, InputError
from credax.files import (
    DamagedFile,
    arranged,
    load_arrays,
    load_tree,
    read_json,
    save_tree,
    tree_names,
    write_atomic,
    write_json,
)
from credax.locks import claim
from credax.reading import check_record, read_json_lines
from credax.reading.records import NUMBER, TEXT, WHOLE, Optional, kind, map_of, maybe
from credax.training.describe import changed_freely, compared
from credax.training.parts import assembled, own_parts
from credax.training.processes import agreed

_LINE = {
    "event": Optional(TEXT),
    "step": Optional(WHOLE),
    "epoch": Optional(NUMBER),
    "seconds": Optional(maybe(NUMBER)),
    "loss": Optional(maybe(NUMBER)),
    "excluded": Optional(map_of(NUMBER)),
}
_STATE = {
    "step": WHOLE,
    "seconds": NUMBER,
    "compile_seconds": NUMBER,
    "dead": kind(
        "an object of steps by member",
        lambda v: (
            isinstance(v, dict) and all(n.isdecimal() and type(s) is int for n, s in v.items())
        ),
    ),
}
STATE = "state.safetensors"
PREVIOUS = "state.previous.safetensors"
PART = "state-{}-{}of{}.safetensors"
"""The part of one process, of how many, at a step."""
# As `credax.files.write_atomic` names them.
TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}")


class ResumedOtherwise(UserWarning):
    """A run goes on with other settings of how its members run."""


class DamagedLine(UserWarning):
    """A line of ``metrics.jsonl`` cannot be read."""


class RunFolder:
    """The files of one run. Opening it claims it: two trainings never share a folder.

    Of the processes of one distributed training only one ``writes``; the others read.
    """

    def __init__(self, path: str | Path, writes: bool = True):
        self.path = Path(path)
        self.writes = writes
        self._lock = None

    @property
    def members(self) -> Path:
        """Where the result is kept."""
        return self.path / "members.safetensors"

    @property
    def finished(self) -> bool:
        """The run ended and its members are there."""
        return self.members.exists()

    @property
    def ending(self) -> dict[str, Any] | None:
        """The last line of a finished run: its cost, and members that were left out."""
        return next((line for line in self.history() if line.get("event") == "finished"), None)

    def open(
        self,
        config: dict[str, Any],
        defaults: dict[str, Any] | None = None,
        before: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        """Claim the folder for this configuration, or raise an error that says why not.

        A run written before a setting existed had what is now its default (``defaults``); one of
        the first format is compared with what ``before`` gives.
        """
        if not self.writes:
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = claim(self.path)
        except BlockingIOError as error:
            raise FolderInUse(
                f"another process is training in {self.path}; wait for it or choose another --out"
            ) from error
        except OSError as error:
            raise InputError(
                f"cannot use the folder {self.path} ({error.strerror}); choose another with --out"
            ) from error
        try:
            self._clean()
            self._agree(config, defaults or {}, before)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _clean(self) -> None:
        """Remove what writes that were killed left behind: temporary files older than the lock."""
        locked = time.time()
        for path in (*self.path.glob(".*"), *self.path.glob("*/.*")):
            if TEMPORARY.fullmatch(path.name) and path.is_file() and path.stat().st_mtime < locked:
                path.unlink(missing_ok=True)

    def _agree(self, config: dict[str, Any], defaults: dict[str, Any], before: Any) -> None:
        path = self.path / "config.json"
        config = json.loads(json.dumps(config))
        if not path.exists():
            others = [p.name for p in self.path.iterdir() if not p.name.startswith(".")]
            if others:
                raise InputError(
                    f"{self.path} holds other files ({others[0]}, ...) and no run; choose an "
                    "empty or new folder with --out"
                )
            write_json(path, config)
            return
        stored, defaults = read_json(path), json.loads(json.dumps(defaults))
        if "format" not in stored and before is not None:
            config = before()
        old = _filled(stored, {name: d for name, d in defaults.items() if name in stored})
        if compared(old) != compared(config):
            difference = first_difference(compared(old), compared(config))
            raise InputError(
                f"{self.path} holds a run with other settings ({difference}); "
                "choose another folder with --out, or repeat the run's own settings to resume it"
            )
        if not self.finished:
            self._say_changes(changed_freely(old, config))

    def _say_changes(self, changes: dict[str, tuple[Any, Any]]) -> None:
        if not changes:
            return
        words = ", ".join(f"{name} {new} instead of {old}" for name, (old, new) in changes.items())
        warnings.warn(
            f"the run in {self.path} goes on with {words}: members agree to rounding, not to the "
            "bit, with those of an undisturbed run",
            ResumedOtherwise,
            stacklevel=6,
        )

    def save_state(self, tree: Any, metadata: dict[str, Any]) -> None:
        """Keep a checkpoint; the one before stays until the next."""
        if not self.writes:
            return
        current, previous = self.path / STATE, self.path / PREVIOUS
        if current.exists():
            os.replace(current, previous)
        save_tree(current, tree, metadata)
        write_json(self.path / "state.json", metadata)
        self._remove_parts()

    def save_parts(self, tree: Any, metadata: dict[str, Any]) -> None:
        """Keep a checkpoint of which each process writes what its devices hold.

        It is the checkpoint once all have written and the first one has said so.
        """
        step, process, count = metadata["step"], jax.process_index(), jax.process_count()
        path = self.path / PART.format(step, process, count)
        save_tree(path, own_parts(tree, process == 0), {"step": step})
        agreed(0)  # all have written
        if not self.writes:
            return
        write_json(self.path / "state.json", {**metadata, "parts": count})
        for name in (STATE, PREVIOUS):
            (self.path / name).unlink(missing_ok=True)
        self._remove_parts(step)

    def _remove_parts(self, but: int | None = None) -> None:
        for path in self.path.glob(PART.format("*", "*", "*")):
            if but is None or not path.name.startswith(f"state-{but}-"):
                path.unlink(missing_ok=True)

    def _load_parts(self, template: Any) -> tuple[Any, dict[str, Any]] | None:
        """The checkpoint that several processes wrote, if it is the last one.

        Members after those of ``template`` are copies that filled another mesh.
        """
        path = self.path / "state.json"
        metadata = read_json(path) if path.exists() else {}
        if "parts" not in metadata:
            return None
        check_record(metadata, {**_STATE, "parts": WHOLE}, path, extra=True)
        step, count = metadata["step"], metadata["parts"]
        names = [self.path / PART.format(step, process, count) for process in range(count)]
        if absent := [name for name in names if not name.exists()]:
            raise DamagedFile(f"{absent[0]}, a part of the checkpoint, is not there")
        arrays = assembled((load_arrays(name, finite=False)[0] for name in names), path)
        known = zip(tree_names(template), jax.tree.leaves(template), strict=True)
        lengths = {name: leaf.shape[0] for name, leaf in known if leaf.ndim}
        cut = {n: a[: lengths.get(n, len(a))] if a.ndim else a for n, a in arrays.items()}
        return arranged(path, cut, template), metadata

    def load_state(self, template: Any) -> tuple[Any, dict[str, Any]] | None:
        """The newest checkpoint that is whole, or None; a damaged one is named in a warning."""
        try:
            if found := self._load_parts(template):
                return found
        except DamagedFile as error:
            warnings.warn(f"{error}; going on without it", RuntimeWarning, stacklevel=2)
        for name in (STATE, PREVIOUS):
            path = self.path / name
            if not path.exists():
                continue
            try:
                # Slots that were never filled, and members that diverged, may hold NaN.
                tree, metadata = load_tree(path, template, finite=False)
                return tree, check_record(metadata, _STATE, path, extra=True)
            except DamagedFile as error:
                # Out of the way, so that the next checkpoint does not push it over a whole one.
                if self.writes:
                    os.replace(path, path.with_suffix(".damaged"))
                older = name == STATE and (self.path / PREVIOUS).exists()
                where = "the checkpoint before it" if older else "the start"
                warnings.warn(f"{error}; going on from {where}", RuntimeWarning, stacklevel=2)
        return None

    def diverged(self) -> dict[int, int]:
        """Members that were left out up to the last checkpoint, and the step of each."""
        path = self.path / "state.json"
        found = read_json(path).get("dead", {}) if path.exists() else {}
        return {int(member): step for member, step in found.items()}

    def clear_state(self) -> None:
        """The run is finished: its checkpoints are no longer needed."""
        if not self.writes:
            return
        self._remove_parts()
        for name in (STATE, PREVIOUS, "state.json"):
            (self.path / name).unlink(missing_ok=True)

    def append(self, line: dict[str, Any]) -> None:
        """Add a line to ``metrics.jsonl``."""
        if not self.writes:
            return
        try:
            with open(self.path / "metrics.jsonl", "a") as file:
                file.write(json.dumps(line, allow_nan=False) + "\n")
        except OSError as error:
            raise InputError(
                f"cannot write to {self.path / 'metrics.jsonl'} ({error.strerror}); free some "
                "space and run the same command again: it resumes from the last checkpoint"
            ) from error

    def history(self) -> list[dict[str, Any]]:
        """The lines of ``metrics.jsonl``; one cut off by a crash, or damaged, is left out.

        It is a record of the training and no part of it: damage is named in a warning.
        """
        path, lines = self.path / "metrics.jsonl", []
        for number, line in read_json_lines(path, constants=False):
            try:
                if line is None:
                    raise DamagedFile(f"line {number} of {path} is not valid JSON")
                lines.append(check_record(line, _LINE, f"line {number} of {path}", extra=True))
            except DamagedFile as error:
                warnings.warn(f"{error}; the line is left out", DamagedLine, stacklevel=2)
        return lines

    def progress(self) -> dict[str, Any] | None:
        """The last record of the training, or None."""
        return next((line for line in reversed(self.history()) if "event" not in line), None)

    def rewind(self, step: int) -> None:
        """Forget lines written after the checkpoint that training goes on from."""
        if not self.writes:
            return
        kept = [line for line in self.history() if line.get("step", 0) <= step]
        write_atomic(self.path / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in kept))


def _filled(old: Any, defaults: Any) -> Any:
    """A stored configuration with the settings that its sections did not know yet."""
    if not isinstance(old, dict) or not isinstance(defaults, dict):
        return old
    known = {n: _filled(old[n], d) if n in old else d for n, d in defaults.items()}
    return {**old, **known}


def first_difference(old: Any, new: Any, where: str = "") -> str:
    """Where two configurations differ first, in words."""
    if where in ("dataset.rows", "dataset.classes", "rows", "validation_rows"):
        return "its rows are others"
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                return first_difference(old.get(name), new.get(name), f"{where}.{name}".strip("."))
    return f"{where} is {_short(old)} there and {_short(new)} here"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
