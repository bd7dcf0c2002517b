"""Laplace where the truth is known: conjugate regression, logistic regression, quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laplace_cases import (
    exact_line,
    line_data,
    line_network,
    line_problem,
    surround,
    weights_covariance,
)
from scipy.stats import norm

import credax as cx
from credax.methods.laplace.links import nodes, probit, spread_outputs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("float64")]

# Design A is centred, so that bias and slope are independent; design B is not (correlation -0.94).
DESIGNS = {"A": 0.0, "B": 2.0}


def around_line(shift, **options):
    mean, covariance, log_evidence = exact_line(shift)
    options = {"structure": "full", "subset": "all", "prior_precision": 1.0} | options
    posterior = surround(
        line_problem(), [line_network(mean)], line_data(shift), cx.Laplace(**options)
    )
    return posterior, mean, covariance, log_evidence


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(
    "options",
    [
        {"structure": "full"},
        {"structure": "kfac"},
        {"structure": "kfac", "subset": "last_layer"},
        {"structure": "low_rank", "rank": 2},
        {"structure": "full", "subset": "largest", "size": 2},
    ],
    ids=str,
)
def test_conjugate_regression_is_exact(design, options):
    posterior, mean, covariance, log_evidence = around_line(DESIGNS[design], **options)
    np.testing.assert_allclose(weights_covariance(posterior), covariance, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(posterior.log_evidence, [log_evidence], atol=1e-9)
    assert posterior.diagnostics["distance_from_mode"][0] < 1e-9
    x = np.array([[2.0 + DESIGNS[design]]])
    phi = np.array([1.0, x[0, 0]])
    means, covariances = posterior.function_moments(x)
    np.testing.assert_allclose(means[0, 0, 0], phi @ mean, rtol=1e-9)
    np.testing.assert_allclose(covariances[0, 0, 0, 0], phi @ covariance @ phi, rtol=1e-9)
    prediction = posterior.predict(x)
    np.testing.assert_allclose(prediction.mean, [phi @ mean], rtol=1e-9)
    np.testing.assert_allclose(prediction.epistemic, [phi @ covariance @ phi], rtol=1e-9)
    np.testing.assert_allclose(prediction.aleatoric, [0.04], rtol=1e-9)


def test_numbers_worked_out_by_hand():
    posterior, *_ = around_line(2.0)
    prediction = posterior.predict(np.array([[4.0]]))
    np.testing.assert_allclose(posterior.log_evidence, [-3.656955235], atol=1e-9)
    np.testing.assert_allclose(prediction.mean, [2.056669804], atol=1e-9)
    np.testing.assert_allclose(prediction.var, [0.108168451], atol=1e-9)
    np.testing.assert_allclose(around_line(0.0)[0].log_evidence, [-2.149361423], atol=1e-9)


@pytest.mark.parametrize(
    "options", [{"structure": "diagonal"}, {"structure": "kfac", "bias": "separate"}], ids=str
)
def test_what_a_lost_covariance_costs(options):
    """A diagonal, or a bias in a block of its own, gives the mean-field variances."""
    posterior, _, covariance, _ = around_line(0.0, **options)
    np.testing.assert_allclose(weights_covariance(posterior), covariance, rtol=1e-9, atol=1e-12)
    posterior, _, covariance, _ = around_line(2.0, **options)
    found = weights_covariance(posterior)
    np.testing.assert_allclose(found, np.diag([0.007936508, 0.001774623]), atol=1e-9)
    np.testing.assert_allclose(np.diag(found) / np.diag(covariance), 0.119730708, atol=1e-9)
    variance = posterior.function_moments(np.array([[4.0]]))[1][0, 0, 0, 0]
    np.testing.assert_allclose(variance, 0.036330474, atol=1e-9)


@pytest.mark.parametrize(
    ("design", "precision", "log_evidence"),
    [("A", 2.013473, -1.960643), ("B", 0.493473, -3.377507)],
)
def test_evidence_finds_the_prior_precision(design, precision, log_evidence):
    shift, delta = DESIGNS[design], 1.0
    for _ in range(8):  # mode and precision in turn: at a fixed point both are optimal
        network = line_network(exact_line(shift, delta)[0])
        record = cx.Laplace(structure="full", subset="all")
        posterior = surround(line_problem(delta), [network], line_data(shift), record)
        delta = posterior.diagnostics["prior_precision"][0][0]
    np.testing.assert_allclose(delta, precision, atol=1e-6)
    np.testing.assert_allclose(posterior.log_evidence, [log_evidence], atol=1e-6)


@pytest.mark.parametrize(
    ("design", "precision", "variance", "log_evidence"),
    [("A", 1.967040, 0.016031, -1.490626), ("B", 0.475186, 0.016086, -2.915245)],
)
def test_evidence_finds_precision_and_noise(design, precision, variance, log_evidence):
    shift, delta, noise = DESIGNS[design], 1.0, 0.04
    for _ in range(8):
        network = line_network(exact_line(shift, delta, noise)[0])
        record = cx.Laplace(structure="kfac", subset="all", noise="evidence")
        posterior = surround(line_problem(delta), [network], line_data(shift), record)
        delta = posterior.diagnostics["prior_precision"][0][0]
        noise = 0.04 * posterior.diagnostics["noise_factor"][0]
    np.testing.assert_allclose([delta, noise], [precision, variance], atol=2e-6)
    np.testing.assert_allclose(posterior.log_evidence, [log_evidence], atol=1e-6)


def test_a_learned_noise_is_that_of_the_network():
    mean, _, _ = exact_line(2.0)
    problem = cx.Problem(line_problem().network, cx.Gaussian(), prior=cx.GaussianPrior(1.0))
    raw = jnp.asarray([np.log(np.expm1(0.04 - 1e-6))])
    network = line_network(mean)
    network = cx.Variables({"network": network.params, "noise": raw}, {})
    record = cx.Laplace(structure="full", subset="all", prior_precision=1.0)
    posterior = surround(problem, [network], line_data(2.0), record)
    np.testing.assert_allclose(posterior.log_evidence, [-3.656955235], atol=1e-9)
    np.testing.assert_allclose(posterior.predict(np.array([[4.0]])).var, [0.108168451], atol=1e-9)


def logistic(likelihood, **options):
    x = np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0])[:, None]
    y = np.array([0, 0, 1, 0, 1, 1])
    network = cx.FunctionNetwork(lambda key, x: {"w": jnp.ones((1, 1))}, lambda p, x: x @ p["w"])
    problem = cx.Problem(network, likelihood, prior=cx.GaussianPrior(precision=1.0))
    w = 0.760463137
    for _ in range(5):  # Newton, to more digits than are printed
        p = 1 / (1 + np.exp(-x[:, 0] * w))
        w -= (x[:, 0] @ (p - y) + w) / (x[:, 0] ** 2 @ (p * (1 - p)) + 1)
    options = {"structure": "full", "subset": "all", "prior_precision": 1.0} | options
    variables = cx.Variables({"w": jnp.full((1, 1), w)}, {})
    return surround(problem, [variables], cx.Split(x, y), cx.Laplace(**options)), w


def test_logistic_regression():
    posterior, w = logistic(cx.Bernoulli())
    np.testing.assert_allclose(w, 0.760463137, atol=1e-9)
    np.testing.assert_allclose(
        posterior.gaussians[0].blocks[0].matrix + 1, [[2.732078549]], atol=1e-8
    )
    np.testing.assert_allclose(posterior.log_evidence, [-3.756446572], atol=1e-8)
    # The approximation is one: the exact evidence is -3.737028236.
    assert abs(posterior.log_evidence[0] + 3.737028236) > 0.019


@pytest.mark.parametrize(
    ("options", "expected", "atol"),
    [
        ({"link": "probit"}, 0.729397625, 1e-9),
        ({"samples": 2000}, 0.726464148, 2e-4),  # nodes against quadrature
        ({"predictive": "sampled", "samples": 4000}, 0.726464148, 4 * 0.12 / 4000**0.5),
    ],
    ids=str,
)
def test_logistic_predictions(options, expected, atol):
    """Of sampled weights the standard deviation of p is below 0.12: four standard errors."""
    posterior, _ = logistic(cx.Bernoulli(), **options)
    probs = posterior.predict(np.array([[1.5]])).probs
    np.testing.assert_allclose(probs[0, 1], expected, atol=atol)


@pytest.mark.parametrize(
    ("mean", "variance", "exact", "approximate"),
    [
        (1.0, 1.0, 0.696734670, 0.700014441),
        (2.0, 4.0, 0.775200245, 0.776844695),
        (0.5, 9.0, 0.557218222, 0.558434087),
        (-1.0, 2.0, 0.324943298, 0.321170529),
    ],
)
def test_links_against_quadrature(mean, variance, exact, approximate):
    moments = jnp.array([[mean]]), jnp.array([[[variance]]])
    np.testing.assert_allclose(jax.nn.sigmoid(probit(*moments)), [[approximate]], atol=1e-9)
    spread = spread_outputs(*moments, nodes(4000, 1))
    np.testing.assert_allclose(jax.nn.sigmoid(spread).mean(), exact, atol=2e-4)


@pytest.mark.parametrize("structure", ["full", "kfac", "diagonal", "low_rank"])
def test_without_information_the_law_is_the_prior(structure):
    """Noise so large that the rows say nothing: covariance 1/4 for a precision of 4."""
    record = cx.Laplace(structure=structure, subset="all", prior_precision=4.0)
    problem = line_problem(4.0, noise=1e6)
    posterior = surround(problem, [line_network(np.zeros(2))], line_data(2.0), record)
    np.testing.assert_allclose(weights_covariance(posterior), 0.25 * np.eye(2), atol=1e-9)


def test_more_data_never_widens_a_line():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 1))
    last = np.inf
    for rows in (1, 2, 5, 12):
        data = cx.Split(x[:rows], np.zeros((rows, 1)))
        record = cx.Laplace(structure="kfac", subset="all", prior_precision=1.0)
        posterior = surround(line_problem(), [line_network(np.zeros(2))], data, record)
        _, covariance = posterior.function_moments(np.linspace(-3, 3, 7)[:, None])
        variance = np.asarray(covariance)[0, :, 0, 0]
        assert np.all(variance <= last)
        last = variance


def test_nodes_have_the_moments_of_a_gaussian():
    for samples, outputs in ((2, 1), (30, 1), (100, 10), (400, 3)):
        points = nodes(samples, outputs)
        if samples > outputs + 1:
            np.testing.assert_allclose(points.T @ points / samples, np.eye(outputs), atol=1e-12)
        np.testing.assert_allclose(points.mean(0), 0, atol=1e-12)
    # One output: the points are quantiles, near to those of the Gaussian itself.
    np.testing.assert_allclose(nodes(100, 1)[75, 0], norm.ppf(0.755), atol=0.03)
