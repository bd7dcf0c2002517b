"""A run of experiments on disk: the model by name or digest, every design and outcome."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from credax.design.beliefs.belief import NONE, Experiments
from credax.errors import InputError
from credax.files import read_json, write_json
from credax.reading import check_record
from credax.reading.records import (
    COUNT,
    LIST,
    NUMBER,
    NUMBERS,
    OBJECT,
    TEXT,
    WHOLE,
    Optional,
    maybe,
)

FILE = "design.json"
FORMAT = 1
_FIELDS = {
    "format": COUNT, "credax": TEXT, "model": OBJECT, "belief": TEXT, "seed": WHOLE,
    "outer": COUNT, "inner": COUNT, "rounds": LIST, "asked": maybe(OBJECT),
    "policy_rounds": Optional(maybe(COUNT)),
}  # fmt: skip
_ASKED = {
    "design": NUMBERS, "expected": NUMBER, "lower": maybe(NUMBER), "upper": maybe(NUMBER),
    "standard_error": NUMBER,
}  # fmt: skip
_ROUND = {"design": NUMBERS, "outcome": NUMBERS, "expected": maybe(NUMBER)}


@dataclass(frozen=True)
class DesignRun:
    """Where a run of experiments stands: plain data, from which all else follows."""

    credax: str
    model: dict[str, Any]
    """``name`` and ``options`` of the registry; for one's own also ``file`` and ``digest``."""
    belief: str = "auto"
    seed: int = 0
    outer: int = 2000
    inner: int = 500
    rounds: tuple[dict[str, Any], ...] = ()
    """Design, outcome and expected information of every experiment, in order."""
    asked: dict[str, Any] | None = None
    """The design that is asked for, and what is expected of it."""
    policy_rounds: int | None = None
    """Experiments of the trained policy in the folder that asks; None: the best next design."""

    @property
    def seen(self) -> Experiments:
        """The experiments so far."""
        found = NONE
        for each in self.rounds:
            found = found.and_then(np.asarray(each["design"]), np.asarray(each["outcome"]))
        return found

    def ask(self, asked: dict[str, Any]) -> "DesignRun":
        """The run with a design that is asked for."""
        return dataclasses.replace(self, asked=asked)

    def tell(self, design: Any, outcome: Any, expected: float | None) -> "DesignRun":
        """The run with one more outcome, and nothing asked."""
        done = {"design": design, "outcome": outcome, "expected": expected}
        return dataclasses.replace(self, rounds=(*self.rounds, done), asked=None)

    def save(self, folder: Path) -> None:
        """Write everything to one file, atomically."""
        content = {"format": FORMAT, **dataclasses.asdict(self)}
        write_json(folder / FILE, content | {"rounds": list(self.rounds)})


def load_run(folder: Path) -> DesignRun:
    """What `DesignRun.save` wrote."""
    path = folder / FILE
    if not path.is_file():
        raise InputError(
            f"{folder} is not a run of credax design; begin one with credax design start MODEL"
        )
    content = check_record(read_json(path), _FIELDS, path)
    if content["format"] != FORMAT:
        raise InputError(
            f"{path} has format {content['format']} and this credax reads {FORMAT}; update credax"
        )
    for each in content["rounds"]:
        check_record(each, _ROUND, path)
    if content["asked"] is not None:
        check_record(content["asked"], _ASKED, path)
    values: dict[str, Any] = {n: v for n, v in content.items() if n != "format"}
    values["rounds"] = tuple(content["rounds"])
    return DesignRun(**values)
