import io

import numpy as np
import pytest
from data_files import pack, unpack
from PIL import Image

from credax.data import load
from credax.errors import InputError

COLOURS = {
    "train/n02/images/n02_0.JPEG": (200, 10, 10),
    "train/n02/images/n02_1.JPEG": (220, 30, 10),
    "train/n01/images/n01_0.JPEG": (10, 200, 10),
    "val/images/val_0.JPEG": (10, 220, 30),
    "val/images/val_1.JPEG": (210, 20, 20),
}


def jpeg(colour, side=64, mode="RGB"):
    out = io.BytesIO()
    Image.new(mode, (side, side), colour).save(out, "JPEG", quality=95)
    return out.getvalue()


def tiny(**changes):
    files = {name: jpeg(colour) for name, colour in COLOURS.items()}
    files["wnids.txt"] = b"n02\nn01\n"
    files["words.txt"] = b"n01\tgoldfish, Carassius auratus\nn99\tother\n"
    files["val/val_annotations.txt"] = (
        b"val_0.JPEG\tn01\t0\t0\t62\t62\nval_1.JPEG\tn02\t1\t1\t9\t9\n"
    )
    files["test/images/test_0.JPEG"] = jpeg((0, 0, 0))
    return files | changes


def place(tmp_path, files, packed):
    if packed:
        members = {f"tiny-imagenet-200/{name}": body for name, body in files.items()}
        pack(tmp_path / "tiny-imagenet-200.zip", members)
    else:
        unpack(tmp_path / "tiny-imagenet-200", files)


@pytest.mark.parametrize("packed", [True, False])
def test_pictures_follow_the_sorted_classes(tmp_path, packed):
    place(tmp_path, tiny(), packed)
    data = load("tinyimagenet", tmp_path, download=False)
    assert data.class_names == ("goldfish", "n02")
    assert data.train.y.tolist() == [0, 1, 1]
    assert data.test.y.tolist() == [0, 1]
    assert data.input_shape == (64, 64, 3)
    assert data.train.x.dtype == np.uint8
    means = data.train.x.mean(axis=(1, 2))
    np.testing.assert_allclose(means, [(10, 200, 10), (200, 10, 10), (220, 30, 10)], atol=3)
    np.testing.assert_allclose(
        data.test.x.mean(axis=(1, 2)), [(10, 220, 30), (210, 20, 20)], atol=3
    )
    np.testing.assert_allclose(data.train.inputs.mean, [122.4786, 114.2755, 101.3963], rtol=1e-6)
    np.testing.assert_allclose(data.train.inputs.scale, [70.4924, 68.5679, 71.8127], rtol=1e-6)


def test_size_averages_blocks_and_the_root_may_be_the_folder(tmp_path):
    rng = np.random.default_rng(0)
    noisy = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (64, 64, 3), np.uint8)).save(noisy, "JPEG", quality=95)
    files = tiny(**{"val/images/val_0.JPEG": noisy.getvalue()})
    unpack(tmp_path / "tiny-imagenet-200", files)
    full = load("tiny-imagenet", tmp_path / "tiny-imagenet-200", download=False)
    half = load("tiny-imagenet", tmp_path, download=False, size=32)
    blocks = full.test.x.reshape(2, 32, 2, 32, 2, 3).mean(axis=(2, 4))
    assert half.input_shape == (32, 32, 3)
    np.testing.assert_allclose(half.test.x, blocks, atol=0.5)


def test_classes_keeps_the_first(tmp_path):
    files = tiny(**{"wnids.txt": b"n03\nn02\nn01\n"})
    place(tmp_path, files | {"train/n03/images/n03_0.JPEG": jpeg((1, 1, 1))}, packed=False)
    assert load("tiny-imagenet", tmp_path, download=False).num_classes == 3
    data = load("tiny-imagenet", tmp_path, download=False, classes=2)
    assert data.num_classes == 2
    assert data.train.y.tolist() == [0, 1, 1]


def test_grey_pictures_get_three_channels(tmp_path):
    place(tmp_path, tiny(**{"train/n01/images/n01_0.JPEG": jpeg(90, mode="L")}), packed=True)
    first = load("tiny-imagenet", tmp_path, download=False).train.x[0]
    assert first.shape == (64, 64, 3)
    np.testing.assert_allclose(first, 90, atol=2)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"val/images/val_1.JPEG": b"abc"}, "val/images/val_1.JPEG is not a readable image"),
        ({"val/images/val_1.JPEG": jpeg((1, 2, 3))[:400]}, "val_1.JPEG is not a readable image"),
        ({"val/images/val_1.JPEG": jpeg((1, 2, 3), side=63)}, "val_1.JPEG is not 64 by 64"),
        ({"val/val_annotations.txt": b"val_0.JPEG\n"}, "line without a file and a class"),
        ({"val/val_annotations.txt": b""}, "the test split is empty"),
    ],
)
def test_damage_is_one_sentence_that_names_the_file(tmp_path, changes, message, packed):
    place(tmp_path, tiny(**changes), packed)
    with pytest.raises(InputError) as caught:
        load("tiny-imagenet", tmp_path, download=False)
    assert message in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_missing_annotations_are_named(tmp_path):
    files = tiny()
    del files["val/val_annotations.txt"]
    place(tmp_path, files, packed=True)
    with pytest.raises(InputError, match=r"no file 'val_annotations\.txt'"):
        load("tiny-imagenet", tmp_path, download=False)


@pytest.mark.parametrize(("option", "value"), [("size", 48), ("classes", 1), ("classes", 3)])
def test_options_out_of_range(tmp_path, option, value):
    place(tmp_path, tiny(), packed=True)
    with pytest.raises(InputError, match=f"{option} is {value}; give"):
        load("tiny-imagenet", tmp_path, download=False, **{option: value})


def test_a_damaged_zip_is_named(tmp_path):
    place(tmp_path, tiny(), packed=True)
    path = tmp_path / "tiny-imagenet-200.zip"
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(InputError, match=r"200\.zip cannot be read"):
        load("tiny-imagenet", tmp_path, download=False)


@pytest.mark.parametrize(("offset", "value"), [(6, 188), (8, 1)])
def test_a_zip_whose_directory_is_damaged_is_named(tmp_path, offset, value):
    """A wrong version and a false mark of encryption, in the central directory."""
    place(tmp_path, tiny(), packed=True)
    path = tmp_path / "tiny-imagenet-200.zip"
    contents = bytearray(path.read_bytes())
    contents[contents.index(b"PK\x01\x02") + offset] = value
    path.write_bytes(contents)
    with pytest.raises(InputError, match=r"200\.zip cannot be read"):
        load("tiny-imagenet", tmp_path, download=False)
