"""Checkpoints in parts: what processes hold, put together, is the whole."""

import json

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from credax.errors import DamagedFile
from credax.files import save_tree
from credax.training.parts import assembled, own_parts
from credax.training.run import PART, RunFolder


def pieces(tree):
    """The parts that own_parts would give processes of one device each: it sees all eight here."""
    found = [{} for _ in range(8)]
    for name, leaf in tree.items():
        for shard in leaf.addressable_shards:
            if shard.replica_id == 0:
                starts = ",".join(str(part.start or 0) for part in shard.index)
                found[shard.device.id][f"{name}|{starts}"] = np.asarray(shard.data)
    return found


@pytest.fixture
def tree():
    mesh = jax.make_mesh((4, 2), ("members", "data"))
    rng = np.random.default_rng(0)
    specs = {"a": ("members",), "b": ("members", "data"), "c": (), "d": (None, "data")}
    return {
        name: jax.device_put(rng.normal(size=(8, 6)), NamedSharding(mesh, PartitionSpec(*axes)))
        for name, axes in specs.items()
    }


def test_parts_of_all_devices_are_the_whole(tree):
    found = pieces(tree)
    assert sum(a.nbytes for part in found for a in part.values()) == sum(
        leaf.nbytes for leaf in tree.values()
    )  # nothing twice
    whole = assembled(found, "here")
    for name, leaf in tree.items():
        np.testing.assert_array_equal(whole[name], leaf)


def test_a_part_that_lacks_is_refused(tree, refused):
    refused(lambda: assembled(pieces(tree)[1:], "here"), "here lacks parts of")
    refused(lambda: assembled([{"a|0": np.zeros((2, 2))}], "here"), "parts that are none")


def test_arrays_of_the_host_are_written_by_the_first_process():
    """Keys are written as the words they are made of."""
    tree = {"key": jax.random.split(jax.random.key(3), 2), "count": np.int32(5)}
    assert own_parts(tree, first=False) == {}
    whole = assembled([own_parts(tree, first=True)], "here")
    np.testing.assert_array_equal(whole["key"], jax.random.key_data(tree["key"]))
    assert whole["count"] == 5


def write(folder, tree, step, count=8):
    for process, part in enumerate(pieces(tree)):
        save_tree(folder / PART.format(step, process, count), part, {"step": step})
    content = {"step": step, "seconds": 1.0, "compile_seconds": 0.5, "dead": {}, "parts": count}
    (folder / "state.json").write_text(json.dumps(content))


def test_a_checkpoint_in_parts_is_read_by_one_process(tmp_path, tree):
    """Six members: the last two of eight filled another mesh."""
    write(tmp_path, tree, 7)
    (tmp_path / PART.format(9, 0, 8)).write_bytes(b"not yet committed")
    template = {name: jax.ShapeDtypeStruct((6, 6), leaf.dtype) for name, leaf in tree.items()}
    folder = RunFolder(tmp_path)
    found = folder.load_state(template)
    assert found is not None
    restored, metadata = found
    assert metadata["step"] == 7
    for name, leaf in tree.items():
        np.testing.assert_array_equal(restored[name], np.asarray(leaf)[:6])
    folder.save_state(restored, {**metadata, "step": 8})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["state.json", "state.safetensors"]


def test_damaged_parts_are_named_and_left_out(tmp_path, tree):
    write(tmp_path, tree, 7)
    path = tmp_path / PART.format(7, 2, 8)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.warns(RuntimeWarning, match="going on without it"):
        assert RunFolder(tmp_path).load_state(dict(tree)) is None
    path.unlink()
    with pytest.warns(RuntimeWarning, match="going on without it"):
        assert RunFolder(tmp_path).load_state(dict(tree)) is None
    RunFolder(tmp_path).clear_state()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DamagedFile):
        assembled([{"x": np.zeros(3)}], "here")
