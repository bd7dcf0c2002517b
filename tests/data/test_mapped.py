"""Folders of mapped arrays, and Parquet turned into one, hold the numbers of arrays in memory."""

import numpy as np
import pytest

import credax as cx
from credax.data import mapped
from credax.data.mapped import block_units, read_mapped, store_parquet
from credax.standardise import Standardise


def write(folder, x, y, rows=40):
    folder.mkdir()
    for name, part in (("train", slice(0, rows)), ("test", slice(rows, None))):
        np.save(folder / f"x_{name}.npy", x[part])
        np.save(folder / f"y_{name}.npy", y[part])
    return folder


def test_inputs_stay_in_the_file_and_train_the_same_members(tmp_path, blobs):
    folder = write(tmp_path / "rows", *blobs)
    data = cx.data.load(str(folder))
    assert isinstance(data.train.x, np.memmap)
    assert (data.task, data.num_classes, len(data.test)) == ("classification", 3, 20)
    problem = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical())
    training = cx.Training(epochs=2, batch_size=10)
    units = {"inputs": data.train.inputs}
    kept = cx.data.Split(blobs[0][:40], data.train.y, **units)
    options = {"training": training, "progress": False}
    one, other = (cx.fit(problem, "single", rows, **options) for rows in (kept, data.train))
    for a, b in zip(
        *(map(np.asarray, p.variables.params["0_dense"].values()) for p in (one, other)),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(70, 3), (9, 4, 5, 2), (6, 7, 3)])
def test_units_by_blocks_are_those_of_the_whole(shape, monkeypatch):
    monkeypatch.setattr(mapped, "BLOCK_BYTES", 200)
    x = np.random.default_rng(0).normal(5.0, 2.0, shape).astype(np.float32)
    x[..., 0] = 1.5  # constant: scale one
    axes = {2: (0,), 4: (0, 1, 2)}.get(x.ndim, tuple(range(x.ndim)))
    found, whole = block_units(x), Standardise.of(x, axes)
    np.testing.assert_allclose(found.mean, whole.mean, rtol=1e-6)
    np.testing.assert_allclose(found.scale, whole.scale, rtol=1e-6)


def test_parquet_becomes_a_folder_batch_by_batch(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.setattr(mapped, "BATCH_ROWS", 7)
    rng = np.random.default_rng(0)
    columns = {"a": rng.normal(size=50), "id": np.arange(50), "b": rng.normal(size=50)}
    columns["y"] = columns["a"] - columns["b"]
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet", row_group_size=20)
    folder = store_parquet(tmp_path / "t.parquet", tmp_path / "out", target="y", ignore=("id",))
    data = read_mapped(folder)
    assert (len(data.train), len(data.test), data.task) == (40, 10, "regression")
    x = np.concatenate([data.train.x, data.test.x])
    y = np.concatenate([data.train.y, data.test.y])
    np.testing.assert_allclose(x[:, 0] - x[:, 1], y, atol=1e-6)  # every row kept its target
    assert sorted(x[:, 0].tolist()) == sorted(columns["a"].astype(np.float32).tolist())
    assert sorted(p.name for p in folder.iterdir()) == [
        *("x_test.npy", "x_train.npy", "y_test.npy", "y_train.npy")
    ]


def test_folders_that_cannot_be_used(tmp_path, blobs, refused):
    x, y = blobs
    refused(lambda: read_mapped(write(tmp_path / "a", x.astype(float), y)), "has type float64")
    refused(lambda: read_mapped(write(tmp_path / "b", x, y), split=1), "split is 1")
    folder = write(tmp_path / "c", x, y)
    np.save(folder / "y_train.npy", y[:3])
    refused(lambda: read_mapped(folder), "y_train.npy .3,.; give rows first")
    folder = write(tmp_path / "e", x, y)
    (folder / "x_test.npy").unlink()
    refused(lambda: read_mapped(folder), "no x_test.npy")
    folder = write(tmp_path / "d", np.where(x > 4, np.nan, x).astype(np.float32) * np.nan, y)
    refused(lambda: cx.data.load(str(folder)), "not a finite float32 in row 0")


def test_parquet_that_cannot_be_used(tmp_path, refused):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"a": ["x", "y"] * 5, "y": [1.0, 2.0] * 5}), path)
    store = lambda target, to: store_parquet(path, tmp_path / to, target=target)  # noqa: E731
    refused(lambda: store("z", "one"), "no column 'z'; it has a, y")
    refused(lambda: store("y", "two"), "column 'a' has type object")
    (tmp_path / "three").mkdir()
    (tmp_path / "three" / "file").touch()
    refused(lambda: store("y", "three"), "holds other files")
    path.write_bytes(path.read_bytes()[:50])
    refused(lambda: store("y", "four"), "not a readable .parquet file")
