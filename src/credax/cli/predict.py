"""``credax predict RUN INPUT``: what a finished run says about new inputs."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from credax.cli.config import read_arguments
from credax.errors import InputError
from credax.reading import as_rows, check_numbers, damage, read_npy, read_npz, read_text


@dataclass(frozen=True)
class Predict:
    """Predictions of a finished run for new inputs, with their uncertainty."""

    run: Annotated[str, tyro.conf.Positional]
    """Folder of the run."""
    input: Annotated[str, tyro.conf.Positional]
    """Inputs in raw units: .npy, .npz (array x) or .csv (one row a line, features only)."""
    calibration: str | None = None
    """A calibrator that credax calibrate left in the run, such as temperature."""
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
    x = read_inputs(Path(config.input))
    from credax.cli.job import SavedRun
    from credax.files import write_atomic

    saved = SavedRun.open(config.run)
    posterior = saved.posterior()
    prediction = posterior.predict(as_rows(x, saved.job.dataset.input_shape, config.input))
    names = saved.job.dataset.class_names
    more = {}
    if config.calibration is not None:
        prediction, more = _calibrated(prediction, saved.folder.path, config.calibration, names)
    columns, members = _columns(prediction, names)
    columns = {**columns, **more}
    if out.suffix == ".npz":
        buffer = io.BytesIO()
        np.savez(buffer, members=members, **columns)  # pyright: ignore[reportArgumentType]
        write_atomic(out, buffer.getvalue())
    else:
        lines = [",".join(columns)]
        lines += [",".join(_cell(v) for v in row) for row in zip(*columns.values(), strict=True)]
        write_atomic(out, "\n".join(lines) + "\n")
    print(f"{len(x)} predictions in {out}")


def read_inputs(path: Path) -> np.ndarray:
    """Inputs from a file, or one sentence that says what is wrong with it."""
    if not path.exists():
        raise InputError(f"input is {path}, which does not exist")
    remedy = f"is it a {path.suffix} file?"
    if path.suffix == ".npy":
        return check_numbers(read_npy(path, remedy=remedy), path)
    if path.suffix == ".npz":
        arrays = read_npz(path, problem="cannot be read", remedy=remedy)
        if "x" not in arrays:
            raise InputError(f"{path} has no array x; it has {', '.join(arrays) or 'none'}")
        return check_numbers(arrays["x"], path)
    if path.suffix == ".csv":
        lines = read_text(path, problem="cannot be read", remedy=remedy).strip().splitlines()
        header = 1 if lines and not _is_number(lines[0].split(",")[0]) else 0
        if not lines[header:]:
            raise InputError(f"{path} has no rows; give at least one")
        with damage(path, remedy):
            x = np.loadtxt(lines[header:], delimiter=",", dtype=np.float32, ndmin=2)
        return check_numbers(x, path)
    raise InputError(f"input is {path}; give a .npy, .npz or .csv file")


def _calibrated(prediction, folder: Path, name: str, class_names) -> tuple[Any, dict]:
    """The prediction after a calibrator, or the columns of its sets or intervals."""
    from credax.calibration import Intervals
    from credax.cli.judge import applied, stored

    known = stored(folder)
    if name not in known:
        kept = f"it has {', '.join(known)}" if known else "it has none"
        raise InputError(
            f"calibration is {name} and the run in {folder} does not hold it; {kept}: see "
            "credax calibrate --help"
        )
    after = applied(known[name], prediction)
    if isinstance(after, Intervals):
        return prediction, _split({f"{name}_low": after.low, f"{name}_high": after.high})
    if not isinstance(after, np.ndarray):
        return after, {}
    names = list(class_names) or [str(k) for k in range(after.shape[1])]
    sets = [" ".join(n for n, inside in zip(names, row, strict=True) if inside) for row in after]
    return prediction, {f"{name}_set": np.array(sets)}


def _columns(prediction, class_names) -> tuple[dict[str, np.ndarray], np.ndarray]:
    from credax.prediction import ClassPrediction

    parts = {
        name: np.asarray(getattr(prediction, name)) for name in ("total", "aleatoric", "epistemic")
    }
    if not isinstance(prediction, ClassPrediction):
        low, high = prediction.interval(0.9)
        columns = {"mean": prediction.mean, "std": prediction.std, "low_90": low, "high_90": high}
        return _split({**columns, **parts}), np.asarray(prediction.members)
    label = np.asarray(prediction.label)
    names = list(class_names) or [str(k) for k in range(prediction.probs.shape[1])]
    columns = {"label": np.array(names)[label], "confidence": np.asarray(prediction.confidence)}
    probs = {
        f"p_{name}": column
        for name, column in zip(names, np.asarray(prediction.probs).T, strict=True)
    }
    return {**columns, **parts, **probs}, np.asarray(prediction.members)


def _split(columns) -> dict[str, np.ndarray]:
    """Several targets: a column each."""
    flat = {}
    for name, values in columns.items():
        values = np.asarray(values)
        if values.ndim == 1:
            flat[name] = values
        else:
            flat |= {f"{name}_{i}": values[:, i] for i in range(values.shape[1])}
    return flat


def _cell(value) -> str:
    if isinstance(value, str):
        return f'"{value}"' if "," in value else value
    return f"{value:.7g}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
