"""Where a loop stands: which rows have labels, which are asked for, how every round went."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from credax.active.choice import Choice
from credax.errors import DamagedFile, InputError
from credax.files import load_arrays, save_tree
from credax.reading import check_record, check_settings
from credax.reading.records import COUNT, LIST, TEXT, WHOLE

FILE = "state.safetensors"
FORMAT = 1
_FIELDS = {"kind": TEXT, "format": COUNT, "size": WHOLE, "rounds": LIST}


@dataclass(frozen=True)
class Round:
    """One training and what was asked for after it, in plain data."""

    number: int
    labels: int
    """Labelled rows that were trained on."""
    metrics: dict[str, float] = field(default_factory=dict)
    """On the test rows: accuracy and NLL, or RMSE and NLL; empty where there are none."""
    final: dict[str, float] = field(default_factory=dict)
    """The same of the final classifier, where one is trained beside the posterior that asks."""
    steps: int = 0
    """Gradient steps of all networks that were trained."""
    members: int = 0
    """Members of the posterior; 0 where nothing was trained."""
    ceiling: float | None = None
    """The largest joint score that so many members can give, where the choice has one."""
    warnings: tuple[str, ...] = ()
    why: str = ""
    """What was done instead of training, where there was nothing to train on."""

    def with_choice(self, choice: Choice) -> "Round":
        """The record with what the choice said."""
        ceiling = None if choice.ceiling is None else float(choice.ceiling)
        return dataclasses.replace(self, ceiling=ceiling, warnings=tuple(choice.warnings))

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {**dataclasses.asdict(self), "warnings": list(self.warnings)}

    @classmethod
    def from_json(cls, content: Any, where: Any) -> "Round":
        """What `to_json` gave."""
        check_settings(cls, content, where)
        return cls(**{**content, "warnings": tuple(content.get("warnings", ()))})


def _none() -> np.ndarray:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class State:
    """The index sets of a loop and its history; every change returns another state.

    ``labelled`` are rows of the pool in the order of purchase, ``labels`` theirs, ``scores`` why
    they were bought (NaN for the initial ones) and ``bought`` in which round. ``asked`` are rows
    that were asked for and have no answer yet. All others are unlabelled.
    """

    size: int
    labelled: Int64[np.ndarray, " labelled"] = field(default_factory=_none)
    labels: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    scores: Float64[np.ndarray, " labelled"] = field(default_factory=lambda: np.zeros(0))
    bought: Int64[np.ndarray, " labelled"] = field(default_factory=_none)
    asked: Int64[np.ndarray, " asked"] = field(default_factory=_none)
    asked_scores: Float64[np.ndarray, " asked"] = field(default_factory=lambda: np.zeros(0))
    rounds: tuple[Round, ...] = ()

    @property
    def unlabelled(self) -> Int64[np.ndarray, " unlabelled"]:
        """Rows without a label, in rising order."""
        free = np.ones(self.size, bool)
        free[self.labelled] = False
        return np.flatnonzero(free)

    def ask(self, rows: np.ndarray, scores: np.ndarray | None = None) -> "State":
        """The state in which these rows are asked for, and no others."""
        rows = np.asarray(rows, np.int64).reshape(-1)
        if len(np.unique(rows)) < len(rows) or not np.isin(rows, self.unlabelled).all():
            raise InputError(
                f"{len(rows)} rows are asked for, and some are labelled, asked for twice or not in "
                "the pool; ask for unlabelled rows, each once"
            )
        found = np.full(len(rows), np.nan) if scores is None else np.asarray(scores, np.float64)
        return dataclasses.replace(self, asked=rows, asked_scores=found.reshape(len(rows)))

    def tell(self, rows: np.ndarray, labels: np.ndarray, number: int) -> "State":
        """The state after answers for some of the rows that are asked for, in round ``number``.

        Those without an answer stay unlabelled and are no longer asked for.
        """
        rows = np.asarray(rows, np.int64)
        places = {int(row): place for place, row in enumerate(self.asked)}
        odd = [int(row) for row in rows if int(row) not in places]
        if odd or len(np.unique(rows)) < len(rows):
            what = f"row {odd[0]}, which was not asked for" if odd else "one row twice"
            raise InputError(f"labels came for {what}; give one label for each row asked for")
        scores = self.asked_scores[[places[int(row)] for row in rows]]
        return dataclasses.replace(
            self,
            labelled=np.r_[self.labelled, rows],
            labels=np.concatenate([self.labels.astype(labels.dtype), labels])
            if len(self.labels)
            else labels,
            scores=np.r_[self.scores, scores],
            bought=np.r_[self.bought, np.full(len(rows), number, np.int64)],
            asked=_none(),
            asked_scores=np.zeros(0),
        )

    def with_round(self, found: Round) -> "State":
        """The state with the record of another round."""
        return dataclasses.replace(self, rounds=(*self.rounds, found))

    def save(self, folder: Path, more: dict[str, Any] | None = None) -> None:
        """Write everything to one file, atomically; equal states give equal bytes."""
        arrays = {
            f.name: getattr(self, f.name)
            for f in dataclasses.fields(self)
            if f.name not in ("size", "rounds")
        }
        content = {"kind": "active", "format": FORMAT, "size": self.size, **(more or {})}
        content["rounds"] = [each.to_json() for each in self.rounds]
        save_tree(folder / FILE, arrays, content)


def load_state(folder: Path) -> tuple[State, dict[str, Any]] | None:
    """What `State.save` wrote, with what else was written; None where nothing was yet."""
    path = folder / FILE
    if not path.exists():
        return None
    arrays, content = load_arrays(path, finite=False)
    check_record(content, _FIELDS, path, extra=True)
    rounds = tuple(Round.from_json(each, path) for each in content["rounds"])
    if set(arrays) != {f.name for f in dataclasses.fields(State)} - {"size", "rounds"}:
        raise DamagedFile(f"{path} does not hold the state of a loop; restore it from a copy")
    # Arrays of a file cannot be written to, and some are not aligned.
    state = State(content["size"], **{n: np.array(a) for n, a in arrays.items()}, rounds=rounds)
    _check(state, path)
    return state, {n: v for n, v in content.items() if n not in _FIELDS}


def _check(state: State, path: Path) -> None:
    """Refuse index sets that cannot be those of a loop."""
    flat = (state.labelled, state.bought, state.asked, state.scores, state.asked_scores)
    kinds = (np.int64, np.int64, np.int64, np.float64, np.float64)
    typed = all(a.ndim == 1 and a.dtype == kind for a, kind in zip(flat, kinds, strict=True))
    typed &= state.labels.ndim in (1, 2) and state.labels.dtype in (np.int32, np.float32)
    if not typed:
        raise DamagedFile(f"{path} holds arrays of another kind than a loop's; restore it")
    known = {len(each) for each in (state.labelled, state.labels, state.scores, state.bought)}
    every = np.r_[state.labelled, state.asked]
    equal = len(known) == 1 and len(state.asked) == len(state.asked_scores)
    if not equal or len(np.unique(every)) < len(every):
        raise DamagedFile(f"{path} holds index sets that overlap or differ in length; restore it")
    if len(every) and (every.min() < 0 or every.max() >= state.size):
        raise DamagedFile(f"{path} names rows that the pool does not have; restore it")
