"""What a report shows of a run: predictions, metrics, history and cost on the rows at hand."""

from datetime import datetime
from typing import Any

import jax
import numpy as np

from credax import __version__
from credax.cli.command import COMMAND
from credax.cli.config import EvaluationOptions
from credax.cli.evaluation import Evaluator
from credax.cli.job import parameters
from credax.cli.pixel_rows import predict_pixels
from credax.cli.saved import Rows, preparation_of
from credax.data import Dataset, Split
from credax.errors import InputError
from credax.experiments.saliency import input_gradients
from credax.files import read_json, write_json
from credax.functions.process_posterior import ProcessPosterior
from credax.functions.task_scores import measure
from credax.metrics import evaluate
from credax.posterior import Population, Posterior
from credax.prediction import Prediction
from credax.reading import check_record
from credax.reading.records import ANY_NUMBER, TEXT, map_of
from credax.report import distinguish
from credax.report.pictures import is_images
from credax.report.result import Comparison, Facts, Maps, Result, title_of
from credax.runs import SavedRun

FILE = "test.json"
_KEPT = {"digest": TEXT, "metrics": map_of(ANY_NUMBER)}
_ALL_ROWS = "The metrics in the table are of all test rows, as they were measured after training."
_PICTURES = 4


def result_of(
    run: SavedRun,
    rows: Rows,
    posterior: Posterior | None = None,
    evaluator: Evaluator | None = None,
    progress: bool | None = False,
    remembered: bool = False,
) -> Result:
    """Predictions, metrics, history and cost on test rows, and what was found on other data.

    With ``remembered``, metrics of a run that keeps only a sample of its test rows are those that
    were measured on all of them after training, where they are there.
    """
    posterior = posterior or run.posterior()
    evaluator = evaluator or Evaluator(EvaluationOptions(), rows.dataset)
    test = rows.dataset.test
    prediction, y, more, maps = _predicted(posterior, test, rows.dataset.class_names)
    history, ending = run.folder.history(), run.folder.ending or {}
    evaluation = evaluator.evaluate(
        posterior, prediction, y, run.folder.path, progress, run.config["method"].get("modes")
    )
    found = _remembered(run) if remembered and not rows.whole else None
    values = _metrics(run, rows, prediction, y, more) if found is None else found
    note = rows.note if found is None else f"{rows.note} {_ALL_ROWS}"
    return Result(
        method=run.method.title,
        seed=run.seed,
        metrics={**values, **evaluation.values},
        prediction=prediction,
        y=y,
        history=[line for line in history if "event" not in line],
        cost=_cost(run, posterior, prediction, ending),
        config=run.config,
        notes=(
            *([note] if note else []),
            *(
                f"member {m} was left out: its loss became non-finite at epoch {epoch:.1f}"
                for m, epoch in ending.get("excluded", {}).items()
            ),
            *evaluation.notes,
        ),
        evaluation=evaluation,
        gradients=_gradients(posterior, test),
        diagnostics=posterior.diagnostics if isinstance(posterior, Population) else {},
        maps=maps,
    )


def _predicted(
    posterior: Posterior, test: Split, class_names: tuple[str, ...]
) -> tuple[Prediction, np.ndarray, dict[str, float], Maps | None]:
    """Predictions, targets and further scores: of tasks, of the points outside a context.

    Of pictures with a target at every pixel: of a sample of pixels, and scores of all of them.
    """
    if test.pixels is not None:
        return predict_pixels(posterior, test, class_names)
    if test.tasks is None:
        return jax.tree.map(np.asarray, posterior.predict(test.x)), np.asarray(test.y), {}, None
    if not isinstance(posterior, ProcessPosterior):
        raise InputError("the test rows are tasks and the run was trained on a table; name rows")
    found = measure(posterior, test)
    return jax.tree.map(np.asarray, found.prediction), found.y, found.scores, None


def _metrics(
    run: SavedRun, rows: Rows, prediction: Prediction, y: np.ndarray, more: dict[str, float]
) -> dict[str, float]:
    """Metrics on these rows; those on all test rows are kept, for a report without the data."""
    path, digest = run.folder.path / FILE, _test_digest(run)
    whole = rows.dataset.test.pixels is not None and bool(more)  # scores of all pixels
    values = more if whole else {**evaluate(prediction, y), **more}
    if rows.whole and digest is not None and not path.exists():
        write_json(path, {"digest": digest, "metrics": values})
    return values


def _remembered(run: SavedRun) -> dict[str, float] | None:
    """Metrics on all test rows, as they were measured after training; None where they were not."""
    path = run.folder.path / FILE
    if not path.exists():
        return None
    kept = check_record(read_json(path), _KEPT, path, remedy="remove it to measure again")
    return kept["metrics"] if kept["digest"] == _test_digest(run) else None


def _test_digest(run: SavedRun) -> str | None:
    return run.about.rows.get("test", {}).get("digest")


def _cost(
    run: SavedRun, posterior: Posterior, prediction: Prediction, ending: dict[str, Any]
) -> dict[str, Any]:
    about = run.about
    if isinstance(posterior, ProcessPosterior):
        numbers = posterior.num_params
    else:
        numbers = parameters(run.problem, about.input_shape, about.input_dtype)
    return {
        "network": network_name(run.config),
        "members": prediction.num_members,
        "parameters": numbers,
        "epochs": run.config["training"]["epochs"],
        "training_seconds": ending.get("seconds"),
        "compile_seconds": ending.get("compile_seconds"),
        "peak_memory_bytes": ending.get("peak_memory_bytes"),
    }


def network_name(config: dict[str, Any]) -> str:
    """What a table calls the network."""
    if "task" in config:
        return config["task"]["network"]
    network = config["problem"]["network"]
    return (
        network.get("type", "a function").split(".")[-1] if isinstance(network, dict) else network
    )


def _gradients(posterior: Posterior, test: Split) -> np.ndarray | None:
    """Members' input gradients at the first test images; None where inputs are no images."""
    if not isinstance(posterior, Population) or not is_images(test.x) or test.pixels is not None:
        return None
    rows = test[slice(0, _PICTURES)]
    found = input_gradients(posterior, rows.x, rows.y)
    return found.reshape(len(found), *rows.x.shape)


def comparison_of(runs: list[SavedRun], dataset: Dataset, results: list[Result]) -> Comparison:
    """What a page is about: labelled results, the data, and where they come from."""
    results = distinguish(results)
    return Comparison(
        title=title_of(list(dict.fromkeys(result.method for result in results))),
        data=dataset.name,
        task=dataset.task,
        results=results,
        class_names=dataset.class_names,
        inputs=None if dataset.test.tasks or dataset.test.pixels else dataset.test.x,
        facts=_facts(runs),
    )


def _facts(runs: list[SavedRun]) -> Facts:
    about, prepared = runs[0].about, preparation_of(runs[0])
    commands = {run.config.get("command") or "" for run in runs}
    names = about.class_names or tuple(map(str, range(len(about.classes.get("train", ())))))
    return Facts(
        date=max(_ended(run) for run in runs),
        version=", ".join(sorted({run.config.get("credax", __version__) for run in runs})),
        command=commands.pop() if len(commands) == 1 else " ".join(COMMAND),
        rows={name: rows["count"] for name, rows in about.rows.items()},
        classes={n: dict(zip(names, c, strict=True)) for n, c in about.classes.items()},
        feature_names=about.feature_names,
        target_names=about.target_names,
        decisions=() if prepared is None else tuple(prepared.described()),
    )


def _ended(run: SavedRun) -> str:
    """When the run ended; older ones are dated by their file."""
    written = run.folder.members.stat().st_mtime
    date = datetime.fromtimestamp(written).astimezone().isoformat(timespec="minutes")
    return (run.folder.ending or {}).get("date", date)


def same_data(runs: list[SavedRun]) -> None:
    """Raise an error if runs were tested on different rows: their numbers do not compare."""
    digests = {run.about.rows.get("test", {}).get("digest") for run in runs}
    if len(digests) > 1:
        names = ", ".join(sorted({run.about.name for run in runs}))
        raise InputError(
            f"the runs were tested on different rows ({names}); report one set at a time"
        )
