"""``credax evaluate RUN``: metrics of a finished run."""

import json
from dataclasses import dataclass
from typing import Annotated

import tyro

from credax.cli.config import read_arguments


@dataclass(frozen=True)
class Evaluate:
    """Metrics of a finished run on test rows."""

    run: Annotated[str, tyro.conf.Positional]
    """Folder of the run."""
    data: str | None = None
    """Another data set with inputs of the same shape."""
    json: bool = False
    """Print as JSON."""


def run(arguments: list[str]) -> None:
    """Read the flags, predict the test rows, print every metric that applies."""
    config = read_arguments(Evaluate, arguments, "credax evaluate")
    from credax.cli.job import SavedRun

    result = SavedRun.open(config.run, config.data).result()
    if config.json:
        print(json.dumps(result.metrics, indent=2))
        return
    for metric, value in result.metrics.items():
        print(f"{metric:<22}{value:.4f}")
