"""What is known of a data set whose rows are tasks: how they were made, and the best predictor."""

from dataclasses import asdict, dataclass
from typing import Any

from credax.errors import DamagedFile
from credax.reading import check_record
from credax.reading.records import COUNT, NUMBER, OBJECT, TEXT, list_of, maybe

_FIELDS = {
    "kind": TEXT,
    "generator": TEXT,
    "columns": list_of(TEXT),
    "kernel": maybe(OBJECT),
    "noise": NUMBER,
    "picture": maybe(list_of(COUNT, 2)),
}


@dataclass(frozen=True)
class TaskForm:
    """What every task of a data set is: a set of points ``(x, y)`` of one function.

    Tasks of a Gaussian process with a known ``kernel`` and ``noise`` have a best possible
    predictor, that process itself, against which a trained one is measured.
    """

    generator: str = "a user's own"
    """In words, where the tasks come from; printed beside every result."""
    columns: tuple[str, ...] = ()
    """Names of the input columns of a point, where they have names."""
    kernel: dict[str, Any] | None = None
    """Of the process that the functions are drawn from, as plain data; None: not known."""
    noise: float = 0.0
    """Variance of the observations around the function, where the kernel is known."""
    picture: tuple[int, int] | None = None
    """Height and width, where the points are the pixels of a picture, row by row."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"kind": "tasks", **asdict(self)}

    @classmethod
    def from_json(cls, content: Any, where: Any, shape: tuple[int, ...]) -> "TaskForm":
        """What `to_json` gave, for tasks of ``[points, columns]``."""
        check_record(content, _FIELDS, where)
        picture = content["picture"]
        named = len(content["columns"]) in (0, shape[1])
        if not named or content["noise"] < 0 or (picture and picture[0] * picture[1] != shape[0]):
            raise DamagedFile(f"{where} describes tasks that do not fit {shape}; restore it")
        return cls(
            content["generator"],
            tuple(content["columns"]),
            content["kernel"],
            float(content["noise"]),
            None if picture is None else (picture[0], picture[1]),
        )

    def described(self) -> list[tuple[str, str, str, str]]:
        """One line: what a row is."""
        known = "the best predictor is known" if self.kernel is not None else ""
        return [("rows", "tasks", self.generator, known)]
