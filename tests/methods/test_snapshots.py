"""Networks along one training: when they are taken, at which rates, and what they are."""

import jax
import numpy as np
import pytest

import credax as cx
from credax.data import Split
from credax.errors import InputError
from credax.training.schedule import cyclic_cosine, cyclic_linear, learning_rate_at, triangular

pytestmark = pytest.mark.slow

PROBLEM = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical(), weight_decay=1e-3)
TRAINING = cx.Training(epochs=6, batch_size=20)


def run(method, blobs, **options):
    options = {"training": TRAINING, "key": 3, "progress": False, **options}
    return cx.fit(PROBLEM, method, Split(*blobs), **options)


def flat(posterior):
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(posterior.variables)]
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)


def test_rates_by_hand():
    """Cosine cycles, and a triangle of four steps."""
    linear = cyclic_linear(10, 2, (0.05, 0.001))
    assert [round(float(linear(k)), 6) for k in range(6)] == [
        0.0402, 0.0304, 0.0206, 0.0108, 0.001, 0.0402,
    ]  # fmt: skip
    cosine = cyclic_cosine(10, 2)
    np.testing.assert_allclose(
        [0.1 * float(cosine(k)) for k in range(6)],
        [0.1, 0.09045085, 0.06545085, 0.03454915, 0.00954915, 0.1],
        atol=1e-8,
    )
    up = triangular(8, 2, (1.0, 0.2))
    np.testing.assert_allclose([float(up(k)) for k in range(5)], [0.6, 0.2, 0.6, 1, 0.6], rtol=1e-6)
    late = triangular(18, 2, (0.5, 0.1), start=10)
    np.testing.assert_allclose(
        [float(late(k)) for k in (0, 5, 7, 9, 11)], [1, 1, 0.75, 0.5, 0.1], rtol=1e-6
    )


@pytest.mark.parametrize(("steps", "members"), [(10, 3), (300, 5), (301, 6), (14, 7)])
def test_number_and_times_of_snapshots(steps, members):
    """Exactly as many as asked for, each at the last step of its cycle."""
    taken = cx.SnapshotEnsemble(members=members).captures(steps)
    assert len(taken) == members
    assert taken[-1] == steps
    rate = [float(cyclic_cosine(steps, members)(k)) for k in range(steps)]
    for step in taken[:-1]:
        assert rate[step - 1] < rate[step]
    constant = cx.SnapshotEnsemble(members=5, schedule="constant", start=0.5).captures(100)
    assert constant == [60, 70, 80, 90, 100]


def test_snapshots_are_the_networks_of_shorter_runs(blobs):
    """The last is the plain training's end; all differ."""
    posterior = run(cx.SnapshotEnsemble(members=3), blobs)
    cyclic = TRAINING.replace(schedule="cyclic-cosine", cycles=3)
    single = run(cx.Single(), blobs, training=cyclic)
    np.testing.assert_allclose(flat(posterior)[2], flat(single)[0], rtol=1e-5, atol=1e-6)
    assert len(np.unique(flat(posterior), axis=0)) == 3
    one = run(cx.SnapshotEnsemble(members=1), blobs).predict(blobs[0])
    np.testing.assert_allclose(one.epistemic, 0, atol=1e-6)  # one network


def test_the_last_checkpoints_are_the_last_epochs(blobs):
    """Members are the ends of epochs 5 and 6, in order, also when the ring has turned."""
    posterior = run(cx.CheckpointEnsemble(members=2), blobs, training=TRAINING.replace(epochs=5))
    constant = TRAINING.replace(schedule="constant")
    posterior = run(cx.CheckpointEnsemble(members=4), blobs, training=constant)
    for member, epochs in zip(flat(posterior), (3, 4, 5, 6), strict=True):
        single = run(cx.Single(), blobs, training=constant.replace(epochs=epochs))
        np.testing.assert_allclose(member, flat(single)[0], rtol=1e-5, atol=1e-6)


def test_the_best_checkpoint_is_early_stopping(blobs):
    """The best one is early stopping's, and the best two hold it."""
    held = Split(blobs[0][::3] + 1.0, blobs[1][::3])
    training = TRAINING.replace(learning_rate=1.0, epochs=8)
    stopped = run(cx.Single(), blobs, validation=held, training=training.replace(keep_best=True))
    best = run(
        cx.CheckpointEnsemble(members=1, keep="best"), blobs, validation=held, training=training
    )
    np.testing.assert_array_equal(flat(best), flat(stopped))
    two = run(
        cx.CheckpointEnsemble(members=2, keep="best"), blobs, validation=held, training=training
    )
    scores = [-float(two.take([i]).predict(held.x).log_prob(held.y).mean()) for i in range(2)]
    alone = -float(best.predict(held.x).log_prob(held.y).mean())
    assert min(scores) == pytest.approx(alone, rel=1e-5)
    assert max(scores) > alone


def test_geometric_networks_are_taken_at_the_lowest_rate(blobs):
    method = cx.FastGeometric(members=3, start=0.5)
    settings = method.settings(TRAINING.replace(epochs=10), 60)
    taken = method.captures(settings, 60)
    rate = learning_rate_at(settings, 60)
    lowest = TRAINING.learning_rate * method.low
    assert taken == [17, 21, 25]
    for step in taken:
        assert float(rate(step - 1)) == pytest.approx(lowest, rel=1e-5)
        assert float(rate(step)) > lowest
    posterior = run(method, blobs, training=TRAINING.replace(epochs=10))
    assert len(np.unique(flat(posterior), axis=0)) == 3


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (cx.SnapshotEnsemble(members=19), "members is 19"),
        (cx.CheckpointEnsemble(members=7), "6 epochs"),
        (cx.CheckpointEnsemble(members=2, keep="best"), "validation"),
        (cx.FastGeometric(members=9, start=0.5), "members is 9"),
    ],
)
def test_what_cannot_be_taken_is_refused(blobs, method, words):
    with pytest.raises(InputError, match=words):
        run(method, blobs)


@pytest.mark.parametrize(
    ("record", "options", "words"),
    [
        (cx.SnapshotEnsemble, {"members": 0}, "members"),
        (cx.SnapshotEnsemble, {"schedule": "cosine"}, "schedule"),
        (cx.FastGeometric, {"low": 1.0}, "high and low"),
        (cx.CheckpointEnsemble, {"keep": "first"}, "keep"),
    ],
)
def test_bad_options_are_refused(record, options, words):
    with pytest.raises(InputError, match=words):
        record(**options)
