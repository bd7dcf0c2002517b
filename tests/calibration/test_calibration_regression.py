"""Variance scaling in closed form; quantile recalibration makes levels uniform."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from calibration_cases import regression
from scipy import stats
from scipy.integrate import quad

from credax.calibration import QuantileRecalibration, VarianceScaling
from credax.calibration.gaussian_mixture import mixture_quantiles, partial_moments
from credax.calibration.quantile_recalibration import RecalibratedPrediction, level_map
from credax.errors import InputError
from credax.metrics.regression import rmse
from credax.prediction import GaussianPrediction

pytestmark = pytest.mark.slow


def test_variance_scaling_closed_form():
    p, y = regression(members=3)
    fitted = VarianceScaling().fit(p, y)
    mean, var = np.asarray(p.mean, np.float64), np.asarray(p.var, np.float64)
    assert fitted.scale[0] ** 2 == pytest.approx(np.mean((y - mean) ** 2 / var), rel=1e-5)
    after = fitted(p)
    np.testing.assert_allclose(after.mean, p.mean, atol=1e-6)
    np.testing.assert_allclose(after.var, fitted.scale[0] ** 2 * p.var, rtol=1e-5)
    np.testing.assert_allclose(after.epistemic / after.var, p.epistemic / p.var, rtol=1e-4)
    assert np.mean((y - mean) ** 2 / np.asarray(after.var)) == pytest.approx(1.0, rel=1e-4)


def test_variance_scaling_maximises_the_moment_matched_likelihood():
    p, y = regression(members=3, seed=2)
    scale = float(VarianceScaling().fit(p, y).scale[0])
    mean, std = np.asarray(p.mean, np.float64), np.asarray(p.std, np.float64)
    loss = [
        -stats.norm.logpdf(y, mean, s * std).mean() for s in (scale * 0.98, scale, scale * 1.02)
    ]
    assert loss[1] < min(loss[0], loss[2])


def test_variance_scaling_recovers_a_known_factor():
    """s² is a mean of n chi-squares of one degree: its standard error is s² sqrt(2/n)."""
    p, y = regression(rows=5000, true_scale=1.7)
    squared = VarianceScaling().fit(p, y).scale[0] ** 2
    assert abs(squared - 1.7**2) < 4 * 1.7**2 * np.sqrt(2 / 5000)


def test_variance_scaling_of_the_mixture_and_of_several_targets():
    p, y = regression(members=4, targets=2)
    y[:, 1] *= 3
    fitted = VarianceScaling(apply_to="mixture").fit(p, y)
    assert fitted.scale[1] > 2 * fitted.scale[0]
    after = fitted(p)
    assert after.num_members == 1
    np.testing.assert_allclose(after.var, p.var * fitted.scale**2, rtol=1e-5)
    np.testing.assert_allclose(
        jax.jit(lambda q: fitted(q).variances)(p), after.variances, rtol=1e-6
    )


def test_quantiles_and_partial_moments_of_a_mixture():
    means, variances = np.array([[1.0], [3.0]]), np.array([[0.5], [1.5]])
    found = mixture_quantiles(means, variances, np.array([0.05, 0.5, 0.95]))[:, 0]
    np.testing.assert_allclose(
        found, [0.0597977765110738, np.sqrt(3), 4.569575264016163], atol=1e-12
    )

    def density(t):
        return np.mean(stats.norm.pdf(t, means[:, 0], np.sqrt(variances[:, 0])))

    ends = np.array([[0.3], [2.0], [np.inf], [-np.inf]])
    moments = partial_moments(means, variances, ends)
    for j, end in enumerate([0.3, 2.0, 30.0]):
        for power in range(3):
            area = quad(lambda t, n=power: t**n * density(t), -20, end, epsabs=1e-12)[0]
            assert moments[power, j, 0] == pytest.approx(area, abs=1e-9)
    assert (moments[:, 3] == 0).all()


def test_level_map_goes_through_the_ranks():
    before, after = level_map(np.array([0.4, 0.1, 0.9]))
    assert before.tolist() == [0.0, 0.1, 0.4, 0.9, 1.0]
    assert after.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    before, after = level_map(np.array([0.2, 0.5, 0.5, 0.8]))
    assert before.tolist() == [0.0, 0.2, 0.5, 0.8, 1.0]
    np.testing.assert_allclose(after, [0, 0.2, 0.5, 0.8, 1.0])
    before, after = level_map(np.linspace(0.01, 0.99, 99), knots=5)
    assert len(before) == 7
    np.testing.assert_allclose(after[1:-1], [0.01, 0.255, 0.5, 0.745, 0.99], atol=0.006)


@pytest.mark.parametrize("members", [1, 4])
def test_recalibration_makes_held_out_levels_uniform(members):
    p, y = regression(rows=2000, members=members, true_scale=2.5)
    test, truth = regression(rows=2000, members=members, true_scale=2.5, seed=7)
    assert stats.kstest(np.asarray(test.cdf(truth)), "uniform").pvalue < 1e-6
    after = QuantileRecalibration().fit(p, y)(test)
    assert stats.kstest(np.asarray(after.cdf(truth)), "uniform").statistic < 1.95 * np.sqrt(
        2 / 2000
    )
    for level in (0.5, 0.9):
        low, high = after.interval(level)
        inside = np.mean((low <= truth) & (truth <= high))
        assert abs(inside - level) < 4 * np.sqrt(2 * level * (1 - level) / 2000)
    assert float(after.log_prob(truth).mean()) > float(test.log_prob(truth).mean()) + 0.3


def test_recalibration_of_an_exact_law_is_nearly_the_identity():
    p, y = regression(rows=4000, true_scale=1.0)
    fitted = QuantileRecalibration().fit(p, y)
    assert np.abs(fitted.before[0] - fitted.after[0]).max() < 1.95 / np.sqrt(4000)


@pytest.fixture
def recalibrated(float64):
    """Two rows of two members under a bent map of levels, in double precision."""
    base = GaussianPrediction(
        jnp.array([[[0.0], [1.0]], [[2.0], [-1.0]]]), jnp.array([[[1.0], [0.5]], [[0.3], [2.0]]])
    )
    return RecalibratedPrediction(
        base, (np.array([0, 0.2, 0.7, 1]),), (np.array([0, 0.5, 0.6, 1]),)
    )


def test_recalibrated_distribution_is_consistent(recalibrated):
    """Quantile inverts cdf, the density integrates to it, the moments are those of the density."""
    for level in (0.03, 0.3, 0.55, 0.8, 0.99):
        back = recalibrated.cdf(recalibrated.quantile(level))
        np.testing.assert_allclose(back, level, atol=1e-12)
    for row in range(2):
        one = recalibrated.select(slice(row, row + 1))

        def density(t, one=one):
            return float(np.exp(one.log_prob(np.array([t]))[0]))

        corners = [float(q[0]) for q in (one.quantile(0.5), one.quantile(0.6))]
        settings = {"points": corners, "epsabs": 1e-8, "limit": 60}
        mass = quad(density, -12, float(one.quantile(0.8)[0]), **settings)[0]
        assert mass == pytest.approx(0.8, abs=1e-6)
        mean = quad(lambda t: t * density(t), -12, 12, **settings)[0]
        square = quad(lambda t: t * t * density(t), -12, 12, **settings)[0]
        assert float(one.mean[0]) == pytest.approx(mean, abs=1e-6)
        assert float(one.var[0]) == pytest.approx(square - mean**2, abs=1e-6)


def test_recalibrated_distribution_as_a_mixture(recalibrated):
    mixture = recalibrated.as_mixture(cells=200)
    assert mixture.num_members == 200
    np.testing.assert_allclose(mixture.mean, recalibrated.mean, atol=1e-10)
    np.testing.assert_allclose(mixture.var, recalibrated.var, atol=1e-10)
    grid = np.linspace(-4, 5, 60)
    gaps = [
        np.abs(np.asarray(mixture.cdf(np.full(2, t)) - recalibrated.cdf(np.full(2, t)))).max()
        for t in grid
    ]
    assert max(gaps) < 1 / 200
    assert float(rmse(mixture, np.zeros(2))) == pytest.approx(
        float(jnp.sqrt(jnp.mean(recalibrated.mean**2))), abs=1e-9
    )


def test_recalibrated_samples_follow_the_law(recalibrated):
    draws = np.asarray(recalibrated.sample(0, 2000))
    assert draws.shape == (2000, 2)
    levels = np.stack([np.asarray(recalibrated.cdf(row)) for row in draws[:500]])
    assert stats.kstest(levels[:, 0], "uniform").pvalue > 1e-3
    assert stats.kstest(levels[:, 1], "uniform").pvalue > 1e-3


def test_recalibrated_uncertainty_adds_up(recalibrated):
    np.testing.assert_allclose(
        recalibrated.aleatoric + recalibrated.epistemic, recalibrated.total, rtol=1e-12
    )
    assert (np.asarray(recalibrated.epistemic) > 0).all()
    np.testing.assert_allclose(recalibrated.std**2, recalibrated.var, rtol=1e-12)


def test_recalibration_of_several_targets():
    p, y = regression(rows=60, members=2, targets=2)
    y[:, 1] += 1.0
    after = QuantileRecalibration(knots=None).fit(p, y)(p)
    levels = np.asarray(after.cdf(y))
    assert levels.shape == (60, 2)
    for t in range(2):
        np.testing.assert_allclose(np.sort(levels[:, t]), np.arange(1, 61) / 61, atol=1e-5)
    assert after.mean.shape == after.quantile(0.3).shape == (60, 2)
    assert after.sample(1, 3).shape == (3, 60, 2)
    assert after.log_prob(y).shape == (60,)


def test_targets_far_outside_stay_finite():
    p, y = regression(rows=50)
    y[:3] += 100.0
    after = QuantileRecalibration().fit(p, y)(p)
    assert np.isfinite(np.asarray(after.quantile(0.99))).all()
    assert np.isfinite(np.asarray(after.var)).all()


def test_bad_input_is_one_sentence():
    p, y = regression(rows=20)
    with pytest.raises(InputError, match="knots is 0"):
        QuantileRecalibration(knots=0)
    with pytest.raises(InputError, match="predicted without any error"):
        VarianceScaling().fit(p, p.means[0])
    after = QuantileRecalibration().fit(p, y)(p)
    with pytest.raises(InputError, match=r"level is 1\.0; a quantile level"):
        after.quantile(1.0)
    with pytest.raises(InputError, match="level is 0; an interval's level"):
        after.interval(0)
    with pytest.raises(InputError, match=r"y has shape \(3,\); this prediction needs \(20, 1\)"):
        after.cdf(np.zeros(3))
    with pytest.raises(InputError, match="cells is 0"):
        after.as_mixture(0)
