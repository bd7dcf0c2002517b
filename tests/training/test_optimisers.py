"""Optimisers and schedules of optax: by hand and through `fit`, resumed, described, refused."""

import threading
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import credax as cx
from credax.data import Split
from credax.errors import InputError
from credax.training import named_optimiser
from credax.training.describe import describe_training
from credax.training.schedule import optimiser_for

STEPS = 30


def adamw():
    """AdamW with warm-up, cosine decay and clipping, as users write it."""
    rate = optax.warmup_cosine_decay_schedule(0.0, 0.05, 5, STEPS)
    return optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(rate, weight_decay=0.01))


def problem():
    return cx.Problem(cx.networks.MLP((5,), outputs=3), cx.Categorical(), weight_decay=1e-3)


def rows(blobs):
    x, y = blobs
    return Split(x[:40], y[:40])


@pytest.mark.usefixtures("float64")
def test_adamw_with_warm_up_and_clipping_is_the_same_by_hand(blobs):
    """Full batches, so that only the order of sums differs."""
    x, y = jnp.asarray(blobs[0], jnp.float64), jnp.asarray(blobs[1])
    data, model, optimiser = Split(np.asarray(x), np.asarray(y)), problem(), adamw()
    training = cx.Training(STEPS, len(x), optimiser=optimiser)
    seen = {}

    class Watch:
        every = STEPS

        def __call__(self, step, members):
            seen[step] = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), members.params)

    posterior = cx.fit(
        model, cx.Single(), data, training=training, progress=False, observer=Watch()
    )
    params = seen[0]
    state = optimiser.init(params)

    def loss(params):
        outputs, _ = model.outputs(cx.Variables(params, {}), model.prepare_inputs(x))
        squares = sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(params))
        chosen = jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None], 1)
        return -jnp.mean(chosen) + 0.5e-3 * squares

    @jax.jit
    def step(params, state):
        updates, state = optimiser.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

    for _ in range(STEPS):
        params, state = step(params, state)
    found = jax.tree.map(lambda leaf: leaf[0], posterior.variables.params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), found, params)


class Stop(Exception):
    """Ends a training in the middle."""


def test_a_killed_run_with_an_optimiser_of_ones_own_resumes_to_the_same_bits(blobs, tmp_path):
    """The second call makes the optimiser anew: its description is by value."""

    class Halt:
        every = 7

        def __call__(self, step, members):
            if step >= 14:
                raise Stop

    def run(folder, observer=None, optimiser=None):
        training = cx.Training(
            6, 8, optimiser=optimiser or adamw(), checkpoint_every=1, stepping="loop"
        )
        return cx.fit(
            problem(),
            cx.DeepEnsemble(2),
            rows(blobs),
            training=training,
            folder=tmp_path / folder,
            progress=False,
            observer=observer,
        )

    whole = run("whole")
    with pytest.raises(Stop):
        run("parts", Halt())
    assert (tmp_path / "parts" / "state.safetensors").exists()
    other = optax.adamw(0.05, weight_decay=0.02)
    with pytest.raises(InputError, match="optimiser"):
        run("parts", optimiser=other)
    parts = run("parts")
    jax.tree.map(np.testing.assert_array_equal, whole.variables.params, parts.variables.params)


def test_a_factory_takes_the_schedule_and_a_schedule_any_optimiser(blobs):
    """``Training(optimiser=optax.adam)`` is the optimiser named adam, step for step."""
    gradient = {"w": jnp.asarray([0.3, -2.0])}

    def path(training):
        optimiser, params = optimiser_for(training, 40), {"w": jnp.ones(2)}
        state = optimiser.init(params)
        for _ in range(6):
            updates, state = optimiser.update(gradient, state, params)
            params = optax.apply_updates(params, updates)
        return params["w"]

    base = cx.Training(3, 10, optimiser="adam", learning_rate=0.1, warmup_epochs=0.5, clip_norm=1.0)
    np.testing.assert_allclose(path(base), path(base.replace(optimiser=optax.adam)), rtol=1e-6)
    rate = optax.exponential_decay(0.1, 2, 0.5)
    scheduled = cx.Training(3, 10, optimiser="sgd", momentum=0.0, learning_rate=rate)
    steps = sum(float(rate(step)) for step in range(6))
    np.testing.assert_allclose(path(scheduled), 1 - steps * gradient["w"], rtol=1e-6)
    for name, by_hand in (
        ("adamw", optax.adamw(0.1, weight_decay=0.3)),
        ("lion", optax.lion(0.1, weight_decay=0.3)),
        ("muon", optax.contrib.muon(0.1, weight_decay=0.3)),
        ("nesterov", optax.sgd(0.1, 0.9, nesterov=True)),
        ("rmsprop", optax.rmsprop(0.1, decay=0.9, eps=1e-6, eps_in_sqrt=False)),
    ):
        named = cx.Training(
            3,
            10,
            optimiser=name,
            learning_rate=0.1,
            schedule="constant",
            nesterov=False,
            decoupled_decay=0.3,
        )
        given = cx.Training(3, 10, optimiser=by_hand)
        np.testing.assert_allclose(path(named), path(given), rtol=1e-6, err_msg=name)


SLOW = pytest.mark.slow
DESCEND = [
    pytest.param(cx.SWAG(samples=2), marks=SLOW),
    pytest.param(cx.FoRDE(members=2), marks=SLOW),
    pytest.param(cx.SVGD(members=2), marks=SLOW),
    pytest.param(cx.MeanFieldVI(samples=2), marks=SLOW),
    pytest.param(cx.MCDropout(samples=2), marks=SLOW),
    pytest.param(cx.Laplace(), marks=SLOW),
    pytest.param(cx.CheckpointEnsemble(members=2), marks=SLOW),
]


@pytest.mark.parametrize("method", DESCEND, ids=lambda m: m.name)
def test_methods_that_descend_take_it(method, blobs):
    """One large step of plain descent moves further than none: the object is what steps."""
    training = cx.Training(4, 20, optimiser=adamw())
    still = training.replace(optimiser=optax.set_to_zero())
    data = rows(blobs)

    def params(training):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Laplace: so short a training ends at no mode
            posterior = cx.fit(problem(), method, data, training=training, progress=False)
        return jax.tree.leaves(posterior.variables.params)[0]

    assert not np.allclose(params(training), params(still))


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (cx.SGLD(samples=1), "SGLD moves by dynamics of its own"),
        (cx.SGHMC(samples=1), "moves by dynamics of its own"),
        (cx.CyclicalSGMCMC(), "moves by dynamics of its own"),
        (cx.HMC(samples=1), "HMC moves by dynamics of its own"),
        (cx.SnapshotEnsemble(members=2), "schedule is 'cyclic-cosine', which it would not see"),
    ],
    ids=lambda m: getattr(m, "name", ""),
)
def test_methods_with_steps_of_their_own_refuse_it(method, words, blobs):
    with pytest.raises(InputError, match=words):
        cx.fit(problem(), method, rows(blobs), training=cx.Training(4, 20, optimiser=adamw()))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"optimiser": "adm"}, "adam"),
        ({"optimiser": 3}, "optimiser is a int"),
        ({"optimiser": optax.adam(0.1), "learning_rate": 0.2}, "learning_rate is 0.2"),
        ({"optimiser": optax.adam(0.1), "clip_norm": 1.0}, "clip_norm is 1.0"),
        ({"learning_rate": optax.constant_schedule(0.1), "warmup_epochs": 1.0}, "warmup_epochs"),
        ({"learning_rate": "fast"}, "learning_rate is fast"),
        ({"decoupled_decay": -1.0}, "decoupled_decay is -1.0"),
    ],
)
def test_what_would_be_ignored_is_refused(settings, words):
    with pytest.raises(InputError, match=words):
        cx.Training(**settings)


def test_a_factory_that_makes_no_optimiser_and_one_that_wants_the_loss_are_refused():
    with pytest.raises(InputError, match="returned a float"):
        optimiser_for(cx.Training(optimiser=lambda rate: 0.1), 200)
    polyak = optimiser_for(cx.Training(optimiser=optax.polyak_sgd()), 200)
    with pytest.raises(InputError, match="asks for more than gradients"):
        polyak.update({"w": jnp.ones(1)}, polyak.init({"w": jnp.ones(1)}), {"w": jnp.ones(1)})


def test_an_optimiser_that_cannot_be_described_needs_a_name():
    lock, plain = threading.Lock(), optax.sgd(0.1)

    def update(updates, state, params=None):
        with lock:
            return plain.update(updates, state, params)

    odd = optax.GradientTransformation(plain.init, update)
    with pytest.raises(InputError, match="named_optimiser"):
        describe_training(cx.Training(optimiser=odd))
    named = describe_training(cx.Training(optimiser=named_optimiser(odd, "locked, version 1")))
    assert named["optimiser"]["name"] == "locked, version 1"
    assert describe_training(cx.Training(optimiser=adamw())) == describe_training(
        cx.Training(optimiser=adamw())
    )
    with pytest.raises(InputError, match="optimiser is a str"):
        named_optimiser("adam", "mine")
    with pytest.raises(InputError, match="name is ''"):
        named_optimiser(plain, "")
