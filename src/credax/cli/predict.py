"""``credax predict RUN INPUT``: predictions of a finished run for new inputs."""

import csv
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from credax.cli.config import read_arguments
from credax.errors import InputError
from credax.reading import check_numbers, read_npy, read_npz

TABLES = (".csv", ".tsv")


@dataclass(frozen=True)
class Predict:
    """Predictions of a finished run for new inputs, with their uncertainty."""

    run: Annotated[str, tyro.conf.Positional]
    """Folder of the run."""
    input: Annotated[str, tyro.conf.Positional]
    """Inputs in raw units: .csv with the columns of the training file, .npy, or .npz (array x)."""
    calibration: str | None = None
    """A calibrator that credax calibrate left in the run, such as temperature."""
    problem: str | None = None
    """FILE.py:NAME of the credax.Problem, for a run with a network of your own."""
    out: str = "predictions.csv"
    """Where to write: .csv, or .npz with the members too."""


def run(arguments: list[str]) -> None:
    """Read inputs, predict, write; an existing file is never overwritten."""
    config = read_arguments(Predict, arguments, "credax predict")
    out = Path(config.out)
    if out.suffix not in (".csv", ".npz"):
        raise InputError(f"out is {config.out}; give a name that ends in .csv or .npz")
    if out.exists():
        raise InputError(f"out is {config.out}, which exists; choose another name or remove it")
    from credax.cli.saved import saved_run
    from credax.files import write_atomic

    saved = saved_run(config.run, config.problem)
    x, unused = read_inputs(Path(config.input), saved.about)
    if unused:
        print(f"columns not used: {', '.join(unused)}", file=sys.stderr)
    prediction = saved.posterior().predict(x)
    names = saved.about.class_names
    more = {}
    if config.calibration is not None:
        prediction, more = _calibrated(prediction, saved.folder.path, config.calibration, names)
    columns, members = _columns(prediction, names, saved.about.target_names)
    columns = {**columns, **more}
    _refuse_non_finite(columns)
    if out.suffix == ".npz":
        buffer = io.BytesIO()
        np.savez(buffer, members=members, **columns)  # pyright: ignore[reportArgumentType]
        write_atomic(out, buffer.getvalue())
    else:
        write_atomic(out, as_csv(columns))
    print(f"{len(x)} predictions in {out}")


def read_inputs(path: Path, about: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """Inputs of the run's columns or shape, and the names of columns that are not used."""
    if not path.exists():
        raise InputError(f"input is {path}, which does not exist")
    if path.suffix.lower() in TABLES:
        from credax.data import table

        if len(about.input_shape) != 1:
            raise InputError(
                f"input is {path}, a table, and the run takes inputs of shape "
                f"{about.input_shape}; give them as .npy or .npz"
            )
        return table.read_inputs(path, about.feature_names, about.input_shape[0])
    if path.suffix.lower() not in (".npy", ".npz"):
        raise InputError(f"input is {path}; give a .csv, .tsv, .npy or .npz file")
    return _shaped(_read_array(path), about, path), ()


def as_csv(columns: dict[str, np.ndarray]) -> str:
    """A table of columns, quoted where a name or a label needs it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    cells = [
        [v if isinstance(v, str) else f"{v:.7g}" for v in column] for column in columns.values()
    ]
    writer.writerows(zip(*cells, strict=True))
    return text.getvalue()


def _read_array(path: Path) -> np.ndarray:
    remedy = f"is it a {path.suffix} file?"
    if path.suffix.lower() == ".npy":
        return check_numbers(read_npy(path, remedy=remedy), path)
    arrays = read_npz(path, problem="cannot be read", remedy=remedy)
    if "x" not in arrays:
        raise InputError(f"{path} has no array x; it has {', '.join(arrays) or 'none'}")
    return check_numbers(arrays["x"], path)


def _shaped(x: np.ndarray, about: Any, path: Path) -> np.ndarray:
    """Rows of the run's shape; flat rows and images without their one channel will do."""
    shape = tuple(about.input_shape)
    size = int(np.prod(shape, dtype=int))
    flat = x.ndim == 2 and x.shape[1] == size
    bare = len(shape) > 1 and shape[-1] == 1 and x.shape[1:] == shape[:-1]
    if x.ndim == 0 or not (x.shape[1:] == shape or flat or bare) or len(x) == 0:
        raise InputError(
            f"{path} holds an array of shape {x.shape}; the run takes rows of shape {shape}, so "
            f"give [rows, {', '.join(map(str, shape))}]"
        )
    if x.dtype.kind not in "biuf":
        raise InputError(f"{path} holds {x.dtype}; give numbers")
    if about.input_dtype == "uint8" and x.dtype.kind == "f" and x.min() >= 0 and x.max() <= 1:
        print(
            f"credax: warning: {path} lies between 0 and 1 and the run was trained on bytes from 0 "
            "to 255; multiply by 255 if these are the same images",
            file=sys.stderr,
        )
    return x.reshape(len(x), *shape)


def _refuse_non_finite(columns: dict[str, np.ndarray]) -> None:
    for name, values in columns.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise InputError(
                f"the prediction of row {row} is not finite ({name}); are its inputs far outside "
                "what the run was trained on?"
            )


def _calibrated(prediction, folder: Path, name: str, class_names) -> tuple[Any, dict]:
    """The prediction after a calibrator, or the columns of its sets or intervals."""
    from credax.calibration import Intervals
    from credax.cli.evaluation import applied, stored

    known = stored(folder)
    if name not in known:
        kept = f"it has {', '.join(known)}" if known else "it has none"
        raise InputError(
            f"calibration is {name} and the run in {folder} does not hold it; {kept}: see "
            "credax calibrate --help"
        )
    after = applied(known[name], prediction)
    if isinstance(after, Intervals):
        return prediction, _split({f"{name}_low": after.low, f"{name}_high": after.high}, ())
    if not isinstance(after, np.ndarray):
        return after, {}
    names = list(class_names) or [str(k) for k in range(after.shape[1])]
    # JSON arrays: class names may hold spaces, commas and quotes.
    sets = [
        json.dumps([n for n, inside in zip(names, row, strict=True) if inside], ensure_ascii=False)
        for row in after
    ]
    return prediction, {f"{name}_set": np.array(sets)}


def _columns(prediction, class_names, targets) -> tuple[dict[str, np.ndarray], np.ndarray]:
    from credax.prediction import ClassPrediction

    parts = {
        name: np.asarray(getattr(prediction, name)) for name in ("total", "aleatoric", "epistemic")
    }
    if not isinstance(prediction, ClassPrediction):
        low, high = prediction.interval(0.9)
        columns = {"mean": prediction.mean, "std": prediction.std, "low_90": low, "high_90": high}
        return _split({**columns, **parts}, targets), np.asarray(prediction.members)
    label = np.asarray(prediction.label)
    names = list(class_names) or [str(k) for k in range(prediction.probs.shape[1])]
    columns = {"label": np.array(names)[label], "confidence": np.asarray(prediction.confidence)}
    probs = {
        f"p_{name}": column
        for name, column in zip(names, np.asarray(prediction.probs).T, strict=True)
    }
    return {**columns, **parts, **probs}, np.asarray(prediction.members)


def _split(columns, targets: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Several targets: a column each, by the target's name where it has one."""
    flat = {}
    for name, values in columns.items():
        values = np.asarray(values)
        if values.ndim == 1 or values.shape[1] == 1:
            flat[name] = values.reshape(-1)
            continue
        labels = targets if len(targets) == values.shape[1] else range(values.shape[1])
        flat |= {f"{name}_{label}": values[:, i] for i, label in enumerate(labels)}
    return flat
