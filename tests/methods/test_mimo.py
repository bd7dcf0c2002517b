"""MIMO: slots, its limits, and the cost of its trunk."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from modulated_cases import TRAINING, batch_of, classification, jitted

import credax as cx
from credax.data.dataset import Split
from credax.methods.ensembles.mimo import MIMO, slots
from credax.network import Variables

# Small programs, many of them: compiling takes longer than a few seconds.
pytestmark = pytest.mark.slow


def started(method, network=None, shape=(3,)):
    """The dynamics, its first state, the problem with repeated inputs, and rows."""
    problem, data = classification(network or cx.networks.MLP((5,), outputs=2), shape)
    used = method.trained_problem(problem)
    dynamics, key = method.dynamics(used, data, TRAINING), jax.random.key(0)
    first = jitted(lambda key: dynamics.init(key, used.init(key, data.x[:1])))
    return problem, used, data, dynamics, first(key)


@pytest.mark.parametrize("repetition", [0.0, 0.5, 1.0])
def test_every_row_stands_in_every_input(repetition):
    rows = np.asarray(slots(jax.random.key(0), 8, 3, repetition, 2))
    assert rows.shape == (3, 16)
    for each in rows:
        assert sorted(each) == sorted([*range(8)] * 2)
    same = (rows == rows[0]).all(0)
    assert same.sum() >= round(repetition * 16)
    assert same.all() == (repetition == 1)


def test_with_full_repetition_it_is_an_ensemble_of_heads_on_one_input():
    """Each head's loss is that of its own network on the row beside itself, summed."""
    method = MIMO(members=2, repetition=1.0, batch_repetitions=1)
    _, used, data, dynamics, state = started(method)
    batch = batch_of(used, data)
    loss, (_, info) = jitted(dynamics.loss)(state.trained, {}, jax.random.key(1), batch)
    members = jitted(dynamics.members)(state)
    each = jax.vmap(lambda v: used.negative_log_likelihood(used.outputs(v, batch.x)[0], batch))(
        members
    )
    np.testing.assert_allclose(info["nll"], each, rtol=1e-5)
    arrays = jax.tree.leaves(state.trained)
    decay = 0.5 * 0.01 * sum(float(jnp.square(leaf).sum()) for leaf in arrays)
    np.testing.assert_allclose(loss, each.sum() + decay, rtol=1e-5)


def test_one_member_is_the_network():
    method = MIMO(members=1, batch_repetitions=1)
    problem, _, data, dynamics, state = started(method)
    plain = problem.init(jax.random.key(0), data.x[:1])
    one = jax.tree.map(lambda leaf: leaf[0], jitted(dynamics.members)(state))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(plain), strict=True):
        np.testing.assert_array_equal(a, b)
    batch = batch_of(problem, data)
    loss, _ = jitted(dynamics.loss)(state.trained, {}, jax.random.key(1), batch)
    expected, _ = problem.loss(plain, batch, num_data=len(data))
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def products(jaxpr) -> int:
    """Multiplications of all matrix products in a program."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left, result = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
            total += int(np.prod(result)) * int(np.prod([left[i] for i in contracted]))
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                total += products(inner)
    return total


def test_the_trunk_is_computed_once():
    """Of a prediction: only the first kernel and the heads grow with the number of members."""
    counts = {}
    for members in (1, 2, 4):
        network = cx.networks.MLP((16, 16), outputs=2)
        method = MIMO(members=members)
        problem, _, data, dynamics, state = started(method, network)
        states = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], state)
        alive = np.ones(members, bool)
        posterior = method.posterior(problem, dynamics, states, None, alive, data)
        program = jax.make_jaxpr(posterior.predict_fn())(jnp.asarray(data.x))
        counts[members] = products(program.jaxpr)
        np.testing.assert_allclose(
            posterior.predict(data.x).log_probs,
            posterior.members().predict(data.x).log_probs,
            rtol=1e-5, atol=1e-6,
        )  # fmt: skip
    each = 8 * (3 * 16 + 16 * 2)  # the first kernel and a head, for eight rows
    assert counts[2] - counts[1] == each
    assert counts[4] - counts[1] == 3 * each


def test_heads_start_different_and_statistics_are_shared():
    network = cx.networks.MLP((5,), outputs=2, norm="batch")
    _, used, data, dynamics, state = started(MIMO(members=3), network)
    kernel = state.trained.own["2_dense/kernel"]
    assert kernel.shape == (3, 5, 2)
    assert not np.array_equal(kernel[0], kernel[1])
    new, info = jitted(dynamics.step)(jax.random.key(1), state, batch_of(used, data))
    assert info["loss"].shape == (3,)
    shapes = [leaf.shape for leaf in jax.tree.leaves(new.carried)]
    plain = [leaf.shape for leaf in jax.tree.leaves(used.init(jax.random.key(0), data.x[:1]).state)]
    assert shapes == plain


def test_bad_input(refused):
    refused(lambda: MIMO(members=0), "members is 0")
    refused(lambda: MIMO(repetition=1.5), "repetition is 1.5")
    refused(lambda: MIMO(batch_repetitions=0), "batch_repetitions is 0")
    problem, data = classification(cx.networks.MLP((5,), outputs=2))
    tokens = Split(np.zeros((8, 3), np.int32), data.y)
    method = MIMO()
    refused(
        lambda: method.dynamics(method.trained_problem(problem), tokens, TRAINING), "side by side"
    )
    around = cx.fit(problem, cx.Single(), data, training=TRAINING, progress=False)
    refused(lambda: MIMO(around=around), "wider first layer")
    assert isinstance(around.variables, Variables)
