"""Published tables as data, and ours beside them in the same units."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, NamedTuple

from credax.report import Result
from credax.report.numbers import MISSING, fixed


class Number(NamedTuple):
    """A printed number: its text, its value, and its deviation over seeds where there is one."""

    text: str
    mean: float
    deviation: float | None


@dataclass(frozen=True)
class Measure:
    """A column: the metric's name here, its heading there."""

    name: str
    label: str
    factor: float = 1.0
    """Our number times this is in the published unit (100 for per cent)."""
    decimals: int = 3
    """How many of ours are printed."""


@dataclass(frozen=True)
class Published:
    """A table as printed in a paper.

    ``text`` has one line per row, ``label | value | value ± deviation | -``, one value per measure.

    >>> table = Published("t", "s", (Measure("nll", "NLL"),), "Deep ensemble | .70 ± .01")
    >>> table.rows["Deep ensemble"][0]
    Number(text='0.70 ± 0.01', mean=0.7, deviation=0.01)
    """

    title: str
    source: str
    measures: tuple[Measure, ...]
    text: str
    kind: str = "published"
    """What the other numbers are, in headings."""

    def __post_init__(self):
        for label, cells in self.rows.items():
            if len(cells) != len(self.measures):
                raise ValueError(f"{self.title}: {label} has {len(cells)} values")

    @property
    def rows(self) -> dict[str, tuple[Number | None, ...]]:
        """The printed numbers by the rows' labels."""
        lines = [line.split("|") for line in self.text.strip().splitlines()]
        return {label.strip(): tuple(_parse(cell) for cell in cells) for label, *cells in lines}

    def header(self) -> list[str]:
        """The headings of `lines`."""
        pairs = [(f"{m.label}, ours", f"{m.label}, {self.kind}") for m in self.measures]
        return ["method", *(heading for pair in pairs for heading in pair)]

    def lines(self, results: Sequence[Result]) -> list[list[str]]:
        """Label, then ours and theirs for every measure; rows that only one side has stay."""
        rows = self.rows
        ours = dict.fromkeys(result.method for result in results)
        nothing = (None,) * len(self.measures)
        lines = []
        for label in [*rows, *(label for label in ours if label not in rows)]:
            mine = [result for result in results if result.method == label]
            cells = [label]
            for measure, number in zip(self.measures, rows.get(label, nothing), strict=True):
                cells += [_ours(mine, measure), MISSING if number is None else number.text]
            lines.append(cells)
        return lines

    def to_json(self) -> dict[str, Any]:
        """Plain data, in the published units."""
        return {
            "title": self.title,
            "source": self.source,
            "measures": [measure.label for measure in self.measures],
            "rows": {
                label: [
                    number and {"mean": number.mean, "deviation": number.deviation}
                    for number in cells
                ]
                for label, cells in self.rows.items()
            },
        }


def _parse(cell: str) -> Number | None:
    mean, _, spread = cell.strip().partition("±")
    if mean.strip() == "-":
        return None
    words = [_leading_zero(part) for part in (mean, spread) if part.strip()]
    return Number(" ± ".join(words), float(words[0]), float(words[1]) if len(words) > 1 else None)


def _leading_zero(text: str) -> str:
    text = text.strip()
    return f"0{text}" if text.startswith(".") else text


def _ours(results: Sequence[Result], measure: Measure) -> str:
    values = [
        r.metrics[measure.name] * measure.factor for r in results if measure.name in r.metrics
    ]
    if not values:
        return MISSING
    spread = f" ± {fixed(stdev(values), measure.decimals)}" if len(values) > 1 else ""
    return f"{fixed(fmean(values), measure.decimals)}{spread}"
