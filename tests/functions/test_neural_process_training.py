"""Trained neural processes against the best predictor, on small budgets."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import credax as cx
from credax.functions import measure
from credax.functions.episodes import Episode
from credax.functions.process_descent import Form, ProcessDescent, Trained
from credax.functions.process_network import SetNetwork

PROBLEM = cx.Problem(cx.networks.MLP((1,), outputs=2), cx.HeteroscedasticGaussian())
TRAINING = cx.Training(epochs=20, batch_size=16, optimiser="adam", learning_rate=3e-3)


def trained(record, name, training=TRAINING, **options):
    data = cx.data.load(f"tasks/{name}", test=256, **{"train": 1024, "points": 24} | options)
    return cx.fit(PROBLEM, record, data, key=0, training=training, progress=False), data


@pytest.mark.slow
def test_the_gap_shrinks_and_is_never_below_zero():
    """Straight lines: 1280 steps of a small network against 16; and no context at all."""
    record = cx.CNP(hidden=32, encoder_layers=3, least_steps=1, floor=0.05)
    short = TRAINING.replace(epochs=1, learning_rate=1e-3)
    first, _ = trained(record, "linear", short, train=256)
    later, data = trained(record, "linear")
    gaps = [measure(p, data.test, sizes=(1, 10)).scores for p in (first, later)]
    for found in gaps:
        assert found["oracle_gap"] >= -3 * found["oracle_gap_error"]
    assert gaps[1]["oracle_gap"] < 0.5 * gaps[0]["oracle_gap"]
    none = measure(later, data.test, sizes=(0, 0)).scores
    assert abs(none["oracle_gap"]) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    "record",
    [
        cx.CNP(hidden=16, encoder_layers=2, least_steps=1),
        cx.NP(hidden=16, latent=4, encoder_layers=2, members=8, least_steps=1),
        cx.ANP(hidden=16, latent=4, heads=2, encoder_layers=2, members=8, least_steps=1),
    ],
    ids=["cnp", "np", "anp"],
)
def test_more_context_narrower_predictions(record):
    """Straight lines after 640 steps: the deviation of a target falls from context to context."""
    posterior, data = trained(record, "linear", TRAINING.replace(epochs=10))
    widths = [
        float(np.sqrt(measure(posterior, data.test, sizes=(n, n)).prediction.total).mean())
        for n in (0, 1, 3, 15)
    ]
    assert (np.diff(widths) < -0.02).all(), widths


def constants(key, sizes, noise=0.5, points=25):
    """Tasks ``y = θ + noise ε`` with contexts of these sizes; the last point is the target."""
    level, around = jax.random.split(key)
    shape = (len(sizes), points)
    y = jax.random.normal(level, (len(sizes), 1)) + noise * jax.random.normal(around, shape)
    number, there = jnp.arange(points)[None], jnp.ones(shape, bool)
    context, targets = number < sizes[:, None], there & (number == points - 1)
    return Episode(jnp.zeros((*shape, 1)), y[..., None], y, there, context, targets, there[:, 0])


def variance_without(held_out, how, steps=1500):
    """Mean variance of predictions from contexts of sizes that training never saw."""
    seen = jnp.asarray([n for n in range(25) if n not in held_out])
    network = SetNetwork(hidden=32, encoder_layers=2, aggregate=how)
    form = Form(True, 1, 1, 2, 0, 24)
    own = ProcessDescent(PROBLEM, TRAINING, 1, network, form, 0.1, "elbo", 1, 1)
    optimiser = optax.adam(optax.cosine_decay_schedule(5e-3, steps))

    def step(carry, key):
        trained, inner = carry
        episode = constants(key, jax.random.choice(jax.random.fold_in(key, 1), seen, (64,)))
        gradient = jax.grad(lambda t: own.loss(t, episode, key)[0])(trained)
        updates, inner = optimiser.update(gradient, inner)
        return (optax.apply_updates(trained, updates), inner), None

    start = Trained(network.init(jax.random.key(0), 1, 1, 2), {})
    keys = jax.random.split(jax.random.key(1), steps)
    train = jax.jit(lambda c: jax.lax.scan(step, c, keys))
    params = train((start, optimiser.init(start)))[0][0].network
    found = []
    for n in held_out:
        episode = constants(jax.random.key(5), jnp.full(512, n))
        given = network.condition(params, episode.given)
        outputs = network.outputs(params, given, jnp.zeros((512, 0)), episode.x[:, :1])
        outputs = PROBLEM.likelihood.with_floor(outputs, 0.1).reshape(1, 512, 2)
        found.append(float(PROBLEM.likelihood.predict(outputs).total.mean()))
    return np.array(found)


@pytest.mark.slow
def test_what_a_set_loses_without_its_size():
    """Constants with noise variance 1/4: exact is 1/4 + 1 / (1 + 4 n), at sizes never trained on.

    A mean gives one variance for all sizes; with the count, and as a sum, it narrows as it must.
    """
    held_out = (2, 9, 20)
    exact = np.array([0.25 + 1 / (1 + 4 * n) for n in held_out])
    error = {
        how: np.abs(variance_without(held_out, how) / exact - 1).max()
        for how in ("mean", "mean_and_count", "sum")
    }
    assert error["mean"] > 0.15, error
    assert max(error["mean_and_count"], error["sum"]) < 0.1, error


@pytest.mark.slow
def test_convolutions_and_a_table():
    """A ConvCNP beats a CNP of the same steps; and a table of one function is learned."""
    gaps = []
    for record in (
        cx.CNP(hidden=32, encoder_layers=3),
        cx.ConvCNP(hidden=16, blocks=3, floor=0.05),
    ):
        posterior, data = trained(record, "gp-rbf", TRAINING.replace(epochs=10))
        gaps.append(measure(posterior, data.test, sizes=(3, 20)).scores)
    assert gaps[1]["oracle_gap"] < gaps[0]["oracle_gap"]
    assert all(g["oracle_gap"] >= -3 * g["oracle_gap_error"] for g in gaps)
    table = cx.data.load("toy/sinusoid-gap", train=100)
    record = cx.CNP(hidden=32, encoder_layers=2, least_steps=2000)
    training = cx.Training(epochs=1, batch_size=50, optimiser="adam", learning_rate=3e-3)
    posterior = cx.fit(PROBLEM, record, table, training=training, progress=False)
    scores = cx.evaluate(posterior.predict(table.test.x), table.test.y, ["rmse", "nll"])
    assert scores["rmse"] < 0.7  # the targets' deviation is 1.4, the noise 0.2
    assert posterior.diagnostics["context"] == 49
