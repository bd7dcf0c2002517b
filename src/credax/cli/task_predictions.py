"""Predictions of a run on tasks: a table for each task, its target empty where it is asked for."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from credax.cli.predictions import as_csv, prediction_columns
from credax.cli.terminal import printable
from credax.data.task_files import read_partial
from credax.data.task_form import TaskForm
from credax.errors import InputError
from credax.files import write_atomic
from credax.functions.process_posterior import ProcessPosterior
from credax.prediction import concatenate
from credax.runs import SavedRun


def predict_tasks(
    saved: SavedRun, form: TaskForm, inputs: Sequence[str], out: Path, calibration: str | None
) -> None:
    """Condition on the rows of each table that have a target, predict the others, write them."""
    if calibration is not None:
        raise InputError("calibration is given and the run is of tasks; leave it out")
    if not inputs:
        raise InputError("input is missing; name a table for each task after the run")
    about = saved.about
    posterior: Any = saved.posterior()
    assert isinstance(posterior, ProcessPosterior)
    target = about.target_names[0] if about.target_names else "y"
    found, names, asked, known = [], [], [], 0
    for name in inputs:
        if not Path(name).is_file():
            raise InputError(f"input is {name}, which is no file; give a table of one task")
        x, y, there = read_partial(name, form.columns, target, about.input_shape[1])
        if there.all():
            raise InputError(
                f"{name} has a value of {target!r} in every row; leave it empty where it is to be "
                "predicted"
            )
        known += int(there.sum())
        found.append(posterior.condition(x[there], y[there]).predict(x[~there]))
        names += [Path(name).name] * int((~there).sum())
        asked.append(x[~there])
    columns, members = prediction_columns(concatenate(found), about.class_names, about.target_names)
    points = np.concatenate(asked)
    labels = form.columns or tuple(f"x{i}" for i in range(points.shape[1]))
    own = {"task": np.array(names)} if len(inputs) > 1 else {}
    own |= {label: points[:, i] for i, label in enumerate(labels)}
    columns = {**own, **{(n if n not in own else f"predicted_{n}"): v for n, v in columns.items()}}
    if out.suffix == ".npz":
        buffer = io.BytesIO()
        np.savez(buffer, members=members, **columns)  # pyright: ignore[reportArgumentType]
        write_atomic(out, buffer.getvalue())
    else:
        write_atomic(out, as_csv(columns))
    print(printable(f"{len(points)} predictions from {known} known values in {out}"))
