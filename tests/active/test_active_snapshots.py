"""Snapshots in the loop: their rate, number and ancestry, and the fine-tuned trajectory."""

import active_cases as case
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.active.fine_tuning import Continue, FineTuning, pull_gradient, replayed
from credax.active.snapshot_presets import PRESETS
from credax.training.hooks import settings_of
from credax.training.schedule import OneCycle, learning_rate_at

SNAPSHOTS = cx.SnapshotEnsemble(members=3, schedule="constant", start=0.4)


@pytest.fixture(scope="module")
def continued(tmp_path_factory):
    folder = tmp_path_factory.mktemp("continued") / "run"
    return case.run(method=SNAPSHOTS, retrain=Continue(epochs=5), rounds=3, folder=folder)


def snapshots(folder, number):
    path = folder / "rounds" / f"{number:03d}" / "members.safetensors"
    return cx.Population.load(path, case.PROBLEM)


def test_the_rate_at_the_ends_of_epochs_is_that_worked_out_by_hand():
    """CIFAR-10: up to 1e-2 at epoch 30, 4e-8 at epoch 100, half way back at 125, 1e-2 from 150."""
    preset, rows = PRESETS["cifar10"], 640
    training = settings_of(preset.method, preset.training, rows)
    per_epoch = training.steps_per_epoch(rows)
    assert per_epoch == 10
    rate = learning_rate_at(training, rows)
    known = {0: 4e-4, 15: (4e-4 + 1e-2) / 2, 30: 1e-2, 65: (1e-2 + 4e-8) / 2, 100: 4e-8}
    known |= {125: (1e-2 + 4e-8) / 2, 150: 1e-2, 199: 1e-2}
    for epoch, value in known.items():
        np.testing.assert_allclose(float(rate(epoch * per_epoch)), value, rtol=1e-4, atol=2e-9)


@pytest.mark.parametrize("labels", [500, 1011, 5000, 12_345])
@pytest.mark.parametrize(
    ("name", "epochs"),
    [
        ("cifar10", [120, 140, 160, 180, 200]),
        ("cifar100", [210, 220, 230, 240, 250]),
        ("tiny-imagenet", [310, 320, 330, 340, 350]),
    ],
)
def test_presets_store_the_number_of_snapshots_that_they_say(name, epochs, labels):
    """Fails if the spacing does not know the preset's own start: 2 of 5 would be stored."""
    assert PRESETS[name].snapshot_epochs(labels) == epochs


def test_a_preset_with_an_unknown_setting_is_an_error(refused):
    with pytest.raises(TypeError, match="snapshot_start"):
        cx.active.SnapshotPreset("mnist", "cnn", 10, 5, 20, 10, 5, snapshot_start=3)
    refused(lambda: cx.active.preset("cifar"), "did you mean")
    with pytest.raises(TypeError, match="swa_start"):
        Continue(swa_start=3)


def test_one_cycle_refuses_a_rate_with_a_schedule_of_its_own(refused):
    method = cx.SnapshotEnsemble(schedule="one-cycle")
    training = cx.Training(learning_rate=OneCycle(0.1, 5, 5))
    refused(lambda: settings_of(method, training, 200), "one-cycle")


def test_one_snapshot_is_a_point_model():
    """BALD of one member is refused, and its entropy is that of its own probabilities."""
    history = case.run(method=cx.SnapshotEnsemble(members=1), rounds=1)
    prediction = history.posterior.predict(case.dataset().test.x)
    np.testing.assert_allclose(prediction.epistemic, 0, atol=1e-6)
    own = np.exp(np.asarray(prediction.log_probs[0], np.float64))
    entropy = -(own * np.log(own)).sum(-1)
    np.testing.assert_allclose(cx.active.entropy(prediction), entropy, atol=1e-5)


def test_members_differ_and_share_their_ancestry(continued):
    """All snapshots differ, and are closer to each other than to networks trained anew."""
    first = snapshots(continued.folder, 1)
    flat = np.concatenate([np.reshape(a, (3, -1)) for a in jax.tree.leaves(first.variables)], 1)
    assert len({row.tobytes() for row in flat}) == 3
    other = np.concatenate(
        [np.reshape(a, (3, -1)) for a in jax.tree.leaves(continued.posterior.variables)], 1
    )
    inside = np.linalg.norm(flat[0] - flat[1:], axis=1).max()
    assert inside < np.linalg.norm(flat[:1] - other, axis=1).min()


def test_a_round_goes_on_from_the_last_network_and_the_last_round_begins_anew(continued, tmp_path):
    """At a rate of almost nothing the trajectory stands still, and the last round does not."""
    still = Continue(epochs=3, learning_rate=1e-12, strength=0.0)
    history = case.run(method=SNAPSHOTS, retrain=still, folder=tmp_path / "run")
    before, after, last = (snapshots(tmp_path / "run", n) for n in range(3))
    for old, new, scratch in zip(
        *(jax.tree.leaves(each.variables) for each in (before, after, last)), strict=True
    ):
        np.testing.assert_allclose(new, np.repeat(old[-1:], 3, 0), atol=1e-6)
        assert np.abs(np.asarray(scratch) - np.asarray(new)).max() > 1e-3
    assert history.posterior.num_members == 3


def test_a_continued_loop_that_is_resumed_ends_with_the_same_bytes(tmp_path):
    """Only the newest members are kept, and the round before is read from them."""
    folder = tmp_path / "run"
    options = {"method": SNAPSHOTS, "retrain": Continue(epochs=5), "rounds": 3}
    truth, calls = case.dataset().train.y, []

    def tired(rows):
        calls.append(len(rows))
        if len(calls) in (2, 4):
            raise KeyboardInterrupt
        return truth[rows]

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            case.run(folder=folder, oracle=tired, keep_members=False, initial=6, **options)
    case.run(folder=folder, oracle=tired, keep_members=False, initial=6, **options)
    whole = case.run(oracle=lambda rows: truth[rows], initial=6, **options)
    last = cx.load(folder / "rounds" / "003")
    pairs = zip(
        jax.tree.leaves(last.variables), jax.tree.leaves(whole.posterior.variables), strict=True
    )
    assert all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("most", [0, 3, 100])
def test_replay_keeps_its_cap_and_holds_labelled_rows_only(most):
    bought = np.repeat([0, 1, 2], [6, 4, 4])
    chosen = replayed(bought, most, np.random.default_rng(0))
    assert len(set(chosen.tolist())) == len(chosen) == 4 + min(most, 10)
    assert set(range(10, 14)) <= set(chosen.tolist()) <= set(range(14))


def test_the_pull_is_finite_where_network_and_mean_are_equal():
    """The norm has no derivative there; a square root without care gives NaN."""
    here = {"w": jnp.array([[1.0, 2.0]]), "b": jnp.array([3.0])}
    zero = pull_gradient(here, here)
    assert all(np.array_equal(leaf, np.zeros_like(leaf)) for leaf in jax.tree.leaves(zero))
    away = {"w": jnp.array([[4.0, 6.0]]), "b": jnp.array([3.0])}
    centre = {**here, "b": jnp.array([2.0])}

    def norms(params):
        gaps = jax.tree.map(lambda a, b: jnp.linalg.norm((a - b).ravel()), params, centre)
        return sum(jax.tree.leaves(gaps))

    exact, found = jax.grad(norms)(away), pull_gradient(away, centre)
    for a, b in zip(jax.tree.leaves(exact), jax.tree.leaves(found), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_the_pull_acts_after_the_start_of_the_snapshots_only(blobs):
    """Strong pull, five epochs, two snapshots: the first three epochs are those without it."""
    data = cx.Split(blobs[0][:16], blobs[1][:16].astype(np.int32))
    training = case.TRAINING.replace(epochs=5, schedule="constant")
    start = cx.fit(case.PROBLEM, cx.Single(), data, training=training, progress=False)
    mean = jax.tree.map(lambda leaf: np.zeros_like(leaf[0]), start.variables.params)
    found = {}
    for strength in (0.0, 10.0):
        method = FineTuning(members=2, strength=strength, average=mean, around=start)
        dynamics = method.dynamics(case.PROBLEM, data, training)
        assert int(dynamics.inner.first) == 3
        posterior = cx.fit(case.PROBLEM, method, data, training=training, progress=False)
        found[strength] = posterior.variables.params
    squares = {s: [np.sum(np.square(a[0])) for a in jax.tree.leaves(p)] for s, p in found.items()}
    assert sum(squares[10.0]) < 0.9 * sum(squares[0.0])


def test_fewer_epochs_than_snapshots_are_refused(refused):
    refused(lambda: FineTuning(members=5).captures(4, 10), "at least 5 epochs")
    assert FineTuning(members=5).captures(50, 10) == [460, 470, 480, 490, 500]
    assert Continue() == Continue(epochs=50, replay=2000, strength=1e-2)
