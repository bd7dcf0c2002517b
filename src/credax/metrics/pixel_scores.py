"""Scores of many pictures, streamed: every pixel counts once, whatever the batches are."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from credax.errors import InputError
from credax.metrics.evaluation import Evaluation
from credax.metrics.registry import collect, names
from credax.metrics.segmentation import boundary, counted_pixels, flattened, grid_shape
from credax.metrics.streaming import Collection
from credax.prediction import ClassPrediction, Prediction

PARTS = ("accuracy", "nll")
"""What is told of boundaries and of the rest apart."""
DEPTH = ("absolute_relative_error", "silog", "log10_error", "rmse_log", "threshold_accuracy_1")


def score_pixels(
    batches: Iterable[tuple[Prediction, Any]],
    *,
    ignore_label: int | None = None,
    metrics: Sequence[str] | None = None,
    class_names: Sequence[str] = (),
    width: int = 2,
) -> Evaluation:
    """Metrics over all pixels of batches of pictures, each predicted on a grid, with their targets.

    ``metrics`` are None for the headline of the task; classes have in addition ``mean_iou``,
    ``iou/CLASS`` of every class that occurs, and accuracy and NLL on ``boundary`` pixels (within
    ``width`` of another label) and ``interior`` ones; positive numbers have the errors of depths.
    Only sums are kept, so the memory is that of one batch.

    >>> p = ClassPrediction.from_probs(np.array([[[[[0.9, 0.1], [0.2, 0.8]]]]]))
    >>> scores = score_pixels([(p, np.array([[[0, 1]]]))], metrics=["accuracy"])
    >>> scores["accuracy"], scores["iou/1"]
    (1.0, 1.0)
    """
    state: _State | None = None
    for prediction, y in batches:
        y = np.asarray(y)
        if state is None:
            state = _State(prediction, metrics, ignore_label, width, y)
        state.add(prediction, y)
    if state is None:
        raise InputError("batches is empty; give at least one picture")
    return state.finished(class_names)


class _State:
    """Sums over the pixels so far."""

    def __init__(self, prediction: Any, metrics: Any, ignore_label: int | None, width: int, y):
        self.classes = isinstance(prediction, ClassPrediction)
        task = "classification" if self.classes else "regression"
        wanted = list(metrics or names(task, headline=True))
        more = ["mean_iou"] if metrics is None and self.classes else []
        self.collections = {"": collect([*wanted, *more], task)}
        if self.classes:
            self.collections |= {
                f"{part}/": collect(PARTS, task) for part in ("boundary", "interior")
            }
        elif metrics is None and prediction.num_members and np.nanmin(y) > 0:
            self.collections["depth/"] = _depth()
        self.states = {name: one.init() for name, one in self.collections.items()}
        self.seen = dict.fromkeys(self.collections, 0)
        self.ignore_label, self.width = ignore_label, width
        count = prediction.log_probs.shape[-1] if self.classes else 0
        self.confusion = np.zeros((count, count))

    def add(self, prediction: Any, y: np.ndarray) -> None:
        """One more batch of pictures."""
        grid = grid_shape(prediction)
        rows, flat = flattened(prediction), y.reshape(-1, *y.shape[len(grid) :])
        counted = counted_pixels(flat, self.ignore_label)
        masks = {"": counted, "depth/": counted}
        if self.classes:
            flat = np.where(counted, flat, 0).astype(np.int32)
            near = boundary(y.reshape(-1, *y.shape[-2:]), self.width, self.ignore_label).reshape(-1)
            masks |= {"boundary/": counted & near, "interior/": counted & ~near}
            label = np.asarray(rows.label)[counted]
            np.add.at(self.confusion, (flat[counted], label), 1)
        else:
            flat = np.where(np.isfinite(flat), flat, 1).astype(np.float32)
        for name, collection in self.collections.items():
            mask = masks[name]
            self.seen[name] += int(mask.sum())
            if mask.any():
                given = np.asarray(rows.mean) if name == "depth/" else rows
                self.states[name] = collection.update(self.states[name], given, flat, mask=mask)

    def finished(self, class_names: Sequence[str]) -> Evaluation:
        if not self.seen[""]:
            raise InputError(f"all pixels are ignored (ignore_label is {self.ignore_label})")
        values: dict[str, float] = {}
        for name, collection in self.collections.items():
            if self.seen[name]:
                found = collection.finish(self.states[name])
                values |= {f"{name.replace('depth/', '')}{key}": v for key, v in found.items()}
        union = self.confusion.sum(0) + self.confusion.sum(1) - np.diag(self.confusion)
        for label in np.flatnonzero(union > 0).tolist():
            own = class_names[label] if label < len(class_names) else str(label)
            values[f"iou/{own}"] = float(self.confusion[label, label] / union[label])
        return Evaluation(values)


def _depth() -> Collection:
    from credax.metrics.registry import METRICS

    return Collection({name: METRICS[name].stream(clip=(1e-3, 1e6)) for name in DEPTH})
