import jax
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from credax.errors import InputError
from credax.prediction import ClassPrediction, GaussianPrediction, concatenate


def mixture(means, variances):
    shape = (len(means), 1, 1)
    return GaussianPrediction(np.reshape(means, shape), np.reshape(variances, shape))


# Closed form of the two-component mixture.
@pytest.mark.parametrize(
    ("y", "exact", "matched"),
    [
        (2.0, 1.511963982, 1.265512123),
        (0.0, 2.190278627, 2.265512123),
        (4.0, 2.147853331, 2.265512123),
    ],
)
def test_mixture_nll_and_moment_matched(float64, y, exact, matched):
    prediction = mixture([1.0, 3.0], [0.5, 1.5])
    assert float(prediction.mean[0]) == 2
    assert float(prediction.aleatoric[0]) == 1
    assert float(prediction.epistemic[0]) == 1
    np.testing.assert_allclose(-prediction.log_prob(np.array([y])), exact, atol=1e-9)
    np.testing.assert_allclose(
        -prediction.log_prob(np.array([y]), moment_matched=True), matched, atol=1e-9
    )


def test_quantiles_invert_the_distribution_function(float64):
    rng = np.random.default_rng(1)
    prediction = GaussianPrediction(rng.normal(size=(4, 7, 2)) * 3, rng.uniform(0.1, 4, (4, 7, 2)))
    for level in (0.01, 0.3, 0.5, 0.975):
        np.testing.assert_allclose(prediction.cdf(prediction.quantile(level)), level, atol=1e-12)
    low, high = prediction.interval(0.9)
    np.testing.assert_allclose(prediction.cdf(high) - prediction.cdf(low), 0.9, atol=1e-12)


def test_one_member_quantile_is_the_normal_one(float64):
    prediction = mixture([1.0], [4.0])
    np.testing.assert_allclose(
        prediction.quantile(0.9), scipy.stats.norm(1, 2).ppf(0.9), atol=1e-12
    )


def test_samples_have_the_mixture_moments():
    prediction = mixture([1.0, 3.0], [0.5, 1.5])
    draws = np.asarray(prediction.sample(jax.random.key(0), 40_000))[:, 0]
    # standard errors: mean sqrt(2/n) = 0.007, variance sqrt((m4 - 4)/n) with m4 = 11.5: 0.014
    assert abs(draws.mean() - 2) < 4 * 0.0071
    assert abs(draws.var() - 2) < 4 * 0.0137


def test_class_samples_follow_the_mean_probabilities():
    prediction = ClassPrediction.from_probs(np.array([[[0.9, 0.1]], [[0.1, 0.9]], [[0.2, 0.8]]]))
    draws = np.asarray(prediction.sample(jax.random.key(0), 20_000))
    assert abs(draws.mean() - 0.6) < 4 * np.sqrt(0.24 / 20_000)


def test_log_prob_is_finite_for_certain_members():
    prediction = ClassPrediction.from_logits(np.array([[[1e3, -1e3]], [[-1e3, 1e3]]]))
    np.testing.assert_allclose(prediction.log_prob(np.array([0])), np.log(0.5), rtol=1e-6)
    one = ClassPrediction.from_logits(np.array([[[1e3, -1e3]]]))
    np.testing.assert_allclose(one.log_prob(np.array([1])), -2000, rtol=1e-6)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**31), st.integers(1, 6), st.floats(0.01, 30))
def test_total_is_at_least_each_part(seed, members, scale):
    logits = np.random.default_rng(seed).normal(size=(members, 8, 5)) * scale
    prediction = ClassPrediction.from_logits(logits)
    total, aleatoric = np.asarray(prediction.total), np.asarray(prediction.aleatoric)
    epistemic = np.asarray(prediction.epistemic)
    assert (total >= aleatoric).all()
    assert (total >= epistemic).all()
    assert (epistemic >= 0).all()
    assert (epistemic <= np.log(members) + 1e-5).all()
    np.testing.assert_allclose(total, aleatoric + epistemic, atol=1e-5)


def test_identical_members_have_no_epistemic_part():
    logits = np.random.default_rng(0).normal(size=(1, 9, 4)).repeat(5, axis=0)
    assert np.asarray(ClassPrediction.from_logits(logits).epistemic).max() < 1e-6


def test_mutual_information_is_the_mean_divergence_from_the_mixture(float64):
    logits = np.random.default_rng(3).normal(size=(3, 6, 4))
    prediction = ClassPrediction.from_logits(logits)
    p, mean = np.asarray(prediction.members), np.asarray(prediction.probs)
    divergence = (p * np.log(p / mean)).sum(-1).mean(0)
    np.testing.assert_allclose(prediction.epistemic, divergence, atol=1e-12)


def test_scalar_targets_have_no_trailing_axis_and_take_both_shapes():
    prediction = GaussianPrediction(np.zeros((2, 5, 1)), np.ones((2, 5, 1)))
    assert prediction.mean.shape == prediction.quantile(0.3).shape == (5,)
    np.testing.assert_array_equal(
        prediction.log_prob(np.ones(5)), prediction.log_prob(np.ones((5, 1)))
    )


def test_density_sums_over_targets(float64):
    rng = np.random.default_rng(0)
    means, variances, y = (
        rng.normal(size=(1, 4, 3)),
        rng.uniform(1, 2, (1, 4, 3)),
        rng.normal(size=(4, 3)),
    )
    expected = scipy.stats.norm(means[0], np.sqrt(variances[0])).logpdf(y).sum(1)
    np.testing.assert_allclose(
        GaussianPrediction(means, variances).log_prob(y), expected, atol=1e-12
    )


def test_concatenate_joins_rows():
    logits = np.random.default_rng(0).normal(size=(2, 7, 3))
    whole = ClassPrediction.from_logits(logits)
    parts = [ClassPrediction.from_logits(logits[:, :4]), ClassPrediction.from_logits(logits[:, 4:])]
    np.testing.assert_allclose(concatenate(parts).log_probs, whole.log_probs, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: p.log_prob(np.zeros(3)), "integer labels"),
        (lambda p: p.log_prob(np.zeros(4, int)), "3 rows"),
        (lambda p: p.quantile(0.5), "regression"),
        (lambda p: p.interval(), "regression"),
        (lambda p: ClassPrediction.from_probs(np.ones((3, 2))), "members, batch, classes"),
    ],
)
def test_class_errors_say_what_to_do(call, words):
    prediction = ClassPrediction.from_logits(np.zeros((2, 3, 4)))
    with pytest.raises(InputError, match=words):
        call(prediction)


@pytest.mark.parametrize("level", [0.0, 1.0, -1, 2])
def test_levels_outside_zero_and_one_are_refused(level):
    prediction = mixture([0.0], [1.0])
    with pytest.raises(InputError, match="between 0 and 1"):
        prediction.quantile(level)


def test_targets_of_the_wrong_shape_are_refused():
    prediction = GaussianPrediction(np.zeros((2, 5, 2)), np.ones((2, 5, 2)))
    with pytest.raises(InputError, match=r"\(5, 2\)"):
        prediction.log_prob(np.zeros(5))
