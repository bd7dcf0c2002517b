"""The gradient of the repulsion by the parameters: differences, layer formulas, pullbacks."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from repulsive_cases import batch_of, dynamics_of, gradient, largest_scaled, start

import credax as cx
from credax.methods.repulsive.embeddings import InputGradients, chosen_output
from credax.network import Variables
from credax.networks import Activation, AvgPool, Conv, Dense, Flatten, Sequential
from credax.training.members import Map, Unroll, Vmap

pytestmark = pytest.mark.slow

MEMBERS, BATCH, INPUTS, HIDDEN, CLASSES = 3, 4, 5, 7, 3
SLOPES = {
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
    "relu": (lambda z: np.maximum(z, 0), lambda z: (z > 0).astype(float)),
}


def rows(seed=1, inputs=(INPUTS,), batch=BATCH):
    rng = np.random.default_rng(seed)
    return batch_of(rng.normal(size=(batch, *inputs)), rng.integers(0, CLASSES, batch))


def network_params(seed=0):
    """One hidden layer, as the library names it, with members in front."""
    rng = np.random.default_rng(seed)
    draw = lambda *shape: rng.normal(size=(MEMBERS, *shape)) * 0.6  # noqa: E731
    return {
        "0_dense": {"kernel": draw(INPUTS, HIDDEN), "bias": draw(HIDDEN)},
        "1_dense": {"kernel": draw(HIDDEN, CLASSES), "bias": draw(CLASSES)},
    }


def by_hand(params, batch, activation):
    """Logits and the true logit's input gradient of every member, in numpy."""
    act, slope = SLOPES[activation]
    logits, gradients = [], []
    for i in range(MEMBERS):
        first, second = ({k: np.asarray(v[i]) for k, v in params[n].items()} for n in params)
        z = batch.x @ first["kernel"] + first["bias"]
        logits.append(act(z) @ second["kernel"] + second["bias"])
        signal = second["kernel"][:, batch.y].T * slope(z)
        gradients.append(signal @ first["kernel"].T)
    return np.stack(logits), np.stack(gradients)


def unit(g):
    return g / np.sqrt(np.square(g).sum(-1, keepdims=True) + 1e-24)


def objective(params, batch, activation, reference):
    """``Σ_i CE_i + R``, the kernel's second argument and its bandwidths held at the reference."""
    logits, g = by_hand(params, batch, activation)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    loss = -log_probs[:, np.arange(BATCH), batch.y].mean(1).sum()
    base = unit(reference)
    h = np.median(np.square(base[:, None] - base[None]).sum(-1), 0) / np.log(MEMBERS) + 1e-12
    d2 = np.square(unit(g)[:, None] - base[None]).sum(-1)
    return loss + np.log(np.exp(-d2 / h).sum((1, 2)) / BATCH).sum() / BATCH


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_whole_gradient_is_that_of_loss_and_frozen_repulsion(float64, activation):
    batch = jax.tree.map(np.asarray, rows())
    params = network_params()
    problem = cx.Problem(cx.networks.MLP((HIDDEN,), CLASSES, activation), cx.Categorical())
    dynamics = dynamics_of(cx.FoRDE(MEMBERS, lengthscale="identity"), problem, batch.x, batch.y)
    ours = gradient(dynamics, start(dynamics, batch.x, params=params), batch)
    reference, size = by_hand(params, batch, activation)[1], 1e-5
    if activation == "relu":
        z = np.einsum("bd,mdh->mbh", batch.x, params["0_dense"]["kernel"])
        assert np.abs(z + params["0_dense"]["bias"][:, None]).min() > 1e-3
    for layer, leaves in params.items():
        for name, leaf in leaves.items():
            exact = np.zeros_like(leaf)
            for index in np.ndindex(leaf.shape):
                ends = []
                for sign in (1, -1):
                    moved = {k: dict(v) for k, v in params.items()}
                    moved[layer][name] = leaf.copy()
                    moved[layer][name][index] += sign * size
                    ends.append(objective(moved, batch, activation, reference))
                exact[index] = (ends[0] - ends[1]) / (2 * size)
            error = np.abs(ours[layer][name] - exact)
            assert (error / (np.abs(exact) + np.abs(ours[layer][name]) + 1e-4)).max() < 1e-6


def layer_formula(params, batch, v, activation):
    """The pullback by hand: tangents forward, the one-hot signal back, in numpy."""
    act, slope = SLOPES[activation]
    curve = {"tanh": lambda z: -2 * np.tanh(z) * (1 - np.tanh(z) ** 2), "relu": np.zeros_like}
    found = {n: {k: np.zeros_like(a) for k, a in params[n].items()} for n in params}
    for i in range(MEMBERS):
        layers = [{k: np.asarray(a[i]) for k, a in params[n].items()} for n in params]
        z, a, t, u = [], [np.asarray(batch.x)], [v[i]], []
        for number, layer in enumerate(layers):
            z.append(a[-1] @ layer["kernel"] + layer["bias"])
            u.append(t[-1] @ layer["kernel"])
            last = number == len(layers) - 1
            a.append(z[-1] if last else act(z[-1]))
            t.append(u[-1] if last else slope(z[-1]) * u[-1])
        signal, extra = np.eye(CLASSES)[batch.y], np.zeros((BATCH, CLASSES))
        for number in reversed(range(len(layers))):
            name = list(params)[number]
            found[name]["kernel"][i] = t[number].T @ signal + a[number].T @ extra
            found[name]["bias"][i] = extra.sum(0)
            if number:
                back = layers[number]["kernel"].T
                below = z[number - 1]
                extra = slope(below) * (extra @ back)
                extra = extra + curve[activation](below) * u[number - 1] * (signal @ back)
                signal = slope(below) * (signal @ back)
    return found


@eqx.filter_jit
def pulled(space, problem, strategy, variables, batch, keys, out, v):
    embedding = space.embed(problem, strategy, variables, batch, keys)
    return embedding.pullback(out, v), embedding.z, embedding.outputs, embedding.carried


def pull(space, network, batch, params=None, strategy=None, out=None, seed=0, state=None):
    """What the space pulls back of a random repulsion, with its ``z``."""
    problem = cx.Problem(network, cx.Categorical())
    keys = jax.random.split(jax.random.key(seed), MEMBERS)
    variables = jax.jit(jax.vmap(lambda key: problem.init(key, batch.x)))(keys)
    variables = variables if params is None else variables._replace(params=params)
    variables = variables if state is None else variables._replace(state=state)
    count = max(1, round(space.fraction * len(batch.y)))
    size = int(np.prod(batch.x.shape[1:]))
    v = np.random.default_rng(3).normal(size=(MEMBERS, count, size))
    out = np.zeros((MEMBERS, len(batch.y), CLASSES)) if out is None else out
    strategy = Vmap() if strategy is None else strategy
    return (*pulled(space, problem, strategy, variables, batch, keys, out, v), v, variables)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_pullbacks_are_the_layer_formula(float64, activation):
    batch, params = rows(), network_params()
    network = cx.networks.MLP((HIDDEN,), CLASSES, activation)
    results = {
        kind: pull(InputGradients(pullback=kind), network, batch, params)
        for kind in ("vjp", "jvp", "difference")
    }
    v = results["vjp"][4]
    exact = layer_formula(params, batch, v, activation)
    assert largest_scaled(exact, results["vjp"][0]) < 1e-10
    assert largest_scaled(exact, results["jvp"][0]) < 1e-10
    if activation == "tanh":
        error = largest_scaled(exact, results["difference"][0])
        assert 1e-9 < error < 1e-3
    else:
        for found in (results["vjp"][0], results["jvp"][0]):
            assert not np.asarray(found["0_dense"]["bias"]).any()
            assert not np.asarray(found["1_dense"]["bias"]).any()
    logits, gradients = by_hand(params, batch, activation)
    np.testing.assert_allclose(results["vjp"][1], gradients, atol=1e-12)
    np.testing.assert_allclose(results["vjp"][2], logits, atol=1e-12)


def test_members_in_turn_give_the_same_pullback(float64):
    batch, params = rows(), network_params()
    network = cx.networks.MLP((HIDDEN,), CLASSES, "tanh")
    out = np.random.default_rng(5).normal(size=(MEMBERS, BATCH, CLASSES))
    at_once = pull(InputGradients(), network, batch, params, out=out)[0]
    for kind in ("vjp", "jvp"):
        space = InputGradients(pullback=kind)
        for strategy in (Map(2), Unroll()):
            turns = pull(space, network, batch, params, strategy, out=out)[0]
            assert largest_scaled(at_once, turns) < 1e-10


NATIVE, OWN = (
    Sequential(
        (
            Conv(3, implementation=how),
            Activation("relu"),
            AvgPool(2),
            Flatten(),
            Dense(CLASSES),
        )
    )
    for how in ("native", "auto")
)
NORMED = cx.networks.MLP((HIDDEN,), CLASSES, "tanh", norm="batch")


def reverse_over_reverse(network, variables, batch, v, train):
    """The plain route: differentiate ``Σ v . g`` by the parameters, member by member."""

    def inner(params, state, cotangent):
        def logit(x):
            outputs, _ = network.apply(Variables(params, state), x, train=train)
            return jnp.take_along_axis(outputs, batch.y[:, None], 1).sum()

        return jnp.sum(cotangent * jax.grad(logit)(batch.x).reshape(cotangent.shape))

    return jax.jit(jax.vmap(jax.grad(inner)))(variables.params, variables.state, v)


@pytest.mark.parametrize(
    ("network", "inputs", "statistics"),
    [
        (NATIVE, (4, 4, 2), "batch"),
        (OWN, (4, 4, 8), "batch"),
        (NORMED, (INPUTS,), "batch"),
        (NORMED, (INPUTS,), "frozen"),
        (NORMED, (INPUTS,), "detached"),
    ],
    ids=["native convolution", "convolution", "batch", "frozen", "detached"],
)
def test_convolution_and_batch_norm(float64, network, inputs, statistics):
    batch = rows(inputs=inputs)
    run = lambda kind: pull(InputGradients(pullback=kind, statistics=statistics), network, batch)  # noqa: E731
    found, _, _, _, v, variables = run("vjp")
    assert largest_scaled(found, run("jvp")[0]) < 1e-10
    space = InputGradients(pullback="auto", statistics=statistics)
    assert largest_scaled(found, pull(space, network, batch, strategy=Unroll())[0]) < 1e-10
    if statistics != "detached":
        train = statistics == "batch"
        exact = reverse_over_reverse(network, variables, batch, v, train)
        assert largest_scaled(exact, found) < 1e-10


@pytest.mark.parametrize("statistics", ["frozen", "detached", "batch"])
def test_rows_see_each_other_only_through_live_statistics(float64, statistics):
    """Perturbing one row must leave the others' gradients, but for train-mode batch norm."""
    batch = rows()
    space = InputGradients(statistics=statistics)
    _, z, outputs, carried, _, variables = pull(space, NORMED, batch)
    if statistics == "detached":
        # Constants of the batch: hold them and move one row.
        params = variables.params
        state = jax.tree.map(jnp.zeros_like, variables.state)
        settle = jax.vmap(lambda p, s: NORMED.apply(Variables(p, s), batch.x, train=True)[1])
        held = settle(params, state)
        frozen = pull(InputGradients(statistics="frozen"), NORMED, batch, state=held)
        np.testing.assert_allclose(z, frozen[1], atol=1e-12)
        # The outputs that the loss sees are those of training.
        live = pull(InputGradients(), NORMED, batch)
        np.testing.assert_allclose(outputs, live[2], atol=1e-12)
        np.testing.assert_allclose(
            carried["1_batch_norm"]["mean"], live[3]["1_batch_norm"]["mean"], atol=1e-12
        )
        assert np.abs(z - live[1]).max() > 1e-3
        return
    moved = batch._replace(x=batch.x.at[0].add(0.3))
    other = pull(space, NORMED, moved)[1]
    change = np.abs(other - z)[:, 1:].max()
    assert change < 1e-12 if statistics == "frozen" else change > 1e-3


def test_a_fraction_of_the_batch_is_its_first_rows(float64):
    batch, params = rows(), network_params()
    network = cx.networks.MLP((HIDDEN,), CLASSES, "tanh")
    out = np.random.default_rng(5).normal(size=(MEMBERS, BATCH, CLASSES))
    part = pull(InputGradients(fraction=0.5), network, batch, params, out=out)
    whole = pull(InputGradients(), network, batch, params, out=out)
    np.testing.assert_allclose(part[1], whole[1][:, :2], atol=1e-12)
    np.testing.assert_allclose(part[2], whole[2], atol=1e-12)
    v = np.zeros((MEMBERS, BATCH, INPUTS))
    v[:, :2] = part[4]
    problem = cx.Problem(network, cx.Categorical())
    keys = jax.random.split(jax.random.key(0), MEMBERS)
    exact, *_ = pulled(
        InputGradients(), problem, Vmap(), Variables(params, {}), batch, keys, out, v
    )
    assert largest_scaled(exact, part[0]) < 1e-10


def test_which_output_is_differentiated(float64):
    """The raw true logit, its log-probability, the mean loss, the logit, the mean, random signs."""
    key = jax.random.key(0)
    outputs = jnp.asarray(np.random.default_rng(0).normal(size=(4, 3)))
    batch = batch_of(np.zeros((4, 1)), np.array([0, 2, 1, 1]))
    classes = cx.Problem(cx.networks.MLP((), 3), cx.Categorical())
    pick = lambda problem, out, rows, of: np.asarray(chosen_output(problem, out, rows, of, key))  # noqa: E731
    chosen = np.asarray(outputs)[np.arange(4), batch.y]
    np.testing.assert_allclose(pick(classes, outputs, batch, "logit"), chosen)
    log_probs = chosen - np.log(np.exp(outputs).sum(-1))
    np.testing.assert_allclose(pick(classes, outputs, batch, "log_prob"), log_probs)
    np.testing.assert_allclose(pick(classes, outputs, batch, "loss"), -log_probs / 4)
    difference = pick(classes, outputs[:, :2], batch, "logit_difference")
    np.testing.assert_allclose(difference, outputs[:, 1] - outputs[:, 0])
    binary = cx.Problem(cx.networks.MLP((), 1), cx.Bernoulli())
    np.testing.assert_allclose(pick(binary, outputs[:, :1], batch, "logit"), outputs[:, 0])
    line = cx.Problem(cx.networks.MLP((), 1), cx.Gaussian())
    np.testing.assert_allclose(pick(line, outputs[:, :2], batch, "logit"), outputs[:, 0])
    several = cx.Problem(cx.networks.MLP((), 3), cx.Gaussian(0.5))
    signs = pick(several, jnp.ones((4, 3)), batch, "logit")
    assert set(signs) <= {-3.0, -1.0, 1.0, 3.0}
    again = pick(several, outputs, batch, "logit")
    drawn = np.asarray(jax.random.rademacher(key, (4, 3), float))
    np.testing.assert_allclose(again, (drawn * outputs).sum(-1))
