"""Kernels times factors, and BatchEnsemble: against explicit networks."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from modulated_cases import TRAINING, batch_of, classification, jitted, start, traced, weighted

import credax as cx
from credax.data.dataset import Split
from credax.methods.ensembles.modulated_descent import split_rows
from credax.network import FunctionNetwork, Variables
from credax.networks.convolution import using_implementation
from credax.problem import Batch
from credax.structure import kernels, trace, unit_shape
from credax.structure.factored import Factors, factored, multiplied

MATRIX = np.array([[1.0, 2.0], [3.0, 4.0]])
LINEAR = FunctionNetwork(
    lambda key, x: {"kernel": jnp.asarray(MATRIX, jnp.float32)}, lambda p, x: x @ p["kernel"]
)


def linear_structure():
    x = jax.ShapeDtypeStruct((1, 2), "float32")
    return trace(LINEAR, LINEAR.init(jax.random.key(0), x), x, verify=False)


def test_a_kernel_by_hand():
    structure, x = linear_structure(), jnp.ones((1, 2))
    factors = Factors(
        {"params/kernel": jnp.array([[1.0, -1.0]])}, {"params/kernel": jnp.array([[2.0, 0.5]])}
    )
    params = {"kernel": jnp.asarray(MATRIX, jnp.float32)}
    explicit = multiplied(structure, params, factors)["kernel"]
    np.testing.assert_array_equal(explicit, [[2, 1], [-6, -2]])
    outputs = factored(structure, lambda p, x: x @ p["kernel"])(params, factors, x)
    np.testing.assert_array_equal(outputs, [[-4, -1]])


def random_factors(structure, rank, dtype=float):
    rng = np.random.default_rng(1)

    def draw(role):
        shapes = {path: (rank, *unit_shape(structure, path, role)) for path in kernels(structure)}
        return {path: jnp.asarray(rng.normal(size=s), dtype) for path, s in shapes.items()}

    return Factors(draw("input"), draw("output"))


def both_ways(network, variables, structure, factors, x):
    """Outputs with factors on activations, and with kernels written out."""

    def run(params, x):
        return network.apply(Variables(params, variables.state), x)[0]

    shared = factored(structure, run)(variables.params, factors, x)
    return shared, run(multiplied(structure, variables.params, factors), x)


@pytest.mark.parametrize("implementation", ["native", "mixed", "gemm"])
def test_factors_on_activations_are_factors_on_kernels(float64, implementation):
    """Also where a convolution is made of products of reordered kernels."""
    network = cx.networks.Sequential(
        (
            cx.networks.Conv(9, 3),
            cx.networks.Activation("relu"),
            cx.networks.Conv(4, 3, stride=2),
            cx.networks.Flatten(),
            cx.networks.Dense(3),
        )
    )
    x = jax.random.normal(jax.random.key(1), (2, 5, 5, 3))
    variables = network.init(jax.random.key(0), x)
    structure = trace(network, variables, x, verify=False)
    factors = random_factors(structure, rank=2)
    with using_implementation(implementation):
        shared, explicit = both_ways(network, variables, structure, factors, x)
    np.testing.assert_allclose(shared, explicit, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("implementation", ["mixed", "gemm"])
def test_derivatives_are_those_of_kernels_written_out(float64, implementation):
    """Both rules: the kernels of the convolutions are smaller than what they read, the dense
    kernel is larger. First and second order, both modes, mapped over two members.
    """
    network = cx.networks.Sequential(
        (
            cx.networks.Conv(3, 2),
            cx.networks.Activation("tanh"),
            cx.networks.Conv(2, 2),
            cx.networks.Flatten(),
            cx.networks.Dense(4),
        )
    )
    x = jax.random.normal(jax.random.key(1), (2, 5, 5, 8))
    variables = network.init(jax.random.key(0), x)
    structure = trace(network, variables, x, verify=False)
    factors = random_factors(structure, rank=2)
    two = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf**2 - 1]), factors)

    def loss(way, args):
        def one(factors):
            found = both_ways(network, variables._replace(params=args[0]), structure, factors, x)
            return jnp.sin(found[way]).sum()

        return jax.vmap(one)(args[1]).sum()

    def orders(way):
        of = lambda args: loss(way, args)  # noqa: E731
        where = (variables.params, two)
        direction = jax.tree.map(jnp.cos, where)
        second = jax.grad(lambda a: jax.jvp(of, (a,), (direction,))[1])
        return jax.jit(lambda a: (jax.grad(of)(a), second(a)))(where)

    with using_implementation(implementation):
        shared, explicit = orders(0), orders(1)
    for ours, theirs in zip(jax.tree.leaves(shared), jax.tree.leaves(explicit), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_a_kernel_that_is_transformed_first_is_written_out(float64):
    """A depthwise convolution, and a kernel that is centred before its product."""

    def apply(params, x):
        centred = params["kernel"] - params["kernel"].mean()
        thin = jax.lax.conv_general_dilated(
            x, params["depthwise"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=2,
        )  # fmt: skip
        return thin.reshape(len(x), -1) @ centred

    params = {
        "depthwise": jax.random.normal(jax.random.key(0), (3, 3, 1, 2)),
        "kernel": jax.random.normal(jax.random.key(1), (18, 2)),
    }
    network = FunctionNetwork(lambda key, x: params, apply)
    x = jax.random.normal(jax.random.key(2), (2, 3, 3, 2))
    structure = trace(network, Variables(params, {}), x, on_unknown="pin", verify=False)
    assert "params/depthwise" in kernels(structure)
    factors = random_factors(structure, rank=1)
    shared, explicit = both_ways(network, Variables(params, {}), structure, factors, x)
    np.testing.assert_allclose(shared, explicit, rtol=1e-10)


@pytest.fixture(scope="module")
def ensemble():
    """A BatchEnsemble of three before its first step, with its problem and rows."""
    problem, data = classification(cx.networks.MLP((5,), outputs=2))
    dynamics, state = start(problem, cx.BatchEnsemble(members=3, batch="tile"), data)
    return problem, data, dynamics, state


def with_factors(state, change):
    trained = state.trained
    members = jax.tree.map(change, trained.members)
    return state._replace(trained=trained._replace(members=members))


def outputs_of(problem, variables, x):
    return jax.vmap(lambda v: problem.outputs(v, x)[0])(variables)


def test_factors_of_one_give_the_network(ensemble):
    problem, data, dynamics, state = ensemble
    plain = problem.init(jax.random.key(0), data.x[:1])
    found = outputs_of(
        problem, jitted(dynamics.members)(with_factors(state, jnp.ones_like)), data.x
    )
    for each in found:
        np.testing.assert_allclose(each, problem.outputs(plain, data.x)[0], rtol=1e-5, atol=1e-6)


def test_stored_numbers(ensemble):
    """A kernel and its biases take ``a b + M (a + b + b)`` numbers."""
    _, _, dynamics, state = ensemble
    count = sum(leaf.size for leaf in jax.tree.leaves(dynamics.trained(state)))
    assert count == 3 * 5 + 3 * (3 + 5 + 5) + 5 * 2 + 3 * (5 + 2 + 2)


def test_members_with_equal_factors_are_equal(ensemble):
    problem, data, dynamics, state = ensemble
    equal = with_factors(state, lambda leaf: jnp.broadcast_to(leaf[:1], leaf.shape))
    found = outputs_of(problem, jitted(dynamics.members)(equal), data.x)
    np.testing.assert_array_equal(found[1], found[0])
    other = outputs_of(problem, jitted(dynamics.members)(state), data.x)
    assert np.abs(other[1] - other[0]).max() > 0.1


def test_the_gradient_of_shared_kernels_is_the_mean_of_the_members(ensemble):
    """``∂ loss/∂W = (1/M) Σ_m (∂ loss_m/∂W_m) * r_m s_mᵀ``, by members written out."""
    problem, data, dynamics, state = ensemble
    batch = batch_of(problem, data)

    def shared(trained):
        loss = jitted(dynamics.loss)(
            trained, state.fixed, state.carried, 0, jax.random.key(1), batch
        )
        return loss[0]

    def explicit(params):
        outputs = problem.outputs(Variables(params, {}), batch.x, train=True)[0]
        return problem.negative_log_likelihood(outputs, batch)

    found = jax.grad(shared)(state.trained).weights["0_dense/kernel"]
    members = jitted(dynamics.members)(state).params
    gradients = jax.vmap(jax.grad(explicit))(members)["0_dense"]["kernel"]
    factors = state.trained.members
    r = factors.inputs["params/0_dense/kernel"][:, 0]
    s = factors.outputs["params/0_dense/kernel"][:, 0]
    decay = 0.01 * state.trained.weights["0_dense/kernel"]
    expected = (gradients * r[:, :, None] * s[:, None, :]).mean(0) + decay
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_the_prior_is_on_shared_weights_alone(ensemble):
    _, _, dynamics, state = ensemble
    gradient = jax.grad(dynamics._prior)(state.trained)
    for leaf in jax.tree.leaves((gradient.own, gradient.members)):
        np.testing.assert_array_equal(leaf, 0)
    kernel = state.trained.weights["0_dense/kernel"]
    np.testing.assert_allclose(gradient.weights["0_dense/kernel"], 0.01 * kernel, rtol=1e-6)


def test_factors_learn_at_their_own_rate(ensemble):
    problem, data, dynamics, state = ensemble
    batch, key = batch_of(problem, data), jax.random.key(1)
    slow, _ = jitted(dynamics.step)(key, state, batch)
    fast, _ = jitted(dataclasses.replace(dynamics, rate_multiplier=1.0).step)(key, state, batch)
    moved = [
        jax.tree.leaves(jax.tree.map(jnp.subtract, new.trained.members, state.trained.members))
        for new in (slow, fast)
    ]
    for a, b in zip(*moved, strict=True):
        np.testing.assert_allclose(2 * a, b, rtol=1e-3, atol=1e-6)
    np.testing.assert_array_equal(
        slow.trained.weights["0_dense/kernel"], fast.trained.weights["0_dense/kernel"]
    )


def test_an_optimiser_that_decays_spares_factors_and_biases():
    problem, data = classification(cx.networks.MLP((5,), outputs=2), weight_decay=0.0)
    training = TRAINING.replace(optimiser="adamw", decoupled_decay=0.5)
    method = cx.BatchEnsemble(members=2, batch="tile")
    dynamics, state = start(problem, method, data, training=training)
    none = weighted(batch_of(problem, data), np.zeros(len(data)))
    none = none._replace(weight=none.weight.at[0].set(1e-30))
    new, _ = jitted(dynamics.step)(jax.random.key(1), state, none)
    kernel = "0_dense/kernel"
    shrunk = new.trained.weights[kernel] / state.trained.weights[kernel]
    assert float(np.median(shrunk)) < 0.99
    before, after = state.trained.members.inputs, new.trained.members.inputs
    np.testing.assert_allclose(after["params/" + kernel], before["params/" + kernel], atol=0.11)
    assert float(jnp.abs(after["params/" + kernel]).mean()) > 0.99


@pytest.mark.parametrize(("rows", "members"), [(7, 4), (8, 4), (4, 4), (9, 2)])
def test_every_row_of_a_batch_goes_to_one_member(rows, members):
    """With its own weight: nothing is dropped, and the remainder is not always the same one's."""
    batch = Batch(jnp.arange(rows) * 1.0, jnp.arange(rows), 1.0 + jnp.arange(rows))
    counts = []
    for seed in range(12):
        split = split_rows(batch, members, jax.random.key(seed))
        assert split.x.shape == (members, -(-rows // members))
        used = np.asarray(split.weight) > 0
        assert sorted(np.asarray(split.y)[used]) == list(range(rows))
        np.testing.assert_array_equal(split.weight[used], 1 + np.asarray(split.y)[used])
        counts.append(used.sum(1))
        assert counts[-1].max() - counts[-1].min() <= 1


def test_rows_of_a_short_batch_are_for_members_in_turn():
    """Padding rows (weight zero) lie at the end of a batch; every member gets real ones."""
    batch = Batch(jnp.arange(8.0), jnp.arange(8), jnp.array([1.0, 1, 1, 0, 0, 0, 0, 0]))
    shares = [split_rows(batch, 4, jax.random.key(seed)).weight.sum(1) for seed in range(20)]
    assert (np.stack(shares).sum(0) > 0).all()
    assert np.stack(shares).max() <= 1


def test_split_rows_have_the_loss_of_their_members(ensemble):
    problem, data, _, _ = ensemble
    dynamics, state = start(problem, cx.BatchEnsemble(members=3, batch="split"), data)
    batch, key = batch_of(problem, data), jax.random.key(5)
    loss, (_, info) = jitted(dynamics.loss)(
        state.trained, state.fixed, state.carried, 0, key, batch
    )
    rows = split_rows(batch, 3, jax.random.split(key, 3)[0])
    members = jitted(dynamics.members)(state)
    log_prob = [
        problem.likelihood.log_prob(
            problem.outputs(jax.tree.map(lambda leaf, m=m: leaf[m], members), rows.x[m])[0],
            rows.y[m],
        )
        for m in range(3)
    ]
    sums = jnp.stack([(rows.weight[m] * log_prob[m]).sum() for m in range(3)])
    expected = -sums.sum() / 8 + dynamics._prior(state.trained)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    np.testing.assert_allclose(info["nll"], -sums / rows.weight.sum(1), rtol=1e-5)


def arrays_in(jaxpr):
    for equation in jaxpr.eqns:
        yield from (variable.aval.shape for variable in equation.outvars)
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from arrays_in(inner)


def test_a_prediction_never_copies_a_kernel(ensemble):
    """No array of the program has the members' axis in front of a kernel's shape."""
    problem, data, dynamics, state = ensemble
    method = cx.BatchEnsemble(members=3, batch="tile")
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], state)
    posterior = method.posterior(problem, dynamics, states, None, np.ones(3, bool), data)
    program = jax.make_jaxpr(posterior.predict_fn())(jnp.asarray(data.x))
    shapes = set(arrays_in(program.jaxpr))
    assert not shapes & {(3, 3, 5), (3, 5, 2)}
    explicit = jax.make_jaxpr(lambda: posterior.members().variables)()
    assert (3, 3, 5) in set(arrays_in(explicit.jaxpr))
    np.testing.assert_allclose(
        posterior.predict(data.x).log_probs, posterior.members().predict(data.x).log_probs,
        rtol=1e-5, atol=1e-6,
    )  # fmt: skip


def test_own_leaves():
    """Biases, or also the scales and shifts of norms; a learned noise level is never one's own."""
    network = cx.networks.MLP((4,), outputs=1, norm="batch")
    x = np.linspace(-1, 1, 12, dtype=np.float32)[:, None]
    data = Split(x, x[:, 0])
    problem = cx.Problem(network, cx.Gaussian("learned"), weight_decay=0.01)
    for own, count in (("none", 0), ("biases", 2), ("biases-and-norms", 4)):
        _, state = start(problem, cx.BatchEnsemble(members=2, own=own), data)
        assert len(state.trained.own) == count, own
        assert not any("noise" in name for name in state.trained.own)
        assert all(leaf.shape[0] == 2 for leaf in jax.tree.leaves(state.carried))
    structure = traced(problem, data)
    assert len(kernels(structure)) == 2


def test_bad_input(refused):
    problem, data = classification(cx.networks.MLP((5,), outputs=2))
    refused(lambda: cx.BatchEnsemble(members=0), "members is 0")
    refused(lambda: cx.BatchEnsemble(rank=0), "rank is 0")
    refused(lambda: cx.BatchEnsemble(rank=2), "initial='normal'")
    refused(lambda: cx.BatchEnsemble(batch="both"), "batch")
    refused(lambda: cx.BatchEnsemble(own="all"), "own")
    refused(lambda: cx.BatchEnsemble(rate_multiplier=0), "rate_multiplier is 0")
    small = TRAINING.replace(batch_size=3)
    refused(lambda: cx.BatchEnsemble(members=4).dynamics(problem, data, small), "batch_size is 3")
    best = TRAINING.replace(keep_best=True)
    refused(lambda: cx.BatchEnsemble().dynamics(problem, data, best), "keep_best")
