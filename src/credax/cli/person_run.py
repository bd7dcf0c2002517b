"""The run of a person who labels: its files, read and written."""

import dataclasses
import io
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from credax.active.folder import FILE, LoopFolder
from credax.active.pool import pool_digest
from credax.active.state import FORMAT, State
from credax.cli.config import Task, task_from_json
from credax.data.columns import Columns
from credax.data.dataset import Dataset, Split
from credax.data.pictures import Pictures
from credax.data.unlabelled import Unlabelled
from credax.description import digest
from credax.errors import DamagedFile, InputError
from credax.files import read_json, write_atomic, write_json
from credax.reading import check_record, check_settings, read_npy
from credax.reading.records import COUNT, OBJECT, TEXT, list_of, map_of, maybe, one_of
from credax.standardise import Standardise, check_units

POOL, ROWS, TEST = "pool.npy", "pool.json", "test.npy"
MOST_CELLS = 2**28
_LISTED = list_of(TEXT)
_DESCRIPTION = {
    "format": COUNT,
    "kind": one_of("person"),
    "credax": TEXT,
    "command": TEXT,
    "settings": OBJECT,
    "task": OBJECT,
    "pool": OBJECT,
    "labels": TEXT,
    "test": maybe(OBJECT),
    "preparation": OBJECT,
    "units": OBJECT,
}
_KEPT = {"cells": map_of(_LISTED), "source": TEXT, "test": maybe(_LISTED)}


@dataclass(frozen=True)
class PersonSettings:
    """What `credax active start` was asked for, beside the task."""

    method: str
    members: int | None
    acquisition: str
    query: int
    initial: int
    scoring_pool: int | None
    classes: tuple[str, ...]
    id: str
    keep_members: bool
    seed: int
    steps: int | None = None


@dataclass(frozen=True)
class Standing:
    """What a person's loop has beside its index sets."""

    task: str = "auto"
    """classification, regression, or auto while no label says which."""
    classes: tuple[str, ...] = ()
    ever: tuple[int, ...] = ()
    """Rows that were ever asked for."""
    why: tuple[str, ...] = ()
    """Why each row that is asked for now is."""
    guesses: dict[str, str] = field(default_factory=dict)
    """By row: what the model would have answered."""
    checks: tuple[tuple[int, int, int], ...] = ()
    """After every tell: labels before, answers, and how many of them the model guessed."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any], where: Path) -> "Standing":
        """What `to_json` gave."""
        check_settings(cls, content, where)
        tuples = {n: tuple(content[n]) for n in ("classes", "ever", "why") if n in content}
        checks = tuple(tuple(each) for each in content.get("checks", ()))
        return cls(**{**content, **tuples, "checks": checks})


@dataclass
class PersonRun:
    """An open run; `save` keeps its state and standing together."""

    folder: LoopFolder
    state: State
    seconds: list[float | None]
    standing: Standing

    @property
    def path(self) -> Path:
        """The folder."""
        return self.folder.path

    @cached_property
    def description(self) -> dict[str, Any]:
        """What ``active.json`` holds."""
        return read_description(self.path)

    @cached_property
    def settings(self) -> PersonSettings:
        """What was asked for at the start."""
        values = {**self.description["settings"]}
        check_settings(PersonSettings, values, self.path / FILE)
        return PersonSettings(**{**values, "classes": tuple(values["classes"])})

    @cached_property
    def task(self) -> Task:
        """Network, likelihood and training."""
        return task_from_json(self.description, self.path / FILE)

    @cached_property
    def pool(self) -> np.ndarray:
        """The inputs, read from disk as they are used."""
        return self._array(POOL, "pool", mapped=True)

    def _array(self, name: str, entry: str, mapped: bool = False) -> np.ndarray:
        """Inputs that the run keeps, as they were when it began."""
        x = read_npy(self.path / name, mapped=mapped, remedy="restore it from a copy")
        if x.ndim < 2 or pool_digest(x) != self.description[entry]:
            raise DamagedFile(f"{self.path / name} is not that of this run; restore it")
        return x

    @cached_property
    def kept(self) -> dict[str, Any]:
        """Cells to show, where the rows came from, and rows to measure on."""
        path = self.path / ROWS
        return check_record(read_json(path, most=MOST_CELLS), _KEPT, path)

    @cached_property
    def preparation(self) -> Columns | Pictures:
        """How raw rows become inputs."""
        content, where = self.description["preparation"], self.path / FILE
        shape = tuple(self.pool.shape[1:])
        if content.get("kind") == "pictures":
            return Pictures.from_json(content, where, shape)
        return Columns.from_json(content, where, shape[0])

    @cached_property
    def units(self) -> Standardise:
        """Units of the inputs."""
        lists = self.description["units"]
        check_units({"inputs": lists, "targets": None}, self.pool.shape[1:], self.path / FILE)
        return Standardise(**lists)

    @property
    def target(self) -> str:
        """The name of the labels' column."""
        return self.task.target[0]

    def label_text(self, value: Any) -> str:
        """A stored label as a person wrote it."""
        if self.standing.task == "classification":
            return self.standing.classes[int(value)]
        return f"{float(value):.7g}"

    @property
    def test(self) -> Split | None:
        """Rows to measure on, with their labels as numbers."""
        texts = self.kept["test"]
        if texts is None:
            return None
        x, classes = self._array(TEST, "test"), self.standing.classes
        if self.standing.task == "regression":
            return Split(x, np.array(texts, np.float32))
        return Split(x, np.array([classes.index(text) for text in texts], np.int32))

    def dataset(self, rows: Split) -> Dataset:
        """Labelled rows with their names, as a run keeps them."""
        prepared = self.preparation
        features = prepared.features if isinstance(prepared, Columns) else ()
        regression = self.standing.task == "regression"
        return Dataset(
            Path(self.kept["source"]).name,
            rows,
            rows[:0],
            None,
            "regression" if regression else "classification",
            () if regression else self.standing.classes,
            features,
            (self.target,),
            "",
            prepared,
        )

    def save(self) -> None:
        """Keep the state and what stands beside it in one file."""
        self.folder.save(self.state, self.seconds, standing=self.standing.to_json())


def read_description(path: Path) -> dict[str, Any]:
    """``active.json`` of a person's run, checked."""
    file = path / FILE
    if not file.exists():
        raise InputError(f"{path} is not a run of credax active: it has no {FILE}; see start")
    content = read_json(file)
    if isinstance(content, dict) and content.get("kind") != "person":
        raise InputError(
            f"{path} is a loop that a data set answers; tell and status are for runs of credax "
            "active start"
        )
    content = check_record(content, _DESCRIPTION, file)
    if content["format"] > FORMAT:
        raise InputError(f"{path} was written by a newer credax ({content['credax']}); use that")
    return content


def open_run(folder: LoopFolder) -> PersonRun:
    """The run in a folder that is held."""
    read_description(folder.path)
    found = folder.load()
    if found is None:
        raise InputError(f"{folder.path} has not begun; run its start command again")
    state, seconds, more = found
    content = check_record(more, {"standing": OBJECT}, folder.path)["standing"]
    run = PersonRun(folder, state, seconds, Standing.from_json(content, folder.path))
    _check(run)
    return run


def _check(run: PersonRun) -> None:
    """Refuse what stands beside the index sets and does not fit them, or the task."""
    state, standing = run.state, run.standing
    labels, ever = state.labels, np.array([*standing.ever, 0])
    sound = len(standing.why) in (0, len(state.asked)) and labels.ndim == 1
    sound &= bool((ever >= 0).all() and (ever < state.size).all())
    sound &= standing.task in ("auto", "classification", "regression")
    if standing.task == "classification":
        inside = labels.dtype == np.int32 and (labels >= 0).all()
        sound &= bool(inside and (labels < len(standing.classes)).all())
    sound &= len(run.task.target) == 1 and run.description["pool"].get("count") == state.size
    sound &= all(len(cells) == state.size for cells in run.kept["cells"].values())
    sound &= not run.settings.id or run.settings.id in run.kept["cells"]
    if not sound:
        raise DamagedFile(f"{run.path} holds files that do not fit each other; restore them")


def keep_pool(folder: Path, rows: Unlabelled, source: Path, test: Unlabelled | None) -> None:
    """Write the inputs, the cells that a person sees and the rows to measure on, once."""
    arrays = {POOL: rows.x} | ({} if test is None else {TEST: test.x})
    for name, array in arrays.items():
        if not (folder / name).exists():
            buffer = io.BytesIO()
            np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
            write_atomic(folder / name, buffer.getvalue())
    if not (folder / ROWS).exists():
        cells = {name: list(texts) for name, texts in rows.cells.items()}
        labels = None if test is None else list(test.labels)
        write_json(folder / ROWS, {"cells": cells, "source": str(source), "test": labels})


def described(
    settings: PersonSettings,
    task: dict[str, Any],
    rows: Unlabelled,
    test: Unlabelled | None,
    version: str,
    command: str,
) -> dict[str, Any]:
    """What ``active.json`` holds: settings by value, the rows by digest."""
    units: Any = rows.units
    return {
        "format": FORMAT,
        "kind": "person",
        "credax": version,
        "command": command,
        "settings": dataclasses.asdict(settings),
        "task": task,
        "pool": pool_digest(rows.x),
        "labels": digest("\n".join(rows.labels)),
        "test": None if test is None else pool_digest(test.x),
        "preparation": rows.preparation.to_json(),
        "units": units.to_lists(),
    }
