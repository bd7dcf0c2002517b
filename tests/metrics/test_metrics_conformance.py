"""Defects seen in other libraries, restated as tests of ours, with numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from metrics_cases import class_case, gaussians

from credax import metrics
from credax.errors import InputError
from credax.prediction import ClassPrediction, GaussianPrediction


@pytest.fixture(scope="module", autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def test_2_the_mixture_is_scored_and_not_averaged_parameters():
    prediction = gaussians([[1.0], [3.0]], [[0.5], [1.5]])
    value = float(metrics.nll(prediction, np.array([2.0])))
    assert value == pytest.approx(1.511964, abs=1e-6)
    assert value != pytest.approx(0.884270, abs=1e-2)


def test_3_entropy_out_of_distribution_is_of_the_data_out_of_distribution():
    prediction, y = class_case(np.random.default_rng(0))
    certain = ClassPrediction.from_probs(np.tile(np.eye(6)[0], (3, 10, 1)))
    uncertain = ClassPrediction.from_probs(np.full((3, 10, 6), 1 / 6))
    other = {"certain": certain, "uncertain": uncertain}
    values = metrics.evaluate(prediction, y, ["entropy"], ood=other)
    assert values["ood/certain/entropy"] == pytest.approx(0, abs=1e-12)
    assert values["ood/uncertain/entropy"] == pytest.approx(np.log(6), abs=1e-12)
    assert values["ood/uncertain/auroc/entropy_predictive"] == 1
    assert values["ood/certain/auroc/entropy_predictive"] == 0
    assert values["entropy"] == metrics.evaluate(prediction, y, ["entropy"])["entropy"]


def test_14_a_wrong_first_answer_does_not_hide_all_coverage():
    confidence = np.linspace(0.99, 0.6, 100)
    prediction = ClassPrediction.from_probs(np.stack([confidence, 1 - confidence], -1)[None])
    y = np.zeros(100, int)
    y[0] = 1
    assert float(metrics.coverage_at_risk(prediction, y, risk=0.05)) == 1.0


def test_15_scores_beyond_one_are_not_squashed_batch_by_batch():
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    score, out = rng.uniform(0, 5, 300), rng.random(300) < 0.4
    score[:100] /= 5  # one batch lies within [0, 1], the others do not
    expected = sklearn_metrics.roc_auc_score(out, score)
    stream = metrics.auroc.stream()
    for size in (100, 150, 300):
        state = stream.init()
        for start in range(0, 300, size):
            part = slice(start, start + size)
            state = stream.update(state, score[part], out[part])
        assert stream.finish(state) == pytest.approx(expected, abs=1e-12)


def test_16_false_positives_in_both_directions():
    score, out = metrics.id_and_ood([0.1, 0.2, 0.35, 0.4], [0.3, 0.5, 0.6, 0.9, 0.95])
    assert float(metrics.fpr_at_ood_recall(score, out, level=0.95)) == 0.5
    assert float(metrics.fpr_at_id_recall(score, out, level=0.95)) == pytest.approx(0.2)
    # At 80 % recall four of five suffice: the threshold 0.5 flags nothing of one's own.
    assert float(metrics.fpr_at_ood_recall(score, out, level=0.8)) == 0
    # Ties count as caught on both sides.
    tied = np.array([0.5, 0.5, 0.5, 0.5]), np.array([True, False, True, False])
    assert float(metrics.fpr_at_ood_recall(*tied)) == 1
    assert float(metrics.fpr_at_id_recall(*tied)) == 1


def test_17_members_on_the_wrong_axis_are_refused_by_name():
    probs = np.full((20, 5, 3), 1 / 3)
    with pytest.raises(InputError, match=r"\[members, batch, classes\] being \(20, 5, 3\)"):
        metrics.variation_ratio(ClassPrediction.from_probs(probs), np.zeros(20, int))


def test_18_sparsification_divides_means_and_starts_once():
    prediction = gaussians([[0.0] * 4], [[1.0, 3.0, 2.0, 4.0]])
    value = float(metrics.ause(prediction, np.array([1.0, 2.0, 3.0, 4.0])))
    assert value == pytest.approx(0.05, abs=1e-12)


def test_20_the_auroc_of_pixels_is_global():
    rng = np.random.default_rng(2)
    # Images of different brightness: their own AUROCs are 1/2, the global one is not.
    score = np.concatenate([rng.normal(size=60), 5 + rng.normal(size=60)])
    out = np.concatenate([rng.random(60) < 0.1, rng.random(60) < 0.9])
    stream = metrics.auroc.stream()
    state = stream.init()
    each = []
    for part in (slice(0, 60), slice(60, 120)):
        state = stream.update(state, score[part], out[part])
        each.append(float(metrics.auroc(score[part], out[part])))
    assert stream.finish(state) == pytest.approx(float(metrics.auroc(score, out)), abs=1e-12)
    assert abs(stream.finish(state) - np.mean(each)) > 0.1


def test_21_masks_divide_by_what_they_keep_and_targets_add_up():
    rng = np.random.default_rng(3)
    shape = (2, 8, 3)
    prediction = GaussianPrediction(
        jnp.array(rng.normal(size=shape)), jnp.array(rng.uniform(0.5, 2, size=shape))
    )
    y = rng.normal(size=(8, 3))
    per_row = -np.asarray(prediction.log_prob(y))
    rows = np.arange(8) < 5
    masked = {"mask": rows}
    assert float(metrics.nll(prediction, y)) == pytest.approx(per_row.mean(), abs=1e-12)
    assert float(metrics.nll(prediction, y, **masked)) == pytest.approx(per_row[:5].mean())
    entries = rng.random((8, 3)) < 0.6
    entries[7] = False
    error = np.abs(y - np.asarray(prediction.mean))
    ours = float(metrics.mae(prediction, y, mask=entries))
    assert ours == pytest.approx(error[entries].mean(), abs=1e-12)
    # Only the kept targets of a row have a density, and only rows that keep some are counted.
    means, variances = np.asarray(prediction.means), np.asarray(prediction.variances)
    each = -0.5 * (np.log(2 * np.pi * variances) + (y - means) ** 2 / variances)
    joint = np.where(entries, each, 0).sum(-1)
    mixture = np.log(np.exp(joint).mean(0))[entries.any(1)]
    ours = float(metrics.nll(prediction, y, mask=entries))
    assert ours == pytest.approx(-mixture.mean(), abs=1e-12)


def test_22_quantiles_of_a_skewed_law():
    rng = np.random.default_rng(4)
    pit = 1 - np.exp(-rng.exponential(size=10_000))
    for norm in ("l1", "l2", "max"):
        assert float(metrics.quantile_calibration_error_of(pit, norm=norm)) < 0.02
    narrow = 1 - np.exp(-2 * rng.exponential(size=10_000))
    assert float(metrics.quantile_calibration_error_of(narrow)) > 0.1


def test_24_states_do_not_hold_predictions():
    few, many = (
        ClassPrediction.from_probs(np.full((members, 40, classes), 1 / classes))
        for members, classes in ((2, 3), (5, 30))
    )
    y = np.arange(40) % 3
    for name in ("smooth_ece", "adaptive_ece", "aurc", "variation_ratio", "auroc_correct"):
        stream = metrics.get(name).stream()
        sizes = [
            sum(np.size(a) for a in jax.tree.leaves(stream.update(stream.init(), p, y).totals))
            for p in (few, many)
        ]
        assert sizes[0] == sizes[1], name
        if stream.statistic.total is None:
            assert sizes[0] <= 3 * 40


def test_33_no_error_has_no_likelihood_and_both_averages_have_a_name():
    right = ClassPrediction.from_probs(np.tile([[[0.9, 0.1]]], (1, 3, 1)))
    values = metrics.evaluate(right, np.zeros(3, int), ["nll_of_errors"])
    assert np.isnan(values["nll_of_errors"])
    assert values.notes == {"nll_of_errors": "no row is wrong, so no error has a likelihood"}
    shifted = metrics.evaluate(right, np.zeros(3, int), ["ece"], shift={("fog", 1): right})
    assert {"shift/pooled/ece", "shift/cells/ece"} <= shifted.keys()
