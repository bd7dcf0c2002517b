"""Which devices a training uses, and that members are the same on all of them."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.data import Split
from credax.errors import InputError
from credax.training.engine import build_program
from credax.training.members import Shard, Vmap
from credax.training.mesh import Layout, choose_layout
from credax.training.program import order_of
from credax.training.supply import StreamSupply

TRAINING = cx.Training(epochs=3, batch_size=20, learning_rate=0.05)


@pytest.fixture
def eight(monkeypatch):
    monkeypatch.setenv("CREDAX_DEVICES", "8")


@pytest.fixture
def problem():
    return cx.Problem(cx.networks.MLP((6,), outputs=3), cx.Categorical(), weight_decay=1e-3)


def fitted(problem, record, blobs, training=TRAINING, **options):
    return cx.fit(problem, record, blobs, key=3, training=training, progress=False, **options)


def assert_same_members(one, other):
    """Sums over rows in another order: some hundred steps of float32 rounding."""
    leaves = zip(jax.tree.leaves(one.variables), jax.tree.leaves(other.variables), strict=True)
    for a, b in leaves:
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("members", "batch", "devices", "coupled", "all_used", "layout"),
    [
        (8, 128, 8, False, False, (8, 1)),
        (5, 128, 8, False, False, (5, 1)),  # three devices would compute copies only
        (3, 128, 8, False, False, (3, 2)),
        (1, 128, 8, False, False, (1, 8)),
        (1, 129, 8, False, False, (1, 3)),
        (1, 16, 8, False, False, (1, 2)),  # fewer than eight rows a device are not worth it
        (9, 128, 8, False, False, (5, 1)),  # two each on five; one of ten is a copy
        (16, 128, 8, False, False, (8, 1)),
        (11, 128, 8, True, False, (1, 8)),
        (6, 128, 8, True, False, (6, 1)),
        (5, 128, 8, False, True, (8, 1)),  # processes: no device may be left out
        (3, 128, 8, False, True, (4, 2)),
        (2, 128, 8, True, True, (2, 4)),
    ],
)
def test_layouts(members, batch, devices, coupled, all_used, layout):
    found = choose_layout(members, batch, devices, coupled=coupled, all_used=all_used)
    assert found == Layout(*layout)


def test_coupled_members_that_fit_no_layout_of_all_processes_are_refused(refused):
    call = lambda: choose_layout(5, 12, 8, coupled=True, all_used=True)  # noqa: E731
    refused(call, "5 members that see each other and a batch_size of 12 .* 8 devices")


def test_auto_uses_several_devices(problem, blobs, eight):
    split, record = Split(*blobs), cx.DeepEnsemble(members=5)
    dynamics = record.dynamics(problem, split, TRAINING)
    program = build_program(problem, dynamics, TRAINING, split, jax.random.key(0))
    assert isinstance(program.strategy, Shard)
    assert program.strategy.layout == (5, 1)


def test_auto_stays_on_one_device_where_it_is_told_to(problem, blobs, monkeypatch, refused):
    split, record = Split(*blobs), cx.DeepEnsemble(members=5)
    dynamics = record.dynamics(problem, split, TRAINING)
    build = lambda: build_program(problem, dynamics, TRAINING, split, jax.random.key(0))  # noqa: E731
    monkeypatch.setenv("CREDAX_DEVICES", "1")
    assert isinstance(build().strategy, Vmap)
    monkeypatch.setenv("CREDAX_DEVICES", "none")
    refused(build, "CREDAX_DEVICES is 'none'; give a number")


def test_padded_members_are_those_of_one_device(problem, blobs, tmp_path):
    """On four by two devices 5 members are padded to 8: nobody sees the copies."""
    members = 5
    mesh = jax.make_mesh((4, 2), ("members", "data"))
    validation = Split(blobs[0][:12], blobs[1][:12])
    kept = TRAINING.replace(keep_best=True, patience=2, learning_rate=0.3)
    options = {"training": kept, "validation": validation}
    one = fitted(problem, cx.DeepEnsemble(members), blobs, **options, mesh=None)
    many = fitted(
        problem, cx.DeepEnsemble(members), blobs, **options, mesh=mesh, folder=tmp_path / "run"
    )
    assert many.num_members == members
    assert_same_members(one, many)
    for line in cx.training.RunFolder(tmp_path / "run").history():
        assert "event" in line or len(line["member_loss"]) == members
        assert "event" in line or len(line["member_validation_nll"]) == members


def test_a_copy_that_diverges_is_not_reported(problem, blobs):
    """Every member diverges, so do its copies: the count in the sentence is of the members."""
    mesh = jax.make_mesh((4, 2), ("members", "data"))
    wild = TRAINING.replace(learning_rate=1e30)
    with (
        pytest.raises(InputError, match="all 5 members"),
        pytest.warns(cx.training.loop.MemberDiverged) as seen,
    ):
        fitted(problem, cx.DeepEnsemble(5), blobs, wild, mesh=mesh)
    assert len(seen) == 5


_SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("laplace", "mile")]


@pytest.mark.parametrize("name", ["swag", "forde", *_SLOW])
def test_methods_agree_with_one_device(problem, blobs, name, monkeypatch):
    records = {
        "swag": cx.SWAG(modes=3),
        "laplace": cx.Laplace(modes=3),
        "forde": cx.FoRDE(members=5),
        "mile": cx.methods.get("mile")(modes=3, samples=1, warmup=10, thinning=1),
    }
    one = fitted(problem, records[name], blobs)
    monkeypatch.setenv("CREDAX_DEVICES", "8")
    many = fitted(problem, records[name], blobs)
    x = blobs[0]
    np.testing.assert_allclose(
        np.exp(one.predict(x).log_probs), np.exp(many.predict(x).log_probs), atol=2e-4
    )


def test_resuming_on_other_devices_gives_the_same_members(problem, blobs, tmp_path):
    """The checkpoint has the members and not their copies."""
    from credax.files import load_arrays

    class Killed(Exception):
        pass

    class KillAfter:
        def start(self, title, total, done):
            self.left = 2

        def update(self, done, text):
            self.left -= 1
            if self.left == 0:
                raise Killed

        def stop(self):
            pass

    def run(folder, shape, progress=False):
        mesh = jax.make_mesh(shape, ("members", "data"), devices=jax.devices()[: np.prod(shape)])
        training = TRAINING.replace(epochs=8, checkpoint_every=1)
        record = cx.DeepEnsemble(5)
        options = {"key": 3, "training": training, "mesh": mesh, "folder": tmp_path / folder}
        return cx.fit(problem, record, blobs, progress=progress, **options)

    whole = run("whole", (4, 2))
    with pytest.raises(Killed):
        run("cut", (4, 2), KillAfter())
    arrays, _ = load_arrays(tmp_path / "cut" / "state.safetensors")
    assert {len(a) for n, a in arrays.items() if "states" in n} == {5}
    shutil.copytree(tmp_path / "cut", tmp_path / "again")
    assert_same_members(run("cut", (2, 1)), whole)
    run("again", (4, 2))
    first, second = (tmp_path / n / "members.safetensors" for n in ("whole", "again"))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("shape", "axes", "record", "words"),
    [
        (
            (1, 8),
            ("members", "data"),
            cx.DeepEnsemble(2),
            "batch_size is 20 .* 8 devices .* 16 or 24",
        ),
        ((4, 2), ("members", "data"), cx.FoRDE(members=6), "members is 6 .* 4 devices .* 4 or 8"),
        ((4, 2), ("rows", "data"), cx.DeepEnsemble(4), "the mesh has axes .*'rows'"),
    ],
)
def test_meshes_that_do_not_fit(problem, blobs, refused, shape, axes, record, words):
    refused(lambda: fitted(problem, record, blobs, mesh=jax.make_mesh(shape, axes)), words)


@pytest.mark.parametrize("name", ["deep-ensemble", "forde"])
def test_streamed_rows_are_divided_and_change_nothing(problem, blobs, name, tmp_path):
    """Own batches of each member (and copies of members), and one batch that all share."""
    record = {"deep-ensemble": cx.DeepEnsemble(3), "forde": cx.FoRDE(members=4)}[name]
    mesh = jax.make_mesh((2, 2), ("members", "data"), devices=jax.devices()[:4])
    kept = fitted(problem, record, blobs, mesh=mesh)
    file = np.memmap(tmp_path / "x", np.float32, "w+", shape=blobs[0].shape)
    file[:] = blobs[0]
    streamed = fitted(problem, record, Split(file, blobs[1]), mesh=mesh)
    assert_same_members(kept, streamed)


def test_each_device_gets_its_own_rows_only(problem, blobs):
    """Two members on two devices, ten rows of twenty each: the rows that the order says."""
    split, record = Split(*blobs), cx.DeepEnsemble(2)
    training = TRAINING.replace(placement="stream")
    mesh = jax.make_mesh((2, 2), ("members", "data"), devices=jax.devices()[:4])
    dynamics = record.dynamics(problem, split, training)
    program = build_program(problem, dynamics, training, split, jax.random.key(0), mesh)
    rows = StreamSupply(split, program)(program, 0)
    order = np.asarray(order_of(program, jnp.int32(0)))
    for shard in rows.x.addressable_shards:
        assert shard.data.shape == (3, 1, 10, 2)
        member, part = shard.index[1].start or 0, shard.index[2].start or 0
        for step in range(3):
            wanted = order[member, 20 * step + part : 20 * step + part + 10]
            np.testing.assert_array_equal(np.asarray(shard.data)[step, 0], split.x[wanted])
