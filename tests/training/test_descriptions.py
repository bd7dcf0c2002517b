"""What changes a number changes a run's description; what does not, does not."""

import functools
import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import credax as cx
from credax.data import Split
from credax.description import describe, shortened
from credax.errors import InputError
from credax.methods.repulsive.lengthscale import DenseMetric
from credax.training import RunFolder

PROBLEM = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical())
SHORT = cx.Training(2, 20)


def fit(blobs, folder, method=None, problem=PROBLEM, training=SHORT, **options):
    method = method or cx.Single()
    return cx.fit(
        problem, method, Split(*blobs), training=training, folder=folder, progress=False, **options
    )


def scaled(factor):
    return lambda step: factor * step


def edited(text):
    space = {}
    exec(f"def helper(x):\n    return {text}\ndef f(x):\n    return helper(x)\n", space)
    return space["f"]


class Schedule:
    def __init__(self, rate):
        self.rate = rate

    def __call__(self, step):
        return self.rate * step


DIFFERENT = {
    "closures": (scaled(1.0), scaled(2.0)),
    "edited lambdas": (lambda x: x + 1, lambda x: x + 2),
    "edited helpers": (edited("x + 1"), edited("x + 2")),
    "partials": (functools.partial(scaled, 1), functools.partial(scaled, 2)),
    "objects": (Schedule(1.0), Schedule(2.0)),
    "schedules of optax": (
        optax.cosine_decay_schedule(1.0, 10), optax.cosine_decay_schedule(1.0, 20),
    ),
    "optimisers of optax": (optax.adamw(1e-3), optax.adamw(1e-4)),
    "long arrays": (np.zeros(100), np.eye(1, 100)[0]),
    "types of arrays": (np.zeros(3, np.float32), np.zeros(3)),
    "keys": (jax.random.key(0), jax.random.key(0, impl="rbg")),
    "infinities": (float("inf"), float("-inf")),
    "units": (cx.Standardise([0.0], [1.0]), cx.Standardise([0.0], [2.0])),
    "networks": (cx.networks.MLP((4,), 3), cx.networks.MLP((4,), 3, activation="tanh")),
    "compiled": (jax.jit(lambda x: x + 1), jax.jit(lambda x: x - 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_values_are_described_differently(name):
    one, two = (json.dumps(shortened(describe(value))) for value in DIFFERENT[name])
    assert one != two
    assert one == json.dumps(shortened(describe(DIFFERENT[name][0])))


PROGRAM = """
import json, jax, optax, numpy as np, credax as cx
from credax.description import describe
names = {"b", "a", "c"}
def f(x):
    return x in {"one", "two", "three"}, names
net = cx.adapters.from_function(lambda key, x: {"w": 0}, lambda p, x: x)
print(json.dumps([describe(v) for v in (f, net, names, optax.adam(1e-3), jax.nn.relu)]))
"""


def test_descriptions_do_not_differ_from_process_to_process():
    run = [sys.executable, "-c", PROGRAM]
    one, two = (subprocess.run(run, capture_output=True, check=True).stdout for _ in range(2))
    assert one == two


def test_what_has_no_description_is_refused_or_named():
    generator = np.random.default_rng(0)
    with pytest.raises(InputError, match=r"augment.*Generator.*attribute name"):
        describe(generator, "augment")

    class Own:
        def __init__(self):
            self.generator = generator

    with pytest.raises(InputError, match=r"augment\..*Generator"):
        describe(Own(), "augment")
    named = Own()
    named.name = "mine, seed 0"
    assert describe(named)["name"] == "mine, seed 0"


def test_other_units_in_the_same_folder_are_refused(blobs, tmp_path):
    x, y = blobs
    fit(blobs, tmp_path)
    data = Split(x, y, cx.Standardise([0.0, 0.0], [10.0, 1.0]))
    with pytest.raises(InputError, match=r"other settings \(problem\.inputs"):
        cx.fit(PROBLEM, cx.Single(), data, training=SHORT, folder=tmp_path, progress=False)


def test_stored_units_win_or_agree(blobs, tmp_path):
    x, y = blobs
    units = cx.Standardise([1.0, 0.0], [10.0, 1.0])
    data = Split(x, y, units)
    posterior = cx.fit(PROBLEM, cx.Single(), data, training=SHORT, progress=False)
    posterior.save(tmp_path / "m.safetensors")
    expected = posterior.predict(x).probs
    for inputs in (None, units):
        problem = cx.Problem(PROBLEM.network, PROBLEM.likelihood, inputs=inputs)
        read = cx.Population.load(tmp_path / "m.safetensors", problem)
        np.testing.assert_array_equal(read.predict(x).probs, expected)
    other = cx.Problem(PROBLEM.network, PROBLEM.likelihood, inputs=cx.Standardise([0.0], [1.0]))
    with pytest.raises(InputError, match="inputs of the problem standardise otherwise"):
        cx.Population.load(tmp_path / "m.safetensors", other)


def test_laplace_around_another_network_is_another_run(blobs, tmp_path):
    one, two = (fit(blobs, None, key=key) for key in (0, 1))
    method = cx.Laplace(around=one, structure="diagonal")
    first = fit(blobs, tmp_path, method).predict(blobs[0]).probs
    again = fit(blobs, tmp_path, method).predict(blobs[0]).probs
    np.testing.assert_array_equal(first, again)
    with pytest.raises(InputError, match=r"other settings \(method\.around"):
        fit(blobs, tmp_path, cx.Laplace(around=two, structure="diagonal"))


def test_another_schedule_or_metric_is_another_run(blobs, tmp_path):
    fit(blobs, tmp_path / "a", cx.FoRDE(members=2, repulsion_scale=scaled(1e-3)))
    with pytest.raises(InputError, match=r"method\.repulsion_scale"):
        fit(blobs, tmp_path / "a", cx.FoRDE(members=2, repulsion_scale=scaled(2e-3)))
    one, two = (DenseMetric(jnp.diag(jnp.array([1.0, s]))) for s in (1.0, 2.0))
    fit(blobs, tmp_path / "b", cx.FoRDE(members=2, lengthscale=one))
    with pytest.raises(InputError, match=r"method\.lengthscale"):
        fit(blobs, tmp_path / "b", cx.FoRDE(members=2, lengthscale=two))


def test_another_file_of_components_is_another_run(blobs, tmp_path):
    from credax.data.pca import principal_components

    path = tmp_path / "pca.npz"
    for scale, folder in ((1.0, None), (2.0, "refused")):
        principal_components(Split(scale * blobs[0], blobs[1])).save(path)
        if folder is None:
            fit(blobs, tmp_path / "run", cx.FoRDE(members=2, pca=str(path)))
        else:
            with pytest.raises(InputError, match=r"method\.files"):
                fit(blobs, tmp_path / "run", cx.FoRDE(members=2, pca=str(path)))


def test_an_edited_network_or_augmentation_is_another_run(blobs, tmp_path):
    def problem(scale):
        function = lambda p, x: scale * x @ p["w"]  # noqa: E731
        start = lambda key, x: {"w": jnp.zeros((x.shape[-1], 3))}  # noqa: E731
        return cx.Problem(cx.adapters.from_function(start, function), cx.Categorical())

    fit(blobs, tmp_path / "a", problem=problem(1.0))
    with pytest.raises(InputError, match=r"problem\.network"):
        fit(blobs, tmp_path / "a", problem=problem(2.0))
    noisy = SHORT.replace(augment=(lambda key, x, y: (x + 0.1, y),))
    fit(blobs, tmp_path / "b", training=noisy)
    with pytest.raises(InputError, match=r"training\.augment"):
        fit(blobs, tmp_path / "b", training=SHORT.replace(augment=(lambda key, x, y: (x - 1, y),)))


def test_how_members_run_may_change_and_is_said(blobs, tmp_path):
    """A run that was stopped goes on under another strategy, to the same members up to rounding."""

    class Stop:
        def start(self, *_):
            pass

        def update(self, done, text):
            if done >= 2:
                raise KeyboardInterrupt

        def stop(self):
            pass

    training = cx.Training(4, 20, checkpoint_every=1)
    data, method = Split(*blobs), cx.DeepEnsemble(2)
    whole = cx.fit(PROBLEM, method, data, training=training, progress=False)
    with pytest.raises(KeyboardInterrupt):
        cx.fit(PROBLEM, method, data, training=training, folder=tmp_path, progress=Stop())
    assert (tmp_path / "state.safetensors").exists()
    other = training.replace(strategy="unroll", stepping="dispatch", placement="stream")
    with pytest.warns(UserWarning, match="strategy unroll instead of auto"):
        found = cx.fit(PROBLEM, method, data, training=other, folder=tmp_path, progress=False)
    for a, b in zip(
        jax.tree.leaves(whole.variables), jax.tree.leaves(found.variables), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    # A finished run is only read: nothing to say.
    cx.fit(PROBLEM, method, data, training=training, folder=tmp_path, progress=False)
    assert RunFolder(tmp_path).ending is not None


@pytest.mark.parametrize("kind", ["rbg", "unsafe_rbg"])
def test_keys_of_another_kind_are_refused_at_once(blobs, kind):
    with pytest.raises(InputError, match=f"key of type {kind}"):
        fit(blobs, None, key=jax.random.key(0, impl=kind))


def test_the_processs_default_generator_does_not_matter(blobs):
    seed = fit(blobs, None, cx.MCDropout(samples=3), key=5).predict(blobs[0]).probs
    with jax.default_prng_impl("rbg"):
        other = fit(blobs, None, cx.MCDropout(samples=3), key=5).predict(blobs[0]).probs
    np.testing.assert_array_equal(seed, other)
    raw = fit(blobs, None, cx.MCDropout(samples=3), key=jnp.array([0, 5], jnp.uint32))
    np.testing.assert_array_equal(seed, raw.predict(blobs[0]).probs)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"method": "deep-ensembel"}, "did you mean 'deep-ensemble'"),
        ({"method": cx.Single}, r"the class Single; give a record"),
        ({"method": 3}, "give a record of credax.methods"),
        ({"data": np.ones((3, 2))}, "data is a ndarray; give a Split"),
        ({"data": ("a", "b")}, r"data\[0\] has shape"),
        ({"training": cx.Training(batch_size=200)}, "batch_size is 200 and there are 60"),
        ({"key": 1.5}, "key is 1.5"),
    ],
)
def test_what_fit_cannot_take_is_one_sentence(blobs, arguments, words):
    given = {"problem": PROBLEM, "method": "single", "data": blobs, **arguments}
    with pytest.raises(InputError, match=words) as caught:
        cx.fit(**given, progress=False)
    assert "\n" not in str(caught.value)


def test_fit_takes_names_pairs_and_whole_data_sets(blobs):
    data = cx.data.load("toy/two-moons", train=40)
    two = cx.Problem(cx.networks.MLP((4,), outputs=2), cx.Categorical())
    one = cx.fit(two, cx.Single(), data.train, training=SHORT, progress=False)
    for given in (data, (data.train.x, data.train.y)):
        problem = cx.Problem(two.network, two.likelihood, inputs=data.train.inputs)
        found = cx.fit(problem, "single", given, training=SHORT, progress=False)
        np.testing.assert_array_equal(
            one.predict(data.test.x).probs, found.predict(data.test.x).probs
        )
    # 128 rows per batch on 60 rows: all of them.
    cx.fit(PROBLEM, "single", blobs, training=cx.Training(epochs=1), progress=False)
