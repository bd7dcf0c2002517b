"""What a reader of a shared run must know: task, data, metrics, calibration, how to load it."""

import json
from pathlib import Path
from typing import Any

from credax import methods
from credax.reading import read_json
from credax.runs import open_run

_FENCE = "```"


def model_card(folder: Path, repository: str) -> str:
    """A model card in Markdown with the hub's header, written from a run or a zoo."""
    if (folder / "zoo.json").is_file():
        return _zoo_card(folder, repository)
    run = open_run(folder)
    about = run.about
    title = methods.get(run.config["method"]["name"]).title
    training = run.config["training"]
    lines = [
        _header(["credax", "uncertainty", about.task]),
        f"# {title} on {about.name or 'unnamed data'}",
        "",
        f"A posterior over networks, fitted with credax {run.config.get('credax', '')}.",
        "",
        f"- Task: {about.task}, inputs of shape {about.input_shape} ({about.input_dtype}).",
        *_named("Classes", about.class_names),
        *_named("Columns", about.feature_names),
        *_named("Targets", about.target_names),
        *_rows(about.rows),
        f"- Network: {_network(run.config)}.",
        f"- Method: `{json.dumps(run.config['method'])}`, seed {run.seed}.",
        f"- Training: {training['epochs']} epochs, batch {training['batch_size']}.",
        *_metrics(folder),
        *_calibrators(folder),
        "",
        "## Use",
        "",
        f"{_FENCE}python",
        "import credax as cx",
        "",
        f'posterior = cx.load("hf://{repository}")',
        "prediction = posterior.predict(x)  # raw inputs; members, mean, total, epistemic ...",
        _FENCE,
        "",
        "Files are safetensors and JSON; nothing is unpickled.",
    ]
    return "\n".join(lines) + "\n"


def _zoo_card(folder: Path, repository: str) -> str:
    content = read_json(folder / "zoo.json")
    count = sum(shard.get("members", 0) for shard in content.get("shards", []))
    return "\n".join(
        [
            _header(["credax", "population"]),
            f"# {count} networks",
            "",
            "A zoo of independently trained networks, kept by credax.",
            "",
            f"{_FENCE}python",
            "from credax import hub, zoo",
            "",
            f'networks = zoo.Zoo.open(hub.pull("hf://{repository}"))',
            _FENCE,
            "",
        ]
    )


def _header(tags: list[str]) -> str:
    return "\n".join(["---", "library_name: credax", "tags:", *(f"- {t}" for t in tags), "---", ""])


def _named(title: str, names: tuple[str, ...], most: int = 20) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return [f"- {title}: {', '.join(f'`{name}`' for name in names[:most])}{more}."]


def _rows(rows: dict[str, dict[str, Any]]) -> list[str]:
    counts = ", ".join(f"{part['count']} {name}" for name, part in rows.items() if "count" in part)
    return [f"- Rows: {counts}."] if counts else []


def _network(config: dict[str, Any]) -> str:
    network = config["problem"].get("network")
    kind = network.get("type", "your own") if isinstance(network, dict) else network
    return f"`{kind}`"


def _metrics(folder: Path) -> list[str]:
    if not (folder / "test.json").is_file():
        return []
    values = read_json(folder / "test.json")["metrics"]
    rows = [f"| {name} | {value:.4g} |" for name, value in values.items()]
    return ["", "## Metrics on the test rows", "", "| metric | value |", "|---|---|", *rows]


def _calibrators(folder: Path) -> list[str]:
    names = [path.stem for path in sorted((folder / "calibration").glob("*.safetensors"))]
    return ["", f"Calibrators in the folder `calibration`: {', '.join(names)}."] if names else []
