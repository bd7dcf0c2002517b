"""The streaming form gives the same number as one pass, however the rows are split and merged."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metrics_cases import (
    CLASSES,
    ROWS,
    all_of,
    class_arrays,
    class_case,
    number_case,
    on_device,
    one_batch,
)

from credax import metrics
from credax.errors import InputError
from credax.prediction import ClassPrediction, GaussianPrediction

pytestmark = pytest.mark.filterwarnings("ignore::credax.metrics.UndefinedMetric")
CASES = {"classification": class_case, "regression": number_case}
seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module", autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def same(ours, theirs, tolerance=1e-9):
    assert ours.keys() == theirs.keys()
    for name in ours:
        expected = pytest.approx(float(theirs[name]), rel=tolerance, abs=tolerance, nan_ok=True)
        assert float(ours[name]) == expected, name


@pytest.mark.parametrize("task", CASES)
def test_one_program_and_one_batch_agree(task):
    prediction, y = CASES[task](np.random.default_rng(0))
    collection = all_of(task)
    state = one_batch(collection, prediction, y)
    same(collection.finish(state), on_device(task, prediction, y))
    assert state.entries == y.size


@pytest.mark.parametrize("task", CASES)
@settings(max_examples=8, deadline=None)
@given(seed=seeds)
def test_any_partition_and_any_order_of_merging(task, seed):
    rng = np.random.default_rng(seed)
    prediction, y = CASES[task](rng)
    collection = all_of(task)
    whole = one_batch(collection, prediction, y)
    part = rng.integers(0, 3, ROWS)
    states = [collection.update(collection.init(), prediction, y, mask=part == p) for p in range(3)]
    first, second, third = (states[i] for i in rng.permutation(3))
    left = collection.merge(collection.merge(first, second), third)
    right = collection.merge(first, collection.merge(third, second))
    assert left.entries == right.entries == whole.entries
    # `ace` and `tace` take equal probabilities in the order of rows; these rows have none.
    same(collection.finish(left), collection.finish(whole))
    same(collection.finish(left), collection.finish(right), 1e-12)


@pytest.mark.parametrize("task", CASES)
def test_batches_of_rows(task):
    prediction, y = CASES[task](np.random.default_rng(1))
    collection = all_of(task)
    state = collection.init()
    for start in range(0, ROWS, 8):
        part = slice(start, start + 8)
        state = collection.merge(state, one_batch(collection, prediction.select(part), y[part]))
    whole = one_batch(collection, prediction, y)
    same(collection.finish(state), collection.finish(whole))


@pytest.mark.parametrize("task", CASES)
def test_a_mask_is_the_same_as_leaving_rows_out(task):
    prediction, y = CASES[task](np.random.default_rng(2))
    collection = all_of(task)
    kept = np.arange(ROWS) % 3 == 0
    marked = y.copy()
    marked[~kept] = -1 if task == "classification" else np.nan
    alone = one_batch(collection, prediction.select(kept), y[kept])
    masked = on_device(task, prediction, marked, mask=kept)
    same(masked, collection.finish(alone))
    state = one_batch(collection, prediction, marked, mask=kept)
    same(collection.finish(state), masked)
    assert state.entries == kept.sum() * (y.size // ROWS)


@pytest.mark.parametrize("task", CASES)
def test_only_the_ratio_of_weights_counts(task):
    rng = np.random.default_rng(3)
    prediction, y = CASES[task](rng)
    weight = rng.uniform(0.5, 2, ROWS)
    ours = on_device(task, prediction, y, weight=weight)
    same(ours, on_device(task, prediction, y, weight=7 * weight))
    order = rng.permutation(ROWS)
    moved = on_device(task, prediction.select(order), y[order], weight=weight[order])
    same(ours, moved)
    even = on_device(task, prediction, y, weight=np.full(ROWS, 3.0))
    same(even, on_device(task, prediction, y))


# What is a mean over rows counts a row of weight two like two rows; curves count tied rows anew.
COUNTED = (
    *("accuracy", "balanced_accuracy", "mean_iou", "nll", "brier", "ece", "mce", "rmsce", "sce"),
    *("smooth_ece", "smooth_ece_logit", "auroc_correct", "entropy", "mutual_information"),
    *("disagreement", "variation_ratio", "epistemic_share"),
)


def test_whole_weights_are_repeated_rows():
    rng = np.random.default_rng(4)
    prediction, y = class_case(rng)
    collection = all_of("classification")
    first = np.arange(ROWS) < 8
    ours = on_device("classification", prediction, y, weight=np.where(first, 2.0, 1.0))
    again = one_batch(collection, prediction, y, mask=first)
    twice = collection.finish(collection.merge(one_batch(collection, prediction, y), again))
    same({n: ours[n] for n in COUNTED}, {n: twice[n] for n in COUNTED})


def test_float32_sums_stay_close_to_float64():
    rng = np.random.default_rng(5)
    with jax.enable_x64(False):
        prediction, y = class_case(rng)
        collection = metrics.collect(None, "classification")
        low = collection.finish(collection.update(collection.init(), prediction, y))
    exact = ClassPrediction(jnp.asarray(np.asarray(prediction.log_probs, np.float64)))
    same(low, metrics.evaluate(exact, y), 1e-5)


def test_large_predictions_are_read_member_by_member(monkeypatch):
    from credax.metrics import view

    monkeypatch.setattr(view, "_SMALL", 0)
    rows = 30  # a shape of its own, so that no program compiled before is used
    probs, y = class_arrays(np.random.default_rng(13), rows=rows)
    names = ["nll", "brier_members", "expected_entropy", "disagreement"]
    ours = metrics.evaluate(ClassPrediction.from_probs(probs), y, names)
    votes = probs.argmax(-1)
    differ = [np.mean(votes[i] != votes[j]) for i in range(3) for j in range(i)]
    expected = {
        "nll": -np.mean(np.log(probs.mean(0)[np.arange(rows), y])),
        "brier_members": np.mean(np.sum((probs - np.eye(CLASSES)[y]) ** 2, axis=-1)),
        "expected_entropy": -np.mean(np.sum(probs * np.log(probs), axis=-1)),
        "disagreement": np.mean(differ),
    }
    same(ours, expected, 1e-12)


def test_totals_are_float64_on_the_host():
    with jax.enable_x64(False):
        prediction, y = class_case(np.random.default_rng(6))
        stream = metrics.nll.stream()
        state = stream.update(stream.init(), prediction, y)
    assert all(a.dtype == np.float64 for a in jax.tree.leaves(state.totals))


SKETCHED = ("aurc", "e_aurc", "augrc", "auroc_correct", "adaptive_ece", "ace", "tace")


def test_the_state_of_sketches_does_not_grow_with_the_rows():
    collection = metrics.collect([*SKETCHED, "smooth_ece"], "classification", sketch=True)
    assert all(s.statistic.total is not None for s in collection.streams.values())
    sizes = set()
    for seed, rows in ((7, ROWS), (8, ROWS // 3)):
        prediction, y = class_case(np.random.default_rng(seed), rows=rows)
        state = collection.update(collection.init(), prediction, y)
        sizes.add(sum(np.size(a) for a in jax.tree.leaves(state.totals)))
    assert len(sizes) == 1


def test_which_metrics_need_the_rows_themselves():
    exact = metrics.collect("all", "classification")
    gathered = {n for n, s in exact.streams.items() if s.statistic.total is None}
    assert gathered == {
        *("adaptive_ece", "aurc", "aurc_trapezoid", "e_aurc", "augrc", "augrc_trapezoid"),
        *("coverage_at_5_risk", "risk_at_80_coverage", "auroc_correct"),
    }
    assert len({exact.streams[n].statistic for n in gathered}) == 1
    sketch = metrics.collect("all", "classification", sketch=True)
    still = {n for n, s in sketch.streams.items() if s.statistic.total is None}
    # Points where a curve crosses a threshold cannot be read off bins.
    assert still == {"coverage_at_5_risk", "risk_at_80_coverage"}


def test_gathered_rows_cost_a_score_a_bit_and_nothing_for_weights():
    with jax.enable_x64(False):
        prediction, y = class_case(np.random.default_rng(9))
        stream = metrics.aurc.stream()
        (chunk,) = stream.update(stream.init(), prediction, y).totals[0]
    assert chunk.score.nbytes == 4 * ROWS
    assert chunk.hit.nbytes == ROWS
    assert chunk.weight.base is not None
    assert chunk.weight.strides == (0,)


@settings(max_examples=5, deadline=None)
@given(seed=seeds)
def test_sketches_keep_their_bounds(seed):
    rng = np.random.default_rng(seed)
    rows = 3000
    # Within a thousandth of each other, so that every bin holds many different confidences.
    first = 0.55 + 1e-3 * rng.random(rows) ** 2
    probs = np.stack([first, 1 - first], axis=-1)
    y = (rng.random(rows) < 0.5).astype(int)
    prediction = ClassPrediction.from_probs(probs[None])
    exact = metrics.collect(SKETCHED, "classification", sketch=False)
    sketch = metrics.collect(SKETCHED, "classification", sketch=True)
    truth = exact.finish(exact.update(exact.init(), prediction, y))
    state = sketch.update(sketch.init(), prediction, y)
    ours, bounds = sketch.finish(state), sketch.error_bounds(state)
    assert exact.error_bounds(exact.update(exact.init(), prediction, y)) == dict.fromkeys(truth, 0)
    for name in truth:
        assert abs(ours[name] - truth[name]) <= bounds[name] + 1e-12, name
    assert sum(ours[name] != truth[name] for name in truth) >= 4


def test_the_histogram_of_the_pit_keeps_its_bound():
    rng = np.random.default_rng(10)
    y = rng.normal(size=4000) * 1.2
    prediction = GaussianPrediction(jnp.zeros((1, 4000, 1)), jnp.ones((1, 4000, 1)))
    stream = metrics.pit_distance.stream(sketch=True)
    state = stream.update(stream.init(), prediction, y)
    exact = float(metrics.pit_distance(prediction, y))
    assert abs(stream.finish(state) - exact) <= stream.error_bound(state) < 0.01


def test_nothing_seen_is_said_so():
    stream = metrics.ece.stream()
    with pytest.raises(InputError, match="no row has been seen"):
        stream.finish(stream.init())
    prediction, y = class_case(np.random.default_rng(11))
    state = stream.update(stream.init(), prediction, y, mask=np.zeros(ROWS, bool))
    with pytest.raises(InputError, match="mask drops all"):
        stream.finish(state)
    more = stream.update(state, prediction, y)
    assert stream.finish(more) == stream.finish(stream.update(stream.init(), prediction, y))


def test_options_reach_the_streaming_form():
    prediction, y = class_case(np.random.default_rng(12))
    stream = metrics.ece.stream(bins=4)
    value = stream.finish(stream.update(stream.init(), prediction, y))
    assert value == pytest.approx(float(metrics.ece(prediction, y, bins=4)), abs=1e-12)
    assert value == pytest.approx(float(metrics.ece.having(bins=4)(prediction, y)), abs=1e-12)
    with pytest.raises(InputError, match="no option 'bin'"):
        metrics.ece.having(bin=4)
    with pytest.raises(InputError, match="not for regression"):
        metrics.collect(["ece"], "regression")
