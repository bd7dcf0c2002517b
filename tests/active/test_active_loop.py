"""The loop: which labels it reads, how its index sets move, and that it can be stopped anywhere."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import active_cases as case
import jax
import numpy as np
import pytest

import credax as cx
from credax import files
from credax.active import loop as loop_module
from credax.active import rounds as rounds_module
from credax.active.ahead import check_ahead
from credax.active.rounds import Keys, Trainer, fitting, labelled_rows, scored_rows
from credax.active.state import FILE, State, load_state
from credax.data import Dataset, Split
from credax.standardise import Standardise
from credax.training import RunFolder


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loop") / "run"
    return case.run(folder=folder)


def bytes_of(folder):
    """What must not depend on when a loop was stopped: its state, and the members of its rounds."""
    members = sorted(folder.glob("rounds/*/members.safetensors"))
    return [path.read_bytes() for path in (folder / FILE, *members)]


def test_no_label_is_read_but_through_the_oracle():
    """Fails if a class count, a digest, a unit or a metric looks at the pool's labels."""
    truth, asked = case.dataset().train.y, []

    def oracle(indices):
        asked.append(indices)
        return truth[indices]

    history = case.run(case.dataset(y=case.Sealed(80)), oracle=oracle)
    assert np.array_equal(np.concatenate(asked), history.purchases)


def test_a_data_set_gives_its_labels_row_by_row(tmp_path):
    """Fails if the folder of a loop keeps labels that were not bought."""
    y = case.Recorded(case.dataset().train.y)
    history = case.run(case.dataset(y=y), initial=np.arange(6), folder=tmp_path / "run")
    assert y.read == history.purchases.tolist()


def test_each_round_moves_exactly_the_query_from_the_pool_to_the_labels():
    """Fails if bought rows stay in the pool, so that they are scored and bought again."""
    calls = []
    truth = case.dataset().train.y
    history = case.run(oracle=lambda rows: calls.append(rows) or truth[rows])
    assert list(map(len, calls)) == [case.INITIAL, case.QUERY, case.QUERY]
    state = history.state
    assert len(set(state.labelled.tolist())) == len(state.labelled) == 14
    assert not set(state.labelled) & set(state.unlabelled)
    assert sorted([*state.labelled, *state.unlabelled]) == list(range(80))
    assert np.bincount(state.bought).tolist() == [6, 4, 4]
    assert np.array_equal(state.labels, truth[state.labelled])
    assert history.labels == [6, 10, 14]


def test_the_same_key_buys_the_same_rows(undisturbed):
    again, other = case.run(), case.run(key=1)
    assert np.array_equal(again.purchases, undisturbed.purchases)
    assert not np.array_equal(other.purchases, undisturbed.purchases)


class Stopped(BaseException):
    """A process that ends."""


def test_a_loop_stopped_at_any_write_ends_with_the_same_bytes(undisturbed, tmp_path, monkeypatch):
    """Fails if two files of a round can disagree, or if a key depends on how often it was begun."""
    replace, left = os.replace, [0]

    def counted(*arguments):
        left[0] -= 1
        if left[0] == 0:
            raise Stopped
        replace(*arguments)

    monkeypatch.setattr(files.os, "replace", counted)
    folder, stops = tmp_path / "run", 0
    while True:
        left[0] = 2 + stops % 3  # at least one write succeeds, so that the loop goes on
        try:
            case.run(folder=folder)
            break
        except Stopped:
            stops += 1
    assert stops > 5
    assert bytes_of(folder) == bytes_of(undisturbed.folder)
    names = {path.name for path in folder.iterdir()}
    assert names == {".lock", "active.json", FILE, "seconds.json", "rounds"}


KILLED = """
import os, signal, sys
sys.path[:0] = [sys.argv[3]]
import active_cases as case
from credax import files
replace, left = os.replace, [int(sys.argv[2])]
def counted(*arguments):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*arguments)
files.os.replace = counted
case.run(folder=sys.argv[1])
"""


@pytest.mark.slow
def test_a_loop_killed_by_the_system_ends_with_the_same_bytes(undisturbed, tmp_path):
    """SIGKILL in another process, three times: before a state, during a round, after a choice."""
    folder, codes = tmp_path / "run", []
    for writes in (3, 6, 5, 10_000):
        arguments = [str(folder), str(writes), str(Path(__file__).parent)]
        done = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False)
        codes.append(done.returncode)
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, -signal.SIGKILL, 0]
    assert bytes_of(folder) == bytes_of(undisturbed.folder)


def test_a_round_depends_on_its_labels_and_not_on_the_round_before(undisturbed):
    """From scratch: the last round's posterior is that of a plain fit on the same labels."""
    data, state = case.dataset(), undisturbed.state
    rows = data.train[state.labelled]
    key = Keys.of(jax.random.key(0), case.ROUNDS).train
    training = case.TRAINING.replace(batch_size=14)
    alone = cx.fit(
        case.PROBLEM, cx.DeepEnsemble(members=3), rows, key=key, training=training, progress=False
    )
    pairs = zip(
        jax.tree.leaves(alone.variables),
        jax.tree.leaves(undisturbed.posterior.variables),
        strict=True,
    )
    assert all(np.array_equal(a, b) for a, b in pairs)


def test_random_purchases_have_the_pools_shares_of_classes():
    """Mean share over 400 keys, within 4 standard errors of the hypergeometric distribution."""
    y = np.repeat([0, 1, 2], [50, 20, 10])
    state, draws, count, keys = State(80), [], 8, 400
    random = cx.active.Random()
    for seed in range(keys):
        own = Keys.of(jax.random.key(seed), 0)
        free = scored_rows(state, 40, count, own)
        candidates = cx.active.Candidates(None, np.zeros((len(free), 1)), key=own.draw)
        chosen = random.choose(candidates, count, key=own.choose).indices
        draws.append(np.bincount(y[free[chosen]], minlength=3))
    shares = np.array([50, 20, 10]) / 80
    variance = count * shares * (1 - shares) * (80 - count) / 79
    error = np.sqrt(variance / keys)
    assert (np.abs(np.mean(draws, 0) - count * shares) < 4 * error).all()


def test_the_initial_labels_are_balanced_where_the_oracle_knows_the_classes():
    labels = cx.active.DatasetLabels(np.repeat([0, 1, 2], [70, 8, 2]))
    chosen = labels.balanced(12, np.random.default_rng(0))
    found = np.repeat([0, 1, 2], [70, 8, 2])[chosen]
    assert np.bincount(found).tolist() == [5, 5, 2]
    assert len(set(chosen.tolist())) == 12


def test_rows_that_measure_are_never_scored_or_bought():
    """Test and validation rows are marked by their values; fails if the pool holds any."""
    data, seen = case.dataset(), []
    marked = (
        Split(data.test.x + 100, data.test.y),
        Split(data.validation.x + 100, data.train.y[:12]),
    )
    data = Dataset("clouds", data.train, *marked, class_names=data.class_names)

    class Watching(cx.active.Random):
        def choose(self, candidates, count, *, key):
            seen.append(np.asarray(candidates.x[:]))
            seen.append(candidates.labelled_x)
            return super().choose(candidates, count, key=key)

    case.run(data, acquisition=Watching())
    assert np.concatenate(seen).max() < 50


def test_a_pool_on_disk_is_read_chunk_by_chunk(tmp_path):
    """Fails if the whole pool is copied, to the device or to memory, to score it."""
    largest, x, y = [0], *case.rows(80, 0)

    class Watched(np.memmap):
        def __getitem__(self, rows):
            found = super().__getitem__(rows)
            largest[0] = max(largest[0], len(found) if np.ndim(found) == 2 else 0)
            return found

    def oracle(rows):
        largest[0] = 0 if len(rows) == case.INITIAL else largest[0]  # after the pool was checked
        return y[rows]

    np.save(tmp_path / "pool.npy", x)
    pool = np.load(tmp_path / "pool.npy", mmap_mode="r").view(Watched)
    history = case.run(pool, oracle=oracle, chunk=16, scoring_pool=None)
    in_memory = case.run(x, oracle=lambda rows: y[rows], scoring_pool=None)
    assert np.array_equal(history.purchases, in_memory.purchases)
    assert largest[0] == 16


def test_units_of_targets_come_from_bought_labels_alone():
    """A regression whose unbought targets are huge: their scale must not reach the network."""
    x = np.linspace(-1, 1, 40, dtype=np.float32)[:, None]
    y = np.where(np.arange(40) < 10, x[:, 0], 1e6).astype(np.float32)
    pool = Split(x, y, None, Standardise.of(y))
    given = loop_module.given_data(pool, None, "regression")
    state = State(40).ask(np.arange(10)).tell(np.arange(10), y[:10], 0)
    units = labelled_rows(given.pool, state).targets
    np.testing.assert_allclose(units.scale, y[:10].std(), rtol=1e-6)


def test_members_of_earlier_rounds_can_be_dropped(undisturbed, tmp_path):
    case.run(folder=tmp_path / "run", keep_members=False)
    assert [path.name for path in (tmp_path / "run" / "rounds").iterdir()] == ["002"]
    kept = (tmp_path / "run" / "rounds" / "002" / "members.safetensors").read_bytes()
    assert kept == (undisturbed.folder / "rounds" / "002" / "members.safetensors").read_bytes()


def test_a_final_classifier_is_trained_on_the_same_labels():
    history = case.run(final="single")
    assert history.final.num_members == 1
    assert all(each.final["accuracy"] > 0.3 for each in history.rounds)
    assert history.curve() == [each.final["accuracy"] for each in history.rounds]


def test_the_history_counts_gradient_steps_of_all_members(undisturbed):
    """10 epochs of one batch of 6, 10 or 14 rows, by three networks."""
    assert [each.steps for each in undisturbed.rounds] == [30, 30, 30]
    assert undisturbed.steps == 90
    assert undisturbed.labels_for(0.0) == 6
    assert undisturbed.labels_for(1.1) is None


@pytest.mark.parametrize(
    ("last_batch", "steps", "expected"),
    [
        ("pad", 7, (8, 9, 8)),  # 6, 10, 14 labels in batches of 4: 2, 3, 4 steps per epoch
        ("drop", 7, (7, 8, 9)),  # 1, 2, 3
        ("pad", 1, (2, 3, 4)),  # never less than an epoch
    ],
)
def test_rounds_of_equal_steps_whatever_the_labels(last_batch, steps, expected):
    """``⌈steps / per epoch⌉`` epochs: fails if epochs are rounded down, or batches ignored."""
    training = case.TRAINING.replace(epochs=1000, batch_size=4, last_batch=last_batch)
    method = cx.DeepEnsemble(members=3)
    trainer = Trainer(case.PROBLEM, method, training, steps=steps)
    rows = case.dataset().train
    for labels, count in zip((6, 10, 14), expected, strict=True):
        own = fitting(training, labels, steps)
        assert own.epochs * own.steps_per_epoch(labels) == count
        assert trainer._steps(rows[:labels], own, None) == 3 * count


def test_steps_reach_every_training_of_a_loop(tmp_path, refused):
    """10 and 14 labels in one batch of at most 16: so many epochs, by three networks and by one."""
    options = {"initial": 10, "rounds": 1, "folder": tmp_path / "run"}
    history = case.run(steps=7, final="single", **options)
    assert [each.steps for each in history.rounds] == [21, 21]
    ending = tmp_path / "run" / "rounds" / "001-final"
    assert RunFolder(ending).ending["step"] == 7
    refused(lambda: case.run(steps=8, final="single", **options), "steps is 7 there and 8 here")


@pytest.mark.parametrize("key", [0, 1])
def test_a_duplicated_pool_is_bought_twice_by_bald_and_not_by_batchbald(key):
    """Every row four times: the two best rows by BALD alone are copies of one another."""
    x, y = case.rows(20, 0)
    pool, found = (np.repeat(x, 4, axis=0), np.repeat(y, 4)), {}
    options = {"rounds": 1, "query": 2, "initial": np.arange(0, 24, 4), "key": key}
    options["training"] = case.TRAINING.replace(epochs=200, learning_rate=0.3)
    for name in ("bald", "batchbald"):
        history = case.run(pool, cx.DeepEnsemble(members=8), acquisition=name, **options)
        found[name] = len(set((history.purchases[case.INITIAL :] // 4).tolist()))
    assert found == {"bald": 1, "batchbald": 2}


def test_a_damaged_or_foreign_state_is_refused(undisturbed, tmp_path, refused):
    state, _ = load_state(undisturbed.folder)
    assert state.labels.dtype == np.int32
    (tmp_path / FILE).write_bytes((undisturbed.folder / FILE).read_bytes()[:-8])
    refused(lambda: load_state(tmp_path), "damaged|cut short|does not")
    twice = State(5, *(np.zeros(2, t) for t in ("int64", "int32", "float64", "int64")))
    twice.save(tmp_path)
    refused(lambda: load_state(tmp_path), "overlap")


def test_damaged_times_cost_nothing_but_the_times(undisturbed, tmp_path):
    shutil.copytree(undisturbed.folder, tmp_path / "run")
    (tmp_path / "run" / "seconds.json").write_text("[1, 2")
    with pytest.warns(RuntimeWarning, match="times of rounds are not known"):
        history = case.run(folder=tmp_path / "run")
    assert history.seconds == (None, None, None)
    assert np.array_equal(history.purchases, undisturbed.purchases)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"query": 100}, "the pool has 80 rows"),
        ({"query": 0}, "query is 0"),
        ({"rounds": 0}, "rounds is 0"),
        ({"steps": 0}, "steps is 0; give a whole number from 1"),
        ({"steps": 2.5}, "steps is 2.5"),
        ({"steps": float("inf")}, "steps is inf"),
        ({"chunk": None}, "chunk is None"),
        ({"initial": 0}, "initial is 0"),
        ({"initial": [3, 3]}, "each once"),
        ({"scoring_pool": 2}, "scoring_pool is 2 and query is 4"),
        ({"acquisition": "balb"}, "did you mean 'bald'"),
        ({"retrain": "warm"}, "retrain is 'warm'"),
        ({"retrain": "continue"}, "SnapshotEnsemble"),
        ({"oracle": lambda rows: np.zeros(1)}, "one label for each"),
        ({"oracle": lambda rows: np.full(len(rows), 7)}, "7"),
        ({"oracle": lambda rows: np.full(len(rows), 0.5)}, "whole numbers"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(options, words, refused):
    refused(lambda: case.run(**options), words)


def test_bad_pools_are_refused_in_one_sentence(refused):
    x, y = case.rows(80, 0)
    holes = x.copy()
    holes[17, 1] = np.nan
    refused(lambda: case.run((holes, y)), "the pool holds NaN or infinity in row 17")
    refused(lambda: case.run((x[:0], y[:0])), "the pool has shape")
    refused(lambda: case.run(x), "oracle is missing")


@pytest.mark.parametrize(
    ("method", "acquisition"),
    [
        (cx.Single(), "bald"),
        (cx.DeepEnsemble(members=1), "batchbald"),
        (cx.MCDropout(samples=1), "mean-std"),
        (cx.SnapshotEnsemble(members=1), "variation-ratio-greedy"),
        (cx.SWA(), "power-bald"),
        (cx.Single(), cx.active.PredictiveVariance(part="epistemic")),
    ],
)
def test_one_member_has_nothing_to_disagree_with(method, acquisition, refused, monkeypatch):
    """Said before anything is trained, and before a label is asked for."""
    monkeypatch.setattr(rounds_module, "fit", None)
    options = {"acquisition": acquisition, "oracle": None}
    refused(lambda: case.run(case.dataset(y=case.Sealed(80)), method, **options), "has 1 member")


@pytest.mark.parametrize(
    "method",
    [
        cx.DeepEnsemble(members=3),
        cx.Single(),
        cx.MCDropout(samples=2, modes=2),
        cx.SnapshotEnsemble(members=2, modes=2),
        cx.SWA(modes=2),
    ],
)
def test_methods_know_how_many_members_they_will_have(method):
    """Fails if a method's count is not that of the posterior it returns."""
    training = cx.Training(4, batch_size=16)
    rows = case.dataset().train[:32]
    posterior = cx.fit(case.PROBLEM, method, rows, training=training, progress=False)
    assert method.expected_members == posterior.num_members == posterior.predict(rows.x).num_members


def test_one_member_with_a_distribution_of_its_own_may_be_asked():
    """A Dirichlet says what it does not know; only shapes are needed to see it."""
    problem = cx.Problem(cx.networks.MLP((8,), outputs=3), cx.EvidentialDirichlet())
    check_ahead(cx.active.BALD(), cx.Single(), problem, case.rows(4, 0)[0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"query": 5}, "query is 4 there and 5 here"),
        ({"key": 3}, "key"),
        ({"method": cx.DeepEnsemble(members=4)}, "members is 3 there and 4 here"),
        ({"acquisition": "margin"}, "acquisition"),
        ({"data": case.dataset(70)}, "pool"),
    ],
)
def test_a_loop_goes_on_with_its_own_data_and_settings_only(undisturbed, change, words, refused):
    refused(lambda: case.run(folder=undisturbed.folder, **change), words)


def test_another_version_does_not_go_on(undisturbed, monkeypatch, refused):
    monkeypatch.setattr(loop_module, "__version__", "9.9")
    refused(lambda: case.run(folder=undisturbed.folder), "credax is '0.1.0' there and '9.9' here")
