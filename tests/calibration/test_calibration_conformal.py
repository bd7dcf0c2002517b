"""Conformal ranks, scores and sets by hand; coverage inside its exact distribution."""

from fractions import Fraction

import numpy as np
import pytest
from calibration_cases import calibrated, overconfident, regression
from scipy.stats import betabinom, kstest

from credax.calibration import (
    APS,
    CQR,
    RAPS,
    CalibrationWarning,
    Intervals,
    Mondrian,
    Normalised,
    QuantileRecalibration,
    Residual,
    Threshold,
    conformal_quantile,
    conformal_rank,
    conformalise,
    rows_needed,
    tune_raps,
)
from credax.calibration.conformal_quantiles import exact
from credax.calibration.intervals import interval_scores
from credax.calibration.sets import normalised, uniforms
from credax.errors import InputError
from credax.prediction import ClassPrediction, GaussianPrediction

pytestmark = pytest.mark.slow

CALIBRATION, TEST = 100, 400
RANK = 91


@pytest.mark.parametrize(
    ("rows", "alpha", "rank"),
    [(9, 0.1, 9), (8, 0.1, 9), (19, 0.05, 19), (18, 0.05, 19), (100, 0.1, 91), (9, 0.3, 7)],
)
def test_ranks_by_hand(rows, alpha, rank):
    assert conformal_rank(rows, alpha) == rank
    scores = np.arange(1.0, rows + 1)
    expected = np.inf if rank > rows else rank
    assert conformal_quantile(scores[::-1], alpha) == expected


def test_ranks_are_exact_for_every_simple_alpha():
    """Against rational arithmetic, where floating point pushes the ceiling up now and then."""
    wrong = 0
    for denominator in range(2, 60):
        for numerator in range(1, denominator):
            alpha = Fraction(numerator, denominator)
            for rows in (denominator - 1, 2 * denominator - 1, 7 * denominator - 1, 100):
                rank = -((-(rows + 1) * (denominator - numerator)) // denominator)
                assert conformal_rank(rows, float(alpha)) == rank
                wrong += int(np.ceil((rows + 1) * (1 - float(alpha)))) != rank
    assert wrong > 0  # the naive formula does fail on this list
    assert exact(np.float32(0.1)) == Fraction(1, 10)
    assert exact(0.123456789) == Fraction(123456789, 10**9)


def test_rows_needed_is_the_least_sufficient_number():
    for alpha in (0.5, 0.3, 0.1, 0.05, 1 / 3, 0.01):
        least = rows_needed(alpha)
        assert conformal_rank(least, alpha) <= least
        assert conformal_rank(least - 1, alpha) > least - 1


def test_set_scores_by_hand():
    p, half = np.array([[0.5, 0.3, 0.2]]), np.array([0.5])
    np.testing.assert_allclose(Threshold().scores(p), [[0.5, 0.7, 0.8]])
    np.testing.assert_allclose(APS().scores(p, half), [[0.25, 0.65, 0.9]])
    np.testing.assert_allclose(RAPS().scores(p, half), [[0.25, 0.75, 1.1]])
    np.testing.assert_allclose(APS().scores(p), [[0.5, 0.8, 1.0]])
    np.testing.assert_allclose(APS().scores(p[:, ::-1]), [[1.0, 0.8, 0.5]])
    # Ties rank by class index, and the last class scores one exactly.
    tied = APS().scores(np.full((1, 7), 1 / 7))
    np.testing.assert_allclose(tied, [np.arange(1, 8) / 7])
    assert tied[0, -1] == 1.0


def test_interval_scores_by_hand():
    y = np.array([0.5, 1.2, -0.1, 2.0])
    scores = interval_scores(np.zeros(4), np.ones(4), np.ones(4), y)
    np.testing.assert_allclose(scores, [-0.5, 0.2, 0.1, 1.0])
    assert conformal_quantile(scores, 0.4) == pytest.approx(0.2)
    assert conformal_quantile(scores, 0.25) == 1.0


def test_cqr_by_hand():
    """The quantiles of N(0.5, s²) at 0.2 and 0.8 are 0 and 1; the sheet's four targets."""
    deviation = 0.5 / 0.8416212335729143
    p = GaussianPrediction(np.full((1, 4, 1), 0.5), np.full((1, 4, 1), deviation**2))
    low, high = CQR(alpha=0.4).fit(p, np.array([0.5, 1.2, -0.1, 2.0])).predict_interval(p)
    np.testing.assert_allclose(low, -0.2, atol=1e-6)
    np.testing.assert_allclose(high, 1.2, atol=1e-6)


def test_residual_and_normalised_by_hand():
    means = np.zeros((1, 4, 1))
    p = GaussianPrediction(means, np.array([1.0, 4.0, 1.0, 4.0]).reshape(1, 4, 1))
    y = np.array([1.0, -3.0, 2.0, 8.0])  # residuals 1 3 2 8; in units of sigma 1 1.5 2 4
    low, high = Residual(alpha=0.4).fit(p, y).predict_interval(p)
    np.testing.assert_allclose([low, high], [[-3.0] * 4, [3.0] * 4])
    low, high = Normalised(alpha=0.4).fit(p, y)(p)
    np.testing.assert_allclose(high, [2.0, 4.0, 2.0, 4.0], atol=1e-6)
    np.testing.assert_allclose(low, -high)
    floored = Normalised(alpha=0.4, floor=4.0).fit(p, y)
    np.testing.assert_allclose(floored(p).high, 3.0)


def test_crossing_intervals_are_empty():
    p, y = regression(rows=50, true_scale=0.01)
    found = CQR(alpha=0.5).fit(p, np.asarray(p.means[0, :, 0]) + 0 * y).predict_interval(p)
    narrow = GaussianPrediction(p.means, 1e-4 * p.variances)
    crossed = CQR(alpha=0.5).fit(p, np.asarray(p.means[0, :, 0])).predict_interval(narrow)
    assert not found.empty.all()
    assert crossed.empty.all()
    assert (crossed.width == 0).all()
    assert not crossed.contains(np.asarray(p.mean)).any()
    assert isinstance(crossed, Intervals)


def test_quantile_coverage_has_its_exact_mean_and_spread():
    """2000 repetitions of 100 calibration and 1000 test scores, all at once."""
    rng = np.random.default_rng(0)
    limits = conformal_quantile(rng.random((100, 2000)), 0.1)
    coverage = np.mean(rng.random((1000, 2000)) <= limits, axis=0)
    distribution = betabinom(1000, 91, 10)
    assert coverage.mean() == pytest.approx(91 / 101, abs=4 * coverage.std() / np.sqrt(2000))
    assert coverage.std() == pytest.approx(distribution.std() / 1000, rel=0.1)
    assert distribution.std() / 1000 == pytest.approx(0.0310, abs=1e-4)


CLASS_METHODS = ["threshold", "aps", "raps"]
INTERVAL_METHODS = ["residual", "normalised", "cqr"]


@pytest.mark.parametrize("method", CLASS_METHODS + INTERVAL_METHODS)
def test_coverage_on_random_splits_follows_its_exact_distribution(method):
    """200 random splits of one pool: the rows covered are beta-binomial(m, k, n + 1 - k).

    Without ties this is exact for splits of any fixed pool (negative hypergeometric). APS and RAPS
    draw new uniform numbers for each half, so their pool is redrawn too: the same distribution.
    """
    rng = np.random.default_rng(1)
    rows = CALIBRATION + TEST
    if method in CLASS_METHODS:
        pool, y = overconfident(rows=rows, classes=5, members=2)
    else:
        pool, y = regression(rows=rows, members=2)
    covered = []
    for split in range(200):
        order = rng.permutation(rows)
        own, new = order[:CALIBRATION], order[CALIBRATION:]
        fitted = conformalise(pool.select(own), y[own], alpha=0.1, method=method, key=split)
        found = fitted(pool.select(new))
        inside = (
            found[np.arange(TEST), y[new]] if method in CLASS_METHODS else found.contains(y[new])
        )
        covered.append(inside.sum())
    distribution = betabinom(TEST, RANK, CALIBRATION + 1 - RANK)
    band = distribution.ppf([1e-6, 1 - 1e-6])
    assert band[0] <= min(covered)
    assert max(covered) <= band[1]
    assert np.mean(covered) == pytest.approx(
        distribution.mean(), abs=4 * distribution.std() / np.sqrt(200)
    )
    jittered = distribution.cdf(np.array(covered) - 1) + rng.random(200) * distribution.pmf(covered)
    assert kstest(jittered, "uniform").pvalue > 1e-4


def test_plain_quantile_would_undercover():
    """The 90th of 100 scores, which others take, covers 0.891 on average: our test can see it."""
    distribution = betabinom(TEST, 90, 11)
    assert distribution.mean() / TEST == pytest.approx(0.8911, abs=1e-4)
    ours = betabinom(TEST, RANK, 10)
    assert ours.mean() - distribution.mean() > 4 * ours.std() / np.sqrt(200) / 2


def test_ties_cover_at_least_the_level():
    rng = np.random.default_rng(2)
    probs = rng.choice([0.2, 0.5, 0.8], 4000)
    y = (rng.random(4000) < probs).astype(int)
    p = ClassPrediction.from_probs(np.stack([1 - probs, probs], axis=-1)[None])
    sets = conformalise(p.select(slice(0, 2000)), y[:2000], alpha=0.25)
    inside = sets.predict_set(p.select(slice(2000, None)))[np.arange(2000), y[2000:]]
    assert inside.mean() > 0.75 - 4 * np.sqrt(0.25 * 0.75 * 2 / 2000)


def test_equal_scores_give_full_sets():
    p = ClassPrediction.from_logits(np.zeros((1, 20, 4)))
    assert conformalise(p, np.arange(20) % 4, alpha=0.1).predict_set(p).all()


def test_too_few_rows_give_everything_and_say_how_many_are_needed():
    p, y = overconfident(rows=8)
    with pytest.warns(CalibrationWarning, match=r"alpha = 0\.1 needs at least 9 calibration rows"):
        sets = conformalise(p, y, alpha=0.1)
    assert sets.predict_set(p).all()
    p, y = regression(rows=18)
    with pytest.warns(CalibrationWarning, match="needs at least 19 calibration rows"):
        low, high = conformalise(p, y, alpha=0.05, method="residual").predict_interval(p)
    assert np.isneginf(low).all()
    assert np.isposinf(high).all()
    p, y = overconfident(rows=9)
    assert np.isfinite(conformalise(p, y, alpha=0.1).quantiles).all()


def test_sets_of_a_population_use_the_mean_probabilities():
    p, y = overconfident(members=5)
    mixture = ClassPrediction.from_probs(np.asarray(p.probs)[None])
    one, many = (conformalise(q, y, alpha=0.2).quantiles for q in (mixture, p))
    np.testing.assert_allclose(one, many, atol=1e-6)


def test_randomised_sets_use_the_key():
    p, y = overconfident()
    sets = conformalise(p, y, method="aps", key=0)
    np.testing.assert_array_equal(sets.predict_set(p), sets.predict_set(p))
    one, two = sets.predict_set(p, key=1), sets.predict_set(p, key=2)
    assert (one != two).any()
    expected = APS().scores(normalised(p), uniforms(1, 300)) <= sets.quantiles
    np.testing.assert_array_equal(one, expected)
    with pytest.raises(InputError, match="key is missing and this score draws a random number"):
        conformalise(p, y, method="aps")
    plain = conformalise(p, y, method="aps", randomised=False)
    assert plain.predict_set(p).any(axis=1).all() or plain.quantiles[0] < 1


def test_nonempty_adds_the_most_probable_class():
    p, y = overconfident(rows=200, classes=3, factor=0.3)
    y = np.asarray(p.label)  # always right: the quantile is small and sets may be empty
    sure = conformalise(p, y, alpha=0.5)
    uncertain = ClassPrediction.from_logits(np.zeros((1, 5, 3)))
    assert not sure.predict_set(uncertain).any()
    kept = conformalise(p, y, alpha=0.5, nonempty=True).predict_set(uncertain)
    assert kept.sum(axis=1).tolist() == [1] * 5
    assert kept[:, 0].all()


def test_every_class_is_covered_by_mondrian_sets():
    """A rare hard class: marginal sets miss it, sets by class do not."""
    rng = np.random.default_rng(3)

    def draw(rows):
        y = (rng.random(rows) < 0.1).astype(int)
        odds = np.where(y == 1, -0.5, -2.0) + rng.standard_normal(rows)
        return ClassPrediction.from_logits(np.stack([0 * odds, odds], axis=-1)[None]), y

    (p, y), (test, truth) = draw(2000), draw(4000)

    def coverage(sets, k):
        own = truth == k
        return sets.predict_set(test)[own, k].mean(), own.sum(), (y == k).sum()

    assert coverage(conformalise(p, y, alpha=0.1), 1)[0] < 0.6
    by_class = conformalise(p, y, alpha=0.1, method="mondrian")
    np.testing.assert_array_equal(by_class.counts, np.bincount(y))
    for k in range(2):
        inside, n, m = coverage(by_class, k)
        assert inside > 0.9 - 4 * np.sqrt(0.09 * (1 / n + 1 / m))
    same = conformalise(p, y, alpha=0.1, groups="class")
    np.testing.assert_array_equal(same.quantiles, by_class.quantiles)


def test_mondrian_names_the_groups_that_are_too_small():
    p, y = overconfident(rows=60)
    y = np.where(np.arange(60) < 55, np.minimum(y, 1), y)
    few = int((y == 2).sum())
    with pytest.warns(CalibrationWarning, match=rf"\(class 2 {few}\)"):
        sets = conformalise(p, y, alpha=0.1, method="mondrian")
    assert sets.predict_set(p)[:, 2].all()
    with pytest.warns(CalibrationWarning, match=r"\(class 2 0\)"):
        absent = conformalise(p, np.minimum(y, 1), alpha=0.1, method="mondrian")
    assert absent.predict_set(p)[:, 2].all()


def test_given_groups_for_sets_and_intervals():
    p, y = overconfident()
    groups = np.arange(300) % 2 * 7
    sets = conformalise(p, y, groups=groups)
    for name, quantile in zip([0, 7], sets.quantiles, strict=True):
        own = groups == name
        alone = conformalise(p.select(own), y[own])
        assert quantile == alone.quantiles[0]
        np.testing.assert_array_equal(
            sets.predict_set(p, groups=groups)[own], alone.predict_set(p.select(own))
        )
    p, y = regression()
    fitted = Mondrian(score="normalised").fit(p, y, groups=groups)
    low, _ = fitted.predict_interval(p, groups=groups)
    alone = Normalised().fit(p.select(groups == 7), y[groups == 7])
    np.testing.assert_allclose(low[groups == 7], alone(p.select(groups == 7)).low)
    with pytest.raises(InputError, match="groups is missing; this calibrator has a quantile"):
        fitted.predict_interval(p)
    with pytest.raises(InputError, match="group 3 was not among the calibration rows"):
        fitted.predict_interval(p, groups=np.full(300, 3))
    with pytest.raises(InputError, match="groups is missing; regression has no classes"):
        Mondrian(score="residual").fit(p, y)


def test_regularised_sets_are_smaller_with_many_classes():
    """The label is near the top of every row's list, though half of the rows have flat tails."""
    rng = np.random.default_rng(4)
    logits = rng.choice([1.0, 4.0], (1500, 1)) * rng.standard_normal((1500, 100))
    place = np.minimum(rng.geometric(0.4, 1500), 100) - 1
    y = np.argsort(-logits, axis=1)[np.arange(1500), place]
    p = ClassPrediction.from_logits(logits[None])
    own, new, third = (p.select(slice(a, a + 500)) for a in (0, 500, 1000))
    sizes = {
        m: conformalise(own, y[:500], method=m, key=0).predict_set(new).sum(axis=1).mean()
        for m in ("aps", "raps")
    }
    assert sizes["raps"] < 0.7 * sizes["aps"]
    tuned = tune_raps(third, y[1000:], alpha=0.1, key=0)
    size = tuned.fit(own, y[:500], key=0).predict_set(new).sum(axis=1).mean()
    assert size < 0.7 * sizes["aps"]
    assert tuned.alpha == 0.1
    assert tuned.free >= 1


def test_cqr_is_valid_for_noise_that_depends_on_the_input():
    rng = np.random.default_rng(5)
    x = rng.random(4000)
    y = (0.1 + 2 * x) * rng.standard_normal(4000)
    # A model with the right shape of the noise and the wrong size.
    p = GaussianPrediction(np.zeros((1, 4000, 1)), (0.05 + x).reshape(1, -1, 1) ** 2)
    fitted = conformalise(p.select(slice(0, 2000)), y[:2000], method="cqr")
    inside = fitted(p.select(slice(2000, None))).contains(y[2000:])
    assert inside.mean() == pytest.approx(0.9, abs=4 * np.sqrt(0.09 * 2 / 2000))
    noisy = x[2000:] > 0.5
    assert inside[noisy].mean() > 0.82


def test_temperature_first_uses_a_separate_half():
    p, y = overconfident(rows=400)
    sets = conformalise(p, y, key=0, temperature=True)
    assert sets.counts.tolist() == [200]
    assert 1.5 < sets.before.temperature < 2.8
    again = conformalise(sets.before(p), y)
    assert abs(again.quantiles[0] - sets.quantiles[0]) < 0.1
    scores = Threshold().scores(normalised(sets.before(p)))
    np.testing.assert_array_equal(sets.predict_set(p), scores <= sets.quantiles)
    with pytest.raises(InputError, match="only predictions of classes have a temperature"):
        conformalise(*regression(), method="residual", temperature=True)


def test_several_targets_have_a_quantile_each():
    p, y = regression(targets=2)
    y[:, 1] *= 5
    fitted = Residual().fit(p, y)
    assert fitted.quantiles.shape == (1, 2)
    found = fitted.predict_interval(p)
    assert found.low.shape == (300, 2)
    alone = GaussianPrediction(p.means[..., 1:], p.variances[..., 1:])
    np.testing.assert_allclose(
        Residual().fit(alone, y[:, 1]).quantiles[0, 0], fitted.quantiles[0, 1]
    )


def test_recalibrated_predictions_are_accepted():
    p, y = regression(rows=400)
    after = QuantileRecalibration().fit(p.select(slice(0, 200)), y[:200])(p)
    rest = slice(200, None)
    fitted = conformalise(after.select(rest), y[rest], method="cqr")
    plain = conformalise(p.select(rest), y[rest], method="cqr")
    assert abs(fitted.quantiles[0, 0]) < 0.5 * abs(plain.quantiles[0, 0])
    assert np.isfinite(fitted(after).low).all()


def test_two_classes_by_one_logit_are_accepted():
    p, y = overconfident(classes=2)
    sets = conformalise(p, y, method="aps", key=1).predict_set(p)
    assert sets.shape == (300, 2)


def test_calibrated_probabilities_make_small_sets():
    logits, y = calibrated(2000, 5, 0)
    p = ClassPrediction.from_logits(logits[None])
    sets = conformalise(p.select(slice(0, 1000)), y[:1000]).predict_set(p)
    assert sets.sum(axis=1).mean() < 4


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, float("nan"), "a"])
def test_alpha_outside_is_one_sentence(alpha):
    p, y = overconfident()
    with pytest.raises(InputError, match=r"alpha is .*between 0 and 1"):
        conformalise(p, y, alpha=alpha)


def test_other_bad_input_is_one_sentence():
    p, y = overconfident()
    with pytest.raises(InputError, match="unknown conformal method 'apps'; did you mean 'aps'"):
        conformalise(p, y, method="apps")
    with pytest.raises(InputError, match="a conformal interval is for regression"):
        conformalise(p, y, method="residual")
    with pytest.raises(InputError, match="a conformal set is for classification"):
        conformalise(*regression(), method="lac")
    with pytest.raises(InputError, match="groups has shape"):
        conformalise(p, y, groups=np.zeros(3, int))
    with pytest.raises(InputError, match="penalty is -1 and free is 1"):
        conformalise(p, y, method="raps", penalty=-1)
    with pytest.raises(InputError, match="floor is 0"):
        Normalised(floor=0)
    sets = conformalise(p, y)
    with pytest.raises(InputError, match="has 4 classes; the conformal calibrator was fitted on 3"):
        sets.predict_set(overconfident(classes=4)[0])
    with pytest.raises(InputError, match="NaN"):
        sets.predict_set(ClassPrediction(np.full((1, 2, 3), np.nan)))
    with pytest.raises(InputError, match="1 rows and 5 penalties"):
        tune_raps(p.select(slice(0, 1)), y[:1], key=0)
