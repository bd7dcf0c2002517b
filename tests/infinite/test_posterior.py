"""The infinite ensemble as a posterior: moments, units, likelihoods, what is refused."""

import numpy as np
import pytest

import credax as cx
from credax.data import Split

TRAINING = cx.Training(epochs=1, batch_size=8)


def fitted(method, likelihood, y, outputs, targets=None):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((24, 2)).astype(np.float32)
    split = Split(x, y(x), None, targets)
    problem = cx.Problem(cx.networks.MLP((8,), outputs=outputs), likelihood)
    return cx.fit(problem, method, split, key=0, training=TRAINING, progress=False), x


@pytest.mark.parametrize("method", [cx.NTK(members=3), cx.NNGP(members=3), cx.NTK(time=2.0)])
def test_moments_equal_the_dynamics(method):
    posterior, _ = fitted(method, cx.Categorical(), lambda x: (x[:, 0] > 0).astype(int), 2)
    points = np.random.default_rng(1).standard_normal((5, 2))
    mean, variance = posterior.moments(points)
    dynamics = posterior.dynamics
    np.testing.assert_allclose(mean, dynamics.mean(points, posterior.time), atol=1e-10)
    np.testing.assert_allclose(variance, dynamics.variance(points, posterior.time), atol=1e-10)
    logits = mean + np.sqrt(variance)[:, None] * posterior.noise[:, None]
    expected = cx.ClassPrediction.from_logits(posterior.scale * logits).log_probs
    np.testing.assert_allclose(posterior.predict(points).log_probs, expected, atol=2e-5)


def test_regression_comes_back_in_raw_units():
    units = cx.Standardise(100.0, 5.0)
    truth = lambda x: (100 + 5 * x[:, 0]).astype(np.float32)  # noqa: E731
    for likelihood, outputs in ((cx.HeteroscedasticGaussian(), 2), (cx.Gaussian(), 1)):
        posterior, x = fitted(cx.NTK(members=8), likelihood, truth, outputs, units)
        prediction = posterior.predict(x)
        assert np.sqrt(np.mean((prediction.mean - truth(x)) ** 2)) < 1.0
        noise = np.sqrt(np.asarray(prediction.aleatoric))
        np.testing.assert_allclose(noise, 5 * posterior.scale, rtol=1e-3)


def test_two_classes_by_one_logit():
    posterior, x = fitted(cx.NNGP(), cx.Bernoulli(), lambda x: (x[:, 0] > 0).astype(int), 1)
    assert (np.asarray(posterior.predict(x).label) == (x[:, 0] > 0)).mean() > 0.9


def test_leave_one_out_equals_leaving_out():
    posterior, _ = fitted(cx.NTK(), cx.Categorical(), lambda x: (x[:, 0] > 0).astype(int), 2)
    from credax.infinite.posterior import leave_one_out

    dynamics = posterior.dynamics
    found = leave_one_out(dynamics)[3]
    rest = np.arange(24) != 3
    gram = dynamics.driving + dynamics.ridge * np.eye(24)
    weights = np.linalg.solve(gram[np.ix_(rest, rest)], dynamics.y[rest])
    np.testing.assert_allclose(found, gram[3, rest] @ weights, atol=1e-10)


def test_too_many_rows_are_refused():
    with pytest.raises(cx.InputError, match="most_rows"):
        fitted(cx.NTK(most_rows=10), cx.Categorical(), lambda x: (x[:, 0] > 0).astype(int), 2)
    with pytest.raises(cx.InputError, match="activation"):
        cx.NTK(activation="tanh")  # type: ignore[arg-type]
