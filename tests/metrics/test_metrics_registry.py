"""The registry, and one sentence for everything that cannot be scored."""

import re
from math import inf, nan

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from metrics_cases import class_case, number_case

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
    tasks = {None, "classification", "regression", "detection", "sets", "depth", "shift"}
    for name, metric in metrics.METRICS.items():
        assert metric.name == name
        assert metric.task in tasks
        assert metric.range[0] < metric.range[1]
        assert metric.unit
        assert metric.estimator
        assert metric.description
        assert metric.target is None or metric.higher_is_better is None
        if metric.task != "shift":
            # Tables cite the name; the code has a public function for each.
            public = getattr(metrics, metric.function.__name__)
            assert metric.function.__doc__ == public.__doc__
            assert isinstance(metric.stream(), metrics.Streaming)
    assert {metric.task for metric in metrics.METRICS.values()} == tasks
    labels = [metric.label for metric in metrics.METRICS.values()]
    assert len(set(labels)) == len(labels)
    with pytest.raises(TypeError):
        metrics.METRICS["new"] = metrics.get("nll")  # pyright: ignore
    with pytest.raises(AttributeError):
        metrics.get("nll").unit = "bits"  # pyright: ignore


def test_names_by_task():
    both = set(metrics.names("classification")) & set(metrics.names("regression"))
    assert both == {"nll", "epistemic_share"}
    assert metrics.names() == tuple(metrics.METRICS)
    few = ("accuracy", "nll", "brier", "ece", "entropy", "mutual_information")
    assert metrics.names("classification", headline=True) == few
    few = ("rmse", "nll", "moment_matched_nll", "crps", "coverage_90")
    assert metrics.names("regression", headline=True) == few
    assert "auroc" in metrics.names("detection")


def test_unknown_metric_suggests_a_near_one():
    with pytest.raises(InputError, match="did you mean 'brier'"):
        metrics.get("briar")
    with pytest.raises(InputError, match="unknown metric 'ood/mnist/aurok/entropy_predictive'"):
        metrics.get("ood/mnist/aurok/entropy_predictive")


def test_keys_of_evaluate_are_described():
    for key, base, words in (
        ("ood/mnist/auroc/entropy_predictive", "auroc", "AUROC, entropy, mnist"),
        ("ood/a/b/auroc/energy", "auroc", "AUROC, energy, a/b"),
        ("ood/mnist/prevalence", "prevalence", "Prevalence, mnist"),
        ("ood/mnist/entropy", "entropy", "Entropy, mnist"),
        ("shift/pooled/nll", "nll", "NLL, shift, pooled"),
        ("shift/mean_corruption_error", "mean_corruption_error", "mCE, shift"),
    ):
        metric = metrics.get(key)
        assert (metric.name, metric.label) == (key, words)
        assert metric.higher_is_better is metrics.get(base).higher_is_better
        assert not metric.headline


def test_evaluate_chooses_by_name_and_keeps_the_order():
    prediction = ClassPrediction.from_probs(PROBS)
    values = metrics.evaluate(prediction, Y, ["brier", "accuracy"])
    assert list(values) == ["accuracy", "brier"]
    assert all(type(value) is float for value in values.values())
    assert values["brier"] == pytest.approx(0.75)
    assert metrics.evaluate(prediction, Y, []) == {}
    assert list(metrics.evaluate(prediction, Y)) == list(
        metrics.names("classification", headline=True)
    )


def applying(prediction):
    return {name for name, metric in metrics.METRICS.items() if metric.applies_to(prediction)}


def test_what_applies_to_a_prediction():
    prediction, _ = class_case(np.random.default_rng(0))
    every = applying(prediction)
    assert every == set(metrics.names("classification"))
    few = ClassPrediction.from_probs(np.full((1, 2, 3), 1 / 3))
    assert every - applying(few) == {
        *("top_5_accuracy", "epistemic_share", "disagreement", "variation_ratio"),
        *("variation_ratio_mean_class", "one_hot_variance_epistemic"),
    }
    assert "disagreement" not in metrics.evaluate(few, np.array([0, 1]), "all")
    numbers, _ = number_case(np.random.default_rng(1))
    assert applying(numbers) == set(metrics.names("regression"))


@pytest.mark.parametrize("labels", [np.uint8, np.int64, list])
def test_labels_of_any_integer_type(labels):
    y = Y.tolist() if labels is list else Y.astype(labels)
    value = metrics.evaluate(ClassPrediction.from_probs(PROBS), y, ["accuracy"])["accuracy"]
    assert value == pytest.approx(1 / 3)
    assert float(metrics.accuracy(ClassPrediction.from_probs(PROBS), y)) == pytest.approx(1 / 3)


def test_metrics_inside_a_program_of_ones_own():
    prediction, y = ClassPrediction.from_probs(PROBS), jnp.array(Y)

    @jax.jit
    def two(prediction, y, mask):
        return metrics.nll(prediction, y), metrics.ece(prediction, y, bins=4, mask=mask)

    nll, ece = two(prediction, y, jnp.array([True, True, False]))
    assert float(nll) == pytest.approx(np.log(4))
    assert float(ece) == pytest.approx(0.25)
    assert float(jax.jit(metrics.ece, static_argnames="bins")(prediction, y, bins=3)) == (
        pytest.approx(1 / 3 - 0.25)
    )


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
        ("labels from 0 to 4", PROBS, np.array([0, 1, 4])),
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
    prediction = ClassPrediction.from_probs(probs)
    refused(match, prediction, y)
    # The functions themselves and the streaming form refuse it as well.
    with pytest.raises(InputError, match=match):
        metrics.accuracy(prediction, y)
    stream = metrics.accuracy.stream()
    with pytest.raises(InputError, match=match):
        stream.update(stream.init(), prediction, y)


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
        ("variance of -1", gaussian(variances=-np.ones((2, 3, 1))), np.zeros(3)),
        ("y holds NaN", gaussian(), np.array([0.0, nan, 1.0])),
        (r"\(3, 1\) or \(3,\)", gaussian(), np.zeros(2)),
        (r"\(3, 1\) or \(3,\)", gaussian(), np.array(["a", "b", "c"])),
        ("one variance per mean", gaussian(variances=np.ones((1, 3, 1))), np.zeros(3)),
        (r"\[members, batch, targets\]", gaussian(np.ones((2, 3))), np.zeros(3)),
    ],
)
def test_gaussian_predictions_that_cannot_be_scored(match, prediction, y):
    refused(match, prediction, y)
    with pytest.raises(InputError, match=match):
        metrics.rmse(prediction, y)


def test_arguments_that_do_not_fit():
    prediction = ClassPrediction.from_probs(PROBS)
    refused("'rmse' is not for classification", prediction, Y, metrics=["rmse"])
    refused("unknown metric 'nl'", prediction, Y, metrics=["nl"])
    refused("list of names", prediction, Y, metrics="nll")
    refused("drop_member", prediction, Y, nan="ignore")
    refused("ndarray", PROBS, Y)
    alone = ClassPrediction.from_probs(PROBS[:1])
    refused("at least 2 members", alone, Y, metrics=["disagreement"])
    refused("at least 6 classes", prediction, Y, metrics=["top_5_accuracy"])


@pytest.mark.parametrize(
    ("match", "metric", "options"),
    [
        ("bins is 0", metrics.ece, {"bins": 0}),
        ("k is 0", metrics.top_k_accuracy, {"k": 0}),
        ("reduce, of", metrics.brier, {"reduce": "mean"}),
        ("reduce is", metrics.sce, {"reduce": "max"}),
        ("norm is", metrics.adaptive_ece, {"norm": "l3"}),
        ("ranges is 0", metrics.ace, {"ranges": 0}),
        ("ties is", metrics.ace, {"ties": "random"}),
        ("threshold is 1", metrics.tace, {"threshold": 1.0}),
        ("kernel is", metrics.smooth_ece, {"kernel": "box"}),
        ("width is 0", metrics.smooth_ece, {"width": 0.0}),
        ("rule is", metrics.aurc, {"rule": "simpson"}),
        ("risk is 0", metrics.coverage_at_risk, {"risk": 0.0}),
        ("coverage is 2", metrics.risk_at_coverage, {"coverage": 2.0}),
        ("of is", metrics.variation_ratio, {"of": "median"}),
        ("part is", metrics.one_hot_variance, {"part": "none"}),
        ("level is 1", metrics.coverage, {"level": 1.0}),
        ("norm is", metrics.quantile_calibration_error, {"norm": "l3"}),
        ("error is", metrics.ause, {"error": "cubed"}),
        ("bins is 0", metrics.ence, {"bins": 0}),
        ("part is", metrics.mean_variance, {"part": "none"}),
        ("average is", metrics.set_coverage, {"average": "median"}),
        ("clip is", metrics.silog, {"clip": (0.0, 1.0)}),
        ("power is 0", metrics.threshold_accuracy, {"power": 0}),
        ("rule is", metrics.aupr_out, {"rule": "mean"}),
        ("level is 0", metrics.fpr_at_id_recall, {"level": 0.0}),
        ("sketch is", metrics.auroc, {"sketch": (1.0, 1.0)}),
    ],
)
def test_options_that_do_not_exist(match, metric, options):
    with pytest.raises(InputError, match=re.escape(match)):
        metric.stream(**options)


def test_masks_and_weights_that_do_not_fit():
    prediction = ClassPrediction.from_probs(PROBS)
    with pytest.raises(InputError, match="mask has type"):
        metrics.accuracy(prediction, Y, mask=np.array([1.0, 0.0, 1.0]))
    with pytest.raises(InputError, match=r"mask has shape \(2,\)"):
        metrics.accuracy(prediction, Y, mask=np.array([True, False]))
    with pytest.raises(InputError, match="weight holds -1"):
        metrics.accuracy(prediction, Y, weight=np.array([1.0, -1.0, 1.0]))
    with pytest.raises(InputError, match="weight holds nan"):
        metrics.accuracy(prediction, Y, weight=np.array([1.0, nan, 1.0]))
    with pytest.raises(InputError, match="keep no row"):
        metrics.accuracy(prediction, Y, mask=np.zeros(3, bool))
    with pytest.raises(InputError, match="y is None"):
        metrics.accuracy(prediction)
    with pytest.raises(InputError, match="y has shape"):
        metrics.rmse(gaussian(), np.zeros(4))


def test_arrays_that_cannot_be_scored():
    score, out = np.array([0.1, nan, 0.3]), np.array([False, True, True])
    with pytest.raises(InputError, match="hold NaN"):
        metrics.auroc(score, out)
    assert float(metrics.auroc(score, out, mask=np.array([True, False, True]))) == 1
    with pytest.raises(InputError, match="rows of both"):
        metrics.auroc(np.array([0.1, 0.2]), np.array([True, True]))
    with pytest.raises(InputError, match="rows of both"):
        metrics.fpr_at_ood_recall(np.array([0.1, 0.2]), np.array([False, False]))
    with pytest.raises(InputError, match="one entry of each per row"):
        metrics.auroc(np.zeros(3), np.zeros(2, bool))
    with pytest.raises(InputError, match="at least one row"):
        metrics.auroc(np.zeros(0), np.zeros(0, bool))
    with pytest.raises(InputError, match="pair"):
        metrics.width(np.zeros(3), np.zeros(3))
    with pytest.raises(InputError, match="labels from 0 to 7"):
        metrics.set_coverage(np.ones((2, 3), bool), np.array([0, 7]))
    with pytest.raises(InputError, match="depth is not positive"):
        metrics.silog(np.array([1.0, -2.0]), np.array([1.0, 1.0]))
    clipped = metrics.absolute_relative_error(
        np.array([1.0, -2.0]), np.array([1.0, 1.0]), clip=(0.5, 80.0)
    )
    assert float(clipped) == pytest.approx(0.25)
    with pytest.raises(InputError, match="at least 2"):
        metrics.crps_of_samples(np.zeros((1, 3)), np.zeros(3), fair=True)
    with pytest.raises(InputError, match="axes of y"):
        metrics.pixels(np.zeros((1, 2, 3, 4)), np.zeros((2, 2), int))
    with pytest.raises(InputError, match="give a key"):
        metrics.pixels(np.zeros((1, 2, 3, 4)), np.zeros((2, 3), int), rate=0.5)
    with pytest.raises(InputError, match="no pixel is left"):
        metrics.pixels(np.zeros((1, 2, 3, 4)), np.zeros((2, 3), int), ignore_label=0)


def test_what_is_not_defined_is_nan_with_a_note():
    right = ClassPrediction.from_probs(np.tile([[[0.9, 0.1]]], (1, 3, 1)))
    y = np.zeros(3, int)
    names = ["auroc_correct", "nll_of_errors"]
    values = metrics.evaluate(right, y, names)
    assert all(np.isnan(values[name]) for name in names)
    assert "nothing to detect" in values.notes["auroc_correct"]
    assert "no row is wrong" in values.notes["nll_of_errors"]
    assert "no row is wrong" in repr(values)
    with pytest.warns(metrics.UndefinedMetric, match="nothing to detect"):
        assert np.isnan(metrics.auroc_correct(right, y))
    stream = metrics.coverage_at_risk.stream(risk=0.05)
    with pytest.warns(metrics.UndefinedMetric, match="no coverage"):
        assert np.isnan(stream.finish(stream.update(stream.init(), right, y + 1)))
    assert metrics.evaluate(right, y, ["accuracy"]).notes == {}


def test_broken_members_are_dropped_only_when_asked():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(4), size=(3, 5))
    y = rng.integers(0, 4, 5)
    whole = metrics.evaluate(ClassPrediction.from_probs(probs[[0, 2]]), y, ["nll"])
    broken = ClassPrediction.from_probs(with_entry(probs, (1, 2, 2), nan))
    assert metrics.evaluate(broken, y, ["nll"], nan="drop_member") == whole
    refused("every member", ClassPrediction.from_probs(probs * nan), y, nan="drop_member")
