"""Counts, heavy tails, quantiles and objectives against scipy, quadrature and their papers."""

import ast
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import credax as cx
from credax import likelihood as kinds
from credax.distributions import (
    NegativeBinomialDistribution,
    PoissonDistribution,
    StudentTDistribution,
)
from credax.errors import InputError
from credax.likelihoods.base import Likelihood
from credax.likelihoods.deviation import rounding_noise

SOURCE = Path(cx.__file__).parent
RNG = np.random.default_rng(5)
COUNTS = np.arange(40.0)


def test_nobody_asks_for_the_class_of_a_likelihood():
    """Everything is asked of the protocol: else a user's own class would not work everywhere."""
    names = {n for n, v in vars(kinds).items() if isinstance(v, type) and issubclass(v, Likelihood)}
    names -= {"Likelihood"}
    assert {"Poisson", "Categorical", "Quantile"} <= names
    found = []
    for path in SOURCE.rglob("*.py"):
        if path.parent.name == "likelihoods":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if called and node.func.id in ("isinstance", "issubclass"):
                inside = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
                inside |= {n.attr for n in ast.walk(node.args[1]) if isinstance(n, ast.Attribute)}
                found += [f"{path.name}:{node.lineno}" for _ in inside & names]
    assert not found


@pytest.mark.parametrize("dispersion", [0.01, 0.5, 3.0])
def test_negative_binomial_is_scipys(float64, dispersion):
    rate = 7.0
    own = NegativeBinomialDistribution(jnp.full(40, rate), jnp.full(40, dispersion))
    r = 1 / dispersion
    truth = scipy.stats.nbinom(r, r / (r + rate))
    np.testing.assert_allclose(own.log_prob(COUNTS), truth.logpmf(COUNTS), rtol=1e-9)
    np.testing.assert_allclose(own.cdf(COUNTS), truth.cdf(COUNTS), rtol=1e-9)
    np.testing.assert_allclose([own.mean[0], own.variance[0]], truth.stats(), rtol=1e-12)
    logs = jnp.full((40, 1), np.log(rate))
    found = cx.NegativeBinomial(dispersion).log_prob(logs, COUNTS)
    np.testing.assert_allclose(found, truth.logpmf(COUNTS), rtol=1e-9)


def test_poisson_is_scipys(float64):
    own, truth = PoissonDistribution(jnp.full(40, 7.0)), scipy.stats.poisson(7.0)
    np.testing.assert_allclose(own.log_prob(COUNTS), truth.logpmf(COUNTS), rtol=1e-12)
    np.testing.assert_allclose(own.cdf(COUNTS + 0.5), truth.cdf(COUNTS), rtol=1e-12)
    assert own.log_prob(jnp.full(40, 2.5))[0] == -np.inf
    assert own.cdf(-jnp.ones(40))[0] == 0
    found = cx.Poisson().log_prob(jnp.full((40, 1), np.log(7.0)), COUNTS)
    np.testing.assert_allclose(found, truth.logpmf(COUNTS), rtol=1e-12)


def test_student_t_is_scipys_in_any_units(float64):
    truth = scipy.stats.t(4.0, loc=1.0, scale=3.0)
    y = np.linspace(-8, 9, 7)[:, None]
    prediction = cx.StudentT(4.0, 1.5).predict(jnp.full((1, 7, 1), 0.25))
    raw = prediction.in_units(jnp.array([0.5]), jnp.array([2.0]))
    np.testing.assert_allclose(raw.log_prob(y), truth.logpdf(y[:, 0]), rtol=1e-10)
    np.testing.assert_allclose(raw.cdf(y), truth.cdf(y[:, 0]), rtol=1e-10)
    for level in (0.001, 0.3, 0.95):
        np.testing.assert_allclose(raw.quantile(level), truth.ppf(level), rtol=1e-9)
    np.testing.assert_allclose(raw.var, truth.var(), rtol=1e-12)


def test_laplace_noise_is_scipys_in_any_units(float64):
    """Variance 0.5 in standard units: b = 0.5, and 1.0 in the targets' own."""
    truth = scipy.stats.laplace(loc=1.0, scale=1.0)
    y = np.linspace(-5, 6, 7)[:, None]
    raw = np.log(np.expm1(0.5 - 1e-6))
    outputs = jnp.broadcast_to(jnp.array([0.25, raw]), (1, 7, 2))
    prediction = cx.LaplaceNoise().predict(outputs).in_units(jnp.array([0.5]), jnp.array([2.0]))
    np.testing.assert_allclose(prediction.log_prob(y), truth.logpdf(y[:, 0]), rtol=1e-10)
    np.testing.assert_allclose(prediction.cdf(y), truth.cdf(y[:, 0]), rtol=1e-10)
    for level in (0.001, 0.3, 0.95):
        np.testing.assert_allclose(prediction.quantile(level), truth.ppf(level), rtol=1e-9)
    np.testing.assert_allclose(prediction.var, truth.var(), rtol=1e-12)
    draws = np.asarray(prediction.sample(jax.random.key(0), 4000))
    # The variance of |y - loc| / b is 1.
    np.testing.assert_allclose(np.abs(draws - 1.0).mean(), 1.0, atol=4 / draws.size**0.5)
    found = cx.LaplaceNoise().log_prob(outputs[0], jnp.linspace(-1, 1, 7))
    exact = scipy.stats.laplace(0.25, 0.5).logpdf(np.linspace(-1, 1, 7))
    np.testing.assert_allclose(found, exact, rtol=1e-9)


def test_curvature_of_laplace_noise_is_the_fisher_information(float64):
    likelihood, outputs = cx.LaplaceNoise(), jnp.array([0.3, -0.4])
    scale = float(jnp.sqrt((jax.nn.softplus(outputs[1]) + 1e-6) / 2))
    truth = scipy.stats.laplace(0.3, scale)
    # Equal steps of probability, off the kink: the average over values is the expectation.
    values = truth.ppf((np.arange(20_000) + 0.5) / 20_000)
    exact = _expected_information(likelihood, outputs, values, np.full(20_000, 1 / 20_000))
    root = likelihood.curvature_root({}, outputs, None)
    np.testing.assert_allclose(root @ root.T, exact, rtol=1e-3, atol=1e-9)


def test_a_mixture_of_counts_has_the_quantiles_of_its_probabilities(float64):
    rates = np.array([1.0, 9.0])
    prediction = cx.MixturePrediction(PoissonDistribution(jnp.asarray(rates)[:, None, None]))
    mass = scipy.stats.poisson(rates[:, None]).pmf(np.arange(60)).mean(0)
    for level in (0.01, 0.3, 0.5, 0.9, 0.999):
        assert prediction.quantile(level)[0] == np.argmax(np.cumsum(mass) >= level)
    np.testing.assert_allclose(prediction.log_prob(np.array([4])), np.log(mass[4]), rtol=1e-12)
    assert prediction.aleatoric[0] == 5
    assert prediction.epistemic[0] == 16
    draws = np.asarray(prediction.sample(jax.random.key(0), 4000))[:, 0]
    np.testing.assert_allclose(
        np.bincount(draws.astype(int), minlength=60)[:60] / 4000, mass, atol=4 * 0.5 / 4000**0.5
    )
    assert (draws == np.round(draws)).all()


def _expected_information(likelihood, outputs, values, mass):
    """``E[s sᵀ]`` of the score ``s``: the Fisher information by its definition."""
    score = jax.vmap(jax.grad(lambda o, y: likelihood.log_prob(o[None], y[None])[0]), (None, 0))
    scores = np.asarray(score(outputs, jnp.asarray(values)))
    return np.einsum("n,ni,nj->ij", mass, scores, scores)


@pytest.mark.parametrize(
    ("likelihood", "truth"),
    [
        (cx.Poisson(), scipy.stats.poisson(np.exp(0.7))),
        (cx.NegativeBinomial(0.4), scipy.stats.nbinom(2.5, 2.5 / (2.5 + np.exp(0.7)))),
    ],
)
def test_curvature_of_counts_is_the_fisher_information(float64, likelihood, truth):
    outputs, counts = jnp.array([0.7]), np.arange(400.0)
    root = likelihood.curvature_root({}, outputs, None)
    exact = _expected_information(likelihood, outputs, counts, truth.pmf(counts))
    np.testing.assert_allclose(root @ root.T, exact, rtol=1e-8)


def test_curvature_of_student_t_is_the_fisher_information(float64):
    likelihood, outputs = cx.StudentT(5.0, 0.7), jnp.array([0.3])
    score = jax.grad(lambda o, y: likelihood.log_prob(o[None], y[None])[0])

    def integrand(y):
        return float(score(outputs, jnp.asarray(y))[0]) ** 2 * scipy.stats.t(5, 0.3, 0.7).pdf(y)

    exact = scipy.integrate.quad(integrand, -20, 20, limit=60, epsabs=1e-7)[0]
    root = likelihood.curvature_root({}, outputs, None)
    np.testing.assert_allclose(float((root @ root.T)[0, 0]), exact, rtol=1e-4)


@pytest.mark.parametrize(
    ("likelihood", "outputs", "y"),
    [
        (cx.Categorical(), np.array([0.3, -1.0, 0.5]), 1),
        (cx.Bernoulli(), np.array([0.3]), 1),
        (cx.Gaussian(0.6), np.array([0.3, 0.1]), np.array([1.0, 2.0])),
        (cx.Poisson(), np.array([0.3, 0.1]), np.array([1.0, 2.0])),
    ],
)
def test_automatic_curvature_is_the_closed_form(float64, likelihood, outputs, y):
    """Where second derivatives do not depend on y both are the same matrix."""
    automatic = Likelihood.curvature_root(likelihood, {}, jnp.asarray(outputs), jnp.asarray(y))
    closed = likelihood.curvature_root({}, jnp.asarray(outputs), None)
    np.testing.assert_allclose(automatic @ automatic.T, closed @ closed.T, atol=1e-12)


def test_automatic_curvature_is_never_negative(float64):
    """The log-density of Student's t is not concave far from its centre."""
    far = Likelihood.curvature_root(cx.StudentT(4.0, 1.0), {}, jnp.zeros(1), jnp.array([5.0]))
    assert float((far @ far.T)[0, 0]) == 0


def test_quantiles_minimise_to_the_quantiles_of_the_data(float64):
    """At the data's own quantiles no other value has a smaller loss."""
    y, likelihood = RNG.exponential(size=999), cx.Quantile((0.05, 0.25, 0.5, 0.95))
    own = np.quantile(y, likelihood.levels, method="inverted_cdf")

    def loss(values):
        return -float(likelihood.log_prob(jnp.broadcast_to(values, (999, 4)), y).mean())

    for level in range(4):
        for move in (-0.01, 0.01):
            assert loss(jnp.asarray(own)) <= loss(jnp.asarray(own).at[level].add(move))


def test_quantiles_cross_nowhere_and_say_nothing_beyond_their_levels():
    prediction = cx.Quantile().predict(jnp.array([[[3.0, 1.0, 2.0]], [[1.0, 2.0, 5.0]]]))
    assert float(prediction.mean[0]) == 2
    assert float(prediction.epistemic[0]) == 0
    np.testing.assert_allclose(prediction.interval(0.9), [[1.0], [4.0]])
    assert float(prediction.quantile(0.275)[0]) == 1.5
    np.testing.assert_allclose(prediction.cdf(np.array([3.0])), 0.725, rtol=1e-6)
    assert float(prediction.cdf(np.array([9.0]))[0]) == pytest.approx(0.975)
    for ask in (lambda: prediction.quantile(0.01), lambda: prediction.interval(0.95)):
        with pytest.raises(InputError, match="levels"):
            ask()
    for ask in (lambda: prediction.log_prob(np.ones(1)), lambda: prediction.sample(None)):
        with pytest.raises(InputError, match="not defined for quantiles"):
            ask()


def test_label_smoothing_and_focal_are_cross_entropy_at_zero_and_their_papers_elsewhere(float64):
    outputs, y = jnp.asarray(RNG.normal(size=(6, 4))), jnp.arange(6) % 4
    plain = cx.Categorical().log_prob(outputs, y)
    p = np.asarray(jax.nn.softmax(outputs))
    target = 0.8 * np.eye(4)[y] + 0.2 / 4
    np.testing.assert_allclose(cx.LabelSmoothing(0.0).log_prob(outputs, y), plain, rtol=1e-12)
    found = cx.LabelSmoothing(0.2).log_prob(outputs, y)
    np.testing.assert_allclose(found, (target * np.log(p)).sum(1), rtol=1e-12)
    own = p[np.arange(6), y]
    np.testing.assert_allclose(cx.Focal(0.0).log_prob(outputs, y), plain, rtol=1e-12)
    found = cx.Focal(1.5).log_prob(outputs, y)
    np.testing.assert_allclose(found, (1 - own) ** 1.5 * np.log(own), rtol=1e-10)
    certain = jax.grad(lambda o: cx.Focal(1.5).log_prob(o, y).sum())(outputs * 1000)
    assert np.isfinite(certain).all()


def test_beta_nll_of_one_moves_the_mean_as_squared_error_does(float64):
    outputs, y = jnp.asarray(RNG.normal(size=(5, 2))), jnp.asarray(RNG.normal(size=5))
    slope = jax.grad(lambda o: cx.BetaNLL(1.0).log_prob(o, y).sum())(outputs)[:, 0]
    np.testing.assert_allclose(slope, y - outputs[:, 0], rtol=1e-9)


def test_the_evidential_losses_are_those_of_their_papers(float64):
    """Dirichlet: the expected squared error by draws and the KL by quadrature of two classes;
    normal-inverse-gamma: the Student density of the paper's equation by the integral over both."""
    outputs, y = jnp.array([[0.5, -0.3]]), jnp.array([0])
    alpha = np.log1p(np.exp(np.asarray(outputs[0]))) + 1
    beta = scipy.stats.beta(*alpha)
    error = beta.expect(lambda p: 2 * (1 - p) ** 2)
    wrong = scipy.stats.beta(1.0, alpha[1])
    kl = wrong.expect(lambda p: wrong.logpdf(p))
    found = cx.EvidentialDirichlet(0.3).log_prob(outputs, y)[0]
    np.testing.assert_allclose(found, -error - 0.3 * kl, rtol=1e-6)
    entropy = beta.expect(lambda p: -p * np.log(p) - (1 - p) * np.log(1 - p))
    prediction = cx.EvidentialDirichlet().predict(outputs[None])
    np.testing.assert_allclose(prediction.aleatoric, entropy, rtol=1e-6)
    np.testing.assert_allclose(prediction.probs[0], alpha / alpha.sum(), rtol=1e-12)
    assert float(prediction.epistemic[0]) > 0.01
    value = cx.metrics.METRICS["mutual_information"](prediction)
    np.testing.assert_allclose(value, prediction.epistemic[0], rtol=1e-6)

    raw = np.array([0.2, 0.4, 1.5, -0.5])
    gamma, nu, a, b = raw[0], *(np.log1p(np.exp(raw[1:])) + 1e-6)
    a = a + 1

    def joint(variance):
        prior = scipy.stats.invgamma(a, scale=b).pdf(variance)
        return prior * scipy.stats.norm(gamma, np.sqrt(variance * (1 + 1 / nu))).pdf(1.3)

    density = scipy.integrate.quad(joint, 0, np.inf)[0]
    penalty = abs(1.3 - gamma) * (2 * nu + a)
    found = cx.EvidentialNormal(0.02).log_prob(jnp.asarray(raw)[None], jnp.array([1.3]))[0]
    np.testing.assert_allclose(found, np.log(density) - 0.02 * penalty, rtol=1e-6)
    prediction = cx.EvidentialNormal().predict(jnp.asarray(raw)[None, None])
    np.testing.assert_allclose(prediction.aleatoric, b / (a - 1), rtol=1e-9)
    np.testing.assert_allclose(prediction.epistemic, b / (nu * (a - 1)), rtol=1e-9)
    np.testing.assert_allclose(prediction.total, b * (1 + nu) / (nu * (a - 1)), rtol=1e-9)


@pytest.mark.usefixtures("float64")
def test_a_softplus_of_the_deviation():
    outputs = jnp.array([[0.3, -2.0], [-1.0, 0.5]])
    y = jnp.array([0.1, 0.4])
    likelihood = cx.DeviationGaussian()
    deviation = np.sqrt(np.log1p(np.exp([-2.0, 0.5])) ** 2 + 1e-6)
    expected = scipy.stats.norm([0.3, -1.0], deviation).logpdf([0.1, 0.4])
    np.testing.assert_allclose(likelihood.log_prob(outputs, y), expected, rtol=1e-9)
    np.testing.assert_allclose(
        jnp.ravel(likelihood.predict(outputs[None]).aleatoric), deviation**2, rtol=1e-9
    )
    # The Fisher information of a Gaussian with moments m, v: m' / v and v'² / 2 v².
    root = likelihood.curvature_root({}, outputs[0], y[0])
    slope = jax.grad(lambda raw: likelihood.moments(jnp.array([0.3, raw]))[1][0])(-2.0)
    np.testing.assert_allclose(
        np.diag(root) ** 2, [1 / deviation[0] ** 2, slope**2 / (2 * deviation[0] ** 4)], rtol=1e-9
    )
    np.testing.assert_allclose(
        likelihood.moments(jnp.asarray(likelihood.from_regressed(np.zeros((2, 1)), 0.25)))[1],
        0.0625,
        rtol=1e-9,
    )
    floored = likelihood.moments(likelihood.with_floor(outputs, 0.1))[1][:, 0]
    np.testing.assert_allclose(
        floored, (0.1 + 0.9 * np.log1p(np.exp([-2.0, 0.5]))) ** 2 + 1e-6, rtol=1e-9
    )


def test_rounded_targets_have_noise():
    rng = np.random.default_rng(0)
    grades = rng.integers(3, 9, 200)
    assert rounding_noise(grades) == pytest.approx(1 / np.sqrt(12))
    assert rounding_noise(np.round(rng.normal(size=500), 1)) == pytest.approx(0.1 / np.sqrt(12))
    assert rounding_noise(rng.normal(size=200)) == 0
    assert rounding_noise(np.repeat([0.0, 1.0, np.pi], 9)) == 0
    assert rounding_noise(np.ones(9)) == 0
    wide = cx.DeviationGaussian(floor=0.25)
    assert float(wide.moments(jnp.array([[0.0, -30.0]]))[1][0, 0]) == pytest.approx(0.0625)
    assert wide.with_least_noise(0.5).floor == 0.5
    assert wide.with_least_noise(0.1).floor == 0.25
    assert cx.Gaussian().with_least_noise(0.5) == cx.Gaussian()
    with pytest.raises(InputError, match="floor is 0; give a standard deviation between 0 and 1"):
        cx.DeviationGaussian(floor=0)


OBJECTIVES = [
    cx.LabelSmoothing(),
    cx.Focal(),
    cx.EvidentialDirichlet(),
    cx.BetaNLL(),
    cx.Quantile(),
    cx.EvidentialNormal(),
]


@pytest.mark.parametrize("likelihood", OBJECTIVES, ids=lambda k: type(k).__name__)
def test_methods_that_need_a_posterior_refuse_objectives(likelihood):
    x = np.ones((4, 2), np.float32)
    y = np.array([0, 1, 0, 1]) if likelihood.task == "classification" else x[:, 0]
    targets = 2 if likelihood.task == "classification" else 1
    network = cx.networks.MLP((), outputs=likelihood.num_outputs(targets))
    problem = cx.Problem(network, likelihood, weight_decay=1e-3)
    for method in (cx.Laplace(), cx.SGLD(samples=1), cx.HMC(samples=1), cx.MeanFieldVI()):
        with pytest.raises(InputError, match=f"{type(likelihood).__name__}, which defines no post"):
            cx.fit(problem, method, (x, y), training=cx.Training(9, 4), progress=False)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: cx.StudentT(2.0), "degrees is 2.0"),
        (lambda: cx.NegativeBinomial(1e-5), "use Poisson"),
        (lambda: cx.NegativeBinomial("lerned"), "'lerned'"),
        (lambda: cx.Quantile((0.5, 0.1)), "rising"),
        (lambda: cx.Quantile((0.1, 0.9)), "at most 0.05"),
        (lambda: cx.LabelSmoothing(1.0), "smoothing is 1.0"),
        (lambda: cx.Focal(-1.0), "gamma is -1.0"),
        (lambda: cx.BetaNLL(2.0), "beta is 2.0"),
        (lambda: cx.EvidentialNormal(float("nan")), "weight is nan"),
        (lambda: cx.Poisson().check(np.array([1.0, 2.5]), 1), "row 1"),
        (lambda: cx.Poisson().check(np.array([1, -2]), 1), "row 1"),
        (lambda: cx.Quantile().check(np.ones(3), 4), "three per target"),
        (
            lambda: cx.Problem(
                cx.networks.MLP((), outputs=1), cx.Poisson(), targets=cx.Standardise(0.0, 1.0)
            ),
            "leave targets out",
        ),
        (lambda: cx.Problem(cx.networks.MLP((), outputs=1), "poisson"), "credax.Likelihood"),
    ],
)
def test_mistakes_get_one_sentence(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_a_distribution_may_say_how_it_is_drawn_by_its_quantiles():
    """The default draw is the quantile at a uniform level."""
    own = StudentTDistribution(*(jnp.full((3000, 1), v) for v in (1.0, 2.0, 5.0)))
    draws = np.asarray(cx.Distribution.sample(own, jax.random.key(1)))[:, 0]
    distance = scipy.stats.kstest(draws, scipy.stats.t(5, 1, 2).cdf).statistic
    assert distance < 1.63 / 3000**0.5
