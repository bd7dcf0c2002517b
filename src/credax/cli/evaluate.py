"""``credax evaluate RUN``: metrics of a finished run."""

import json
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from credax.cli.config import Judging, read_arguments


@dataclass(frozen=True)
class Evaluate:
    """Metrics of a finished run on test rows, and on corrupted or strange ones."""

    run: Annotated[str, tyro.conf.Positional]
    """Folder of the run."""
    data: str | None = None
    """Another data set with inputs of the same shape."""
    all: bool = False
    """Every metric that applies, not only the headline."""
    judging: tyro.conf.OmitArgPrefixes[Judging] = field(default_factory=Judging)
    json: bool = False
    """Print as JSON."""


def run(arguments: list[str]) -> None:
    """Read the flags, predict the test rows, print every metric that applies."""
    config = read_arguments(Evaluate, arguments, "credax evaluate")
    from credax.cli.job import SavedRun
    from credax.metrics import evaluate

    saved = SavedRun.open(config.run, config.data)
    judge = saved.job.judge(config.judging)
    result = saved.result(judge=judge, progress=False if config.json else None)
    values = dict(result.metrics)
    if config.all:
        values = {**evaluate(result.prediction, result.y, "all"), **values}  # pyright: ignore[reportArgumentType]
    if config.json:
        print(json.dumps(values, indent=2))
        return
    width = max(map(len, values)) + 2
    for metric, value in values.items():
        print(f"{metric:<{width}}{value:.4f}")
