"""``credax export RUN``: a finished run as a program that plain jax loads."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from credax.cli.config import Names, read_arguments
from credax.errors import InputError


@dataclass(frozen=True)
class Export:
    """A finished run as one program with its weights and units inside, for jax without credax."""

    run: Annotated[str, tyro.conf.Positional]
    """Folder of the run."""
    out: str = "model.export"
    """Where to write, or a name ending in .onnx; a .json beside it describes inputs and outputs."""
    batch_size: int | None = None
    """Rows of every call; by default any number. ONNX with convolutions needs it."""
    calibration: str | None = None
    """Apply a calibrator that credax calibrate left in the run, such as temperature."""
    platforms: Names = ("cpu", "cuda", "tpu")
    """Where the program runs."""
    problem: str | None = None
    """FILE.py:NAME of the credax.Problem, for a run with a network of your own."""


def run(arguments: list[str]) -> None:
    """Read the run, write the program and its description."""
    config = read_arguments(Export, arguments, "credax export")
    from credax import __version__
    from credax.cli.saved import saved_run
    from credax.exporting import export

    saved = saved_run(config.run, config.problem)
    about = saved.about
    description = {
        "credax": __version__,
        "task": about.task,
        "method": saved.method.title,
        "class_names": list(about.class_names),
        "feature_names": list(about.feature_names),
        "target_names": list(about.target_names),
        "calibration": config.calibration,
        **({"preparation": about.preparation} if about.preparation else {}),
    }
    path = export(
        saved.posterior(),
        config.out,
        platforms=config.platforms,
        batch_size=config.batch_size,
        transform=_calibrator(saved.folder.path, config.calibration),
        description=description,
    )
    size = path.stat().st_size / 1e6
    print(f"program in {path} ({size:.1f} MB), described in {path.with_suffix('.json')}")


def _calibrator(folder: Path, name: str | None) -> Any:
    """The stored calibrator as a function of a prediction inside the program."""
    if name is None:
        return None
    from jax.errors import TracerArrayConversionError

    from credax.cli.evaluation import stored_calibrator
    from credax.prediction import ClassPrediction, RegressionPrediction

    fitted = stored_calibrator(folder, name)
    refusal = InputError(
        f"calibration is {name}, which cannot be part of a compiled program (it gives sets or "
        "intervals, or computes outside jax); leave it out, or use temperature"
    )

    def transform(prediction: Any) -> Any:
        try:
            after = fitted(prediction)
        except TracerArrayConversionError:
            raise refusal from None
        if not isinstance(after, ClassPrediction | RegressionPrediction):
            raise refusal
        return after

    return transform
