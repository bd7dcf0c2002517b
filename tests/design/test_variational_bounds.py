"""Bounds by variational families: their sides, and their gaps against closed forms."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest
from design_models import linear

from credax import design
from credax.design.guides import (
    ConditionalGaussian,
    Features,
    GaussianMarginal,
    GaussianPosterior,
    GuideTraining,
)

EXACT = 0.5 * math.log(10)
QUICK = GuideTraining(steps=400)
ESTIMATORS = {
    "posterior": (design.posterior_bound, {}),
    "marginal": (design.marginal, {}),
    "vnmc": (design.vnmc, {"inner": 10}),
    "ace": (design.ace, {"inner": 10}),
}


def posterior(variance: float, slope: float = 0.3) -> GaussianPosterior:
    """``q(θ|y) = N(slope y, variance)``; the posterior of ``y = 3 θ + ε`` is ``N(0.3 y, 0.1)``."""
    family = ConditionalGaussian(
        jnp.array([[slope, 0.0]]),
        jnp.zeros(1),
        jnp.zeros((1, 2)),
        jnp.array([0.5 * math.log(variance)]),
    )
    units = Features(None, jnp.zeros(1), jnp.ones(1))
    return GaussianPosterior(units, family, jnp.zeros(()))


def marginal(variance: float) -> GaussianMarginal:
    log_std = jnp.array([0.5 * math.log(variance)])
    return GaussianMarginal(
        ConditionalGaussian(jnp.zeros((1, 0)), jnp.zeros(1), jnp.zeros((1, 0)), log_std)
    )


def test_the_gap_of_a_posterior_too_wide():
    """Variance 0.2 instead of 0.1 loses E KL = (log 2 - 1 + 1/2) / 2 = 0.0965736."""
    tight, wide = (
        design.posterior_bound(linear(), [3.0], guides=posterior(v), outer=100_000)
        for v in (0.1, 0.2)
    )
    assert abs(tight.lower[0] - EXACT) < 4 * tight.standard_error[0]
    # The same draws: the difference has the error of (θ - 0.3 y)²/v alone, 2.5 sqrt(2)/ 1000.
    assert tight.lower[0] - wide.lower[0] == pytest.approx(0.0965736, abs=4 * 0.25 * 2**0.5 / 316)
    assert (tight.upper == np.inf).all()


def test_the_gap_of_a_marginal_too_wide():
    """Variance 12 instead of 10 gains KL = (log 1.2 + 10/12 - 1) / 2 = 0.0078274."""
    tight, wide = (
        design.marginal(linear(), [3.0], guides=marginal(v), outer=100_000) for v in (10.0, 12.0)
    )
    # The difference is log 1.2 / 2 - y² (1/10 - 1/12) / 2, with y²/10 chi-squared.
    error = 10 * (1 / 10 - 1 / 12) / 2 * math.sqrt(2 / 100_000)
    assert wide.upper[0] - tight.upper[0] == pytest.approx(0.0078274, abs=4 * error)
    assert abs(tight.upper[0] - EXACT) < 4 * tight.standard_error[0]


def test_a_guide_that_is_the_prior_says_nothing():
    found = design.posterior_bound(linear(), [3.0], guides=posterior(1.0, 0.0), outer=1000)
    np.testing.assert_allclose(found.lower, 0, atol=1e-6)


@pytest.mark.parametrize("estimator", [design.vnmc, design.ace])
def test_the_true_posterior_needs_one_contrastive_draw(estimator):
    """All ratios are the evidence: what is left is the error of E log p(y|θ) - log p(y)."""
    found = estimator(linear(), [3.0], guides=posterior(0.1), inner=1, outer=20_000)
    assert abs(found.value[0] - EXACT) < 4 * found.standard_error[0]
    # sd of log p(y|θ) - log p(y) is 0.949.
    assert found.standard_error[0] == pytest.approx(0.949 / math.sqrt(20_000), rel=0.05)


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_sides_of_trained_guides(name):
    """At three lengths: a lower bound is below, an upper one above, within 3 standard errors."""
    model = design.working_memory()
    estimator, options = ESTIMATORS[name]
    exact = design.exact(model, [3.0, 7.0, 10.0]).exact
    found = estimator(model, [3.0, 7.0, 10.0], training=QUICK, outer=20_000, **options)
    error = 3 * found.standard_error
    assert (found.lower <= exact + error).all()
    assert (exact <= found.upper + error).all()
    np.testing.assert_allclose(found.value, exact, atol=0.02)


def test_an_estimate_without_densities_is_no_bound():
    found = design.marginal_likelihood_free(linear(), [3.0], training=QUICK)
    assert (found.lower == -np.inf).all()
    assert (found.upper == np.inf).all()
    assert abs(found.value[0] - EXACT) < 0.05


@pytest.mark.parametrize(("estimator", "side"), [(design.vnmc, 1), (design.ace, -1)])
def test_guides_that_draw_what_the_prior_excludes(estimator, side):
    """A Gaussian guide of a positive rate: still a bound of 1.355833, within 3 standard errors."""
    death = design.models.get("death-process")
    found = estimator(death, [1.3], training=GuideTraining(steps=200), outer=4000, inner=10)
    assert side * (found.value[0] - 1.355833) > -3 * found.standard_error[0]
    assert found.value[0] == pytest.approx(1.355833, abs=0.2)


def test_a_density_that_is_no_number_is_refused(refused):
    model = dataclasses.replace(
        linear(), outcome_log_prob=lambda y, t, xi: jnp.log(jnp.where(t > -1, 0.5, jnp.nan))
    )
    refused(lambda: design.marginal(model, [1.0], training=QUICK, outer=200), "not finite at")


def test_bad_numbers(refused):
    refused(lambda: design.vnmc(linear(), [1.0], inner=0), "inner is 0")
    refused(lambda: design.marginal(linear(), [1.0], outer=1), "outer is 1")
    refused(lambda: GuideTraining(steps=0), "steps is 0")
