"""Microcanonical Langevin chains on targets that are known; what is reported and refused."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.mcmc import mclmc
from blackjax.mcmc.integrators import isokinetic_mclachlan

import credax as cx
from credax.data import Split
from credax.errors import InputError
from credax.methods.sampling.chains import effective_sample_size
from credax.methods.sampling.microcanonical import Microcanonical
from credax.methods.sampling.tuning import rarely
from credax.training import Descent, RunFolder

T = np.array([-1, -0.5, 0, 0.5, 1])
Y = np.array([-0.9, -0.2, 0.1, 0.8, 1.1], np.float32)
DESIGN = np.stack([np.ones(5), T + 2], axis=1).astype(np.float32)
MEAN = np.array([-1.669950594, 0.931655099])
COVARIANCE = np.array([[0.066286319, -0.029408305], [-0.029408305, 0.014821786]])
LINE = cx.FunctionNetwork(
    lambda key, x: jax.random.normal(key, (x.shape[-1], 1)), lambda w, x: x @ w
)


def linear():
    return cx.Problem(LINE, cx.Gaussian(0.2), prior=cx.GaussianPrior(precision=1.0))


class Target(eqx.Module):
    """A log density in place of a log joint."""

    density: Callable
    scale: float = 1.0

    def __call__(self, params):
        return self.density(params)


def chain_on(density, warmup):
    return Microcanonical(Descent(linear(), cx.Training(1, 1), 1), Target(density), warmup)


@eqx.filter_jit
def sampled(chain, key, starts, steps, scale=1.0):
    """Positions ``[chains, steps, d]`` after warm-up, energy errors per dimension, final states.

    ``scale`` multiplies the step size that warm-up found.
    """

    def one(key, start):
        state = chain.init(key, cx.Variables(start, {}))
        keys = jax.random.split(key, chain.warmup + steps)
        advance = lambda s, k: (chain.step(k, s, None)[0], None)  # noqa: E731
        state, _ = jax.lax.scan(advance, state, keys[: chain.warmup])
        tuned = state.tuned._replace(step_size=scale * state.tuned.step_size)
        state = state._replace(tuned=tuned)

        def visit(state, key):
            state, info = chain.step(key, state, None)
            return state, (state.chain.position, info["energy_error"])

        state, (positions, errors) = jax.lax.scan(visit, state, keys[chain.warmup :])
        return positions, errors, state

    return jax.vmap(one)(jax.random.split(key, len(starts)), starts)


def ill_conditioned(dimension):
    """A Gaussian with variances from 1 to 100 along random directions: density and covariance."""
    rng = np.random.default_rng(dimension)
    basis = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0]
    variances = np.logspace(0, 2, dimension)
    precision = jnp.asarray(basis @ np.diag(1 / variances) @ basis.T)
    return lambda x: -0.5 * x @ precision @ x, basis @ np.diag(variances) @ basis.T


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [10, 50])
def test_moments_of_an_ill_conditioned_gaussian(dimension, float64):
    """Four standard errors plus the bias, which a half and a quarter of the step size reduce.

    The bias of a variance is bounded by what the energy error says: E[ΔE²]/d of all directions
    scales each variance by at most about its square root.
    """
    density, covariance = ill_conditioned(dimension)
    rng = np.random.default_rng(0)
    starts = jnp.asarray(rng.multivariate_normal(np.zeros(dimension), covariance, 4))
    chain, biases = chain_on(density, 2000), []
    for scale in (1.0, 0.5):
        steps = int(8000 / scale)
        x, errors, _ = sampled(chain, jax.random.key(1), starts, steps, scale)
        x, energy = np.asarray(x), float(np.mean(np.asarray(errors)))
        size = effective_sample_size(x)
        assert size.min() > 200
        spread = np.sqrt(np.diag(covariance) / size)
        assert np.all(np.abs(x.mean((0, 1))) < 4 * spread)
        # Variances along the axes, and covariances of neighbours.
        pairs = np.arange(dimension), np.roll(np.arange(dimension), 1)
        for i, j in ((pairs[0], pairs[0]), pairs):
            products = x[..., i] * x[..., j]
            error = products.std((0, 1)) / np.sqrt(effective_sample_size(products))
            limit = np.sqrt(energy * np.diag(covariance)[i] * np.diag(covariance)[j])
            gap = np.abs(products.mean((0, 1)) - covariance[i, j])
            assert np.all(gap < 4 * error + limit)
        whole = np.einsum("cti,ij,ctj->", x, np.linalg.inv(covariance), x)
        biases.append(abs(whole / (x.shape[0] * x.shape[1] * dimension) - 1))
    assert biases[1] < max(biases[0], 0.02)


@pytest.mark.slow
def test_conjugate_linear_regression(float64):
    """Two weights, exact posterior; the rest is as in the test of HMC, plus the energy error."""
    method = cx.MILE(modes=4, samples=2500, thinning=8, warmup=1000)
    split = Split(DESIGN.astype(float), Y.astype(float))
    training = cx.Training(epochs=5, batch_size=4)
    posterior = cx.fit(linear(), method, split, key=1, training=training, progress=False)
    w = np.asarray(posterior.variables.params, np.float64)[..., 0].reshape(4, -1, 2)
    size, energy = effective_sample_size(w), posterior.diagnostics["energy_error"]
    spread = np.sqrt(np.diag(COVARIANCE))
    assert size.min() > 500
    assert np.all(np.abs(w.mean((0, 1)) - MEAN) < 4 * spread / np.sqrt(size))
    squares = (w - MEAN) ** 2
    error = squares.std((0, 1)) / np.sqrt(effective_sample_size(squares))
    limit = np.sqrt(energy) * np.diag(COVARIANCE)
    assert np.all(np.abs(squares.mean((0, 1)) - np.diag(COVARIANCE)) < 4 * error + limit)


def test_the_momentum_is_a_unit_vector_and_the_integrator_reversible(float64):
    """Forward, then backward with the opposite momentum, without noise: the same point."""
    density, _ = ill_conditioned(6)
    state = mclmc.init(jnp.arange(6.0), density, jax.random.key(0))
    step = jax.jit(isokinetic_mclachlan(density))
    for _ in range(20):
        state, _ = step(state, 0.3)
        np.testing.assert_allclose(np.linalg.norm(state.momentum), 1, rtol=1e-12)
    state = state._replace(momentum=-state.momentum)
    for _ in range(20):
        state, _ = step(state, 0.3)
    np.testing.assert_allclose(state.position, np.arange(6.0), atol=1e-10)


def test_the_energy_error_is_of_third_order(float64):
    """One step from one state: log-log slope 3 of ΔE against the step size."""
    density, _ = ill_conditioned(6)
    chain = chain_on(lambda x: density(x) - jnp.sum(x**4) / 100, 10)
    state = chain.init(jax.random.key(3), cx.Variables(jnp.arange(6.0) / 3, {}))

    @jax.jit
    def error(size):
        step = mclmc.build_kernel()
        return step(jax.random.key(0), state.chain, chain.target, 1.0, jnp.inf, size)[1]

    sizes = np.array([0.02, 0.04, 0.08])
    errors = np.array([abs(float(error(size).energy_change)) for size in sizes])
    slopes = np.diff(np.log(errors)) / np.diff(np.log(sizes))
    np.testing.assert_allclose(slopes, 3, atol=0.2)


@pytest.mark.slow
def test_warm_up_finds_the_wanted_energy_error(float64):
    """0.1 per dimension at the end, within 30 %, of a Gaussian and of a small network."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    y = np.tanh(x[:, 0]) + 0.3 * rng.normal(size=40)

    def network(w):
        hidden = jnp.tanh(x @ w[:8].reshape(2, 4) + w[8:12])
        outputs = hidden @ w[12:16] + w[16]
        return -0.5 * jnp.sum((y - outputs) ** 2) / 0.09 - 0.5 * jnp.sum(w**2)

    for density, dimension in ((ill_conditioned(20)[0], 20), (network, 17)):
        starts = 0.3 * jnp.asarray(rng.normal(size=(8, dimension)))
        _, errors, state = sampled(chain_on(density, 3000), jax.random.key(0), starts, 3000)
        print(jnp.mean(errors), jnp.mean(errors, 1), state.tuned.step_size)
        assert 0.07 < float(jnp.mean(errors)) < 0.13
        assert int(state.refused.sum()) == 0


def test_a_chain_stays_in_its_mode_and_chains_from_both_give_both():
    """Two modes of a mixture, twenty standard deviations apart: the reason for the ensemble.

    No step is rejected, and the energy error here is that of one dimension or two: between modes
    eight deviations apart a chain crosses now and then, and rounding decides whether it does.
    """

    def mixture(x):
        modes = -0.5 * (x[0] - jnp.array([-10.0, 10.0])) ** 2
        return jax.nn.logsumexp(modes) - 0.5 * x[1] ** 2

    starts = jnp.array([[-10.0, 0.0], [10.0, 0.0]])
    x, _, _ = sampled(chain_on(mixture, 500), jax.random.key(0), starts, 2000)
    first = np.asarray(x)[..., 0]
    assert np.all(first[0] < 0)
    assert np.all(first[1] > 0)
    np.testing.assert_allclose(first.mean(1), [-10, 10], atol=0.5)


def test_a_step_without_numbers_is_not_taken_and_makes_steps_smaller():
    """A wall beyond which the density is no number: warm-up stays below, and ends finite."""

    def walled(x):
        value = -0.5 * jnp.sum(x**2)
        return jnp.where(jnp.max(jnp.abs(x)) < 2, value, jnp.nan)

    x, _, state = sampled(chain_on(walled, 500), jax.random.key(0), jnp.zeros((2, 3)), 100)
    assert np.isfinite(np.asarray(x)).all()
    assert float(state.tuned.step_size.max()) <= float(state.tuned.largest.max()) < np.inf


def test_a_chain_without_numbers_is_named_and_left_out(blobs):
    """Member 1 begins at weights that are no numbers; the others are as without it."""
    x, y = blobs
    problem = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical(), weight_decay=1e-2)
    training = cx.Training(epochs=2, batch_size=20)
    split = Split(x, y)
    ensemble = cx.fit(problem, cx.DeepEnsemble(2), split, training=training, progress=False)
    params = jax.tree.map(lambda leaf: leaf.at[1].set(jnp.nan), ensemble.variables.params)
    from dataclasses import replace

    broken = replace(ensemble, variables=cx.Variables(params, {}))
    method = cx.MILE(samples=3, warmup=20, thinning=1, around=broken)
    with pytest.warns(cx.training.MemberDiverged, match="member 1"):
        found = cx.fit(problem, method, split, progress=False)
    whole = cx.fit(problem, replace(method, around=ensemble), split, progress=False)
    assert found.indices == (0, 1, 2)
    np.testing.assert_allclose(
        jax.tree.leaves(found.variables.params)[0],
        jax.tree.leaves(whole.variables.params)[0][:3],
        rtol=1e-5,
    )


def test_the_ensemble_is_part_of_the_run(tmp_path, blobs):
    """Its folder, its seconds and its settings: another number of epochs is another run."""
    x, y = blobs
    problem = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical(), weight_decay=1e-2)
    method = cx.MILE(modes=2, samples=3, warmup=20, thinning=1)
    settings = cx.Training(epochs=40, batch_size=51, learning_rate=0.05)
    first = cx.fit(problem, method, Split(x, y), training=settings, folder=tmp_path, progress=False)
    assert RunFolder(tmp_path / "first").finished
    ending, early = RunFolder(tmp_path).ending, RunFolder(tmp_path / "first").ending
    assert ending is not None
    assert early is not None
    assert ending["seconds"] > early["seconds"]
    assert ending["step"] == 23
    again = cx.fit(problem, method, Split(x, y), training=settings, folder=tmp_path, progress=False)
    np.testing.assert_array_equal(*(jax.tree.leaves(p.variables)[0] for p in (first, again)))
    with pytest.raises(InputError, match="first"):
        cx.fit(
            problem, method, Split(x, y), training=settings.replace(epochs=41),
            folder=tmp_path, progress=False,
        )  # fmt: skip


def test_what_is_rarely_due_is_computed_for_those_that_are():
    """Under vmap, as a branch for each."""
    due = jnp.array([True, False, True])
    found = jax.vmap(lambda d, v: rarely(d, lambda t: {"a": t["a"] * 2}, {"a": v}))(
        due, jnp.arange(3.0)
    )
    np.testing.assert_array_equal(found["a"], [0, 1, 4])
    one = rarely(jnp.array(True), lambda t: t + 1, jnp.ones(()))
    assert float(one) == 2


def test_the_default_batch_fits_the_rows_that_are_left(blobs):
    """A tenth and a half of the rows stop the ensemble early: 51 of 60 are trained on."""
    problem = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical(), weight_decay=1e-2)
    method = cx.MILE(modes=2, samples=2, warmup=10, thinning=1)
    training = cx.Training(epochs=3)
    found = cx.fit(problem, method, Split(*blobs), training=training, progress=False)
    assert found.num_members == 4


@pytest.mark.parametrize(
    "settings", [{"samples": 0}, {"warmup": 5}, {"thinning": 0}, {"temperature": 0.0}, {"modes": 0}]
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        cx.MILE(**settings)


def test_networks_that_no_chain_can_have_are_refused(blobs):
    x, y = blobs
    problem = cx.Problem(cx.networks.MLP((8,), outputs=3, norm="batch"), cx.Categorical())
    with pytest.raises(InputError, match="batch statistics"):
        cx.fit(problem, cx.MILE(), Split(x, y), progress=False)
    one = cx.FunctionNetwork(lambda key, x: jnp.zeros((1, 1)), lambda w, x: x @ w)
    with pytest.raises(InputError, match="one parameter"):
        cx.fit(cx.Problem(one, cx.Gaussian(1.0)), cx.MILE(), (x[:, :1], x[:, 0]), progress=False)
