"""``credax list``: what there is."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from credax.cli.config import read_arguments
from credax.cli.terminal import printable
from credax.errors import InputError


@dataclass(frozen=True)
class List:
    """What there is: methods, datasets, networks and so on, or runs in a folder."""

    what: Annotated[
        Literal[
            "methods",
            "datasets",
            "networks",
            "metrics",
            "corruptions",
            "calibrators",
            "acquisitions",
            "experiments",
            "runs",
        ],
        tyro.conf.Positional,
    ]
    """What to list."""
    root: str = "runs"
    """Where to look for runs."""
    json: bool = False
    """Print as JSON."""


def run(arguments: list[str]) -> None:
    """Print a table, or JSON for machines."""
    config = read_arguments(List, arguments, "credax list")
    rows = {
        "methods": _methods,
        "datasets": _datasets,
        "networks": _networks,
        "metrics": _metrics,
        "corruptions": _corruptions,
        "calibrators": _calibrators,
        "acquisitions": _acquisitions,
        "experiments": _experiments,
        "runs": lambda: _runs(Path(config.root)),
    }[config.what]()
    if config.json:
        print(json.dumps(rows, indent=2))
        return
    if not rows:
        print(f"no {config.what} in {config.root}; credax fit and credax compare make some")
        return
    table = Table(box=None, pad_edge=False)
    for column in rows[0]:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(printable(value)) for value in row.values()))
    Console().print(table)


def _methods() -> list[dict[str, Any]]:
    from credax import methods

    return [{"method": name, "what it is": methods.describe(name)} for name in methods.names()]


def _datasets() -> list[dict[str, Any]]:
    from credax import data

    return [
        {
            "data set": source.name,
            "task": source.form,
            "inputs": "x".join(map(str, source.input_shape)),
            "here": "yes" if source.available() else "no",
            "what it is": source.description,
        }
        for source in map(data.describe, data.names())
    ]


def _networks() -> list[dict[str, Any]]:
    from credax import networks

    return [{"network": n, "what it is": networks.describe(n)} for n in networks.names()]


def _metrics() -> list[dict[str, Any]]:
    from credax.metrics import METRICS

    better = {True: "higher", False: "lower", None: ""}
    return [
        {
            "metric": metric.name,
            "task": metric.task or "both",
            "better": better[metric.higher_is_better],
            "unit": metric.unit,
            "what it is": metric.description,
        }
        for metric in METRICS.values()
    ]


def _corruptions() -> list[dict[str, Any]]:
    from credax.data import corruptions
    from credax.data.corruptions.registry import SUITES

    return [
        {
            "corruption": name,
            "suites": ", ".join(suite for suite, kinds in SUITES.items() if name in kinds),
            "what it is": corruptions.describe(name).description,
        }
        for name in corruptions.names()
    ]


def _acquisitions() -> list[dict[str, Any]]:
    from credax import active

    return [{"acquisition": name, "what it is": active.describe(name)} for name in active.names()]


def _calibrators() -> list[dict[str, Any]]:
    from credax import calibration

    return [
        {
            "calibrator": name,
            "task": calibration.entry(name).task or "both",
            "gives": calibration.entry(name).gives,
            "what it is": calibration.describe(name),
        }
        for name in calibration.names()
    ]


def _experiments() -> list[dict[str, Any]]:
    from credax import experiments

    return [
        {"experiment": name, "what it is": experiments.describe(name)}
        for name in experiments.names()
    ]


def _runs(root: Path) -> list[dict[str, Any]]:
    from credax.cli.show import describe

    rows = []
    for path in sorted(root.glob("**/config.json")):
        try:
            shown = describe(str(path.parent))
        except InputError as error:  # one damaged run does not hide the others
            names = ("run", "method", "data", "seed", "epochs", "state")
            rows.append(dict.fromkeys(names, "") | {"run": str(path.parent), "state": "damaged"})
            print(f"credax: warning: {printable(error)}", file=sys.stderr)
            continue
        rows.append(
            {
                "run": shown["run"],
                "method": shown["method"]["name"],
                "data": shown["data"],
                "seed": shown["seed"],
                "epochs": shown["epochs"],
                "state": shown["state"].split(":")[0],
            }
        )
    return rows
