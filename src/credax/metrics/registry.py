"""Every metric by name, with what a table must say about it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from credax.errors import InputError, unknown
from credax.metrics import (
    calibration,
    classwise_calibration,
    densities,
    depth_estimation,
    detection,
    diversity,
    quantiles,
    regression,
    regression_uncertainty,
    scoring,
    selective,
    sets,
    shift,
    smooth,
)
from credax.metrics.metric import TABLE, Metric, Task, task_of
from credax.metrics.ood_scores import SCORES
from credax.metrics.streaming import Collection, Streaming
from credax.prediction import Prediction

# In the order of tables.
_MODULES = (
    regression,
    *(scoring, calibration, classwise_calibration, smooth, selective, diversity),
    *(densities, quantiles, regression_uncertainty, detection, sets, depth_estimation),
)
_ALL = (*(m for module in _MODULES for m in TABLE[module.__name__]), *shift.METRICS)

METRICS: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _ALL})


def names(task: Task | None = None, *, headline: bool = False) -> tuple[str, ...]:
    """Names of all metrics, or of those for a task, in the order of tables; or the headline only.

    >>> names("regression", headline=True)
    ('rmse', 'nll', 'moment_matched_nll', 'crps', 'coverage_90')
    """
    both = task in ("classification", "regression")
    return tuple(
        m.name
        for m in METRICS.values()
        if (task is None or m.task == task or (both and m.task is None))
        and (m.headline or not headline)
    )


def get(name: str) -> Metric:
    """The metric of that name; for a key such as ``ood/mnist/auroc/energy``, ``shift/pooled/nll``
    or ``calibrated/temperature/nll``, the metric with a label that says so.

    >>> get("ece").estimator
    'top label, 15 equal-width bins'
    >>> get("shift/severity 3/nll").label
    'NLL, shift, severity 3'
    """
    if name in METRICS:
        return METRICS[name]
    first, *parts = name.split("/")
    if first == "ood" and len(parts) > 1:
        scored = parts[-1] in SCORES and parts[-2] in METRICS and len(parts) > 2
        base = parts[-2] if scored else parts[-1]
        words = [SCORES[parts[-1]].label, "/".join(parts[:-2])] if scored else parts[:-1]
        if base in METRICS:
            return _relabelled(name, METRICS[base], words)
    if first == "shift" and parts and parts[-1] in METRICS:
        return _relabelled(name, METRICS[parts[-1]], ["shift", *parts[:-1]])
    if first == "calibrated" and len(parts) == 2 and parts[-1] in METRICS:
        return _relabelled(name, METRICS[parts[-1]], [f"after {parts[0]}"])
    raise unknown("metric", name, METRICS)


def chosen(metrics: Iterable[str] | str | None, prediction: Prediction) -> dict[str, Streaming]:
    """The streaming forms of the metrics asked for, in the registry's order.

    None are the headline metrics that apply to the prediction, ``"all"`` all that apply; names of
    detection metrics are passed over, for they are about two predictions.
    """
    if metrics is None or metrics == "all":
        wanted = names(task_of(prediction), headline=metrics is None)
        fitting = [n for n in wanted if METRICS[n].applies_to(prediction)]
        return {n: METRICS[n].stream() for n in fitting}
    if isinstance(metrics, str):
        raise InputError(
            f'metrics is the string {metrics!r}; give a list of names: [{metrics!r}], or "all"'
        )
    asked = {get(name).name for name in metrics}
    asked -= set(names("detection"))
    for name in sorted(asked):
        _check_fit(METRICS.get(name), name, prediction)
    return {name: METRICS[name].stream() for name in METRICS if name in asked}


def collect(
    metrics: Iterable[str] | str | None, task: Task, *, sketch: bool | None = None
) -> Collection:
    """Metrics of a task in streaming form, by name; None for the headline, ``"all"`` for all.

    ``sketch=None`` keeps exact what one or two numbers per row suffice for, and bins per class for
    `ace` and `tace`, which need all probabilities; ``True`` bins wherever it can, so that the
    state does not grow with the rows; ``False`` is exact throughout.

    >>> collection = collect(["accuracy", "aurc"], "classification", sketch=True)
    >>> sorted(collection.streams)
    ['accuracy', 'aurc']
    """
    if metrics is None or metrics == "all":
        metrics = names(task, headline=metrics is None)
    known = names(task)
    out = {}
    for name in metrics:
        metric = get(name)
        if name not in known:
            raise InputError(f"metric {name!r} is not for {task}; choose from {', '.join(known)}")
        binned = sketch if sketch is not None else name in ("ace", "tace")
        out[name] = metric.stream(**({"sketch": True} if binned and _sketches(metric) else {}))
    return Collection(out)


def _sketches(metric: Metric) -> bool:
    return metric.task != "detection" and "sketch" in metric.function.__signature__.parameters


def _relabelled(name: str, metric: Metric, words: list[str]) -> Metric:
    label = ", ".join([metric.label, *(word for word in words if word)])
    return replace(metric, name=name, label=label, headline=False)


def _check_fit(metric: Metric | None, name: str, prediction: Prediction) -> None:
    task = task_of(prediction)
    if metric is None or metric.task not in (None, task):
        fitting = ", ".join(names(task))
        raise InputError(f"metric {name!r} is not for {task}; choose from {fitting}")
    missing = metric.missing(prediction)
    if missing is not None:
        raise InputError(f"metric {name!r} needs {missing}")
