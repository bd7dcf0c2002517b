import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from credax import networks
from credax.errors import InputError
from credax.likelihood import Categorical, Gaussian
from credax.network import FunctionNetwork, Variables
from credax.prior import GaussianPrior, ScaleMixturePrior
from credax.problem import Batch, Problem
from credax.standardise import Standardise

LINE = FunctionNetwork(lambda key, x: {"w": jnp.zeros((x.shape[-1], 1))}, lambda p, x: x @ p["w"])
X = np.array([[1, -1], [1, -0.5], [1, 0], [1, 0.5], [1, 1]])
Y = np.array([-0.9, -0.2, 0.1, 0.8, 1.1])


def test_weight_decay_is_a_precision_through_the_number_of_data(float64):
    params = {"a": jnp.arange(3.0), "b": jnp.ones((2, 2))}
    by_decay, by_precision = GaussianPrior(weight_decay=0.02), GaussianPrior(precision=2.0)
    for name in ("log_prob", "penalty"):
        np.testing.assert_allclose(
            getattr(by_decay, name)(params, num_data=100),
            getattr(by_precision, name)(params, num_data=100),
            rtol=1e-12,
        )


def test_gaussian_prior_density(float64):
    w = np.random.default_rng(0).normal(size=7)
    expected = scipy.stats.norm(0, 1 / np.sqrt(3)).logpdf(w).sum()
    np.testing.assert_allclose(GaussianPrior(precision=3.0).log_prob(w, num_data=1), expected)


def test_scale_mixture_density(float64):
    w = np.random.default_rng(0).normal(size=7)
    expected = np.log(
        0.25 * scipy.stats.norm(0, 2).pdf(w) + 0.75 * scipy.stats.norm(0, 0.1).pdf(w)
    ).sum()
    np.testing.assert_allclose(ScaleMixturePrior(0.25, 2.0, 0.1).log_prob(w, num_data=1), expected)


def test_log_joint_is_the_conjugate_model(float64):
    """Log joint at the posterior mean = log evidence + log posterior density (conjugate)."""
    problem = Problem(LINE, Gaussian(0.2), prior=GaussianPrior(precision=1.0))
    mean = np.array([0.178571429, 0.984251969])
    precision = np.array([126.0, 63.5])
    posterior = 0.5 * np.log(precision / (2 * np.pi)).sum()
    variables = Variables({"w": mean[:, None]})
    joint = problem.log_joint(variables, X, Y, num_data=5)
    np.testing.assert_allclose(joint, -2.149361423 + posterior, atol=1e-8)


def test_minibatch_log_joint_is_unbiased(float64):
    problem = Problem(LINE, Gaussian(0.2), prior=GaussianPrior(precision=1.0))
    variables = Variables({"w": jnp.array([[0.3], [0.5]])})
    whole = problem.log_joint(variables, X, Y, num_data=5)
    rows = [problem.log_joint(variables, X[i : i + 1], Y[i : i + 1], num_data=5) for i in range(5)]
    np.testing.assert_allclose(np.mean(rows), whole, rtol=1e-12)


def test_loss_is_the_potential_over_the_number_of_data(float64):
    problem = Problem(LINE, Gaussian(0.2), prior=GaussianPrior(precision=2.0))
    a, b = ({"w": jnp.array([[u], [v]])} for u, v in ((0.1, 0.7), (0.4, -0.2)))
    batch = problem.prepare(X, Y)
    losses = [problem.loss(Variables(p), batch, num_data=5)[0] for p in (a, b)]
    joints = [problem.log_joint(Variables(p), X, Y, num_data=5) for p in (a, b)]
    np.testing.assert_allclose(losses[0] - losses[1], (joints[1] - joints[0]) / 5, rtol=1e-10)


def test_padded_rows_count_for_nothing(float64):
    problem = Problem(LINE, Gaussian(0.2))
    variables = Variables({"w": jnp.array([[0.3], [0.5]])})
    padded = Batch(
        np.concatenate([X, X[:2] * 9]), np.concatenate([Y, Y[:2]]), np.r_[np.ones(5), 0, 0]
    )
    np.testing.assert_allclose(
        problem.loss(variables, padded, num_data=5)[0],
        problem.loss(variables, problem.prepare(X, Y), num_data=5)[0],
        rtol=1e-12,
    )


def test_units_do_not_change_the_density_of_raw_targets(float64):
    """Predicting in standard units and mapping back is the same Gaussian in raw units."""
    targets = Standardise(3.0, 2.0)
    problem = Problem(LINE, Gaussian(0.5), targets=targets)
    outputs = np.random.default_rng(0).normal(size=(3, 5, 1))
    prediction = problem.predict(outputs)
    np.testing.assert_allclose(prediction.means, outputs * 2 + 3)
    np.testing.assert_allclose(prediction.aleatoric, 1.0)
    standard = problem.likelihood.predict(outputs).log_prob((Y - 3) / 2)
    np.testing.assert_allclose(prediction.log_prob(Y), standard - np.log(2), atol=1e-10)


def test_inputs_stay_integers_until_they_are_used():
    inputs = Standardise(127.5, 127.5)
    problem = Problem(networks.MLP((4,), outputs=2), Categorical(), inputs=inputs)
    pixels = np.array([[0, 255]], np.uint8)
    np.testing.assert_allclose(problem.prepare_inputs(pixels), [[-1, 1]])
    kept = problem.with_units(Standardise(0.0, 1.0), None).inputs
    assert float(kept.mean) == 127.5


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (np.zeros((0, 2), np.float32), np.zeros(0, int), "no rows"),
        (np.array([[0, 1], [np.nan, 1]], np.float32), np.array([0, 1]), "row 1"),
        (np.zeros((3, 2), np.float32), np.array([0, 1]), "3 rows and y has 2"),
        (np.zeros((3, 2), np.float32), np.array([0, 1, 7]), "0 to 1"),
        (np.array([["a", "b"]]), np.array([0]), "numbers"),
    ],
)
def test_bad_rows_get_one_sentence(x, y, words):
    problem = Problem(networks.MLP((4,), outputs=2), Categorical())
    with pytest.raises(InputError, match=words):
        problem.check(x, y)


def test_a_network_that_cannot_take_the_inputs_is_said_so():
    problem = Problem(networks.CNN(outputs=2), Categorical())
    with pytest.raises(InputError, match=r"cannot take inputs of shape \(2,\)"):
        problem.check(np.zeros((3, 2), np.float32), np.array([0, 1, 0]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianPrior(),
        lambda: GaussianPrior(precision=1.0, weight_decay=1.0),
        lambda: GaussianPrior(weight_decay=-1.0),
        lambda: ScaleMixturePrior(weight=1.0),
        lambda: Problem(networks.MLP((4,), outputs=2), "categorical"),
        lambda: Problem(jnp.tanh, Categorical()),
        lambda: Problem(LINE, Gaussian(1.0), prior=GaussianPrior(precision=1.0), weight_decay=0.1),
    ],
)
def test_bad_problems_are_refused(make):
    with pytest.raises(InputError):
        make()
