"""What must not change a metric: the order of members, classes and rows, and repeated data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from credax import metrics
from credax.prediction import ClassPrediction, GaussianPrediction

# One shape for most examples: every new shape is a new compilation.
MEMBERS, ROWS, CLASSES, TARGETS = 3, 24, 4, 2
seeds = st.integers(0, 2**32 - 1)
sharpness = st.sampled_from([0.05, 0.5, 3.0])


@pytest.fixture(scope="module", autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def classes(rng, sharp):
    logits = rng.normal(size=(MEMBERS, ROWS, CLASSES)) / sharp
    probs = np.exp(logits - logits.max(-1, keepdims=True))
    return probs / probs.sum(-1, keepdims=True), rng.integers(0, CLASSES, ROWS)


def numbers(rng):
    shape = (MEMBERS, ROWS, TARGETS)
    return rng.normal(size=shape), rng.uniform(0.1, 3, size=shape), rng.normal(size=shape[1:])


def score(probs, y):
    return metrics.evaluate(ClassPrediction.from_probs(probs), y)


def score_numbers(means, variances, y):
    return metrics.evaluate(GaussianPrediction(jnp.array(means), jnp.array(variances)), y)


def same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name] == pytest.approx(theirs[name], rel=1e-9, abs=1e-12), name


@settings(max_examples=15, deadline=None)
@given(seeds, sharpness)
def test_classification_invariances(seed, sharp):
    rng = np.random.default_rng(seed)
    probs, y = classes(rng, sharp)
    base = score(probs, y)
    same(base, score(probs[rng.permutation(MEMBERS)], y))
    rows = rng.permutation(ROWS)
    same(base, score(probs[:, rows], y[rows]))
    relabel = rng.permutation(CLASSES)
    same(base, score(probs[..., np.argsort(relabel)], relabel[y]))
    same(base, score(np.concatenate([probs, probs], 1), np.concatenate([y, y])))
    same(base, score(np.concatenate([probs, probs], 0), y))


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_regression_invariances(seed):
    rng = np.random.default_rng(seed)
    means, variances, y = numbers(rng)
    base = score_numbers(means, variances, y)
    order = rng.permutation(MEMBERS)
    same(base, score_numbers(means[order], variances[order], y))
    rows = rng.permutation(ROWS)
    same(base, score_numbers(means[:, rows], variances[:, rows], y[rows]))
    same(base, score_numbers(means[..., ::-1], variances[..., ::-1], y[..., ::-1]))
    twice = [np.concatenate([a, a], axis) for a, axis in ((means, 1), (variances, 1), (y, 0))]
    same(base, score_numbers(*twice))


@settings(max_examples=15, deadline=None)
@given(seeds, sharpness)
def test_bounds_and_jensen(seed, sharp):
    rng = np.random.default_rng(seed)
    probs, y = classes(rng, sharp)
    base = score(probs, y)
    for name, value in base.items():
        low, high = metrics.get(name).range
        assert low <= value <= high
    assert base["mutual_information"] <= min(np.log(MEMBERS), base["entropy"]) + 1e-12
    assert base["nll"] <= np.mean([score(p[None], y)["nll"] for p in probs]) + 1e-12
    table = jax.jit(metrics.reliability)(ClassPrediction.from_probs(probs), y)
    assert int(table.counts.sum()) == ROWS
    known = np.asarray(table.counts) > 0
    weights = np.asarray(table.counts)[known] / ROWS
    assert float(weights @ np.asarray(table.accuracy)[known]) == pytest.approx(base["accuracy"])


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_scale_of_the_targets(seed):
    means, variances, y = numbers(np.random.default_rng(seed))
    base = score_numbers(means, variances, y)
    scaled = score_numbers(7 * means + 3, 49 * variances, 7 * y + 3)
    assert scaled["rmse"] == pytest.approx(7 * base["rmse"])
    assert scaled["nll"] == pytest.approx(base["nll"] + TARGETS * np.log(7))
    assert scaled["coverage_90"] == base["coverage_90"]


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
