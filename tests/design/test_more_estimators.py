"""Critics, ratios, Laplace, utilities and posteriors as models, against closed forms."""

import contextlib
import dataclasses
import logging
import math
import statistics

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from design_models import coin, linear
from scipy.special import expit

import credax as cx
from credax import design
from credax.active.acquisition import bald
from credax.design.guides import GuideTraining
from credax.posterior import population
from credax.prediction import GaussianPrediction

EXACT = 0.5 * math.log(10)
MEMORY = design.working_memory()
QUICK = GuideTraining(steps=400, batch=128, learning_rate=0.01)


@pytest.mark.parametrize("estimator", [design.info_nce, design.donsker_varadhan])
def test_critics_are_below_and_near(estimator):
    """Within 3 standard errors of a lower bound, and a trained critic loses little."""
    found = estimator(linear(), [3.0], training=QUICK, outer=4000, inner=500)
    assert found.lower[0] <= EXACT + 3 * found.standard_error[0]
    assert found.lower[0] > EXACT - 0.15
    assert (found.upper == np.inf).all()


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class TrueCritic:
    """``log p(y|θ)`` of ``y = 3 θ + ε`` up to what does not depend on ``θ``."""

    def pairs(self, theta, y):
        return -0.5 * jnp.square(y[None] - 3 * theta[:, None])


def test_the_true_critic_makes_contrastive_bounds_equal():
    """InfoNCE with the log-density as critic is prior contrastive estimation: 0.9735 at L = 10."""
    found = design.info_nce(linear(), [3.0], guides=TrueCritic(), inner=10, outer=20_000)
    assert abs(found.lower[0] - 0.9735) < 4 * math.hypot(found.standard_error[0], 0.0003)
    assert found.ceiling == pytest.approx(math.log(11))


def test_donsker_varadhan_of_a_critic_with_a_closed_form():
    """``T = a θ y`` for jointly Gaussian ``θ, y``: ``a E[θy] + ½ log(1 - a² Var y)``."""

    @jax.tree_util.register_static
    @dataclasses.dataclass(frozen=True)
    class Product:
        def pairs(self, theta, y):
            return 0.1 * theta[:, None] * y[None]

    found = design.donsker_varadhan(linear(), [3.0], guides=Product(), inner=500, outer=20_000)
    exact = 0.1 * 3 + 0.5 * math.log(1 - 0.01 * 10)
    assert abs(found.lower[0] - exact) < 4 * found.standard_error[0]


@pytest.mark.parametrize(
    ("model", "xi", "exact"), [(linear(), 3.0, EXACT), (MEMORY, 7.0, 0.231138)]
)
def test_ratios_by_logistic_regression(model, xi, exact):
    """Quadratic features hold the ratio of Gaussians, indicators that of listed outcomes.

    500 outcomes of either class leave a bias of about features/samples beside the error.
    """
    found = design.lfire(model, [xi], outer=400, samples=500)
    assert abs(found.value[0] - exact) < 4 * found.standard_error[0] + 0.02
    assert (found.lower == -np.inf).all()
    assert (found.upper == np.inf).all()


def test_laplace_is_exact_for_a_linear_gaussian_model():
    """With the prior's entropy known the estimate has no error at all."""
    entropy = 0.5 * math.log(2 * math.pi * math.e)
    model = dataclasses.replace(linear(), prior_entropy=entropy)
    found = design.laplace(model, [1.0, 3.0], outer=8)
    np.testing.assert_allclose(found.value, [0.5 * math.log(2), EXACT], atol=1e-6)
    assert found.notes == ()
    np.testing.assert_allclose(found.standard_error, 0, atol=1e-7)


def test_a_prior_without_entropy_is_sampled_and_the_result_says_so():
    found = design.laplace(linear(), [3.0], outer=400)
    assert "estimated from 400 draws" in found.notes[0]
    assert 0.02 < found.standard_error[0] < 0.06
    assert abs(found.value[0] - EXACT) < 4 * found.standard_error[0]


def test_laplace_of_working_memory_against_its_own_quadrature():
    """Modes and curvatures of both posteriors by a fine grid, weighted by the exact marginal."""
    theta, length = np.linspace(-15, 30, 2_000_001), 5.0
    prior = -0.5 * ((theta - 7) / 2) ** 2
    chance, entropies = 0.775200, []
    for sign in (1, -1):
        joint = prior - np.log1p(np.exp(-sign * (theta - length)))
        mode = theta[np.argmax(joint)]
        p = expit(mode - length)
        entropies.append(0.5 * math.log(2 * math.pi * math.e / (0.25 + p * (1 - p))))
    known = dataclasses.replace(MEMORY, prior_entropy=0.5 * math.log(2 * math.pi * math.e * 4))
    found = design.laplace(known, [length], outer=4000)
    exact = known.prior_entropy - chance * entropies[0] - (1 - chance) * entropies[1]
    assert abs(found.value[0] - exact) < 4 * found.standard_error[0] + 1e-5


def test_other_parameters_have_the_same_information():
    """The logarithm of θ: exact values agree, and the new prior has the mass of the old one."""
    death = design.models.get("death-process")
    other = design.change_of_variables(death, jnp.exp, jnp.log)
    one, two = (design.exact(m, [0.5, 2.0]).exact for m in (death, other))
    np.testing.assert_allclose(one, two, rtol=1e-9)
    grid = jnp.linspace(math.log(0.5), math.log(2), 2001)
    mass = np.trapezoid(np.exp(jax.vmap(other.prior_log_prob)(grid)), grid)
    # P(0.5 < θ < 2) of a normal around 1 that is cut off below 0.
    normal = statistics.NormalDist(1, 1)
    exact = (normal.cdf(2) - normal.cdf(0.5)) / (1 - normal.cdf(0))
    assert mass == pytest.approx(exact, abs=1e-5)


def test_laplace_of_a_bounded_parameter_uses_its_logarithm():
    """No bound: within 0.1 of the exact 1.3558, which is what a Gaussian in log θ costs."""
    death = design.models.get("death-process")
    found = design.laplace(design.change_of_variables(death, jnp.exp, jnp.log), [1.3], outer=2000)
    assert found.value[0] == pytest.approx(1.3558, abs=0.1 + 4 * found.standard_error[0])


def test_expected_utility_of_a_known_parameter():
    """``E[y]`` at five digits is 0.775200."""
    found = design.expected_utility(MEMORY, [5.0], lambda theta, xi, y: y, outer=20_000)
    assert abs(found.value[0] - 0.775200) < 4 * found.standard_error[0]
    assert found.standard_error[0] == pytest.approx(math.sqrt(0.7752 * 0.2248 / 20_000), rel=0.05)


def test_decisions_after_the_outcome():
    """Guess θ of ``y = 3 θ + ε``: the best guess leaves the posterior variance, 0.1.

    The grid of guesses adds at most its spacing squared over 12; 1000 weighted draws stand for the
    posterior.
    """
    guesses = np.linspace(-4, 4, 161)
    loss = lambda theta, xi, y, guess: -jnp.square(theta - guess)  # noqa: E731
    found = design.expected_utility(
        linear(), [0.0, 3.0], loss, decisions=guesses, outer=1000, inner=2000
    )
    np.testing.assert_allclose(found.value, [-1.0, -0.1], rtol=0.08)
    assert found.best() == 1


def test_a_recommendation_by_utility():
    chosen = design.recommend(MEMORY, utility=lambda theta, xi, y: y * xi, outer=4000)
    lengths = MEMORY.designs
    means = np.array([0.985802, 0.967752, 0.932332, 0.870406, 0.775200, 0.647726, 0.5])
    assert chosen.position == np.argmax(lengths[:7] * means)


@pytest.mark.parametrize(
    ("utility", "words"),
    [
        (lambda theta: theta, "write it as utility"),
        (lambda theta, xi, y: jnp.ones(2), r"shape \(2,\)"),
        (lambda theta, xi, y: jnp.inf, "not finite at design"),
    ],
)
def test_utilities_that_are_refused(refused, utility, words):
    refused(lambda: design.expected_utility(linear(), [1.0], utility, outer=4), words)


def members(likelihood, outputs, count=4):
    problem = cx.Problem(cx.networks.MLP((5,), outputs=outputs), likelihood)
    x = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    keys = jax.random.split(jax.random.key(0), count)
    variables = jax.vmap(lambda key: problem.init(key, x))(keys)
    variables = jax.tree.map(lambda leaf: 3 * leaf, variables)
    return population(problem, variables, x), x


def test_information_of_a_population_is_bald():
    posterior, x = members(cx.Categorical(), 3)
    model = design.posterior_model(posterior, x)
    found = design.exact(model, model.designs)
    np.testing.assert_allclose(found.exact, bald(posterior.predict(x)), atol=1e-6)
    assert design.recommend(model).position == int(np.argmax(bald(posterior.predict(x))))


def test_information_of_a_regression_is_bald_of_the_mixture():
    """Continuous labels: the mixture's entropy by quadrature, within 4 standard errors."""
    posterior, x = members(cx.HeteroscedasticGaussian(), 2)
    found = design.expected_information(design.posterior_model(posterior, x), x[:2], outer=20_000)
    prediction = posterior.predict(x[:2])
    assert isinstance(prediction, GaussianPrediction)
    exact = np.asarray(bald(prediction, quadrature=True))
    assert (abs(found.value - exact) < 4 * found.standard_error + 1e-5).all()


def test_posteriors_that_are_no_models(refused):
    posterior, x = members(cx.Categorical(), 3, count=1)
    refused(lambda: design.posterior_model(posterior), "has 1 member")
    posterior, x = members(cx.Categorical(), 3)
    refused(lambda: design.posterior_model(posterior, x[:, :2]), r"inputs has shape \(6, 2\)")


def test_contrastive_draws_in_chunks_are_the_same_draws():
    """Other chunks: the same numbers to rounding, for outcomes drawn and listed."""
    for model, xi in ((linear(), 3.0), (coin(), 0.5)):
        one, other = (
            design.nested(model, [xi], outer=64, inner=50, chunk=chunk) for chunk in (50, 7)
        )
        np.testing.assert_allclose(one.lower, other.lower, rtol=1e-4)
        np.testing.assert_allclose(one.upper, other.upper, rtol=1e-4)


def test_bad_numbers(refused):
    refused(lambda: design.info_nce(linear(), [1.0], inner=0), "inner is 0")
    refused(lambda: design.donsker_varadhan(linear(), [1.0], inner=0), "inner is 0")
    refused(lambda: design.lfire(linear(), [1.0], penalty=0.0), "penalty is 0.0")
    refused(lambda: design.laplace(linear(), [1.0], outer=1), "outer is 1")
    refused(lambda: design.expected_utility(linear(), [1.0], lambda t, xi, y: t, outer=1), "outer")
    refused(lambda: design.nested(linear(), [1.0], chunk=0), "chunk is 0")


@pytest.mark.parametrize("estimator", [design.vnmc, design.ace, design.info_nce])
def test_a_second_call_compiles_nothing(estimator):
    """Programs are found by the identity of what is fixed in them."""
    model, options = linear(), {"training": GuideTraining(steps=2, batch=8), "outer": 8, "inner": 2}
    estimator(model, [1.0], **options)
    with jax.log_compiles(), warnings_of_compiling() as said:
        estimator(model, [1.0], key=1, **options)
    assert not [line for line in said if "_terms_at" in line or "_train" in line]


@contextlib.contextmanager
def warnings_of_compiling():
    """What jax says while it compiles."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("jax")
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
