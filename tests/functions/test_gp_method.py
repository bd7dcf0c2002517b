"""The exact process as a method: units, files, draws, and what is refused."""

import json

import jax
import numpy as np
import pytest

import credax as cx
from credax import infinite
from credax.calibration.variance_scaling import VarianceScale
from credax.errors import DamagedFile
from credax.files import load_arrays, save_tree
from credax.functions import GaussianProcess, kernels
from credax.functions.hyperparameters import Regression, optimise_regression
from credax.functions.kernels import RBF, Linear, White, as_kernel, from_data, named_kernel, to_data
from credax.functions.solving import factorise

TRAINING = cx.Training(epochs=1, batch_size=16)
NETWORK = cx.networks.MLP((4,), outputs=1)


def rows(n=40, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 3, (n, 1)).astype(np.float32)
    y = (5 + 3 * np.sin(2 * x[:, 0]) + 3 * noise * rng.normal(size=n)).astype(np.float32)
    return cx.Split(x, y, cx.Standardise.of(x), cx.Standardise.of(y[:, None]))


@pytest.fixture(scope="module")
def fitted():
    data = rows()
    record = cx.GP(restarts=2)
    problem = cx.Problem(NETWORK, cx.Gaussian())
    return cx.fit(problem, record, data, training=TRAINING, progress=False), data


def test_it_finds_function_and_noise(fitted):
    """The noise's standard deviation is .3 in raw units; 40 rows give it to about 15 %."""
    posterior, _ = fitted
    x = np.linspace(-2.5, 2.5, 30, dtype=np.float32)[:, None]
    prediction = posterior.predict(x)
    truth = 5 + 3 * np.sin(2 * x[:, 0])
    error = np.abs(np.asarray(prediction.mean) - truth)
    assert (error < 4 * np.sqrt(np.asarray(prediction.epistemic))).all()
    assert 0.2 < float(prediction.aleatoric[0]) ** 0.5 < 0.42
    assert posterior.num_members == 1
    far = posterior.predict(np.array([[60.0]], np.float32))
    assert float(far.epistemic[0]) > 20 * float(far.aleatoric[0])
    np.testing.assert_allclose(prediction.var, prediction.variances[0, :, 0], rtol=1e-5)


def test_the_optimum_is_stationary_and_beats_the_start(fitted):
    posterior, data = fitted
    found = posterior.diagnostics
    assert found["log_evidence"] == pytest.approx(max(found["restarts"]), abs=1e-6)
    x = (data.x - data.x.mean()) / data.x.std()
    y = ((data.y - data.y.mean()) / data.y.std())[:, None].astype(np.float64)
    start = GaussianProcess(RBF(), 0.1).condition(x, y).log_evidence
    assert found["log_evidence"] > start + 1


def test_functions_are_in_raw_units_and_coherent(fitted):
    posterior, _ = fitted
    x = np.linspace(-2, 2, 5, dtype=np.float32)[:, None]
    whole = posterior.functions(3, 400, x, features=64)
    assert whole.shape == (400, 5, 1)
    part = posterior.functions(3, 400, x[2:], features=64)
    np.testing.assert_allclose(part, whole[:, 2:], atol=1e-8)
    prediction = posterior.predict(x)
    spread = np.sqrt(np.asarray(prediction.epistemic) / 400)
    assert (np.abs(whole[..., 0].mean(0) - np.asarray(prediction.mean)) < 4.5 * spread).all()


def test_a_run_is_read_back_from_its_folder(fitted, tmp_path):
    """Two outputs, a kernel object: the folder alone gives the same numbers."""
    data = rows()
    targets = np.c_[data.y, -2 * data.y]
    split = cx.Split(data.x, targets, data.inputs, cx.Standardise.of(targets))
    record = cx.GP(kernel=RBF(0.5) + White(0.01), optimise=False)
    problem = cx.Problem(cx.networks.MLP((4,), outputs=2), cx.Gaussian(0.2))
    posterior = cx.fit(
        problem, record, split, training=TRAINING, progress=False, folder=tmp_path / "run"
    )
    again = cx.load(tmp_path / "run")
    x = np.linspace(-3, 3, 7, dtype=np.float32)[:, None]
    one, other = posterior.predict(x), again.predict(x)
    np.testing.assert_array_equal(one.means, other.means)
    np.testing.assert_array_equal(one.variances, other.variances)
    scale = np.asarray(split.targets.scale)
    np.testing.assert_allclose(one.aleatoric[0], 0.04 * scale**2, rtol=1e-5)
    np.testing.assert_allclose(one.mean[:, 1], -2 * one.mean[:, 0], rtol=1e-4)


def test_noise_that_depends_on_the_input():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (150, 1)).astype(np.float32)
    spread = np.where(x[:, 0] > 0, 0.5, 0.05)
    y = (np.sin(2 * x[:, 0]) + spread * rng.normal(size=150)).astype(np.float32)
    split = cx.Split(x, y, cx.Standardise.of(x), cx.Standardise.of(y[:, None]))
    problem = cx.Problem(cx.networks.MLP((4,), outputs=2), cx.HeteroscedasticGaussian())
    posterior = cx.fit(problem, cx.GP(restarts=1), split, training=TRAINING, progress=False)
    found = np.sqrt(np.asarray(posterior.predict(np.array([[-2.0], [2.0]])).aleatoric))
    # Estimates of a spread from about 20 rows around a point: within a factor 1.7.
    assert 0.05 / 1.7 < found[0] < 0.05 * 1.7
    assert 0.5 / 1.7 < found[1] < 0.5 * 1.7


def test_two_classes_by_one_logit():
    x = np.linspace(-2, 2, 30, dtype=np.float32)[:, None]
    y = (x[:, 0] > 0).astype(int)
    problem = cx.Problem(NETWORK, cx.Bernoulli())
    posterior = cx.fit(
        problem, cx.GP(restarts=1, members=8), (x, y), training=TRAINING, progress=False
    )
    assert (np.asarray(posterior.predict(x).label) == y).mean() > 0.9
    assert posterior.functions(0, 2, x, features=8).shape == (2, 30, 1)


def test_what_is_refused(refused):
    data, problem = rows(), cx.Problem(NETWORK, cx.Gaussian())

    def fit(record, problem=problem):
        return lambda: cx.fit(problem, record, data, training=TRAINING, progress=False)

    refused(fit(cx.GP(most_rows=30)), "40 training rows .* most_rows is 30.*GB.*svgp")
    refused(fit(cx.GP(kernel=RBF([1.0, 2.0]))), "2 columns and x has 1")
    refused(fit(cx.GP(), cx.Problem(NETWORK, cx.StudentT())), "StudentT.*svgp")
    refused(lambda: cx.GP(kernel="rbff"), "did you mean 'rbf'")
    refused(lambda: cx.GP(kernel=3.0) and fit(cx.GP(kernel=3.0))(), "kernel is a float")
    refused(lambda: cx.GP(restarts=0), "restarts is 0")
    posterior = fit(cx.GP(optimise=False))()
    refused(lambda: posterior.predict(np.zeros((2, 3), np.float32)), "shape")
    refused(posterior.predict_fn, "no compiled predict_fn")
    refused(lambda: posterior.functions(0, 0, data.x), "at least 1 function")


def test_singular_and_wrong_kernels(refused):
    x, y = np.array([[0.0], [0.0], [1.0]]), np.zeros(3)
    # Two equal rows: a jitter makes a factor, and says so.
    assert 0 < GaussianProcess(RBF()).condition(x, y).jitter <= 1e-6
    indefinite = np.array([[1.0, 2.0], [2.0, 1.0]])
    refused(
        lambda: factorise(indefinite, "the Gram matrix", "raise the noise"),
        "Gram matrix of 2 points is singular.*-1.0e.00 to 3.0e.00.*raise the noise",
    )
    refused(lambda: RBF(lengthscale=-1.0), "lengthscale is -1.0; give a positive")
    mixed = RBF([1.0, 2.0]) + RBF([1.0, 2.0, 3.0])
    refused(lambda: GaussianProcess(mixed).covariance(np.zeros((2, 2))), "2 and 3 columns")
    refused(lambda: GaussianProcess(RBF(), noise=-1.0), "noise is -1.0")
    refused(lambda: GaussianProcess(RBF()).covariance(np.zeros(3)), "x1 has shape")
    refused(lambda: GaussianProcess(RBF()).condition(x, np.zeros(2)), "one target")
    refused(lambda: RBF() + "white", "meets a str")
    model = Regression(RBF(), np.log(0.1))
    refused(lambda: optimise_regression(model, x, y[:, None], y, restarts=0), "restarts is 0")


def test_kernels_as_plain_data():
    """Through JSON and back to the bit; what cannot be kept is refused before a fit."""
    net = infinite.serial(
        infinite.InfiniteDense(8, 1.5, 0.1), infinite.ReLU(), infinite.InfiniteDense(1)
    )
    kernel = named_kernel("rbf * periodic + linear + matern32 + rational-quadratic + white", 2)
    kernel = 0.3 * kernel + as_kernel(net) + kernels.InfiniteKernel(net, "ntk")
    back = from_data(json.loads(json.dumps(to_data(kernel))))
    x = np.random.default_rng(0).normal(size=(4, 2))
    one, other = (GaussianProcess(k).covariance(x) for k in (kernel, back))
    np.testing.assert_array_equal(one, other)
    smooth = infinite.serial(infinite.InfiniteDense(4), infinite.Activation(np.tanh))
    with pytest.raises(cx.InputError, match="Activation"):
        to_data(as_kernel(smooth))
    for bad in ({"name": "rbf"}, {"name": "rbg"}, 3, {"name": "sum", "first": 1, "second": 2}):
        with pytest.raises(DamagedFile):
            from_data(bad)


def test_a_kernel_of_tinygp(tmp_path):
    tinygp = pytest.importorskip("tinygp")
    other = 1.7 * tinygp.kernels.ExpSquared(0.9) + tinygp.kernels.DotProduct()
    x = np.random.default_rng(0).normal(size=(5, 2))
    ours = RBF(0.9, 1.7) + Linear(1.0, 1e-300)
    found = GaussianProcess(as_kernel(other)).covariance(x)
    np.testing.assert_allclose(found, GaussianProcess(ours).covariance(x), rtol=1e-6)
    back = from_data(json.loads(json.dumps(to_data(as_kernel(other)))))
    np.testing.assert_array_equal(GaussianProcess(back).covariance(x), found)


def test_a_damaged_file_is_refused(fitted, tmp_path, refused):
    posterior, _ = fitted
    path = tmp_path / "members.safetensors"
    posterior.save(path)
    problem = cx.Problem(NETWORK, cx.Gaussian())
    arrays, metadata = load_arrays(path)
    for change in (
        {"kernel": {"name": "rbf"}},
        {"kernel": to_data(RBF([1.0, 2.0]))},
        {"level": -1.0},
        {"members": [0, 1]},
    ):
        save_tree(path, arrays, metadata | change)
        refused(lambda: cx.GP().load(path, problem), str(path))
    save_tree(path, {**arrays, "y": arrays["y"][:3]}, metadata)
    refused(lambda: cx.GP().load(path, problem), "do not fit")
    with pytest.raises(cx.InputError):
        jax.jit(posterior.predict)(arrays["x"])


def test_scaled_variances_keep_their_epistemic_share(fitted):
    posterior, data = fitted
    prediction = posterior.predict(data.x)
    scaled = VarianceScale(np.array([2.0]))(prediction)
    np.testing.assert_allclose(scaled.epistemic, 4 * prediction.epistemic, rtol=1e-5)
    np.testing.assert_allclose(scaled.var, 4 * prediction.var, rtol=1e-5)
