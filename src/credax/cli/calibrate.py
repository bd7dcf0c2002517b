"""``credax calibrate RUN``: a calibrator fitted on rows of its own, kept in the run's folder."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from credax.cli.config import read_arguments
from credax.errors import InputError
from credax.reading import check_name


@dataclass(frozen=True)
class Calibrate:
    """Fit a calibrator to a finished run; report, evaluate and predict then know it."""

    run: Annotated[str, tyro.conf.Positional]
    """Folder of the run."""
    method: str = "auto"
    """Calibrator by name (credax list calibrators); auto is temperature or variance-scaling."""
    data: str | None = None
    """Fit on these rows instead of the run's validation rows: a file, or a data set's test rows."""
    alpha: float | None = None
    """Allowed share of misses of sets and intervals; 0.1 by default."""
    name: str | None = None
    """Name to keep it under; by default that of the calibrator."""
    allow_overlap: bool = False
    """Fit even on rows the run was trained on."""
    problem: str | None = None
    """FILE.py:NAME of the credax.Problem, for a run with a network of your own."""
    json: bool = False
    """Print as JSON."""


def run(arguments: list[str]) -> None:
    """Fit, keep, and print the test metrics before and after."""
    config = read_arguments(Calibrate, arguments, "credax calibrate")
    if config.name is not None:
        check_name(config.name)
    from credax import calibration, metrics
    from credax.cli.evaluation import applied, set_values
    from credax.cli.saved import saved_run

    saved = saved_run(config.run, config.problem)
    posterior = saved.posterior()
    task = saved.about.task
    name = config.method
    if name == "auto":
        name = "temperature" if task == "classification" else "variance-scaling"
    entry = calibration.entry(name)
    if entry.task not in (None, task):
        fitting = ", ".join(calibration.names(task))
        raise InputError(f"method is {name}, for {entry.task}; choose from {fitting}")
    settings: Any = {} if config.alpha is None else _with_alpha(name, config.alpha)
    rows, test = _rows(saved, config)
    fitted = calibration.calibrate(name, posterior.predict(rows.x), rows, **settings)
    file = _keep(fitted, saved.folder.path / "calibration" / f"{config.name or name}.safetensors")
    before = posterior.predict(test.x)
    after = applied(fitted, before)
    content = {
        "calibrator": name,
        "rows": len(rows),
        "file": str(file),
        "before": dict(metrics.evaluate(before, test.y)),
        "after": dict(metrics.evaluate(after, test.y))
        if entry.gives == "prediction"
        else set_values(after, test.y),
    }
    print(json.dumps(content, indent=2) if config.json else _text(content))


def _rows(saved: Any, config: Calibrate) -> tuple[Any, Any]:
    """The rows to fit on, which the run was not trained on, and the test rows."""
    from credax.calibration import calibration_rows
    from credax.cli.saved import original_rows, rows_to_evaluate, rows_to_show

    if config.data is None:
        dataset = original_rows(saved, ("train", "validation", "test"))
        if dataset.validation is None:
            raise InputError(
                f"the run in {config.run} held no validation rows out; train it with "
                "--validation 0.1, or name rows of your own with --data"
            )
        return calibration_rows(dataset, allow_overlap=config.allow_overlap), dataset.test
    found = rows_to_evaluate(saved, config.data, False, config.allow_overlap)
    if found.whole and not config.allow_overlap:
        raise InputError(
            f"data is {config.data}, the run's own, and its test rows are for testing; name other "
            "rows, or leave --data out to use the validation rows"
        )
    return found.dataset.test, rows_to_show(saved).dataset.test


def _with_alpha(name: str, alpha: float) -> dict[str, float]:
    from credax import calibration

    if "alpha" not in {field.name for field in dataclasses.fields(calibration.get(name))}:
        sets = [n for n in calibration.names() if calibration.entry(n).gives != "prediction"]
        raise InputError(f"alpha is given and {name} has none; it is for {', '.join(sets)}")
    return {"alpha": alpha}


def _keep(fitted: Any, file: Path) -> Path:
    """Write the calibrator; one that is there already and differs is never overwritten."""
    from credax.calibration import save
    from credax.reading import read_bytes

    fresh = file.with_suffix(".new")
    save(fresh, fitted)
    if file.exists() and read_bytes(file) != read_bytes(fresh):
        fresh.unlink()
        raise InputError(f"{file} holds another calibrator; keep this one under another --name")
    fresh.replace(file)
    return file


def _text(content: dict[str, Any]) -> str:
    before, after = content["before"], content["after"]
    lines = [
        f"{content['calibrator']}, fitted on {content['rows']} rows: {content['file']}",
        "",
        f"{'on the test rows':<24}{'before':>10}{'after':>10}",
    ]
    for name in dict.fromkeys([*before, *after]):
        cells = [f"{v[name]:>10.4f}" if name in v else f"{'':>10}" for v in (before, after)]
        lines.append(f"{name:<24}{''.join(cells)}")
    return "\n".join(lines)
