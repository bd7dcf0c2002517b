"""A likelihood defined outside the library goes through methods, metrics, report and files."""

import json
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import credax as cx
from credax.data import Dataset, Split
from credax.errors import InputError


class ExponentialDistribution(cx.Distribution):
    """What an own likelihood predicts: four things, none of them about credax."""

    rate: jax.Array

    @property
    def mean(self):
        return 1 / self.rate

    @property
    def variance(self):
        return 1 / self.rate**2

    def log_prob(self, y):
        return jnp.where(y >= 0, jnp.log(self.rate) - self.rate * y, -jnp.inf)

    def cdf(self, y):
        return jnp.where(y >= 0, -jnp.expm1(-self.rate * y), 0.0)


class Exponential(cx.Likelihood):
    """Waiting times: ``y ~ Exponential(exp(-output))``; no curvature, so that it is found."""

    task: ClassVar[str] = "regression"
    raw_targets: ClassVar[bool] = True

    def log_prob(self, outputs, y):
        terms = -outputs - jnp.reshape(y, outputs.shape) * jnp.exp(-outputs)
        return jnp.sum(terms, axis=-1)

    def predict(self, outputs):
        return cx.MixturePrediction(ExponentialDistribution(jnp.exp(-outputs)))


def waiting(rows=60):
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (rows, 2)).astype(np.float32)
    y = rng.exponential(np.exp(0.5 + x[:, 0])).astype(np.float32)
    units = cx.Standardise.of(x), cx.Standardise.of(y)  # units of targets are left out
    return Dataset(
        "waiting", Split(x[:40], y[:40], *units), Split(x[40:], y[40:], *units), None, "regression"
    )


def problem(hidden=(8,)):
    network = cx.networks.MLP(hidden, outputs=1)
    return cx.Problem(network, Exponential(), weight_decay=1e-2)


SLOW = pytest.mark.slow
METHODS = [
    cx.DeepEnsemble(members=3),
    cx.Laplace(samples=20),
    pytest.param(cx.FoRDE(members=3), marks=SLOW),
    pytest.param(cx.LIT(members=3), marks=SLOW),
    pytest.param(cx.SVGD(members=3), marks=SLOW),
    pytest.param(cx.FunctionWGD(members=3), marks=SLOW),
    pytest.param(cx.SWAG(samples=3), marks=SLOW),
    pytest.param(cx.SnapshotEnsemble(members=2), marks=SLOW),
    pytest.param(cx.MeanFieldVI(samples=3), marks=SLOW),
    pytest.param(cx.FullCovarianceVI(samples=3), marks=SLOW),
    pytest.param(cx.SGLD(samples=3), marks=SLOW),
    pytest.param(cx.HMC(samples=3, warmup=20, leapfrog_steps=3), marks=SLOW),
    pytest.param(cx.MCDropout(samples=3), marks=SLOW),
    pytest.param(cx.Laplace(structure="full", subset="all", samples=20), marks=SLOW),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_every_family_takes_it(method, tmp_path):
    """Fit, save, load, predict and evaluate; the density of the result is that of its members."""
    data = waiting()
    training = cx.Training(40, 40, learning_rate=0.05, schedule="constant")
    run = tmp_path / "run"
    posterior = cx.fit(
        problem(), method, data, training=training, folder=run, progress=False, key=1
    )
    prediction = posterior.predict(data.test.x)
    assert prediction.density == "continuous"
    rates = 1 / np.asarray(prediction.members, np.float64)
    densities = scipy.stats.expon(scale=1 / rates).pdf(data.test.y)
    np.testing.assert_allclose(
        prediction.log_prob(data.test.y), np.log(densities.mean(0)), rtol=2e-4, atol=2e-4
    )
    values = cx.evaluate(prediction, data.test.y)
    assert {"nll", "crps", "rmse", "coverage_90"} <= set(values)
    assert "moment_matched_nll" not in values
    np.testing.assert_allclose(values["nll"], -np.log(densities.mean(0)).mean(), rtol=1e-4)
    again = cx.open_run(run, problem()).posterior().predict(data.test.x)
    np.testing.assert_array_equal(again.mean, prediction.mean)
    with pytest.raises(InputError, match="only your code can make"):
        cx.open_run(run).posterior()


def test_infinite_width_refuses_it_before_it_solves():
    with pytest.raises(InputError, match="Exponential, which has no form as a squared error"):
        cx.fit(problem(), cx.NTK(), waiting(), progress=False)


def test_crps_of_any_distribution_is_its_closed_form(float64):
    """Exponential: ``y - 2/λ (1 - e^-λy) + 1/(2λ)``."""
    rate, y = 0.7, np.array([0.1, 1.0, 4.0])
    prediction = cx.MixturePrediction(ExponentialDistribution(jnp.full((1, 3, 1), rate)))
    exact = (y - 2 / rate * (1 - np.exp(-rate * y)) + 0.5 / rate).mean()
    # The midpoint rule cuts the tail beyond the level 1 - 1/400.
    np.testing.assert_allclose(cx.metrics.crps(prediction, y), exact, rtol=5e-3)


def test_metrics_that_cannot_be_say_why():
    prediction = cx.MixturePrediction(ExponentialDistribution(jnp.ones((1, 3, 1))))
    with pytest.raises(InputError, match="moment_matched_nll' needs a mixture of Gaussians"):
        cx.evaluate(prediction, np.ones(3), ["moment_matched_nll"])
    quantiles = cx.Quantile().predict(jnp.zeros((1, 3, 3)))
    with pytest.raises(InputError, match="'nll' needs a density, and a QuantilePrediction has no"):
        cx.evaluate(quantiles, np.ones(3), ["nll"])
    with pytest.raises(InputError, match="95% interval, and the QuantilePrediction is known up to"):
        cx.evaluate(quantiles, np.ones(3), ["coverage_95"])
    assert {"rmse", "coverage_90"} <= set(cx.evaluate(quantiles, np.ones(3)))
    counts = cx.Poisson().predict(jnp.zeros((1, 3, 1)))
    with pytest.raises(InputError, match="pit_distance' needs a continuous density"):
        cx.evaluate(counts, np.ones(3), ["pit_distance"])
    assert cx.evaluate(counts, np.array([0, 1, 3]), ["coverage_90"])["coverage_90"] == 1.0


MODULE = """
from test_own_likelihood import problem as make
problem = make()
"""


@pytest.mark.slow
def test_the_command_line_evaluates_reports_and_predicts(tmp_path):
    """A run made in Python: evaluate, report and predict with --problem, from another process."""
    data = waiting()
    training = cx.Training(5, 40, learning_rate=0.05)
    folder = tmp_path / "run"
    cx.fit(problem(), cx.DeepEnsemble(2), data, training=training, folder=folder, progress=False)
    mine = tmp_path / "mine.py"
    mine.write_text(MODULE)
    np.save(tmp_path / "new.npy", data.test.x)
    places = [str(Path(__file__).parent), *sys.path]

    def credax(*words):
        command = [sys.executable, "-m", "credax", *words, "--problem", f"{mine}:problem"]
        done = subprocess.run(
            command, capture_output=True, text=True, env={"PYTHONPATH": ":".join(places)}
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    values = json.loads(credax("evaluate", str(folder), "--stored", "--all", "--json"))
    assert {"nll", "crps", "coverage_90", "interval_score_90"} <= set(values)
    credax("report", str(folder))
    page = (folder / "report.html").read_text()
    assert "90 %" in page
    assert "CRPS" in page
    out = tmp_path / "out.csv"
    credax("predict", str(folder), str(tmp_path / "new.npy"), "--out", str(out))
    head, first, *_ = out.read_text().splitlines()
    numbers = "mean,std,low_90,high_90,total,aleatoric,epistemic"
    assert head == f"row,{numbers},trust,reason"
    assert "nan" not in first


def newton(x, y, precision):
    """The mode of Poisson regression and the inverse of minus the Hessian there."""
    phi = np.concatenate([np.ones((len(x), 1)), x], axis=1)
    theta = np.zeros(phi.shape[1])
    for _ in range(50):
        rate = np.exp(phi @ theta)
        hessian = phi.T @ (rate[:, None] * phi) + precision * np.eye(len(theta))
        theta = theta + np.linalg.solve(hessian, phi.T @ (y - rate) - precision * theta)
    return theta, np.linalg.inv(hessian)


def test_poisson_regression_has_the_mode_and_the_laplace_of_a_log_linear_model(float64):
    """Coefficients to 1e-6 and the covariance to 1e-5 of Newton's, from `fit` alone."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(50, 2))
    y = rng.poisson(np.exp(0.4 + x @ [0.5, -0.3]))
    theta, covariance = newton(x, y, precision=0.5)
    model = cx.Problem(
        cx.networks.MLP((), outputs=1), cx.Poisson(), prior=cx.GaussianPrior(precision=0.5)
    )
    record = cx.Laplace(structure="full", subset="all", prior_precision="problem")
    training = cx.Training(800, 50, learning_rate=0.1, schedule="constant")
    posterior = cx.fit(model, record, (x, y), training=training, progress=False)
    params = posterior.mode(0).params["0_dense"]
    found = np.concatenate([params["bias"], params["kernel"][:, 0]])
    np.testing.assert_allclose(found, theta, atol=1e-6)
    (factor,) = posterior.factors[0]
    root = np.asarray(jax.vmap(factor.draw)(jnp.eye(3)))
    np.testing.assert_allclose(root.T @ root, covariance, atol=1e-5)
    prediction = posterior.predict(x[:3])
    assert prediction.density == "mass"
    phi = np.concatenate([np.ones((3, 1)), x[:3]], axis=1)
    spread = np.einsum("ni,ij,nj->n", phi, covariance, phi)
    # The mean of a rate whose logarithm is Gaussian, by 100 nodes.
    np.testing.assert_allclose(prediction.mean, np.exp(phi @ theta + spread / 2), rtol=2e-3)
