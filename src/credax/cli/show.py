"""``credax show RUN``: what a run is and how far it is."""

import json
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from credax.cli.config import read_arguments
from credax.cli.terminal import printable
from credax.errors import InputError


@dataclass(frozen=True)
class Show:
    """What a run is and how far it is."""

    run: Annotated[str, tyro.conf.Positional]
    """Folder of the run."""
    json: bool = False
    """Print as JSON."""


def run(arguments: list[str]) -> None:
    """Read config and history; no training, no data."""
    config = read_arguments(Show, arguments, "credax show")
    content = describe(config.run)
    if config.json:
        print(json.dumps(content, indent=2))
        return
    for name, value in content.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {entry}" for key, entry in value.items())
        print(printable(f"{name:<16}{value}"))


def _fields() -> dict[str, Any]:
    """What of a run's configuration is shown."""
    from credax.reading import records as r

    return {
        "method": r.record({"name": r.TEXT}, extra=True),
        "rows": r.record({"count": r.WHOLE}, extra=True),
        "problem": r.OBJECT,
        "training": r.record({"epochs": r.NUMBER}, extra=True),
        "seed": r.Optional(r.WHOLE),
        "task": r.Optional(
            r.record({"data": r.Optional(r.TEXT), "network": r.Optional(r.TEXT)}, extra=True)
        ),
    }


def _network(described: Any) -> Any:
    """A network in a word: records of credax are described field by field."""
    return described.get("type") if isinstance(described, dict) else described


def describe(path: str) -> dict[str, Any]:
    """A run in a few lines."""
    from credax.reading import check_record, read_json
    from credax.training.run import RunFolder

    folder = RunFolder(path)
    file = folder.path / "config.json"
    if not file.exists():
        raise InputError(f"{path} is not a run: it has no config.json; see: credax list runs")
    remedy = "was it made by credax fit?"
    content = read_json(file)
    config = check_record(content, _fields(), file, extra=True, remedy=remedy)
    history = folder.history()
    records = [line for line in history if "event" not in line]
    last = records[-1] if records else {}
    task = config.get("task", {})
    return {
        "run": str(folder.path),
        "state": "finished" if folder.finished else "unfinished: run its command again to go on",
        "method": config["method"],
        "data": task.get("data", f"{config['rows']['count']} rows"),
        "network": task.get("network") or _network(config["problem"].get("network")),
        "seed": config.get("seed", config.get("key")),
        "epochs": f"{last.get('epoch', 0):g} of {config['training']['epochs']}",
        "loss": last.get("loss"),
        "seconds": last.get("seconds"),
        "files": ", ".join(sorted(p.name for p in folder.path.iterdir() if p.name[0] != ".")),
    }
