"""What the loop promises beyond the conformance table."""

import json
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.data import Split
from credax.errors import InputError
from credax.files import load_arrays, read_json, write_json
from credax.network import FunctionNetwork, Variables
from credax.training import MemberDiverged
from credax.training.run import RunFolder

PROBLEM = cx.Problem(cx.networks.MLP((8,), outputs=3), cx.Categorical(), weight_decay=1e-3)
TRAINING = cx.Training(epochs=4, batch_size=16)


@pytest.fixture(scope="module")
def split(blobs):
    x, y = blobs
    return Split(x, y)


def fit(split, record=None, **changes):
    options = {
        k: changes.pop(k) for k in ("validation", "folder", "problem", "key") if k in changes
    }
    return cx.fit(
        options.pop("problem", PROBLEM),
        record or cx.DeepEnsemble(members=3),
        split,
        key=options.pop("key", 0),
        training=TRAINING.replace(**changes),
        progress=False,
        **options,
    )


def leaves(posterior):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(posterior.variables)]


class Poisoned:
    """A network whose odd members start non-finite: the sign of one random draw decides."""

    inner = cx.networks.MLP((8,), outputs=3)

    def init(self, key, x):
        variables = self.inner.init(key, x)
        bad = jax.random.uniform(key) < 0.5
        params = jax.tree.map(lambda leaf: jnp.where(bad, jnp.nan, leaf), variables.params)
        return Variables(params, {})

    def apply(self, variables, x, *, key=None, train=False):
        return self.inner.apply(variables, x, key=key, train=train)


def test_a_diverged_member_is_named_and_left_out(split, tmp_path):
    problem = cx.Problem(Poisoned(), cx.Categorical())
    with pytest.warns(MemberDiverged, match="member [0-9] has a non-finite loss"):
        posterior = fit(split, cx.DeepEnsemble(members=6), problem=problem, folder=tmp_path / "run")
    assert 0 < posterior.num_members < 6
    assert all(np.isfinite(leaf).all() for leaf in leaves(posterior))
    lost = sorted(set(range(6)) - set(posterior.indices))
    ending = RunFolder(tmp_path / "run").history()[-1]
    assert sorted(map(int, ending["excluded"])) == lost
    record = RunFolder(tmp_path / "run").history()[0]
    assert [i for i, loss in enumerate(record["member_loss"]) if loss is None] == lost
    assert np.isfinite(record["loss"])
    np.testing.assert_allclose(
        posterior.member(posterior.indices[-1]).predict(split.x).log_probs[0],
        posterior.predict(split.x).log_probs[-1],
        rtol=1e-4,
    )


def test_all_members_gone_is_an_error(split):
    with (
        pytest.warns(MemberDiverged),
        pytest.raises(InputError, match="all 3 members have a non-finite loss"),
    ):
        fit(split, learning_rate=1e30, epochs=8)


@pytest.mark.slow
def test_a_second_ensemble_extends_the_first(split):
    ten = fit(split, cx.DeepEnsemble(members=6))
    first, second = fit(split), fit(split, cx.DeepEnsemble(members=3, offset=3))
    both = cx.combine([first, second])
    assert both.indices == (0, 1, 2, 3, 4, 5)
    for a, b in zip(leaves(both), leaves(ten), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
    with pytest.raises(InputError, match="offset"):
        cx.combine([first, first])


@pytest.mark.slow
def test_members_see_their_own_order_or_one_for_all(split):
    class SameStart:
        inner = cx.networks.MLP((8,), outputs=3)

        def init(self, key, x):
            return self.inner.init(jax.random.key(5), x)

        def apply(self, variables, x, *, key=None, train=False):
            return self.inner.apply(variables, x, key=key, train=train)

    problem = cx.Problem(SameStart(), cx.Categorical())
    own = fit(split, cx.DeepEnsemble(members=2), problem=problem)
    shared = fit(split, cx.DeepEnsemble(members=2, batches="shared"), problem=problem)
    assert max(np.abs(leaf[0] - leaf[1]).max() for leaf in leaves(own)) > 1e-3
    assert max(np.abs(leaf[0] - leaf[1]).max() for leaf in leaves(shared)) == 0
    assert np.asarray(shared.predict(split.x).epistemic).max() < 1e-6


def test_padding_the_last_batch_sees_every_row_once():
    """One epoch, rate so small that weights hardly move: the gradient is the mean over batches."""
    x = np.arange(10, dtype=np.float32)[:, None]
    line = FunctionNetwork(lambda key, x: {"w": jnp.zeros((1, 1))}, lambda p, x: x @ p["w"])
    problem = cx.Problem(line, cx.Gaussian(1.0))
    training = cx.Training(
        epochs=1,
        batch_size=4,
        learning_rate=1e-6,
        momentum=0.0,
        schedule="constant",
        last_batch="pad",
    )
    split = Split(x, x[:, 0])
    posterior = cx.fit(problem, cx.Single(), split, training=training, progress=False)
    # batches of 4, 4 and 2: each row's x² appears once, in a mean over its own batch
    moved = float(leaves(posterior)[0].squeeze()) / 1e-6
    order = np.asarray(
        jax.random.permutation(
            jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(jax.random.key(0), 0), 1), 0),
            10,
        )
    )
    squares = np.square(order.astype(float))
    expected = squares[:4].mean() + squares[4:8].mean() + squares[8:].mean()
    np.testing.assert_allclose(moved, expected, rtol=1e-3)


@pytest.mark.slow
def test_best_members_are_kept_one_by_one(split):
    # Half of the validation labels are wrong: growing certainty makes the score worse.
    wrong = np.where(np.arange(60) % 2, (split.y + 1) % 3, split.y)
    validation = Split(split.x, wrong)
    best = fit(split, validation=validation, keep_best=True, epochs=12)
    last = fit(split, epochs=12)
    truth = validation.y

    def scores(posterior):
        log_probs = np.asarray(posterior.predict(validation.x).log_probs)
        return -log_probs[:, np.arange(len(truth)), truth].mean(1)

    assert (scores(best) <= scores(last) + 1e-6).all()
    assert (scores(best) < scores(last) - 1e-4).any()


def test_early_stopping_ends_the_run(split, tmp_path):
    fit(
        split, validation=split, patience=1, learning_rate=1e-12, epochs=50, folder=tmp_path / "run"
    )
    history = RunFolder(tmp_path / "run").history()
    assert history[-1]["step"] < 50 * 3
    assert "validation_nll" in history[0]
    nll = history[0]["member_validation_nll"]
    assert history[0]["validation_nll"] <= np.mean(nll) + 1e-6


def test_early_stopping_needs_validation_rows(split):
    with pytest.raises(InputError, match="--validation"):
        fit(split, patience=2)


def test_a_file_on_disk_is_streamed_to_the_same_numbers(split, tmp_path):
    file = np.memmap(tmp_path / "x.bin", np.float32, "w+", shape=split.x.shape)
    file[:] = split.x
    streamed = fit(Split(file, split.y))
    for a, b in zip(leaves(streamed), leaves(fit(split)), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("damage", ["truncate", "flip", "both"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(split, tmp_path, damage):
    class Stop(Exception):
        pass

    class StopAt:
        def start(self, *_): ...
        def stop(self): ...
        def update(self, done, text):
            if done >= 3:
                raise Stop

    def run(folder, reporter=False):
        record, training = cx.DeepEnsemble(members=2), TRAINING.replace(checkpoint_every=1)
        return cx.fit(PROBLEM, record, split, training=training, folder=folder, progress=reporter)

    with pytest.raises(Stop):
        run(tmp_path / "cut", StopAt())
    states = ["state.safetensors", "state.previous.safetensors"]
    for name in states if damage == "both" else states[:1]:
        path = tmp_path / "cut" / name
        content = bytearray(path.read_bytes())
        if damage == "flip":
            content[len(content) // 2] ^= 4
        path.write_bytes(content[: len(content) // (1 if damage == "flip" else 2)])
    with pytest.warns(RuntimeWarning, match="damaged"):
        run(tmp_path / "cut")
    run(tmp_path / "whole")
    one, other = (load_arrays(tmp_path / n / "members.safetensors")[0] for n in ("cut", "whole"))
    for name in other:
        np.testing.assert_array_equal(one[name], other[name])
    assert (tmp_path / "cut" / "state.damaged").exists()


@pytest.mark.slow
def test_records_of_a_resumed_run_are_those_of_an_undisturbed_one(split, tmp_path):
    class Stop(Exception):
        pass

    class StopAt:
        def start(self, *_): ...
        def stop(self): ...
        def update(self, done, text):
            if done >= 2:
                raise Stop

    def run(folder, reporter=False):
        training = TRAINING.replace(checkpoint_every=1)
        return cx.fit(
            PROBLEM, cx.Single(), split, training=training, folder=folder, progress=reporter
        )

    run(tmp_path / "whole")
    with pytest.raises(Stop):
        run(tmp_path / "cut", StopAt())
    run(tmp_path / "cut")

    def clean(lines):
        """What depends on the clock and the machine may differ between two runs."""
        clock = ("seconds", "memory", "date")
        return [{k: v for k, v in d.items() if not any(c in k for c in clock)} for d in lines]

    one, other = (RunFolder(tmp_path / name).history() for name in ("cut", "whole"))
    assert clean(one) == clean(other)


def test_a_finished_run_is_read_not_trained(split, tmp_path):
    first = fit(split, folder=tmp_path / "run")
    stamp = (tmp_path / "run" / "members.safetensors").stat().st_mtime_ns
    again = fit(split, folder=tmp_path / "run")
    assert (tmp_path / "run" / "members.safetensors").stat().st_mtime_ns == stamp
    np.testing.assert_array_equal(first.predict(split.x).probs, again.predict(split.x).probs)


def test_another_configuration_does_not_touch_a_run(split, tmp_path):
    fit(split, folder=tmp_path / "run")
    before = {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()}
    with pytest.raises(InputError, match=r"training.epochs is 4 there and 5 here"):
        fit(split, folder=tmp_path / "run", epochs=5)
    with pytest.raises(InputError, match=r"rows"):
        fit(split[:50], folder=tmp_path / "run")
    assert {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()} == before


def test_a_run_from_before_a_setting_existed_is_read_if_the_setting_has_its_default(
    split, tmp_path
):
    fit(split, folder=tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    config = read_json(path)
    del config["training"]["momentum"], config["method"]["offset"]
    write_json(path, config)
    fit(split, folder=tmp_path / "run")
    assert "momentum" not in read_json(path)["training"]
    with pytest.raises(InputError, match=r"training.momentum is 0.9 there and 0.5 here"):
        fit(split, folder=tmp_path / "run", momentum=0.5)


def test_a_folder_with_other_files_is_not_used(split, tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="other files"):
        fit(split, folder=tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir() if p.name[0] != ".") == ["thesis.tex"]


def test_two_processes_do_not_share_a_folder(split, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        holder = RunFolder(tmp_path / "run")
        holder.open({})
        with pytest.raises(InputError, match="another process"):
            RunFolder(tmp_path / "run").open({})
        holder.close()


def test_nothing_is_written_for_bad_input(split, tmp_path):
    for bad in (Split(split.x * np.nan, split.y), Split(split.x, split.y + 9), split[:0]):
        with pytest.raises(InputError):
            fit(bad, folder=tmp_path / "run")
    with pytest.raises(InputError, match="batch_size"):
        fit(split, batch_size=1000, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_config_is_resolved_json(split, tmp_path):
    fit(split, folder=tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["method"] == {
        "name": "deep-ensemble",
        "members": 3,
        "adversarial": None,
        "batches": "independent",
        "offset": 0,
    }
    assert config["training"]["batch_size"] == 16
    assert config["rows"]["count"] == 60


@pytest.mark.slow
def test_shared_augmentation_is_one_draw_for_all():
    """Members that differ in nothing stay equal exactly when the draw is shared."""
    x = np.random.default_rng(0).integers(0, 255, (32, 6, 6, 1), dtype=np.uint8)
    y = np.arange(32) % 2

    class SameStart:
        inner = cx.networks.MLP((4,), outputs=2)

        def init(self, key, x):
            return self.inner.init(jax.random.key(5), x)

        def apply(self, variables, x, *, key=None, train=False):
            return self.inner.apply(variables, x / 255, key=key, train=train)

    problem = cx.Problem(SameStart(), cx.Categorical())
    record = cx.DeepEnsemble(members=2, batches="shared")
    split = Split(x, y)
    one = fit(split, record, problem=problem, augment=("flip", "crop"), shared_augment=True)
    each = fit(split, record, problem=problem, augment=("flip", "crop"))
    assert max(np.abs(leaf[0] - leaf[1]).max() for leaf in leaves(one)) == 0
    assert max(np.abs(leaf[0] - leaf[1]).max() for leaf in leaves(each)) > 1e-4
