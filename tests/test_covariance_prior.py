"""The inputs' covariance as a prior: against scipy, its special case, and what it is for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import credax as cx
from credax.covariance_prior import input_covariance_prior
from credax.errors import InputError
from credax.prior import GaussianPrior

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
DENSE = {
    "0_dense": {"kernel": jnp.asarray(RNG.normal(size=(4, 3)))},
    "1_dense": {"bias": jnp.ones(2)},
}


def test_density_is_scipys():
    x = RNG.normal(size=(50, 4)) @ np.diag([3.0, 1.0, 0.1, 0.0])
    prior = input_covariance_prior(x, DENSE, 0.05, ridge=0.1)
    moment = x.T @ x / 50
    covariance = (moment / np.mean(np.diag(moment)) + 0.1 * np.eye(4)) / 1.1 / (0.05 * 200)
    kernel = np.asarray(DENSE["0_dense"]["kernel"])
    expected = sum(
        multivariate_normal.logpdf(kernel[:, k], np.zeros(4), covariance) for k in range(3)
    )
    expected += 2 * multivariate_normal.logpdf(1.0, 0.0, 1 / (0.05 * 200))
    assert float(prior.log_prob(DENSE, num_data=200)) == pytest.approx(expected, rel=1e-5)


def test_white_inputs_give_the_isotropic_prior():
    x = np.linalg.qr(RNG.normal(size=(40, 4)))[0] * np.sqrt(40)
    prior, plain = input_covariance_prior(x, DENSE, 0.05), GaussianPrior(weight_decay=0.05)
    for function in ("log_prob", "penalty"):
        ours, theirs = (getattr(p, function)(DENSE, num_data=200) for p in (prior, plain))
        assert float(ours) == pytest.approx(float(theirs), rel=1e-5)


def test_the_penalty_is_minus_the_log_density_over_rows():
    x = RNG.normal(size=(50, 4)) * [3, 1, 0.5, 0.2]
    prior = input_covariance_prior(x, DENSE, 0.05)
    of = lambda f: jax.grad(lambda p: f(p, num_data=200))(DENSE)["0_dense"]["kernel"]  # noqa: E731
    np.testing.assert_allclose(of(prior.penalty), -of(prior.log_prob) / 200, rtol=1e-5)


def test_windows_of_pictures_are_those_a_convolution_sees():
    """The second moment of w * x over all positions is w^T (moment of windows) w."""
    x = RNG.normal(size=(3, 6, 7, 2)).cumsum(axis=1)
    network = cx.networks.Conv(1, padding="VALID", bias=False)
    variables = network.init(jax.random.key(0), x.astype(np.float32))
    prior = input_covariance_prior(x, {"0_conv": variables.params}, 0.1, ridge=0.0)
    outputs = network.apply(variables, jnp.asarray(x, jnp.float32))[0]
    w = np.asarray(variables.params["kernel"]).reshape(-1)
    windows = np.linalg.inv(np.asarray(prior.precision, np.float64))
    scale = np.mean(np.square(np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))))
    assert float(jnp.mean(jnp.square(outputs))) == pytest.approx(w @ windows @ w * scale, rel=1e-3)


def test_a_pixel_that_never_varies_is_left_alone():
    """Weights on a constant zero input end near zero; with weight decay they only shrink slowly."""
    x = RNG.normal(size=(64, 4)).astype(np.float32) * [1, 1, 1, 0]
    problem = lambda **o: cx.Problem(cx.networks.MLP((8,), 2), cx.Categorical(), **o)  # noqa: E731
    params = problem().init(jax.random.key(0), x).params
    training = cx.Training(epochs=60, batch_size=64, learning_rate=0.02, schedule="constant")
    split = cx.data.Split(x.astype(np.float32), (x[:, 0] > 0).astype(int))
    ends = []
    for options in ({"weight_decay": 1e-2}, {"prior": input_covariance_prior(x, params, 1e-2)}):
        posterior = cx.fit(
            problem(**options), cx.Single(), split, training=training, progress=False
        )
        kernel = posterior.variables.params["0_dense"]["kernel"]
        ends.append(float(jnp.abs(kernel[0, 3]).max()))
    assert ends[1] < 0.3 * ends[0]


def test_bad_inputs_say_what_to_do():
    with pytest.raises(InputError, match="3 inputs per row and the first kernel takes 4"):
        input_covariance_prior(np.ones((5, 3)), DENSE, 0.1)
    with pytest.raises(InputError, match="positive ridge"):
        input_covariance_prior(np.ones((5, 4)), DENSE, 0.1, ridge=0.0)
    with pytest.raises(InputError, match="called 'kernel'"):
        input_covariance_prior(np.ones((5, 4)), {"w": jnp.ones((4, 2))}, 0.1)
