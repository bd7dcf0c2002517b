import errno
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax.errors import InputError
from credax.files import (
    DamagedFile,
    load_arrays,
    load_tree,
    read_json,
    save_tree,
    write_atomic,
)

TREE = {"a": np.arange(6.0).reshape(2, 3), "b": [np.int32(3), np.zeros((0, 2), np.float32)]}


def test_round_trip_keeps_scalars_empty_arrays_and_dtypes(tmp_path):
    save_tree(tmp_path / "t", TREE, {"step": 7})
    tree, metadata = load_tree(tmp_path / "t", TREE)
    assert metadata == {"step": 7}
    assert jax.tree.structure(tree) == jax.tree.structure(TREE)
    for new, old in zip(jax.tree.leaves(tree), jax.tree.leaves(TREE), strict=True):
        assert new.shape == np.shape(old)
        assert new.dtype == old.dtype
        np.testing.assert_array_equal(new, old)


def test_keys_round_trip(tmp_path):
    tree = {"key": jax.random.key(3)}
    save_tree(tmp_path / "t", tree)
    loaded, _ = load_tree(tmp_path / "t", tree)
    assert jax.random.key_data(loaded["key"]).tolist() == jax.random.key_data(tree["key"]).tolist()


def test_equal_trees_give_equal_bytes(tmp_path):
    for name in "xy":
        save_tree(tmp_path / name, TREE, {"m": 1, "n": [2, 3], "a": "b"})
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


@pytest.mark.parametrize("where", [3, 20, -9])
def test_a_flipped_bit_is_found(tmp_path, where):
    save_tree(tmp_path / "t", TREE)
    content = bytearray((tmp_path / "t").read_bytes())
    content[where] ^= 1
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(DamagedFile, match="damaged"):
        load_tree(tmp_path / "t", TREE)


@pytest.mark.parametrize("keep", [0, 5, 60, 200])
def test_a_truncated_file_is_found(tmp_path, keep):
    save_tree(tmp_path / "t", TREE)
    (tmp_path / "t").write_bytes((tmp_path / "t").read_bytes()[:keep])
    with pytest.raises(DamagedFile, match="damaged"):
        load_tree(tmp_path / "t", TREE)


def test_another_structure_or_shape_is_refused(tmp_path):
    save_tree(tmp_path / "t", {"a": np.zeros(3)})
    with pytest.raises(InputError, match="differs at b"):
        load_tree(tmp_path / "t", {"a": np.zeros(3), "b": np.zeros(1)})
    with pytest.raises(InputError, match="shape"):
        load_tree(tmp_path / "t", {"a": np.zeros(4)})


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    write_atomic(tmp_path / "f", b"old")

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="no room"):
        write_atomic(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        write_atomic(tmp_path / "file" / "below", b"x")


def test_bad_json_is_named(tmp_path):
    (tmp_path / "c.json").write_text('{"a": ')
    with pytest.raises(DamagedFile, match=r"c\.json is not valid JSON"):
        read_json(tmp_path / "c.json")
    with pytest.raises(InputError, match="no file"):
        read_json(tmp_path / "d.json")


def test_arrays_of_jax_are_saved(tmp_path):
    save_tree(tmp_path / "t", {"a": jnp.ones(2, jnp.bfloat16)})
    tree, _ = load_tree(tmp_path / "t", {"a": jnp.ones(2, jnp.bfloat16)})
    assert tree["a"].dtype == jnp.bfloat16


def test_numbers_that_are_not_finite_are_refused_by_array_and_member(tmp_path, refused):
    tree = {"a": np.ones((3, 2)), "b": np.ones(4)}
    tree["a"][1, 0] = np.nan
    save_tree(tmp_path / "t", tree, {"members": [4, 7, 9]})
    refused(lambda: load_tree(tmp_path / "t", tree), "NaN or infinity in a of member 7")
    loaded, _ = load_tree(tmp_path / "t", tree, finite=False)
    assert np.isnan(loaded["a"][1, 0])
    save_tree(tmp_path / "t", {"map/edges": np.array([1.0, np.inf])})
    refused(lambda: load_arrays(tmp_path / "t"), "map/edges")
    assert load_arrays(tmp_path / "t", infinite=("edges",))[0]["map/edges"][1] == np.inf
    save_tree(tmp_path / "t", {"map/edges": np.array([1.0, np.nan])})
    refused(lambda: load_arrays(tmp_path / "t", infinite=("edges",)), "map/edges")


def test_arrays_of_another_type_are_refused(tmp_path, refused):
    save_tree(tmp_path / "t", {"a": np.ones(3, np.int32)})
    refused(lambda: load_tree(tmp_path / "t", {"a": np.ones(3)}), "type int32 there")
    save_tree(tmp_path / "t", {"a": np.ones(3, np.float64)})
    assert load_tree(tmp_path / "t", {"a": np.ones(3, np.float32)})[0]["a"].dtype == np.float64
    save_tree(tmp_path / "t", {"key": np.ones(3, np.uint32)})
    refused(lambda: load_tree(tmp_path / "t", {"key": jax.random.key(0)}), "shape")


def test_a_file_of_empty_space_takes_no_memory(tmp_path, refused):
    with open(tmp_path / "t", "wb") as file:
        file.truncate(2**40)
    refused(lambda: load_tree(tmp_path / "t", TREE), "damaged")


def test_loaded_arrays_can_be_written_to(tmp_path):
    save_tree(tmp_path / "t", TREE)
    arrays, _ = load_arrays(tmp_path / "t")
    arrays["a"] += 1


def test_words_of_a_key_have_their_own_type(tmp_path):
    """Found by `make fuzz`: signed words pass as whole numbers and fail inside jax."""
    save_tree(tmp_path / "f", {"seed": np.zeros(2, np.int32)}, {})
    with pytest.raises(InputError, match="seed has type int32 there and uint32 here"):
        load_tree(tmp_path / "f", {"seed": np.zeros(2, np.uint32)})
