"""Every method through one table: shapes, determinism, strategies, files, resume, prefixes."""

import dataclasses

import jax
import numpy as np
import pytest

import credax as cx
from conformance.table import ROWS
from credax import methods
from credax.data import Split
from credax.posterior import Population

NETWORK = cx.networks.MLP((8,), outputs=3)
TRAINING = cx.Training(epochs=3, batch_size=16, checkpoint_every=1)


class Killed(Exception):
    pass


class KillAfter:
    """A reporter that ends the process's work after some chunks, as a power cut would."""

    def __init__(self, chunks):
        self.left = chunks

    def start(self, title, total, done):
        pass

    def update(self, done, text):
        self.left -= 1
        if self.left == 0:
            raise Killed

    def stop(self):
        pass


@pytest.fixture(scope="module")
def split(blobs):
    x, y = blobs
    return Split(x, y, cx.Standardise.of(x))


def _name(name):
    return pytest.param(name, marks=pytest.mark.slow) if ROWS[name].slow else name


@pytest.fixture(scope="module", params=[_name(name) for name in sorted(ROWS)])
def name(request):
    return request.param


@pytest.fixture(scope="module")
def fitted(name, split):
    return cx.fit(
        problem_of(name),
        ROWS[name].record,
        split,
        key=7,
        training=training_of(name),
        progress=False,
    )


def problem_of(name):
    return cx.Problem(ROWS[name].network or NETWORK, cx.Categorical(), weight_decay=1e-3)


def training_of(name):
    return TRAINING.replace(**(ROWS[name].training or {}))


def leaves(posterior):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(posterior.variables)]


def assert_close(one, other, rtol=2e-4, atol=2e-5):
    for a, b in zip(leaves(one), leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def test_every_method_has_a_row_and_a_docs_page(pytestconfig):
    assert set(ROWS) == set(methods.names())
    for name in methods.names():
        record = methods.get(name)
        assert record.name == name
        assert dataclasses.is_dataclass(record)
        assert (pytestconfig.rootpath / "docs" / "methods" / f"{name}.md").exists()


def test_prediction_has_members_rows_and_classes(fitted, split):
    prediction = fitted.predict(split.x)
    assert prediction.log_probs.shape == (fitted.num_members, len(split), 3)
    assert prediction.log_probs.dtype == np.float32
    np.testing.assert_allclose(prediction.probs.sum(-1), 1, rtol=1e-5)


def test_it_learns(fitted, split):
    assert (np.asarray(fitted.predict(split.x).label) == split.y).mean() > 0.7  # chance: 1/3


def test_prediction_does_not_depend_on_the_batch_size(fitted, split):
    whole = fitted.predict(split.x).log_probs
    for size in (1, 7, 60, 1000):
        parts = fitted.predict(split.x, batch_size=size).log_probs
        np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-6)


# One method for each class of posterior: the function belongs to the class.
OF_POSTERIORS = (
    "batch-ensemble",
    "cnp",
    "deep-ensemble",
    "gp",
    "laplace",
    "mc-dropout",
    "nngp",
    "svgp",
    "swag",
    "vip",
)


def test_the_pure_function_gives_the_same_prediction_and_traces(name, fitted, split):
    if name not in OF_POSTERIORS:
        pytest.skip("another method with the same class of posterior is tested")
    if name in ("gp", "nngp", "svgp", "vip"):
        with pytest.raises(cx.InputError, match="predict_fn"):
            fitted.predict_fn()
        return
    whole, x = fitted.predict(split.x), split.x[:7]
    expected = np.asarray(whole.probs)[:7]
    # Both jits in one program: it is compiling that costs.
    both = jax.jit(lambda x: (fitted.predict_fn()(x).probs, fitted.predict(x).probs))
    for probs in both(x):
        np.testing.assert_allclose(probs, expected, rtol=1e-4, atol=1e-6)


def test_the_same_key_gives_the_same_bits(name, fitted, split):
    again = cx.fit(
        problem_of(name),
        ROWS[name].record,
        split,
        key=7,
        training=training_of(name),
        progress=False,
    )
    for a, b in zip(leaves(fitted), leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)
    other = cx.fit(
        problem_of(name),
        ROWS[name].record,
        split,
        key=8,
        training=training_of(name),
        progress=False,
    )
    assert any((a != b).any() for a, b in zip(leaves(fitted), leaves(other), strict=True))


def _slow(*values):
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


# Methods that differ from another in a part which no strategy touches: one of a kind is enough.
SAME_DYNAMICS = {
    "np": "cnp",
    "anp": "cnp",
    "convcnp": "cnp",
    "low-rank-vi": "mean-field-vi",
    "full-covariance-vi": "mean-field-vi",
    "swa": "swag",
    "checkpoint-ensemble": "snapshot-ensemble",
    "fast-geometric": "snapshot-ensemble",
    "sghmc": "sgld",
    "node-bnn": "rank1-bnn",
    "masksembles": "batch-ensemble",
    "nuts": "hmc",
    "gp": "ntk",
    "nngp": "ntk",
}


@pytest.mark.parametrize("strategy", ["map", *_slow("unroll", "shard", "dispatch", "stream")])
def test_strategies_agree(name, fitted, split, strategy):
    if strategy in ("dispatch", "stream") and name not in ("deep-ensemble", "forde"):
        pytest.skip("a way of the loop, not of the method: one of each kind of dynamics is enough")
    nothing_steps = SAME_DYNAMICS.get(name) == "ntk"
    if (strategy in ("unroll", "shard") or nothing_steps) and name in SAME_DYNAMICS:
        pytest.skip(f"as {SAME_DYNAMICS[name]}")
    changes = {
        "map": {"strategy": "map", "members_at_once": 3},
        "unroll": {"strategy": "unroll"},
        "shard": {"strategy": "shard"},
        "dispatch": {"strategy": "vmap", "stepping": "dispatch"},
        "stream": {"strategy": "vmap", "placement": "stream"},
    }[strategy]
    mesh = None
    if strategy == "shard":
        modes = getattr(ROWS[name].record, "modes", fitted.num_members)
        replicas = ROWS[name].replicas or modes
        members = next(size for size in (4, 2, 1) if replicas % size == 0)
        mesh = jax.make_mesh((members, 8 // members), ("members", "data"))
    problem, record = problem_of(name), ROWS[name].short or ROWS[name].record
    options = {"key": 7, "progress": False}
    if ROWS[name].short:
        fitted = cx.fit(problem, record, split, training=training_of(name), **options)
    posterior = cx.fit(
        problem, record, split, training=training_of(name).replace(**changes), mesh=mesh, **options
    )
    assert_close(posterior, fitted)


def test_members_do_not_depend_on_how_many_there_are(name, fitted, split):
    larger = ROWS[name].larger
    if larger is None:
        pytest.skip("members see each other, or their number changes what is collected")
    posterior = cx.fit(
        problem_of(name), larger, split, key=7, training=training_of(name), progress=False
    )
    if not hasattr(fitted, "take"):  # networks of the modes, and masks
        posterior = posterior.networks.take(range(len(fitted.variables[0]["0_dense"]["bias"])))
        assert_close(posterior, fitted.networks)
        return
    assert_close(posterior.take(range(fitted.num_members)), fitted)


def test_save_and_load_give_the_same_predictions(name, fitted, split, tmp_path):
    fitted.save(tmp_path / "members.safetensors")
    loaded = ROWS[name].record.load(tmp_path / "members.safetensors", problem_of(name))
    np.testing.assert_array_equal(
        loaded.predict(split.x).log_probs, fitted.predict(split.x).log_probs
    )
    loaded.save(tmp_path / "again.safetensors")
    first, second = (tmp_path / n for n in ("members.safetensors", "again.safetensors"))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("chunks", [1, *_slow(3)])
def test_a_killed_run_resumes_to_the_same_bytes(name, fitted, split, tmp_path, chunks):
    def run(folder, reporter=False):
        record = ROWS[name].record
        return cx.fit(
            problem_of(name),
            record,
            split,
            key=7,
            training=training_of(name),
            folder=folder,
            progress=reporter,
        )

    run(tmp_path / "whole")
    with pytest.raises(Killed):
        run(tmp_path / "cut", KillAfter(chunks))
    assert not (tmp_path / "cut" / "members.safetensors").exists()
    run(tmp_path / "cut")
    whole, cut = ((tmp_path / n / "members.safetensors").read_bytes() for n in ("whole", "cut"))
    assert whole == cut
    fitted.save(tmp_path / "direct.safetensors")
    assert (tmp_path / "direct.safetensors").read_bytes() == whole


def test_draws_are_members(fitted):
    draws = fitted.sample(jax.random.key(0), 5)
    for draw, member in zip(jax.tree.leaves(draws), leaves(fitted), strict=True):
        assert draw.shape == (5, *member.shape[1:])
        if not isinstance(fitted, Population):
            continue  # a Gaussian, or masks, draw new networks
        for row in np.asarray(draw):
            assert any(np.array_equal(row, one) for one in member)


def test_one_method_of_each_class_of_posterior_is_traced(fitted):
    kinds = {"Population", "LaplacePosterior", "DropoutPosterior", "InfinitePosterior"}
    kinds |= {"ExactPosterior", "SparsePosterior", "ImplicitPosterior", "ProcessPosterior"}
    kinds |= {"GaussianPosterior", "ModulatedPosterior"}
    assert type(fitted).__name__ in kinds, "add it to OF_POSTERIORS"
