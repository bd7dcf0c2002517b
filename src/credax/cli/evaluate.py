"""``credax evaluate RUN``: metrics of a finished run."""

import dataclasses
import json
import sys
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from credax.cli.config import EvaluationOptions, read_arguments
from credax.errors import InputError


@dataclass(frozen=True)
class Evaluate:
    """Metrics of a finished run on its test rows or others, under corruption, against OOD data."""

    run: Annotated[str, tyro.conf.Positional]
    """Folder of the run."""
    data: str | None = None
    """Other rows with the same columns or shape: a file, or the test rows of a data set."""
    stored: bool = False
    """Use the test rows that the run keeps, whatever became of its data."""
    allow_overlap: bool = False
    """Accept rows that the run was trained on."""
    problem: str | None = None
    """FILE.py:NAME of the credax.Problem, for a run with a network of your own."""
    all: bool = False
    """Every metric that applies, not only the headline."""
    evaluation: tyro.conf.OmitArgPrefixes[EvaluationOptions] = field(
        default_factory=EvaluationOptions
    )
    json: bool = False
    """Print as JSON."""


def run(arguments: list[str]) -> None:
    """Read the flags, predict the test rows, print every metric that applies."""
    config = read_arguments(Evaluate, arguments, "credax evaluate")
    if config.stored and config.data is not None:
        raise InputError("stored and data are both given; the rows kept in the run, or others?")
    from credax.cli.evaluation import Evaluator
    from credax.cli.results import result_of
    from credax.cli.saved import original_rows, rows_to_evaluate, saved_run
    from credax.metrics import evaluate

    saved = saved_run(config.run, config.problem)
    rows = rows_to_evaluate(saved, config.data, config.stored, config.allow_overlap)
    task = saved.config.get("task", {})
    if config.evaluation.calibrate and rows.dataset.validation is None and "task" in saved.config:
        held = original_rows(saved, ("validation", "test")).validation
        rows = rows._replace(dataset=dataclasses.replace(rows.dataset, validation=held))
    evaluator = Evaluator(
        config.evaluation, rows.dataset, task.get("data_dir"), task.get("download", True)
    )
    result = result_of(saved, rows, evaluator=evaluator, progress=False if config.json else None)
    values = dict(result.metrics)
    if config.all:
        values = {**evaluate(result.prediction, result.y, "all"), **values}  # pyright: ignore[reportArgumentType]
    if config.json:
        print(json.dumps(values, indent=2))
        return
    if rows.note:
        print(rows.note, file=sys.stderr)
    width = max(map(len, values)) + 2
    for metric, value in values.items():
        print(f"{metric:<{width}}{value:.4f}")
