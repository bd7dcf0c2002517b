"""Multiplicative normalising flows: determinants, bounds and the mean-field limit."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from modulated_cases import TRAINING, batch_of, classification, jitted, start

import credax as cx
from credax.data.dataset import Split
from credax.methods.variational.flows import (
    alternating,
    coupling,
    init_flow,
    inverse_coupling,
    run_flow,
)
from credax.methods.variational.mnf import (
    MNF,
    FlowWeights,
    auxiliary_log_density,
    draw_latent,
    gaussian_kl,
)
from credax.network import FunctionNetwork
from credax.structure import trace

# Small programs, many of them: compiling takes longer than a few seconds.
pytestmark = pytest.mark.slow

ONE = FunctionNetwork(lambda key, x: {"w": 0.9 * jnp.ones((1, 1))}, lambda p, x: x @ p["w"])


def wide(flow):
    """The flow with weights of order one, far from the identity."""
    leaves, tree = jax.tree.flatten(flow)
    keys = jax.random.split(jax.random.key(7), len(leaves))
    drawn = [jax.random.normal(k, leaf.shape) for k, leaf in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(tree, drawn)


@pytest.mark.parametrize("planar", [False, True])
def test_determinants_are_those_of_the_jacobian(float64, planar):
    flow = wide(init_flow(jax.random.key(0), 4, 3, 5, planar))
    z = jnp.array([0.3, -1.2, 0.8, 2.0])
    _, log_det = run_flow(flow, z)
    jacobian = jax.jacobian(lambda z: run_flow(flow, z)[0])(z)
    sign, exact = jnp.linalg.slogdet(jacobian)
    assert float(log_det) == pytest.approx(float(exact), abs=1e-9)
    assert planar or float(sign) == 1


def test_coupling_steps_are_invertible(float64):
    flow = wide(init_flow(jax.random.key(0), 5, 2, 4, False))
    z = jnp.linspace(-2, 2, 5)
    for number, step in enumerate(flow.steps):
        mask = alternating(5, number)
        back = inverse_coupling(step, coupling(step, z, mask)[0], mask)
        np.testing.assert_allclose(back, z, atol=1e-10)
    np.testing.assert_array_equal(alternating(4, 0) + alternating(4, 1), 1)


def test_planar_steps_are_invertible(float64):
    """``1 + uᵀ ψ > 0`` whatever the weights: in one dimension the map is increasing."""
    for seed in range(5):
        flow = wide(init_flow(jax.random.key(seed), 1, 1, 4, False))
        flow = jax.tree.map(lambda leaf, s=seed: leaf * (s - 2.0), flow)
        moved = jax.vmap(lambda z, flow=flow: run_flow(flow, z[None])[0][0])(
            jnp.linspace(-3, 3, 50)
        )
        assert bool((jnp.diff(moved) > 0).all())


def test_bounds_of_one_weight_are_in_order(float64):
    """Four numbers: r a standard normal, r = q(z), the bound of q(W) itself, the evidence."""
    problem = cx.Problem(ONE, cx.Gaussian(0.5), prior=cx.GaussianPrior(precision=1.0))
    data = Split(np.ones((1, 1), np.float32), np.array([1.2], np.float32))
    method = MNF(flow_steps=0, auxiliary_steps=0, initial_std=0.3)
    dynamics, state = start(problem, method, data, 0, TRAINING.replace(batch_size=1))
    modulator, common = dynamics.modulator, state.trained.common
    common["flows"]["params/w"]["reader"] = jnp.zeros((3, 1))
    log_likelihood = -0.5 * math.log(2 * math.pi * 0.25) - (0.3**2 + 0.171) / 0.5
    weights = {"w": jnp.full((1, 1), 0.9)}
    keys = jax.random.split(jax.random.key(0), 40_000)
    each = jax.vmap(lambda key: modulator.divergence(weights, common, key))(keys)
    error = float(each.std()) / math.sqrt(len(keys))
    assert abs(log_likelihood - float(each.mean()) + 3.143556703) < 4 * error
    # With r = q(z) what is left is the mean KL of the weight given z, by quadrature over z.
    nodes, quadrature = np.polynomial.hermite_e.hermegauss(40)
    z = jax.vmap(lambda n: draw_latent(common["flows"]["params/w"], n)[0])(
        jnp.asarray(nodes)[:, None]
    )
    inner = jax.vmap(lambda z: gaussian_kl(0.9 * z, jnp.array([0.3]), 1.0))(z)
    second = log_likelihood - float((inner * quadrature).sum() / quadrature.sum())
    assert second == pytest.approx(-1.942264157, abs=1e-6)
    exact = log_likelihood - float(gaussian_kl(jnp.array(0.9), jnp.sqrt(0.171), 1.0))
    assert exact == pytest.approx(-1.621337214, abs=1e-6)
    evidence = -0.5 * math.log(2 * math.pi * 1.25) - 1.2**2 / 2.5
    assert evidence == pytest.approx(-1.606510309, abs=1e-8)
    assert -3.143556703 < second < exact < evidence


def test_the_density_of_z_keeps_its_constants(float64):
    """``log q(z)`` integrates to one after a flow, and ``log r`` does as a density of z."""
    flow = wide(init_flow(jax.random.key(3), 1, 2, 4, False))
    part = {"mean": jnp.array([0.5]), "log_variance": jnp.array([math.log(0.3)]), "flow": flow}
    nodes = np.linspace(-9, 9, 20_001)
    z, log_q = jax.vmap(lambda n: draw_latent(part, n[None]))(jnp.asarray(nodes))
    z = np.asarray(z)[:, 0]
    density = np.exp(np.asarray(log_q))
    assert np.trapezoid(density, z) == pytest.approx(1, abs=1e-4)
    part |= {"auxiliary": flow, "reader": jnp.array([[0.7], [0.4], [-0.9]])}
    one = jnp.array([[0.8]])
    grid = jnp.linspace(-40, 40, 80_001)
    log_r = jax.vmap(
        lambda z: auxiliary_log_density(part, z[None], one, 0 * one, jax.random.key(0))
    )(grid)
    assert np.trapezoid(np.exp(np.asarray(log_r)), grid) == pytest.approx(1, abs=1e-3)


def test_without_a_flow_and_variance_it_is_mean_field(float64):
    """``z = 1``: the divergence is the mean-field KL of the weights, and that of z by hand."""
    problem, data = classification(cx.networks.MLP((4,), outputs=2))
    method = MNF(flow_steps=0, auxiliary_steps=0, initial_std=0.2, initial_variance=1e-24)
    dynamics, state = start(problem, method, data)
    common = state.trained.common
    for flow in common["flows"].values():
        flow["reader"] = jnp.zeros_like(flow["reader"])
    found = dynamics.modulator.divergence(state.trained.weights, common, jax.random.key(0))
    precision = 0.01 * len(data)
    kl = sum(
        float(gaussian_kl(leaf, jnp.full_like(leaf, 0.2), precision))
        for leaf in state.trained.weights.values()
    )
    units = sum(len(flow["mean"]) for flow in common["flows"].values())
    key_of = lambda number: jax.random.split(  # noqa: E731
        jax.random.fold_in(jax.random.key(0), number)
    )[0]
    noise = [
        jax.random.normal(key_of(number), flow["mean"].shape)
        for number, flow in enumerate(common["flows"].values())
    ]
    log_q = -0.5 * sum(float(jnp.square(n).sum()) for n in noise)
    log_q -= 0.5 * units * math.log(2 * math.pi * 1e-24)
    log_r = -0.5 * units * (math.log(2 * math.pi) + 1.0)  # a standard normal at one
    assert float(found) == pytest.approx(kl + log_q - log_r, rel=1e-6)
    # And a draw is one of mean-field inference: mean plus standard deviation times noise.
    drawn = dynamics.modulator.drawn(state.trained.weights, common, jax.random.key(1))
    gaps = [
        np.asarray((drawn[n] - leaf) / 0.2).ravel() for n, leaf in state.trained.weights.items()
    ]
    gaps = np.concatenate(gaps)
    assert abs(gaps.mean()) < 4 / math.sqrt(gaps.size)
    assert gaps.std() == pytest.approx(1, abs=4 / math.sqrt(2 * gaps.size))


def test_its_best_bound_is_no_worse_than_mean_fields(float64):
    """Correlated linear regression: the best mean-field bound is 1.06 nats below the evidence."""
    x = np.array([-1, -0.5, 0, 0.5, 1])
    features = np.stack([np.ones(5), x + 2], 1).astype(np.float32)
    y = np.array([-0.9, -0.2, 0.1, 0.8, 1.1], np.float32)
    network = FunctionNetwork(
        lambda key, x: {"w": jnp.array([[-1.67], [0.93]])}, lambda p, x: x @ p["w"]
    )
    problem = cx.Problem(network, cx.Gaussian(0.2), prior=cx.GaussianPrior(precision=1.0))
    data = Split(features, y)
    method = MNF(initial_std=0.05, hidden=(8, 8))
    training = TRAINING.replace(batch_size=5, optimiser="adam", learning_rate=0.01, epochs=8000)
    training = training.replace(schedule="cosine")
    dynamics, state = start(problem, method, data, 0, training)
    batch = batch_of(problem, data)

    @jax.jit
    def train(state):
        def one(state, key):
            return jitted(dynamics.step)(key, state, batch)[0], None

        return jax.lax.scan(one, state, jax.random.split(jax.random.key(1), 8000))[0]

    state = train(state)
    bound = jax.jit(
        jax.vmap(
            lambda key: (
                -5 * jitted(dynamics.loss)(state.trained, (), state.carried, 0, key, batch)[0]
            )
        )
    )(jax.random.split(jax.random.key(2), 20_000))
    error = float(bound.std()) / math.sqrt(20_000)
    assert float(bound.mean()) > -4.718210314 - 4 * error
    assert float(bound.mean()) < -3.656955235 + 4 * error


def test_a_dense_kernel_is_a_convolution_of_one_pixel():
    """What the auxiliary posterior reads of a kernel does not depend on how it is stored."""
    rng = np.random.default_rng(0)
    matrix, std = rng.normal(size=(3, 4)), rng.uniform(0.1, 0.2, (3, 4))
    x = jax.ShapeDtypeStruct((1, 2, 2, 3), "float32")
    conv = cx.networks.Conv(4, window=1, bias=False)
    network = cx.networks.Sequential((conv, cx.networks.GlobalAveragePool()))
    structure = trace(network, network.init(jax.random.key(0), x), x, verify=False)
    (path,) = (p for p in structure.contractions)
    weights = FlowWeights(structure, 1, (path.removeprefix("params/"),))
    rows = weights._rows(path, jnp.asarray(matrix)[None, None])
    # A filter is one entry of z, whose row is what the filter reads.
    np.testing.assert_allclose(rows, matrix.T)
    flow = {"auxiliary": init_flow(jax.random.key(0), 4, 1, 3, False)}
    flow["reader"] = jnp.asarray(rng.normal(size=(3, 4)))
    z = jnp.asarray(rng.normal(size=4))
    values = [
        auxiliary_log_density(flow, z, jnp.asarray(m), jnp.asarray(s), jax.random.key(1))
        for m, s in ((matrix.T, std.T), (rows, weights._rows(path, jnp.asarray(std)[None, None])))
    ]
    assert float(values[0]) == pytest.approx(float(values[1]), rel=1e-6)
    # Its inputs pass a tanh: however large the weights, what is read stays within one.
    large = auxiliary_log_density(flow, z, 1e6 * rows, 0 * rows, jax.random.key(1))
    larger = auxiliary_log_density(flow, z, 1e8 * rows, 0 * rows, jax.random.key(1))
    assert math.isfinite(large)
    assert float(large) == pytest.approx(float(larger), rel=1e-5)


def test_bad_input(refused):
    refused(lambda: MNF(members=2), "members is 2")
    refused(lambda: MNF(flow_steps=-1), "flow_steps is -1")
    refused(lambda: MNF(flow="spline"), "flow")
    problem, data = classification(cx.networks.MLP((4,), outputs=2), weight_decay=0.0)
    refused(lambda: MNF().dynamics(problem, data, TRAINING), "the prior is flat")
