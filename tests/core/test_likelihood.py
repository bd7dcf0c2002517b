import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from credax import networks
from credax.errors import InputError
from credax.likelihood import Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian
from credax.problem import Problem

rng = np.random.default_rng(0)


def test_bernoulli_equals_two_class_categorical(float64):
    logit, y = rng.normal(size=(6, 1)) * 3, np.array([0, 1, 1, 0, 1, 0])
    two = np.concatenate([np.zeros_like(logit), logit], axis=1)
    np.testing.assert_allclose(
        Bernoulli().log_prob(logit, y), Categorical().log_prob(two, y), atol=1e-12
    )
    np.testing.assert_allclose(
        Bernoulli().predict(logit[None]).probs, Categorical().predict(two[None]).probs, atol=1e-12
    )


def test_gaussian_density(float64):
    outputs, y = rng.normal(size=(5, 2)), rng.normal(size=(5, 2))
    expected = scipy.stats.norm(outputs, 0.3).logpdf(y).sum(1)
    np.testing.assert_allclose(Gaussian(0.3).log_prob(outputs, y), expected, atol=1e-10)


def test_heteroscedastic_density(float64):
    outputs, y = rng.normal(size=(5, 4)), rng.normal(size=(5, 2))
    variance = np.logaddexp(0, outputs[:, 2:]) + 1e-6
    expected = scipy.stats.norm(outputs[:, :2], np.sqrt(variance)).logpdf(y).sum(1)
    np.testing.assert_allclose(HeteroscedasticGaussian().log_prob(outputs, y), expected, atol=1e-10)


def test_learned_noise_starts_where_asked_and_lies_outside_the_prior():
    problem = Problem(networks.MLP((3,), outputs=1), Gaussian(initial=0.5), weight_decay=0.1)
    x = jnp.zeros((4, 2))
    variables = problem.init(jax.random.key(0), x)
    outputs, _ = problem.outputs(variables, x)
    prediction = problem.predict(outputs[None])
    np.testing.assert_allclose(prediction.aleatoric, 0.25, rtol=1e-5)
    assert set(variables.params) == {"network", "noise"}
    assert "noise" not in problem.weights(variables.params)


@pytest.mark.parametrize("likelihood", [Gaussian(), HeteroscedasticGaussian()])
def test_no_variance_falls_below_the_floor(likelihood):
    """A network that is never wrong on its rows may not claim a variance of zero."""
    outputs = jnp.array([[0.5, -1e4]])
    assert likelihood.log_prob(outputs, jnp.array([0.5])) < 0.5 * np.log(1e6)
    assert np.isfinite(likelihood.log_prob(outputs, jnp.array([0.51]))).all()
    np.testing.assert_allclose(likelihood.predict(outputs[None]).aleatoric, 1e-6, rtol=1e-5)
    assert Gaussian().noise == "learned"


def test_learned_noise_finds_the_closed_form_maximum():
    # y = N(0, 2²) and a network frozen at zero: the best variance is mean(y²).
    y = jnp.asarray(rng.normal(size=200) * 2, jnp.float32)
    likelihood = Gaussian()
    raw = jnp.float32(0.0)

    def loss(r):
        return -likelihood.log_prob(jnp.stack([jnp.zeros(200), jnp.full(200, r)], 1), y).mean()

    for _ in range(400):
        raw = raw - 1.0 * jax.grad(loss)(raw)
    np.testing.assert_allclose(jax.nn.softplus(raw) + 1e-6, np.mean(np.square(y)), rtol=1e-3)


@pytest.mark.parametrize(
    ("likelihood", "y", "outputs", "words"),
    [
        (Categorical(), np.array([0, 5]), 5, "0 to 4"),
        (Categorical(), np.array([-1, 0]), 5, "0 to 4"),
        (Categorical(), np.array([0.5, 0]), 5, "integers"),
        (Bernoulli(), np.array([0, 1]), 2, "one logit"),
        (Bernoulli(), np.array([0, 2]), 1, "0 to 1"),
        (Gaussian(1.0), np.array([0.0, np.nan]), 1, "row 1"),
        (Gaussian(1.0), np.zeros((2, 2)), 1, r"\[rows, 1\] or \[rows\]"),
        (HeteroscedasticGaussian(), np.zeros(2), 3, "two per target"),
    ],
)
def test_bad_targets_get_one_sentence(likelihood, y, outputs, words):
    with pytest.raises(InputError, match=words):
        likelihood.check(y, outputs)


@pytest.mark.parametrize("noise", [0.0, -1.0])
def test_noise_must_be_positive(noise):
    with pytest.raises(InputError, match="positive"):
        Gaussian(noise)
