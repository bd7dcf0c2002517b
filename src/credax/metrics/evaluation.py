"""All metrics of one prediction in one call."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Literal

import jax
import numpy as np

from credax.errors import InputError
from credax.metrics.checks import check_shapes, without_broken_members
from credax.metrics.ood_scores import applicable, scores
from credax.metrics.ranking import Scored, blocks_of
from credax.metrics.registry import METRICS, chosen, names
from credax.metrics.segmentation import flattened, grid_shape, pixel_rows
from credax.metrics.shift import Cell, corruption_errors, mean_corruption_error, shift_values
from credax.metrics.streaming import Collection, State
from credax.prediction import ClassPrediction, Prediction, RegressionPrediction

_ROWS = 2**16
_ENTRIES = 2**23
_DEFAULT_SCORES = {"entropy_predictive", "mutual_information", "max_probability", "max_logit"} | {
    "energy",
    "total_variance",
    "epistemic_variance",
}


class Evaluation(dict[str, float]):
    """Values by name; ``notes`` says, by name, why those that are NaN have no value."""

    notes: dict[str, str]

    def __init__(self, values: Mapping[str, float], notes: Mapping[str, str] | None = None):
        super().__init__(values)
        self.notes = dict(notes or {})

    def __repr__(self) -> str:
        notes = "".join(f"\n{name}: {note}" for name, note in self.notes.items())
        return dict.__repr__(self) + notes


def evaluate(
    prediction: Prediction,
    y: Any,
    metrics: Iterable[str] | Literal["all"] | None = None,
    *,
    ood: Mapping[str, Prediction] | None = None,
    ood_groups: Mapping[str, Sequence[str]] | None = None,
    shift: Mapping[Cell, Any] | None = None,
    shift_baseline: Mapping[Cell, float] | None = None,
    logits: Any = None,
    ood_logits: Mapping[str, Any] | None = None,
    weights: Mapping[str, float] | None = None,
    ignore_label: int | None = None,
    nan: Literal["raise", "drop_member"] = "raise",
) -> Evaluation:
    """Metrics of a prediction by name, in the registry's order: a dictionary of numbers.

    ``y`` is ``[batch]`` integers for classes, ``[batch]`` or ``[batch, targets]`` numbers for
    regression. ``metrics`` is None for the headline metrics, ``"all"`` for all that apply, or a
    list of names. A member with NaN or infinity is an error that names it, unless
    ``nan="drop_member"`` leaves such members out.

    ``ood`` are predictions on other data by name: keys ``ood/NAME/METRIC/SCORE`` say how well each
    score of `credax.metrics.SCORES` detects the OOD rows, ``ood/NAME/prevalence`` the share of
    OOD rows, and ``ood/NAME/entropy`` and the like how uncertain the members are there. Those of
    ``ood_groups`` (``{"near": ["cifar100"]}``) are the means of their sets. ``max_logit`` and
    ``energy`` need ``logits`` and ``ood_logits``.

    ``shift`` are predictions of the same rows on shifted inputs by ``(type, severity)``: keys
    ``shift/pooled/METRIC``, ``shift/cells/METRIC`` and ``shift/severity 3/METRIC``; with
    ``shift_baseline``, from `corruption_errors` of another method, the mean corruption errors too.

    A prediction on a grid is scored pixel by pixel, all pixels together: ``y`` has its axes, and
    pixels with ``ignore_label``, or NaN as target, do not count. Those of ``ood`` all count.

    ``weights`` are numbers about the posterior itself, such as its distance from a reference
    population by `credax.quality.against_reference`: keys ``weights/NAME``.

    >>> from credax.prediction import ClassPrediction
    >>> p = ClassPrediction.from_probs(np.array([[[0.75, 0.25], [0.5, 0.5]]]))
    >>> evaluate(p, np.array([0, 0]), ["accuracy", "brier"])
    {'accuracy': 1.0, 'brier': 0.3125}
    """
    _check_kind(prediction, "prediction")
    y = np.asarray(y)
    if len(grid_shape(prediction)) > 1:
        prediction, y = pixel_rows(prediction, y, ignore_label=ignore_label)
        ood = {name: flattened(other) for name, other in (ood or {}).items()}
    metrics = list(metrics) if metrics is not None and not isinstance(metrics, str) else metrics
    if nan == "drop_member":
        prediction = without_broken_members(prediction)
    elif nan != "raise":
        raise InputError(f'nan is {nan!r}; give "raise" or "drop_member"')
    check_shapes(prediction, y)
    collection = Collection(chosen(metrics, prediction))
    state = _streamed(collection, prediction, y)
    values = collection.finish(state)
    notes = collection.notes(values)
    if ood:
        found, more = _ood(prediction, ood, metrics, logits, ood_logits or {})
        values |= {f"ood/{key}": value for key, value in found.items()}
        values |= {f"ood/{key}": value for key, value in _groups(found, ood_groups or {}).items()}
        notes |= {f"ood/{key}": note for key, note in more.items()}
    if shift:
        shifted = Collection(chosen(_shift_metrics(metrics, prediction), prediction))
        values |= {f"shift/{k}": v for k, v in shift_values(shifted, shift, y).items()}
        if shift_baseline is not None:
            values |= _corruption(prediction, y, shift, shift_baseline)
    values |= {f"weights/{name}": float(value) for name, value in (weights or {}).items()}
    notes |= {
        key: "a value it is the mean of is not defined"
        for key, value in values.items()
        if np.isnan(value) and key not in notes
    }
    return Evaluation(values, notes)


def _check_kind(prediction: Any, name: str) -> None:
    if not isinstance(prediction, ClassPrediction | RegressionPrediction):
        raise InputError(
            f"{name} is a {type(prediction).__name__}; give the prediction of classes or numbers "
            "that posterior.predict returns, such as a GaussianPrediction"
        )


def _streamed(collection: Collection, prediction: Prediction, y: np.ndarray) -> State:
    """The state of all rows, read in chunks of one shape so that one program serves them."""
    leaf = jax.tree.leaves(prediction)[0]
    rows = leaf.shape[1]
    size = min(_ROWS, max(1, _ENTRIES // (leaf.size // max(rows, 1))))
    if rows <= size:
        return collection.update(collection.init(), prediction, y)
    state = collection.init()
    for start in range(0, rows, size):
        index = np.minimum(np.arange(start, start + size), rows - 1)
        mask = np.arange(start, start + size) < rows
        part = slice(start, start + size) if mask.all() else index
        state = collection.update(state, prediction.select(part), y[part], mask=mask)
    return state


def _ood(
    prediction: Prediction,
    ood: Mapping[str, Prediction],
    metrics: Any,
    logits: Any,
    ood_logits: Mapping[str, Any],
) -> tuple[dict[str, float], dict[str, str]]:
    complete = metrics == "all"
    usable = applicable(prediction, logits is not None)
    wanted = tuple(s for s in usable if complete or s in _DEFAULT_SCORES)
    detectors = Collection({n: METRICS[n].stream() for n in _detectors(metrics)})
    own = scores(prediction, wanted, logits=logits)
    mean_metrics = ("entropy", "mutual_information", "total_variance", "epistemic_variance")
    means = Collection(
        {n: METRICS[n].stream() for n in mean_metrics if METRICS[n].applies_to(prediction)}
    )
    out: dict[str, float] = {}
    notes: dict[str, str] = {}
    for name, other in ood.items():
        _check_ood(prediction, other, name)
        if logits is not None and name not in ood_logits:
            raise InputError(f"logits are given but ood_logits has none for {name!r}; give both")
        other_scores = scores(other, wanted, logits=ood_logits.get(name))
        count = len(other_scores[wanted[0]])
        out[f"{name}/prevalence"] = count / (count + len(own[wanted[0]]))
        for score in wanted:
            rows = np.concatenate([own[score], other_scores[score]], dtype=float)
            outside = np.arange(len(rows)) >= len(own[score])
            blocks = blocks_of(Scored(rows, outside, np.ones(len(rows))))
            for metric, stream in detectors.streams.items():
                key = f"{name}/{metric}/{score}"
                out[key] = float(stream.conclude(blocks))
                if np.isnan(out[key]):
                    notes[key] = stream.undefined
        state = means.update(means.init(), other)
        out |= {f"{name}/{metric}": value for metric, value in means.finish(state).items()}
    return out, notes


def _detectors(metrics: Any) -> tuple[str, ...]:
    every = tuple(n for n in names("detection") if n != "prevalence")
    if metrics == "all":
        return every
    asked = tuple(n for n in every if metrics is not None and n in metrics)
    return asked or tuple(n for n in names("detection", headline=True) if n != "prevalence")


def _check_ood(prediction: Prediction, other: Any, name: str) -> None:
    _check_kind(other, f"ood[{name!r}]")
    check_shapes(other, None)
    if type(other) is not type(prediction):
        raise InputError(
            f"ood[{name!r}] is a {type(other).__name__} and prediction a "
            f"{type(prediction).__name__}; both come from the same posterior"
        )
    if any(np.isnan(array).any() for array in jax.tree.leaves(other)):
        raise InputError(f"ood[{name!r}] holds NaN; leave broken members out of it")


def _groups(found: Mapping[str, float], groups: Mapping[str, Sequence[str]]) -> dict[str, float]:
    out = {}
    for group, sets in groups.items():
        known = dict.fromkeys(key.split("/", 1)[0] for key in found)
        for name in sets:
            if name not in known:
                raise InputError(
                    f"ood_groups has {name!r} in {group!r}; ood has {', '.join(known)}"
                )
        keys = [key.split("/", 1)[1] for key in found if key.startswith(f"{sets[0]}/")]
        out |= {f"{group}/{key}": fmean(found[f"{name}/{key}"] for name in sets) for key in keys}
    return out


def _shift_metrics(metrics: Any, prediction: Prediction) -> Any:
    if metrics is not None:
        return metrics
    headline = list(chosen(None, prediction))
    return [*headline, "epistemic_share"] if prediction.num_members > 1 else headline


def _corruption(
    prediction: Prediction, y: np.ndarray, shift: Any, baseline: Mapping[Cell, float]
) -> dict[str, float]:
    if not isinstance(prediction, ClassPrediction):
        raise InputError("shift_baseline is for classes, and this is a prediction of numbers")
    errors = corruption_errors(prediction, y, shift)
    return {
        "shift/mean_corruption_error": mean_corruption_error(errors, baseline),
        "shift/relative_mean_corruption_error": mean_corruption_error(
            errors, baseline, relative=True
        ),
    }
