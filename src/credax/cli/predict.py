"""``credax predict RUN INPUT``: predictions of a finished run for new inputs."""

import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from credax.cli.config import Names, read_arguments
from credax.cli.new_rows import new_rows
from credax.cli.new_rows import read_inputs as read_inputs
from credax.cli.terminal import printable
from credax.errors import InputError


@dataclass(frozen=True)
class Predict:
    """Predictions of a finished run for new inputs, their uncertainty, and which to trust.

    The column trust says yes if the run has a conformal calibrator of sets (credax calibrate) and
    the row's set holds the label alone; else if the row's epistemic or total uncertainty is at
    most a limit, below which the validation rows of the run kept the allowed share of errors (with
    conformal intervals: a limit that all but this share of the validation rows keep). A row with a
    level or a missing value that no training row had is never trusted. The column reason says why.
    """

    run: Annotated[str, tyro.conf.Positional]
    """Folder of the run."""
    input: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Inputs in raw units: a table with the columns of the training file in any order, a folder of
    pictures or several of their files, .npy, or .npz (array x). Of a run on tasks: a table for each
    task, whose target is empty in the rows to predict; the others are the context."""
    keep: Names = ()
    """Columns of the table to write beside the predictions, such as id."""
    error: float = 0.1
    """Allowed share of errors among trusted predictions: wrong labels, or targets outside the 90 %
    interval."""
    calibration: str | None = None
    """A calibrator that credax calibrate left in the run, such as temperature."""
    problem: str | None = None
    """FILE.py:NAME of the credax.Problem, for a run with a network of your own."""
    out: str = "predictions.csv"
    """Where to write: .csv, or .npz with the members too. Of a run that predicts every pixel: .npz
    with maps of labels and uncertainty, or a folder for masks as PNG."""


def run(arguments: list[str]) -> None:
    """Read inputs, predict, write; an existing file is never overwritten."""
    config = read_arguments(Predict, arguments, "credax predict")
    out = Path(config.out)
    if out.suffix not in (".csv", ".npz", ""):
        raise InputError(f"out is {config.out}; give a name that ends in .csv or .npz")
    if out.exists():
        raise InputError(f"out is {config.out}, which exists; choose another name or remove it")
    from credax.cli.pixel_predictions import predict_maps
    from credax.cli.predictions import (
        as_csv,
        calibrated,
        prediction_columns,
        set_columns,
        trusted,
    )
    from credax.cli.saved import preparation_of, saved_run
    from credax.cli.task_predictions import predict_tasks
    from credax.data.pixel_form import PixelForm
    from credax.data.task_form import TaskForm
    from credax.files import write_atomic

    saved = saved_run(config.run, config.problem)
    about, folder = saved.about, saved.folder.path
    prepared = preparation_of(saved)
    if isinstance(prepared, TaskForm):
        predict_tasks(saved, prepared, config.input, out, config.calibration)
        return
    pixels = isinstance(prepared, PixelForm)
    if not pixels and not out.suffix:
        raise InputError(f"out is {config.out}; give a name that ends in .csv or .npz")
    rows = new_rows(config.input, about, prepared, config.keep)
    for note in rows.notes:
        print(printable(note), file=sys.stderr)
    if pixels:
        out = out.with_suffix(".npz") if config.out == Predict.out else out
        predict_maps(saved, rows, out, config.calibration)
        return
    before = saved.posterior().predict(rows.x)
    prediction, sets = calibrated(before, folder, config.calibration)
    columns, members = prediction_columns(prediction, about.class_names, about.target_names)
    columns |= set_columns(sets, about.class_names, about.target_names)
    _refuse_non_finite(columns)
    found = trusted(before, sets, folder, about.class_names, rows.flags, config.error)
    columns |= {"trust": found.trust, "reason": found.reason}
    columns |= {} if rows.flags is None else {"unusual": np.array(rows.flags)}
    names = {n if n not in columns else f"kept_{n}": values for n, values in rows.names.items()}
    columns = {**names, **columns}
    if out.suffix == ".npz":
        buffer = io.BytesIO()
        np.savez(buffer, members=members, **columns)  # pyright: ignore[reportArgumentType]
        write_atomic(out, buffer.getvalue())
    else:
        write_atomic(out, as_csv(columns))
    print(printable(f"{len(rows.x)} predictions in {out}"))
    print(f"{int((found.trust == 'yes').sum())} trusted; the rule: {found.rule}")


def _refuse_non_finite(columns: dict[str, np.ndarray]) -> None:
    for name, values in columns.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise InputError(
                f"the prediction of row {row} is not finite ({name}); are its inputs far outside "
                "what the run was trained on?"
            )
