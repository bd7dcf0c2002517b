"""The registry, `evaluate`, and one sentence for everything that cannot be scored."""

import re
from math import inf, nan

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax import metrics
from credax.errors import InputError
from credax.prediction import ClassPrediction, GaussianPrediction

PROBS = np.full((2, 3, 4), 0.25)
Y = np.array([0, 1, 3])


def gaussian(means=None, variances=None):
    ones = jnp.ones((2, 3, 1))
    return GaussianPrediction(
        ones if means is None else jnp.asarray(means),
        ones if variances is None else jnp.asarray(variances),
    )


def with_entry(array, index, value):
    array = np.array(array, float)
    array[index] = value
    return array


def test_registry_is_complete_and_read_only():
    for name, metric in metrics.METRICS.items():
        assert metric.name == name
        assert metric.task in (None, "classification", "regression")
        assert metric.range[0] < metric.range[1]
        assert metric.unit
        assert metric.estimator
        assert metric.description
        assert metric.target is None or metric.higher_is_better is None
        # Tables cite the name; the code has a public function for each (coverage_90 is a level).
        assert metric.function is getattr(metrics, name.removesuffix("_90"))
    with pytest.raises(TypeError):
        metrics.METRICS["new"] = metrics.get("nll")  # pyright: ignore
    with pytest.raises(AttributeError):
        metrics.get("nll").unit = "bits"  # pyright: ignore


def test_names_by_task():
    both = set(metrics.names("classification")) & set(metrics.names("regression"))
    assert both == {"nll"}
    assert metrics.names() == tuple(metrics.METRICS)


def test_unknown_metric_suggests_a_near_one():
    with pytest.raises(InputError, match="did you mean 'brier'"):
        metrics.get("briar")


def test_evaluate_chooses_by_name_and_keeps_the_order():
    prediction = ClassPrediction.from_probs(PROBS)
    values = metrics.evaluate(prediction, Y, ["brier", "accuracy"])
    assert list(values) == ["accuracy", "brier"]
    assert all(type(value) is float for value in values.values())
    assert values["brier"] == pytest.approx(0.75)
    assert metrics.evaluate(prediction, Y, []) == {}


@pytest.mark.parametrize("labels", [np.uint8, np.int64, list])
def test_labels_of_any_integer_type(labels):
    y = Y.tolist() if labels is list else Y.astype(labels)
    assert metrics.evaluate(ClassPrediction.from_probs(PROBS), y)["accuracy"] == pytest.approx(
        1 / 3
    )


def test_every_metric_is_jittable():
    cases = {
        "classification": (ClassPrediction.from_probs(PROBS), jnp.array(Y)),
        "regression": (gaussian(), jnp.array([0.0, 1.0, 2.0])),
    }
    for task, (prediction, y) in cases.items():
        for name in metrics.names(task):  # pyright: ignore
            metric = metrics.get(name)
            value = jax.jit(metric.function)(prediction, y)
            assert value.shape == ()
            assert jnp.issubdtype(value.dtype, jnp.floating)


def refused(match, prediction, y, **options):
    with pytest.raises(InputError, match=match) as caught:
        metrics.evaluate(prediction, y, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert not re.search(r"[.!] [A-Z]", message)


@pytest.mark.parametrize(
    ("match", "probs", "y"),
    [
        ("member 1 .*sum of one by 0.5", with_entry(PROBS, (1, 2, 0), 0.75), Y),
        ("from_logits", PROBS * 8, Y),
        ("member 1 .*NaN", with_entry(PROBS, (1, 0, 0), nan), Y),
        ("members 0, 1 .*NaN", np.full_like(PROBS, nan), Y),
        ("member 0 .*infinity", with_entry(PROBS, (0, 0, 0), inf), Y),
        ("member 0 .*NaN", with_entry(PROBS, (0, 0, 0), -0.5), Y),
        ("labels from 0 to 3", PROBS, np.array([0, 1, 4])),
        ("labels from -1 to 3", PROBS, np.array([-1, 1, 3])),
        (r"shape \(3,\)", PROBS, np.array([0, 1])),
        (r"shape \(3, 1\)", PROBS, Y[:, None]),
        ("type float64", PROBS, Y.astype(float)),
        ("one class", np.ones((2, 3, 1)), np.zeros(3, int)),
        ("empty", np.ones((2, 0, 4)), np.zeros(0, int)),
        ("empty", np.ones((0, 3, 4)), Y),
    ],
)
def test_class_predictions_that_cannot_be_scored(match, probs, y):
    refused(match, ClassPrediction.from_probs(probs), y)


@pytest.mark.parametrize(
    ("match", "prediction", "y"),
    [
        ("member 1 .*NaN", gaussian(with_entry(np.ones((2, 3, 1)), (1, 0, 0), nan)), np.zeros(3)),
        (
            "member 0 .*infinity",
            gaussian(variances=with_entry(np.ones((2, 3, 1)), (0, 0, 0), inf)),
            np.zeros(3),
        ),
        ("variance of 0", gaussian(variances=np.zeros((2, 3, 1))), np.zeros(3)),
        ("y holds NaN", gaussian(), np.array([0.0, nan, 1.0])),
        (r"\(3, 1\) or \(3,\)", gaussian(), np.zeros(2)),
        (r"\(3, 1\) or \(3,\)", gaussian(), np.array(["a", "b", "c"])),
        ("one variance a mean", gaussian(variances=np.ones((1, 3, 1))), np.zeros(3)),
        (r"\[members, batch, targets\]", gaussian(np.ones((2, 3))), np.zeros(3)),
    ],
)
def test_gaussian_predictions_that_cannot_be_scored(match, prediction, y):
    refused(match, prediction, y)


def test_arguments_that_do_not_fit():
    prediction = ClassPrediction.from_probs(PROBS)
    refused("'rmse' is not for classification", prediction, Y, metrics=["rmse"])
    refused("unknown metric 'nl'", prediction, Y, metrics=["nl"])
    refused("list of names", prediction, Y, metrics="nll")
    refused("drop_member", prediction, Y, nan="ignore")
    refused("ndarray", PROBS, Y)
    with pytest.raises(InputError, match="bins is 0"):
        metrics.ece(prediction, Y, bins=0)
    with pytest.raises(InputError, match="strictly between"):
        metrics.coverage(gaussian(), np.zeros(3), level=1.0)
    with pytest.raises(InputError, match="y has shape"):
        metrics.rmse(gaussian(), np.zeros(4))


def test_broken_members_are_dropped_only_when_asked():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(4), size=(3, 5))
    y = rng.integers(0, 4, 5)
    whole = metrics.evaluate(ClassPrediction.from_probs(probs[[0, 2]]), y, ["nll"])
    broken = ClassPrediction.from_probs(with_entry(probs, (1, 2, 2), nan))
    assert metrics.evaluate(broken, y, ["nll"], nan="drop_member") == whole
    refused("every member", ClassPrediction.from_probs(probs * nan), y, nan="drop_member")
    # A probability of exactly zero is not a broken member.
    certain = ClassPrediction.from_probs(np.eye(4)[None])
    values = metrics.evaluate(certain, np.arange(4), ["accuracy"], nan="drop_member")
    assert values == {"accuracy": 1.0}
