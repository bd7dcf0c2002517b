"""Small comparisons, made by hand, that the report's tests share."""

import jax.numpy as jnp
import numpy as np

from credax.prediction import ClassPrediction, GaussianPrediction
from credax.report import Comparison, Result


def class_result(method, seed, members=3, rows=40, classes=3, **fields):
    rng = np.random.default_rng([seed, members])
    probs = rng.dirichlet(np.full(classes, 0.6), size=(members, rows)).astype(np.float32)
    y = rng.integers(0, classes, rows)
    metrics = fields.pop("metrics", {"accuracy": 0.5 + 0.01 * seed, "nll": 1.25})
    return Result(method, seed, metrics, ClassPrediction.from_probs(probs), y, **fields)


def number_result(method, seed, members=3, rows=40, targets=1, **fields):
    rng = np.random.default_rng([seed, members])
    shape = (members, rows, targets)
    prediction = GaussianPrediction(
        jnp.asarray(rng.normal(size=shape), jnp.float32),
        jnp.asarray(rng.uniform(0.5, 2, size=shape), jnp.float32),
    )
    y = rng.normal(size=(rows, targets) if targets > 1 else rows)
    metrics = fields.pop("metrics", {"rmse": 1.5, "coverage_90": 0.875})
    return Result(method, seed, metrics, prediction, y, **fields)


def history(epochs=4, start=2.0, members=3):
    return [
        {
            "epoch": epoch,
            "loss": start / epoch,
            "member_loss": [start / epoch * (1 + 0.1 * m) for m in range(members)],
            "validation_nll": start / epoch + 0.25,
        }
        for epoch in range(1, epochs + 1)
    ]


def bare(values, **fields):
    """Results without predictions: ``{method: [value of the metric for each seed]}``."""
    metric = fields.pop("metric", "nll")
    results = [
        Result(method, seed, {metric: value})
        for method, numbers in values.items()
        for seed, value in enumerate(numbers)
    ]
    return Comparison("a title", "some data", "classification", results, **fields)
