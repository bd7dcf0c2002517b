"""The verdict at the top: seeds, ties, cost and calibration."""

import math

import numpy as np
import pytest
from report_cases import bare, class_result, number_result

from credax import metrics
from credax.prediction import ClassPrediction, GaussianPrediction
from credax.report import Comparison, Facts, Result, page, summarise
from credax.report.calibration_check import calibration_check, perfect_ece
from credax.report.cost import seeds_text, training_time
from credax.report.verdict import verdict


def sentences(comparison):
    return verdict(comparison, summarise(comparison)).sentences


def costed(method, seed, nll, training, compiling=None):
    cost = {"training_seconds": training, "compile_seconds": compiling}
    return Result(method, seed, {"nll": nll}, cost=cost)


def test_a_clear_winner_is_named_with_its_lead_and_its_cost():
    results = [costed("single", s, 2.0 + 0.01 * s, 3.0, 2.0) for s in range(3)]
    results += [costed("ensemble", s, 1.0 + 0.01 * s, 12.0, 2.0) for s in range(3)]
    first, second = sentences(Comparison("t", "d", "classification", results))
    assert first == (
        "ensemble has the best test NLL: 1.0100 ± 0.0058 against 2.0100 ± 0.0058 of single, a "
        "difference of 1.00, 122.5 times its standard error."
    )
    assert second == "Its training took 10 s without compiling, 10 times as long as single."


def test_methods_within_their_errors_cannot_be_told_apart():
    close = bare({"a": [1.0, 1.2, 1.1], "b": [1.05, 1.25, 1.15], "c": [9.0, 9.1, 9.2]})
    (first,) = sentences(close)
    assert first.startswith("a and b do not differ significantly by test NLL: 1.100 ± 0.058 for a")
    assert "0.6 times its standard error where 2.8 are needed" in first
    assert "best" not in first


def test_the_one_that_ties_is_compared_and_not_the_next():
    (first,) = sentences(bare({"a": [1.0, 1.01], "b": [2.0, 2.01], "c": [1.0, 9.0]}))
    assert first.startswith("a and c do not differ significantly")
    assert "5.000 ± 4.000 for c" in first
    (equal,) = sentences(bare({"a": [1.0, 1.0], "b": [1.0, 1.0]}))
    assert equal.endswith("a difference of 0.0, equal for all seeds.")


def test_two_standard_errors_of_two_seeds_are_not_enough():
    (first,) = sentences(bare({"a": [1.0, 1.2], "b": [1.3, 1.5]}))
    assert "do not differ significantly" in first
    assert "2.1 times its standard error where 4.3 are needed" in first


def test_one_seed_has_no_standard_error_and_so_no_winner():
    (first,) = sentences(bare({"a": [1.0], "b": [5.0]}))
    assert first.startswith("With one seed per method no standard error is known")
    assert "do not show which method is better" in first
    (mixed,) = sentences(bare({"a": [1.0], "b": [5.0, 5.1]}))
    assert mixed.startswith("With one seed of a method no standard error is known")
    (alone,) = sentences(bare({"a": [1.0]}))
    assert alone == "a reaches test NLL 1.000 (one seed, so no standard error is known)."


def test_the_ranking_follows_the_metrics_direction():
    (first,) = sentences(bare({"a": [0.5, 0.51, 0.5], "b": [0.9, 0.91, 0.9]}, metric="accuracy"))
    assert first.startswith("b has the best test Accuracy")
    unknown = bare({"a": [1.0]}, metric="mine")
    assert verdict(unknown, summarise(unknown)) is None


def test_a_method_that_diverged_is_named_and_not_ranked():
    comparison = bare({"a": [1.0, 1.01], "b": [math.nan, 1.0], "c": [2.0, 2.01]})
    found = verdict(comparison, summarise(comparison))
    assert found.sentences[0].startswith("a has the best test NLL")
    assert "Without a finite NLL: b." in found.rules


def calibrated(rows, sharpen, seed=0):
    """Rows whose label is drawn from the probabilities; the forecast is sharpened afterwards."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.ones(3), rows)
    y = (rng.random((rows, 1)) > truth.cumsum(1)).sum(1)
    stated = truth**sharpen / (truth**sharpen).sum(1, keepdims=True)
    prediction = ClassPrediction.from_probs(stated[None].astype(np.float32))
    result = Result("a", 0, {"nll": 1.0}, prediction, y)
    return Comparison("t", "d", "classification", [result])


@pytest.mark.parametrize(
    ("rows", "sharpen", "words"),
    [
        (2000, 1.0, "Its calibration is acceptable (ECE "),
        (2000, 3.0, "Its calibration is not acceptable: overconfident (ECE "),
        (2000, 0.4, "Its calibration is not acceptable: underconfident (ECE "),
        (20, 1.0, "Its calibration cannot be evaluated from 20 test rows"),
    ],
)
def test_calibration_of_classes(rows, sharpen, words):
    comparison = calibrated(rows, sharpen)
    assert sentences(comparison)[1].startswith(words)
    assert "ECE (15 bins) exceeds that of a perfectly calibrated network" in page(comparison)


def test_the_check_uses_the_ece_of_the_table():
    comparison = calibrated(500, 2.0)
    (result,) = comparison.results
    check = calibration_check(comparison, "a")
    assert check.value == pytest.approx(float(metrics.ece(result.prediction, result.y)), abs=1e-6)


def test_ece_of_perfect_calibration_by_simulation():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.4, 1, 400).astype(np.float32)
    draws = [metrics.reliability_of(confidence, rng.random(400) < confidence) for _ in range(300)]
    eces = [
        float(np.nansum(np.asarray(d.counts) * np.abs(np.asarray(d.accuracy - d.confidence))) / 400)
        for d in draws
    ]
    mean, deviation = perfect_ece(confidence)
    assert mean == pytest.approx(np.mean(eces), abs=4 * np.std(eces) / np.sqrt(300))
    assert deviation == pytest.approx(np.std(eces), rel=0.15)


@pytest.mark.parametrize(
    ("rows", "scale", "words"),
    [
        (2000, 1.0, "is acceptable (90 % intervals cover 0."),
        (2000, 0.3, "is not acceptable: overconfident"),
        (2000, 9.0, "is not acceptable: underconfident"),
        (40, 1.0, "cannot be evaluated from 40 test rows"),
    ],
)
def test_calibration_of_numbers(rows, scale, words):
    y = np.random.default_rng(1).normal(size=rows)
    means = np.zeros((1, rows, 1), np.float32)
    prediction = GaussianPrediction(means, np.full_like(means, scale))
    result = Result("a", 0, {"nll": 1.0}, prediction, y)
    comparison = Comparison("t", "d", "regression", [result])
    assert words in sentences(comparison)[1]
    assert "within two binomial standard errors of 0.90" in page(comparison)


def test_ties_say_whose_calibration_is_acceptable():
    good, bad = (calibrated(2000, sharpen).results[0] for sharpen in (1.0, 3.0))
    results = [Result("bad", 0, {"nll": 1.0}, bad.prediction, bad.y), good]
    text = sentences(Comparison("t", "d", "classification", results))[1]
    assert text == "Calibration is not acceptable for bad and is acceptable for a."


def test_training_time_is_without_compiling():
    results = [costed("a", 0, 1.0, 12.0, 2.0), costed("a", 1, 1.0, 14.0, 4.0)]
    assert training_time(results) == (10.0, 3.0)
    assert training_time([costed("a", 0, 1.0, 12.0)]) == (12.0, None)
    assert training_time([Result("a", 0, {})]) is None
    text = page(Comparison("t", "d", "classification", results))
    assert "<td>10 s</td><td>3 s</td>" in text
    unknown = page(Comparison("t", "d", "classification", [costed("a", 0, 1.0, 12.0)]))
    assert "<td>12 s, compiling included</td>" in unknown


def test_seeds_in_words():
    def of(*seeds):
        return seeds_text([Result("a", seed, {}) for seed in seeds])

    assert of(0) == "1 seed (seed 0)"
    assert of(3, 1) == "2 seeds (1, 3)"
    assert of(0, 1, 2, 3) == "4 seeds (0 to 3)"
    assert "seeds 0" not in page(bare({"a": [1.0]}))


def test_the_nominal_level_stands_beside_the_coverage():
    text = page(Comparison("t", "d", "regression", [number_result("a", 0)]))
    assert "0.8750<span" in text
    assert " (nominal 0.90)" in text


def test_the_page_says_where_it_comes_from():
    facts = Facts(
        date="2026-11-16T18:00+01:00",
        version="1.2.3",
        command="credax compare --data 'my <data>.csv'",
        rows={"test": 40, "train": 1234, "validation": 7},
        classes={"test": {"cat": 3, "dog": 37}, "train": {"cat": 1000, "dog": 234}},
    )
    text = page(Comparison("t", "d", "classification", [class_result("a", 0)], facts=facts))
    header = text[text.index("<header") : text.index("</header>")]
    for words in (
        "1\u202f234 training, 7 validation, 40 test",
        "2026-11-16 18:00+01:00",
        "credax 1.2.3",
        "credax compare --data &#x27;my &lt;data&gt;.csv&#x27;",
        "1 seed (seed 0)",
    ):
        assert words in header
    assert '<th scope="row">cat</th><td>1000</td><td>3</td>' in header
    bare_header = page(Comparison("t", "d", "classification", [class_result("a", 0)]))
    assert "<dt>Command" not in bare_header
    assert "<dt>Date" not in bare_header
