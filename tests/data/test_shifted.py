"""Readers of the published corrupted sets, on small files in the true formats."""

import io

import numpy as np
import pytest
from data_files import unpack
from PIL import Image

from credax.data import load_shifted, shifted_names
from credax.data.places import ENVIRONMENT
from credax.errors import InputError

ROWS = 4  # a severity; the published files have 10 000


def cifar_c(folder, kinds=("gaussian_noise", "fog", "saturate"), classes=10, **changes):
    """``<kind>.npy`` whose pixels are kind, severity and row; ``labels.npy`` repeats five times."""
    folder.mkdir(parents=True)
    labels = np.tile(np.arange(ROWS) * classes // ROWS, 5).astype(np.uint8)
    arrays = {"labels": labels}
    for number, kind in enumerate(kinds):
        x = np.empty((5 * ROWS, 32, 32, 3), np.uint8)
        x[..., 0] = number
        x[..., 1] = np.repeat(np.arange(1, 6), ROWS)[:, None, None]
        x[..., 2] = np.tile(np.arange(ROWS), 5)[:, None, None]
        arrays[kind] = x
    for name, array in (arrays | changes).items():
        np.save(folder / f"{name}.npy", array)
    return folder


def test_names():
    assert shifted_names() == ("cifar10-c", "cifar100-c", "tiny-imagenet-c")
    with pytest.raises(InputError, match="unknown corrupted data set 'cifar12c'; did you mean"):
        load_shifted("cifar12c")


@pytest.mark.parametrize(
    ("name", "folder", "classes", "mean"),
    [("cifar10-c", "CIFAR-10-C", 10, 0.4914), ("CIFAR100C", "CIFAR-100-C", 100, 0.5071)],
)
def test_blocks_of_a_severity_are_mapped_not_read(tmp_path, name, folder, classes, mean):
    cifar_c(tmp_path / folder, classes=classes)
    shifted = load_shifted(name, tmp_path)
    assert shifted.kinds == ("gaussian_noise", "fog", "saturate")
    for severity in (1, 2, 5):
        split = shifted.read("fog", severity)
        assert isinstance(split.x, np.memmap)
        assert split.x.shape == (ROWS, 32, 32, 3)
        assert split.x.dtype == np.uint8
        assert (split.x[..., 0] == 1).all()
        assert (split.x[..., 1] == severity).all()
        assert split.x[:, 0, 0, 2].tolist() == [0, 1, 2, 3]
        assert split.y.tolist() == [row * classes // ROWS for row in range(ROWS)]
        np.testing.assert_allclose(split.inputs.mean[0], 255 * mean, rtol=1e-6)


def test_cells_come_in_the_order_of_the_published_list(tmp_path, monkeypatch):
    cifar_c(tmp_path / "CIFAR-10-C")
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    cells = [cell for cell, _ in load_shifted("cifar10-c").cells(severities=(1, 5))]
    assert cells == [
        (kind, s) for kind in ("gaussian_noise", "fog", "saturate") for s in (1, 5)
    ]  # fmt: skip
    inside = load_shifted("cifar10-c", tmp_path / "CIFAR-10-C")
    assert [cell for cell, _ in inside.cells(["fog"], [3])] == [("fog", 3)]


BYTES = np.zeros((20, 32, 32, 3), np.uint8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fog": BYTES[:18]}, r"fog\.npy has shape \(18, 32, 32, 3\) .* five severities"),
        ({"fog": BYTES[:0]}, r"fog\.npy has shape \(0, 32, 32, 3\)"),
        ({"fog": BYTES[..., 0]}, r"fog\.npy has shape \(20, 32, 32\) and type uint8"),
        ({"fog": BYTES / 255}, r"fog\.npy has shape .* and type float64"),
        ({"labels": np.zeros(10, int)}, r"labels\.npy has shape \(10,\) .* of the 20 images"),
        ({"labels": np.zeros(20)}, r"labels\.npy has shape \(20,\) and type float64"),
        ({"labels": np.full(20, 10)}, r"labels\.npy has labels from 10 to 10; .* 0 to 9"),
    ],
)
def test_misshaped_files_are_named(tmp_path, changes, message):
    cifar_c(tmp_path / "CIFAR-10-C", **changes)
    with pytest.raises(InputError, match=message) as caught:
        load_shifted("cifar10-c", tmp_path).read("fog", 2)
    assert str(tmp_path / "CIFAR-10-C") in str(caught.value)
    assert "get" in str(caught.value)


def test_damaged_files_are_named(tmp_path):
    folder = cifar_c(tmp_path / "CIFAR-10-C")
    shifted = load_shifted("cifar10-c", tmp_path)
    whole = (folder / "fog.npy").read_bytes()
    archive = io.BytesIO()
    np.savez(archive, x=BYTES)
    for contents in (b"", b"\x93NUMPY\x01\x00", whole[:-100], b"not an array", archive.getvalue()):
        (folder / "fog.npy").write_bytes(contents)
        with pytest.raises(InputError, match=r"fog\.npy .*delete it and get it again"):
            shifted.read("fog", 2)
    (folder / "labels.npy").unlink()
    with pytest.raises(InputError, match=r"there is no file .*labels\.npy; put the published one"):
        shifted.read("saturate", 1)


def test_what_is_not_there_says_where_to_put_it(tmp_path):
    with pytest.raises(
        InputError, match=r"'cifar10-c' was not found in .*; unpack CIFAR-10-C\.tar"
    ):
        load_shifted("cifar10-c", tmp_path)
    (tmp_path / "CIFAR-10-C.tar").write_bytes(b"")
    with pytest.raises(InputError, match=r"CIFAR-10-C\.tar is still packed; unpack it in"):
        load_shifted("cifar10-c", tmp_path)
    (tmp_path / "CIFAR-10-C").mkdir()
    with pytest.raises(InputError, match=r"has no <kind>\.npy for any known kind"):
        load_shifted("cifar10-c", tmp_path)
    np.save(tmp_path / "CIFAR-10-C" / "fog.npy", BYTES)
    shifted = load_shifted("cifar10-c", tmp_path)
    with pytest.raises(InputError, match=r"unknown corruption in .*CIFAR-10-C 'frog'.*'fog'"):
        shifted.read("frog", 1)
    for severity in (0, 6):
        with pytest.raises(InputError, match=f"severity is {severity}; cifar10-c has 1 to 5"):
            shifted.read("fog", severity)


def jpeg(colour, side=64):
    out = io.BytesIO()
    Image.new("RGB", (side, side), colour).save(out, "JPEG", quality=95)
    return out.getvalue()


def tiny_c(folder, **changes):
    files = {
        f"{kind}/{severity}/{wnid}/val_{row}.JPEG": jpeg((red, 40 * severity, 100 * row))
        for kind in ("fog", "snow")
        for severity in (1, 2, 3, 4, 5)
        for wnid, red in (("n02", 200), ("n01", 20), ("n03", 120))
        for row in (0, 1)
    }
    return unpack(folder, files | changes)


def test_folders_follow_the_sorted_classes(tmp_path):
    tiny_c(tmp_path / "Tiny-ImageNet-C")
    shifted = load_shifted("tinyimagenet-c", tmp_path)
    assert shifted.kinds == ("snow", "fog")
    split = shifted.read("snow", 4)
    assert split.x.shape == (6, 64, 64, 3)
    assert split.y.tolist() == [0, 0, 1, 1, 2, 2]
    means = split.x.mean(axis=(1, 2))
    np.testing.assert_allclose(means[:, 0], [20, 20, 200, 200, 120, 120], atol=3)
    np.testing.assert_allclose(means[:, 1], 160, atol=3)
    np.testing.assert_allclose(means[:, 2], [0, 100] * 3, atol=3)
    np.testing.assert_allclose(split.inputs.mean, [122.4786, 114.2755, 101.3963], rtol=1e-6)
    small = load_shifted("tiny-imagenet-c", tmp_path, classes=2, size=16).read("snow", 4)
    assert small.x.shape == (4, 16, 16, 3)
    assert small.y.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"snow/2/n01/val_0.JPEG": b"abc"}, r"snow/2/n01/val_0\.JPEG is not a readable image"),
        ({"snow/2/n01/val_0.JPEG": jpeg(0, 63)}, r"snow/2/n01/val_0\.JPEG is not 64 by 64"),
        ({"snow/2/n04/val_0.JPEG": jpeg(0)}, r"snow/2 and snow/1 beside it differ in .* n04"),
    ],
)
def test_damage_in_folders_is_named(tmp_path, changes, message):
    tiny_c(tmp_path / "Tiny-ImageNet-C", **changes)
    with pytest.raises(InputError, match=message):
        load_shifted("tiny-imagenet-c", tmp_path).read("snow", 2)


def test_missing_folders_are_named(tmp_path):
    (tmp_path / "Tiny-ImageNet-C" / "fog" / "1" / "n01").mkdir(parents=True)
    shifted = load_shifted("tiny-imagenet-c", tmp_path)
    with pytest.raises(InputError, match=r"there is no folder .*fog/3; unpack the whole"):
        shifted.read("fog", 3)
    with pytest.raises(InputError, match=r"fog/1 has no images <class>/\*\.JPEG"):
        shifted.read("fog", 1)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("tiny-imagenet-c", {"size": 48}, "size is 48; give 64, 32, 16 or 8"),
        ("tiny-imagenet-c", {"classes": 201}, "classes is 201; give 2 to 200"),
        ("cifar10-c", {"size": 32}, "cifar10-c takes no classes and no size"),
    ],
)
def test_options_out_of_range(tmp_path, name, options, message):
    with pytest.raises(InputError, match=message):
        load_shifted(name, tmp_path, **options)
