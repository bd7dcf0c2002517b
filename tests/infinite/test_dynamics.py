"""Ensembles in time: recorded values, the explicit iteration, limits, singular Gram matrices."""

import infinite_cases
import numpy as np
import pytest

from credax import infinite
from credax.errors import InputError

PREDICT = infinite_cases.load("predict")
NETS = {
    "relu2_ntk": ("relu", 2, 1.4, 0.1, "ntk"),
    "erf1_ntk": ("erf", 1, 1.5, 0.3, "ntk"),
    "relu1_standard": ("relu", 1, 1.4, 0.1, "standard"),
}
RIDGES = {"reg0_rel": 0.0, "reg0.001_rel": infinite.Ridge(1e-3), "reg0.05_abs": 0.05}
RNG = np.random.default_rng(0)
X, Y, TEST = RNG.standard_normal((6, 3)), RNG.standard_normal((6, 2)), RNG.standard_normal((4, 3))
NET = infinite_cases.dense("relu", 2, 1.4, 0.1)


def golden(net, ridge, train):
    return infinite.EnsembleDynamics(
        infinite_cases.dense(*NETS[net]),
        PREDICT["x_train"],
        PREDICT["y_train"],
        learning_rate=0.5,
        loss="half_mean",
        ridge=RIDGES[ridge],
        train=train,
    )


@pytest.mark.parametrize("net", NETS)
def test_kernels_of_the_recorded_predictions(net):
    kernel = infinite_cases.dense(*NETS[net])
    train, test = PREDICT["x_train"], PREDICT["x_test"]
    for kind in ("nngp", "ntk"):
        for suffix, pair in (("dd", (train,)), ("td", (test, train)), ("tt", (test,))):
            found = getattr(kernel.kernels(*pair), kind)
            np.testing.assert_allclose(found, PREDICT[f"{net}/{kind}_{suffix}"], rtol=1e-7)


@pytest.mark.parametrize("kind", ["ntk", "nngp"])
@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize("net", NETS)
def test_mean_and_covariance_equal_the_recorded_ones(net, ridge, kind):
    dynamics = golden(net, ridge, "all" if kind == "ntk" else "last_layer")
    prefix, test = f"{net}/{ridge}/{kind}", PREDICT["x_test"]
    times = PREDICT["t"]
    scale = np.abs(PREDICT["y_train"]).max()
    size = np.diag(PREDICT[f"{net}/nngp_tt"]).max()

    def check(found, name, atol):
        np.testing.assert_allclose(found, PREDICT[f"{prefix}/{name}"], rtol=0, atol=atol)

    check(dynamics.mean(test, times), "test_mean_t", 1e-8 * scale)
    check(dynamics.covariance(test, t=times), "test_cov_t", 1e-8 * size)
    check(dynamics.mean(test, np.inf), "test_mean_inf", 1e-6 * scale)
    check(dynamics.covariance(test, t=np.inf), "test_cov_inf", 1e-6 * size)


@pytest.mark.parametrize("net", NETS)
def test_training_points_members_and_rates_equal_the_recorded_ones(net):
    dynamics = golden(net, "reg0_rel", "all")
    train, test, times = PREDICT["x_train"], PREDICT["x_test"], PREDICT["t"]
    prefix = f"{net}/reg0_rel/ntk"
    np.testing.assert_allclose(
        dynamics.mean(train, times), PREDICT[f"{prefix}/train_mean_t"], atol=1e-8
    )
    size = np.diag(PREDICT[f"{net}/nngp_dd"]).max()
    np.testing.assert_allclose(
        dynamics.covariance(train, t=times), PREDICT[f"{prefix}/train_cov_t"], atol=1e-8 * size
    )
    start, initial = PREDICT[f"{net}/f0_train"], PREDICT[f"{net}/f0_test"]
    member = dynamics.member(test, start, initial, times)
    np.testing.assert_allclose(member, PREDICT[f"{net}/member/test_t"], atol=1e-8)
    member = dynamics.member(train, start, start, times)
    np.testing.assert_allclose(member, PREDICT[f"{net}/member/train_t"], atol=1e-8)
    end = dynamics.member(test, start, initial, np.inf)
    np.testing.assert_allclose(end, PREDICT[f"{net}/member/test_inf"], atol=1e-6)
    largest = PREDICT[f"{net}/max_learning_rate"]
    np.testing.assert_allclose(dynamics.largest_learning_rate, largest, rtol=1e-9)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 2000])
@pytest.mark.parametrize("share", [0.3, 1.0, 1.9])
def test_steps_equal_the_explicit_iteration(count, share):
    base = infinite.EnsembleDynamics(NET, X, Y)
    rate = share / base.spectrum.values[-1]
    dynamics = infinite.EnsembleDynamics(NET, X, Y, learning_rate=rate, evolution="steps")
    gram, cross = NET.kernels(X).ntk, NET.kernels(TEST, X).ntk
    train, test = np.zeros_like(Y), np.zeros((4, 2))
    for _ in range(count):
        train, test = train + rate * gram @ (Y - train), test + rate * cross @ (Y - train)
    np.testing.assert_allclose(dynamics.mean(TEST, count), test, atol=1e-12)
    np.testing.assert_allclose(dynamics.mean(X, count), train, atol=1e-12)


def test_a_rate_that_diverges_is_refused_with_the_largest():
    base = infinite.EnsembleDynamics(NET, X, Y, evolution="steps")
    dynamics = infinite.EnsembleDynamics(
        NET, X, Y, evolution="steps", learning_rate=base.largest_learning_rate
    )
    with pytest.raises(InputError, match="diverges from"):
        dynamics.mean(TEST, 3)


def test_the_ends_of_time():
    dynamics = infinite.EnsembleDynamics(NET, X, Y)
    np.testing.assert_array_equal(dynamics.mean(TEST, 0.0), 0)
    start = dynamics.covariance(TEST, t=0.0)
    np.testing.assert_allclose(start, NET.kernels(TEST).nngp, rtol=1e-12)
    np.testing.assert_allclose(dynamics.mean(X, np.inf), Y, atol=1e-11)
    np.testing.assert_allclose(dynamics.covariance(X, t=np.inf), 0, atol=1e-11)
    late = dynamics.mean(TEST, 1e9)
    np.testing.assert_allclose(late, dynamics.mean(TEST, np.inf), atol=1e-9)


def test_steps_approach_the_flow_at_first_order():
    errors = []
    for rate in (1e-2, 5e-3):
        flow = infinite.EnsembleDynamics(NET, X, Y, learning_rate=rate)
        steps = infinite.EnsembleDynamics(NET, X, Y, learning_rate=rate, evolution="steps")
        count = round(1 / rate)
        errors.append(np.abs(flow.mean(TEST, count) - steps.mean(TEST, count)).max())
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.05)


def test_time_adds_up():
    """A member that starts where another one stopped goes on as the first one does."""
    dynamics = infinite.EnsembleDynamics(NET, X, Y, learning_rate=0.3)
    start, initial = RNG.standard_normal((6, 2)), RNG.standard_normal((4, 2))
    middle = [dynamics.member(p, start, s, 1.5) for p, s in ((X, start), (TEST, initial))]
    np.testing.assert_allclose(
        dynamics.member(TEST, middle[0], middle[1], 2.0),
        dynamics.member(TEST, start, initial, 3.5),
        atol=1e-12,
    )


@pytest.mark.parametrize(("loss", "alpha"), [("mean", 2), ("half_mean", 1), ("per_example", 2)])
def test_losses_differ_by_the_rate_only(loss, alpha):
    """α: mean 2/(NC), half_mean 1/(NC), per_example 1/N; here N C = 12, N = 6."""
    reference = infinite.EnsembleDynamics(NET, X, Y, learning_rate=0.7 * alpha / 12)
    dynamics = infinite.EnsembleDynamics(NET, X, Y, learning_rate=0.7, loss=loss)
    np.testing.assert_allclose(dynamics.mean(TEST, 3.0), reference.mean(TEST, 3.0), rtol=1e-13)


def test_the_output_scale_changes_the_spread_only():
    scaled = infinite.EnsembleDynamics(NET.network(0.25), X, Y, learning_rate=16 * 0.1)
    plain = infinite.EnsembleDynamics(NET, X, Y, learning_rate=0.1)
    np.testing.assert_allclose(scaled.mean(TEST, 2.0), plain.mean(TEST, 2.0), rtol=1e-11)
    spread = plain.covariance(TEST, t=2.0) / 16
    np.testing.assert_allclose(scaled.covariance(TEST, t=2.0), spread, rtol=1e-10)


@pytest.mark.parametrize("time", [0.0, 1e-6, 1.0, 1e3, np.inf])
@pytest.mark.parametrize("evolution", ["flow", "steps"])
def test_covariance_equals_the_three_terms_on_a_singular_gram_matrix(time, evolution):
    x = np.concatenate([X, X[:2]])  # repeated inputs
    y = np.concatenate([Y, Y[:2]])
    time = time if np.isinf(time) or evolution == "flow" else float(int(time))
    dynamics = infinite.EnsembleDynamics(NET, x, y, learning_rate=0.05, evolution=evolution)
    assert dynamics.rank == 6
    found = dynamics.covariance(TEST, t=time)
    psi = dynamics._solver(time)
    vectors = dynamics.spectrum.vectors
    learned = NET.kernels(TEST, x).ntk @ (vectors * psi) @ vectors.T
    cross, train = NET.kernels(TEST, x).nngp, NET.kernels(x).nngp
    three = NET.kernels(TEST).nngp - learned @ cross.T - cross @ learned.T
    three += learned @ train @ learned.T
    np.testing.assert_allclose(found, three, atol=1e-10)
    assert np.linalg.eigvalsh(found)[0] >= -1e-13
    other = dynamics.covariance(TEST[:2], TEST[2:], t=time)
    np.testing.assert_allclose(other, found[:2, 2:], atol=1e-11)
    np.testing.assert_allclose(dynamics.variance(TEST, time), np.diag(found), atol=1e-12)
    assert np.isfinite(dynamics.mean(TEST, time)).all()


def test_members_have_the_mean_and_the_covariance():
    """4000 draws; bounds are 4.5 standard errors of Gaussian moments."""
    dynamics = infinite.EnsembleDynamics(NET, X, Y, learning_rate=0.1)
    draws = dynamics.sample(1, TEST, members=4000, t=2.0)
    covariance = dynamics.covariance(TEST, t=2.0)
    deviation = np.sqrt(np.diag(covariance))
    bound = 4.5 * deviation[:, None] / np.sqrt(4000)
    assert (np.abs(draws.mean(0) - dynamics.mean(TEST, 2.0)) < bound).all()
    centred = draws - dynamics.mean(TEST, 2.0)
    measured = np.einsum("mpo,mqo->pq", centred, centred) / 8000
    error = np.sqrt((covariance**2 + np.outer(deviation, deviation) ** 2) / 8000)
    assert (np.abs(measured - covariance) < 4.5 * error).all()


def test_a_gaussian_process_with_noise():
    dynamics = infinite.EnsembleDynamics(NET, X, Y, train="last_layer", ridge=0.1)
    kernel, cross = NET.kernels(X).nngp + 0.1 * np.eye(6), NET.kernels(TEST, X).nngp
    np.testing.assert_allclose(
        dynamics.mean(TEST, np.inf), cross @ np.linalg.solve(kernel, Y), atol=1e-12
    )
    expected = NET.kernels(TEST).nngp - cross @ np.linalg.solve(kernel, cross.T)
    np.testing.assert_allclose(dynamics.covariance(TEST, t=np.inf), expected, atol=1e-12)


def test_the_tail_bound_is_above_the_tail():
    from scipy.stats import norm

    for deviation in (0.05, 0.1, 0.3):
        tail = 2 * norm.sf(deviation / (2.0 / 100) ** 0.5)
        assert infinite.tail_bound(2.0, 100, deviation) >= tail


def test_the_toy_of_the_specification():
    """An even function on a line: values at infinite width after 0, 1, 2, 3 and 2000 steps."""
    from credax.experiments import equivariance_toy as toy

    split = toy.rows(True)
    x = np.round(np.asarray(split.x, np.float64), 6)
    y = toy.truth(x[:, 0])
    options = {"loss": "half_mean", "evolution": "steps"}
    largest = infinite.EnsembleDynamics(toy.net(1), x, y, **options).largest_learning_rate
    assert largest / 2 == pytest.approx(toy.RATE, rel=1e-12)
    dynamics = infinite.EnsembleDynamics(toy.net(1), x, y, learning_rate=toy.RATE, **options)
    grid = toy.GRID[:, None]
    mean = dynamics.mean(grid, np.array(toy.STEPS))[..., 0]
    sizes = [0, 0.174832, 0.296177, 0.381939, 0.613561]
    np.testing.assert_allclose(np.sqrt(np.mean(mean**2, 1)), sizes, atol=1e-6)
    middle = [0, -0.009449, -0.005428, 0.006686, 0.456139]
    np.testing.assert_allclose(mean[:, 40], middle, atol=1e-6)
    assert np.abs(mean - mean[:, ::-1]).max() < 2e-13
    for step, expected in toy.ASYMMETRY.items():
        covariance = dynamics.covariance(grid, t=step)
        spread = np.diag(covariance) - np.diag(covariance[:, ::-1])
        assert np.sqrt(2 * spread.mean()) == pytest.approx(expected, abs=2e-6)
