"""HMC and NUTS on posteriors that are known; what is reported, excluded and refused."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.mcmc import integrators, metrics

import credax as cx
from credax.data import Split
from credax.errors import InputError
from credax.methods.sampling.chains import diagnose, effective_sample_size
from credax.methods.sampling.hamiltonian import ChainRejected
from credax.methods.sampling.hamiltonian_chain import Chain
from credax.methods.sampling.log_joint import CHUNK
from credax.training import Descent, RunFolder

pytestmark = pytest.mark.slow

T = np.array([-1, -0.5, 0, 0.5, 1])
Y = np.array([-0.9, -0.2, 0.1, 0.8, 1.1], np.float32)
DESIGN_B = np.stack([np.ones(5), T + 2], axis=1).astype(np.float32)
MEAN_B = np.array([-1.669950594, 0.931655099])
COVARIANCE_B = np.array([[0.066286319, -0.029408305], [-0.029408305, 0.014821786]])
LINE = cx.FunctionNetwork(
    lambda key, x: jax.random.normal(key, (x.shape[-1], 1)), lambda w, x: x @ w
)


def linear():
    return cx.Problem(LINE, cx.Gaussian(0.2), prior=cx.GaussianPrior(precision=1.0))


def chains_of(posterior, modes):
    w = np.asarray(posterior.variables.params, np.float64)[..., 0]
    return w.reshape(modes, -1, w.shape[-1])


@pytest.mark.parametrize(
    "method", [cx.HMC(samples=1500, modes=4, leapfrog_steps=12), cx.NUTS(samples=2000, modes=4)]
)
def test_linear_regression(method):
    """Conjugate linear regression; error from the effective sample size, at least 1000."""
    posterior = cx.fit(linear(), method, Split(DESIGN_B, Y), key=1, progress=False)
    w = chains_of(posterior, 4)
    size = effective_sample_size(w)
    assert size.min() >= 1000
    assert np.all(np.abs(w.mean((0, 1)) - MEAN_B) < 4 * np.sqrt(np.diag(COVARIANCE_B) / size))
    centred = w - MEAN_B
    products = np.stack([centred[..., 0] ** 2, centred.prod(-1), centred[..., 1] ** 2], -1)
    exact = COVARIANCE_B[[0, 0, 1], [0, 1, 1]]
    error = products.std((0, 1)) / np.sqrt(effective_sample_size(products))
    assert np.all(np.abs(products.mean((0, 1)) - exact) < 4 * error)
    assert posterior.diagnostics["r_hat"] < 1.01
    assert posterior.diagnostics["divergences"] == 0
    assert 1000 <= posterior.diagnostics["effective_sample_size"] <= size.min() + 1e-6


@pytest.mark.optimised
def test_warm_up_in_steps_is_that_of_blackjax():
    """The same keys give the same step size and masses as blackjax's own warm-up in one call."""
    warmup, key = 160, jax.random.key(3)  # all stages, and two window ends
    training = cx.Training(epochs=1, batch_size=5)
    descent = Descent(linear(), training, 5)
    chain = Chain(
        descent, jnp.asarray(DESIGN_B), jnp.asarray(Y), "nuts", warmup, None, 0.8,
        (("max_num_doublings", 5),),
    )  # fmt: skip
    start = jnp.array([[0.5], [-0.2]])
    state = chain.init(key, cx.Variables(start, {}))
    keys = jax.random.split(key, warmup)
    state, _ = jax.lax.scan(lambda s, k: (chain.step(k, s, None)[0], None), state, keys)
    whole = blackjax.window_adaptation(
        blackjax.nuts, chain.log_joint, initial_step_size=0.01, target_acceptance_rate=0.8,
        max_num_doublings=5,
    )  # fmt: skip
    (last, found), _ = whole.run(key, start, warmup)
    np.testing.assert_allclose(state.adapted.step_size, found["step_size"], rtol=1e-4)
    np.testing.assert_allclose(state.adapted.inverse_mass, found["inverse_mass_matrix"], rtol=1e-4)
    np.testing.assert_allclose(state.chain.position, last.position, rtol=1e-3)
    assert int(state.moves) == 0
    after, _ = chain.step(key, state, None)
    assert after.adapted.step_size == state.adapted.step_size
    assert int(after.moves) == 1


def test_warm_up_is_timed_shown_and_resumed(tmp_path):
    """Transitions of warm-up are steps: they stand in the records like all others."""
    method = cx.HMC(samples=4, warmup=30, leapfrog_steps=3)
    cx.fit(linear(), method, Split(DESIGN_B, Y), progress=False, folder=tmp_path)
    lines = RunFolder(tmp_path).history()
    assert lines[-1]["step"] == 34
    assert len([line for line in lines if "acceptance" in line]) == 34


def test_a_periodic_chain_is_seen_in_its_squares():
    """Its mean looks perfect; with the mean alone the diagnostics would look good."""
    rng = np.random.default_rng(0)
    radius = 1 + 0.5 * np.sin(np.arange(400) / 60)
    orbit = (radius * (-1.0) ** np.arange(400))[None, :, None] + 0.01 * rng.normal(size=(4, 400, 1))
    assert effective_sample_size(orbit)[0] > 1600
    assert diagnose({"w": orbit})["effective_sample_size"] < 200


def test_logistic_regression():
    """Logistic regression: mean .858016869 and variance .399099586, which are not Laplace's."""
    x = np.array([-2, -1, -0.5, 0.5, 1, 2], np.float32)[:, None]
    problem = cx.Problem(LINE, cx.Bernoulli(), prior=cx.GaussianPrior(precision=1.0))
    split = Split(x, np.array([0, 0, 1, 0, 1, 1]))
    method = cx.HMC(samples=2500, modes=4, leapfrog_steps=8)
    posterior = cx.fit(problem, method, split, key=2, progress=False)
    w = chains_of(posterior, 4)
    size = effective_sample_size(w)[0]
    assert size > 3000
    assert w.mean() == pytest.approx(0.858016869, abs=4 * np.sqrt(0.4 / size))
    squares = (w - w.mean()) ** 2
    error = squares.std() / np.sqrt(effective_sample_size(squares)[0])
    assert w.var() == pytest.approx(0.399099586, abs=4 * error)
    assert abs(w.mean() - 0.760463137) > 4 * np.sqrt(0.4 / size)  # the mode, Laplace's mean
    prediction = posterior.predict(np.array([[1.5]], np.float32))
    assert float(prediction.probs[0, 1]) == pytest.approx(0.748184506, abs=4 * 0.15 / size**0.5)


def _bent(z):
    """Ten leapfrog steps of length .3 on ``q⁴/4 + cos q``: a map that is not linear."""
    log_density = lambda q: -jnp.sum(q**4 / 4 + jnp.cos(q))  # noqa: E731
    metric = metrics.default_metric(jnp.ones(1))
    step = integrators.velocity_verlet(log_density, metric.kinetic_energy)
    q = z[:1]
    state = integrators.IntegratorState(q, z[1:], *jax.value_and_grad(log_density)(q))
    for _ in range(10):
        state = step(state, 0.3)
    return state.position[0], state.momentum[0]


def test_the_leapfrog_by_hand(float64):
    """The leapfrog by hand to 1e-14, reversibility, volume and the error of the energy."""
    log_density = lambda q: -0.5 * jnp.sum(q**2)  # noqa: E731
    metric = metrics.default_metric(jnp.ones(1))
    step = integrators.velocity_verlet(log_density, metric.kinetic_energy)

    def follow(q, p, size, steps):
        q = jnp.array([q])
        state = integrators.IntegratorState(q, jnp.array([p]), *jax.value_and_grad(log_density)(q))
        for _ in range(steps):
            state = step(state, size)
        q, p = float(state.position[0]), float(state.momentum[0])
        return q, p, 0.5 * (q**2 + p**2) - 0.5

    one = follow(1.0, 0.0, 0.1, 1)
    assert one == pytest.approx((0.995, -0.09975, -1.246875e-5), abs=1e-14)
    ten = follow(1.0, 0.0, 0.1, 10)
    assert ten[:2] == pytest.approx((0.539951250934, -0.840643512435), abs=1e-12)
    assert ten[2] == pytest.approx(-8.855658e-4, abs=1e-10)
    back = follow(ten[0], -ten[1], 0.1, 10)
    assert (back[0], -back[1]) == pytest.approx((1.0, 0.0), abs=1e-10)
    sizes = np.array([0.1, 0.05, 0.025])
    jacobian = jax.jacfwd(lambda z: jnp.stack(_bent(z)))(jnp.array([0.7, -0.4]))
    assert float(jnp.linalg.det(jacobian)) == pytest.approx(1, abs=1e-12)  # volume
    errors = [abs(follow(1.0, 0.0, size, round(1 / size))[2]) for size in sizes]
    assert np.polyfit(np.log(sizes), np.log(errors), 1)[0] == pytest.approx(2, abs=0.1)


def test_the_log_joint_is_the_problems_in_chunks():
    """Rows beyond a chunk are counted once; the constant is the prior's."""
    rows = CHUNK + 7
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(rows, 2)).astype(np.float32), rng.integers(0, 2, rows)
    problem = cx.Problem(cx.networks.MLP((3,), outputs=2), cx.Categorical(), weight_decay=1e-3)
    variables = problem.init(jax.random.key(0), x)
    descent = Descent(problem, cx.Training(), rows)
    chain = Chain(descent, jnp.asarray(x), jnp.asarray(y), "hmc", 1, 0.1, 0.8, ())
    whole = problem.log_joint(variables, x, y, num_data=rows)
    zero = jax.tree.map(jnp.zeros_like, variables.params)
    constant = problem.prior.log_prob(zero, num_data=rows)
    value = chain.log_joint(variables.params) + constant
    assert float(value) == pytest.approx(float(whole), rel=1e-5)
    slopes = jax.grad(chain.log_joint)(variables.params)
    exact = jax.grad(lambda p: problem.log_joint(cx.Variables(p, {}), x, y, num_data=rows))(
        variables.params
    )
    for a, b in zip(jax.tree.leaves(slopes), jax.tree.leaves(exact), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-2)


def test_stuck_chains_are_left_out_and_refused():
    """A step far too long accepts nothing; one good chain of two is kept and named."""
    split = Split(DESIGN_B, Y)
    for method in (
        cx.HMC(samples=4, warmup=2, step_size=10.0, leapfrog_steps=5),
        cx.NUTS(samples=4, warmup=2, step_size=1000.0, depth=2),
    ):
        sentence = r"every proposal of every chain was rejected \(step_size is 1.*smaller step_size"
        with pytest.raises(InputError, match=sentence):
            cx.fit(linear(), method, split, progress=False)
    method = cx.HMC(samples=4, warmup=2, step_size=0.02, leapfrog_steps=5, modes=2)
    dynamics = method.dynamics(linear(), split, method.settings(cx.Training(), 5))
    posterior = cx.fit(linear(), method, split, progress=False)
    assert posterior.num_members == 8
    keys = jax.random.split(jax.random.key(0), 2)
    states = jax.vmap(lambda k: dynamics.init(k, linear().init(k, DESIGN_B)))(keys)
    inner = states.inner._replace(moves=jnp.array([0, 3]))
    states = states._replace(inner=inner)
    alive = np.ones(2, bool)
    with pytest.warns(ChainRejected, match=r"chains \[0\] accepted no proposal"):
        kept = method.posterior(linear(), dynamics, states, None, alive, split)
    assert kept.indices == (4, 5, 6, 7)


def test_batch_statistics_are_refused(blobs):
    problem = cx.Problem(cx.networks.MLP((4,), outputs=3, norm="batch"), cx.Categorical())
    with pytest.raises(InputError, match="batch statistics"):
        cx.fit(problem, cx.NUTS(), Split(*blobs), progress=False)


@pytest.mark.parametrize(
    ("record", "options", "words"),
    [
        (cx.HMC, {"samples": 0}, "samples"),
        (cx.HMC, {"step_size": -1.0}, "step_size"),
        (cx.HMC, {"leapfrog_steps": 0}, "leapfrog_steps"),
        (cx.NUTS, {"depth": 0}, "depth"),
        (cx.NUTS, {"acceptance": 1.0}, "acceptance"),
    ],
)
def test_bad_options_are_refused(record, options, words):
    with pytest.raises(InputError, match=words):
        record(**options)
