"""What must not change a metric: the order of members, classes and rows, and repeated data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metrics_cases import (
    CLASSES,
    MEMBERS,
    ROWS,
    TARGETS,
    all_of,
    class_arrays,
    number_arrays,
    one_batch,
)

from credax import metrics
from credax.prediction import ClassPrediction, GaussianPrediction

pytestmark = pytest.mark.filterwarnings("ignore::credax.metrics.UndefinedMetric")
seeds = st.integers(0, 2**32 - 1)
sharpness = st.sampled_from([0.05, 0.5, 3.0])
# The rows of a curve are steps, so that repeating them moves it by a part of a step.
STEPPED = {
    *("aurc", "aurc_trapezoid", "e_aurc", "augrc", "augrc_trapezoid", "coverage_at_5_risk"),
    *("risk_at_80_coverage", "adaptive_ece", "ace", "tace", "debiased_rmsce", "clipped"),
    *("ause", "ause_squared", "ence"),
}


@pytest.fixture(scope="module", autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def score(probs, y):
    collection = all_of("classification")
    return collection.finish(one_batch(collection, ClassPrediction.from_probs(probs), y))


def score_numbers(means, variances, y):
    prediction = GaussianPrediction(jnp.array(means), jnp.array(variances))
    collection = all_of("regression")
    return collection.finish(one_batch(collection, prediction, y))


def same(ours, theirs, without=()):
    assert ours.keys() == theirs.keys()
    for name in ours.keys() - set(without):
        expected = pytest.approx(theirs[name], rel=1e-9, abs=1e-10, nan_ok=True)
        assert ours[name] == expected, name


@settings(max_examples=5, deadline=None)
@given(seeds, sharpness)
def test_classification_invariances(seed, sharp):
    rng = np.random.default_rng(seed)
    probs, y = class_arrays(rng, sharp)
    base = score(probs, y)
    same(base, score(probs[rng.permutation(MEMBERS)], y))
    rows = rng.permutation(ROWS)
    same(base, score(probs[:, rows], y[rows]))
    relabel = rng.permutation(CLASSES)
    same(base, score(probs[..., np.argsort(relabel)], relabel[y]))


@settings(max_examples=4, deadline=None)
@given(seeds, sharpness)
def test_repeated_rows(seed, sharp):
    rng = np.random.default_rng(seed)
    probs, y = class_arrays(rng, sharp)
    collection = all_of("classification")
    once = one_batch(collection, ClassPrediction.from_probs(probs), y)
    values, twice = collection.finish(once), collection.finish(collection.merge(once, once))
    same(values, twice, STEPPED)
    # Bins of equal counts are cut elsewhere: with so few rows in each, no small bound holds.
    loose = {"coverage_at_5_risk", "debiased_rmsce", "clipped", "adaptive_ece"}
    for name in STEPPED & values.keys() - loose:
        assert abs(values[name] - twice[name]) <= 3 / ROWS, name
    assert twice["clipped"] == 2 * values["clipped"]


def test_repeated_members():
    probs, y = class_arrays(np.random.default_rng(0))
    twice = score(np.concatenate([probs, probs]), y)
    # Pairs of a member with its own copy agree, so that disagreement shrinks.
    same(score(probs, y), twice, {"disagreement"})
    pairs, more = MEMBERS * (MEMBERS - 1), 2 * MEMBERS * (2 * MEMBERS - 1)
    expected = score(probs, y)["disagreement"] * 4 * pairs / more
    assert twice["disagreement"] == pytest.approx(expected)


@settings(max_examples=5, deadline=None)
@given(seeds)
def test_regression_invariances(seed):
    rng = np.random.default_rng(seed)
    means, variances, y = number_arrays(rng)
    base = score_numbers(means, variances, y)
    order = rng.permutation(MEMBERS)
    same(base, score_numbers(means[order], variances[order], y))
    rows = rng.permutation(ROWS)
    same(base, score_numbers(means[:, rows], variances[:, rows], y[rows]))
    same(base, score_numbers(means[..., ::-1], variances[..., ::-1], y[..., ::-1]))
    collection = all_of("regression")
    prediction = GaussianPrediction(jnp.array(means), jnp.array(variances))
    once = one_batch(collection, prediction, y)
    same(base, collection.finish(collection.merge(once, once)), STEPPED)


@settings(max_examples=5, deadline=None)
@given(seeds, sharpness)
def test_bounds_and_jensen(seed, sharp):
    rng = np.random.default_rng(seed)
    probs, y = class_arrays(rng, sharp)
    base = score(probs, y)
    for name, value in base.items():
        low, high = metrics.get(name).range
        assert np.isnan(value) or low <= value <= high + 1e-12, name
    assert base["mutual_information"] <= min(np.log(MEMBERS), base["entropy"]) + 1e-12
    assert base["nll"] <= base["member_nll"] + 1e-12
    assert base["jensen_gap"] == pytest.approx(base["member_nll"] - base["nll"], abs=1e-12)
    assert base["ece"] <= base["rmsce"] + 1e-12
    assert base["rmsce"] <= base["mce"] + 1e-12
    assert base["e_aurc"] >= -1e-12
    total = base["expected_entropy"] + base["mutual_information"]
    assert base["entropy"] == pytest.approx(total, abs=1e-12)
    own = [np.mean(-np.log(p[np.arange(ROWS), y])) for p in probs]
    assert base["member_nll"] == pytest.approx(np.mean(own))
    table = jax.jit(metrics.reliability)(ClassPrediction.from_probs(probs), y)
    assert int(table.counts.sum()) == ROWS
    known = np.asarray(table.counts) > 0
    weights = np.asarray(table.counts)[known] / ROWS
    assert float(weights @ np.asarray(table.accuracy)[known]) == pytest.approx(base["accuracy"])


@settings(max_examples=5, deadline=None)
@given(seeds)
def test_scale_of_the_targets(seed):
    means, variances, y = number_arrays(np.random.default_rng(seed))
    base = score_numbers(means, variances, y)
    scaled = score_numbers(7 * means + 3, 49 * variances, 7 * y + 3)
    powers = {
        **dict.fromkeys(("rmse", "mae", "crps", "width_90", "interval_score_90"), 7),
        **dict.fromkeys(("pinball_05", "pinball_50", "pinball_95"), 7),
        **dict.fromkeys(("mse", "total_variance", "aleatoric_variance", "epistemic_variance"), 49),
    }
    for name in base.keys() - {"nll", "moment_matched_nll"}:
        expected = powers.get(name, 1) * base[name]
        assert scaled[name] == pytest.approx(expected, rel=1e-6, abs=1e-9), name
    for name in ("nll", "moment_matched_nll"):
        assert scaled[name] == pytest.approx(base[name] + TARGETS * np.log(7))


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_risk_coverage_ends_at_the_error_rate(seed):
    rng = np.random.default_rng(seed)
    score, error = rng.integers(0, 5, ROWS) / 5.0, rng.integers(0, 2, ROWS)
    curve = jax.jit(metrics.risk_coverage_of)
    coverage, risk = curve(score, error)
    rows = rng.permutation(ROWS)
    again = curve(score[rows], error[rows])[1]
    np.testing.assert_allclose(risk, again, atol=1e-12)
    assert float(risk[-1]) == pytest.approx(error.mean())
    assert float(coverage[-1]) == 1.0
    # Where a tied block ends, the order within blocks cannot matter: count directly.
    for level in np.unique(score):
        kept = score >= level
        assert float(risk[kept.sum() - 1]) == pytest.approx(error[kept].mean())


@settings(max_examples=20, deadline=None)
@given(seeds, st.sampled_from([3, 30]))
def test_detection_turned_around(seed, values):
    rng = np.random.default_rng(seed)
    score, out = rng.integers(0, values, ROWS) / 7.0, rng.random(ROWS) < 0.4
    if out.all() or not out.any():
        return
    forms = {
        "auroc": metrics.auroc,
        "out": metrics.aupr_out,
        "in": metrics.aupr_in,
        "ood": metrics.fpr_at_ood_recall,
        "id": metrics.fpr_at_id_recall,
    }
    both = metrics.Collection({name: metric.stream() for name, metric in forms.items()})
    ours = {n: float(v) for n, v in both(score, out).items()}
    turned = {n: float(v) for n, v in both(-score, ~out).items()}
    assert turned["auroc"] == pytest.approx(ours["auroc"], abs=1e-12)
    assert turned["out"] == pytest.approx(ours["in"], abs=1e-12)
    assert turned["ood"] == pytest.approx(ours["id"], abs=1e-12)
    away = {n: float(v) for n, v in both(-score, out).items()}
    assert away["auroc"] == pytest.approx(1 - ours["auroc"], abs=1e-12)
    pairs = np.subtract.outer(score[out], score[~out])
    assert ours["auroc"] == pytest.approx(np.mean((pairs > 0) + 0.5 * (pairs == 0)), abs=1e-12)
    stretched = both(np.exp(score), out)
    assert ours == {n: pytest.approx(float(v), abs=1e-12) for n, v in stretched.items()}
