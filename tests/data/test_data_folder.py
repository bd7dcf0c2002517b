"""Folders of pictures: layouts, formats, sizes, damage, and the copy on disk."""

import io
import os
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from credax.data import folder as folders
from credax.data import load, picture_store
from credax.data.about import About
from credax.data.folder import channel_units, labelled_pictures, list_pictures, pictures_below
from credax.data.pictures import Pictures, in_threads, read_header
from credax.data.preparation import read_preparation
from credax.errors import DamagedFile, InputError
from credax.standardise import Standardise

RNG = np.random.default_rng(0)
LOSSLESS = ("png", "bmp")


def picture(path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels, np.uint8)).save(path, **options)
    return path


def grey(value, side=8):
    return np.clip(value + RNG.integers(-9, 10, (side, side)), 0, 255)


def two_classes(root, count=10, side=8):
    for name, value in (("dark", 50), ("light", 200)):
        for number in range(count):
            picture(root / name / f"{number}.{LOSSLESS[number % 2]}", grey(value, side))
    return root


def test_a_folder_per_class_is_divided_in_proportion(tmp_path):
    root = two_classes(tmp_path / "mine")
    data = load(root, validation=0.25)
    assert data.name == "mine"
    assert data.class_names == ("dark", "light")
    assert data.input_shape == (8, 8, 1)
    assert data.train.x.dtype == np.uint8
    counts = [np.bincount(s.y).tolist() for s in (data.train, data.validation, data.test)]
    assert counts == [[6, 6], [2, 2], [2, 2]]
    for split in (data.train, data.validation, data.test):
        np.testing.assert_array_equal(split.x.mean((1, 2, 3)) > 125, split.y == 1)
    again = load(str(root) + "/", validation=0.25)
    np.testing.assert_array_equal(again.train.x, data.train.x)
    other = load(root, split=1)
    assert not np.array_equal(other.test.x, load(root).test.x)
    assert data.path == str(root)


@pytest.mark.parametrize("names", [("train", "test", "validation"), ("Training", "testing", "val")])
def test_splits_by_folder_are_taken_as_they_are(tmp_path, names):
    for name, count in zip(names, (3, 2, 1), strict=True):
        two_classes(tmp_path / name, count)
    data = load(tmp_path, validation=0.5)
    assert [len(s) for s in (data.train, data.test, data.validation)] == [6, 4, 2]


def test_a_missing_test_split_is_held_out_of_train(tmp_path):
    two_classes(tmp_path / "train", 10)
    two_classes(tmp_path / "val", 1)
    data = load(tmp_path)
    assert [len(s) for s in (data.train, data.test, data.validation)] == [16, 4, 2]


def test_a_class_may_be_called_train(tmp_path):
    for name in ("car", "train"):
        for number in range(5):
            picture(tmp_path / name / f"{number}.png", grey(100))
    assert load(tmp_path).class_names == ("car", "train")


def test_nested_and_hidden_files(tmp_path):
    two_classes(tmp_path, 5)
    picture(tmp_path / "dark" / "more" / "deep" / "x.PNG", grey(50))
    for name in (".hidden.png", ".git/y.png", "__MACOSX/z.png", "notes.txt"):
        (tmp_path / "dark" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "dark" / name).write_bytes(b"nothing")
    os.symlink(tmp_path, tmp_path / "dark" / "loop")
    found = list_pictures(tmp_path)
    assert len([each for each in found if each.label == "light"]) == 5
    below = [path.relative_to(tmp_path).as_posix() for path in pictures_below(tmp_path / "light")]
    assert below == [f"light/{k}.{LOSSLESS[k % 2]}" for k in range(5)]
    assert (
        sum("deep/x.PNG" in str(each.path) for each in found if "loop" not in str(each.path)) == 1
    )


def test_pictures_of_no_class_are_named(tmp_path):
    two_classes(tmp_path, 5)
    picture(tmp_path / "loose.png", grey(50))
    with pytest.warns(UserWarning, match=r"1 pictures of .* no folder of a class.*loose\.png"):
        assert len(load(tmp_path).train) == 8


def test_damaged_pictures_are_named_and_left_out(tmp_path):
    two_classes(tmp_path, 6)
    (tmp_path / "dark" / "a.png").write_bytes(b"nothing at all")
    whole = (tmp_path / "light" / "0.png").read_bytes()
    (tmp_path / "light" / "b.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "light" / "c.jpg").write_bytes(b"")
    os.mkfifo(tmp_path / "dark" / "pipe.png")
    with pytest.warns(UserWarning, match="4 of 16 pictures are left out") as caught:
        data = load(tmp_path)
    assert "a.png (no PNG, JPEG, WebP or BMP file)" in str(caught[0].message)
    assert len(data.train) + len(data.test) == 12
    assert data.preparation.left_out == 4
    for path in tmp_path.glob("*/*.*"):
        path.unlink()
    (tmp_path / "dark" / "a.png").write_bytes(b"nothing")
    (tmp_path / "light" / "b.png").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"2 of 2 pictures .* none is left"):
        load(tmp_path)


def huge_png(width, height):
    """A few bytes that say they are a picture of any size."""
    chunk = lambda kind, data: (  # noqa: E731
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    )
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = zlib.compress(b"\0" * 1000)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("size", [(10_000, 10_000), (40_000, 40_000), (2**31 - 1, 2**31 - 1)])
def test_a_picture_that_would_fill_the_memory_is_left_out(tmp_path, size):
    two_classes(tmp_path, 5)
    (tmp_path / "dark" / "bomb.png").write_bytes(huge_png(*size))
    with pytest.warns(UserWarning, match=r"1 of 11 pictures .*bomb\.png"):
        load(tmp_path)


def test_sizes_are_their_own_or_64_or_as_said(tmp_path):
    two_classes(tmp_path, 5)
    assert load(tmp_path).input_shape == (8, 8, 1)
    assert load(tmp_path, size=5).input_shape == (5, 5, 1)
    picture(tmp_path / "dark" / "wide.png", np.zeros((8, 12)))
    assert load(tmp_path).input_shape == (64, 64, 1)
    picture(tmp_path / "dark" / "coloured.png", np.zeros((8, 8, 3)))
    assert load(tmp_path, size=5).input_shape == (5, 5, 3)
    for size in (3, 5000, True):
        with pytest.raises(InputError, match="size is"):
            load(tmp_path, size=size)


def bytes_of(image, kind="png", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def test_a_picture_is_cut_around_its_centre_and_scaled():
    """A wide picture of three vertical bands: the middle one is what remains."""
    pixels = np.zeros((4, 12, 3), np.uint8)
    pixels[:, :4], pixels[:, 4:8], pixels[:, 8:] = (255, 0, 0), (0, 255, 0), (0, 0, 255)
    wide = bytes_of(Image.fromarray(pixels))
    np.testing.assert_array_equal(Pictures(4, 4, 3).decode(wide, ""), pixels[:, 4:8])
    tall = bytes_of(Image.fromarray(pixels.swapaxes(0, 1).copy()))
    np.testing.assert_array_equal(Pictures(4, 4, 3).decode(tall, ""), pixels.swapaxes(0, 1)[4:8])
    # The same ratio of sides keeps all, and halving a constant changes nothing.
    assert Pictures(2, 6, 3).decode(wide, "").shape == (2, 6, 3)
    even = bytes_of(Image.fromarray(np.full((16, 16), 77, np.uint8)))
    assert (Pictures(5, 5, 1).decode(even, "") == 77).all()


def test_the_same_size_keeps_every_byte():
    pixels = RNG.integers(0, 256, (9, 7, 3), np.uint8)
    for kind in ("png", "bmp"):
        np.testing.assert_array_equal(
            Pictures(9, 7, 3).decode(bytes_of(Image.fromarray(pixels), kind), ""), pixels
        )
    lossless = bytes_of(Image.fromarray(pixels), "webp", lossless=True)
    np.testing.assert_array_equal(Pictures(9, 7, 3).decode(lossless, ""), pixels)


def test_every_mode_becomes_bytes():
    ramp = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
    grey_one, colour = Pictures(8, 8, 1), Pictures(8, 8, 3)
    wide = Image.fromarray(ramp.astype(np.uint16) * 257)
    assert wide.mode == "I;16"
    np.testing.assert_array_equal(grey_one.decode(bytes_of(wide), "")[..., 0], ramp)
    clear = np.zeros((8, 8, 4), np.uint8)
    clear[:, :4] = (10, 20, 30, 255)
    found = colour.decode(bytes_of(Image.fromarray(clear)), "")
    assert (found[:, :4] == (10, 20, 30)).all()
    assert (found[:, 4:] == 255).all()
    palette = Image.fromarray(np.dstack([ramp] * 3)).quantize(64)
    assert palette.mode == "P"
    np.testing.assert_allclose(colour.decode(bytes_of(palette), "")[..., 1], ramp, atol=8)
    with_alpha = Image.merge("LA", [Image.fromarray(ramp), Image.new("L", (8, 8), 255)])
    np.testing.assert_array_equal(grey_one.decode(bytes_of(with_alpha), "")[..., 0], ramp)
    two = Image.fromarray(ramp > 100)
    assert set(np.unique(grey_one.decode(bytes_of(two), ""))) == {0, 255}
    inks = Image.new("CMYK", (8, 8), (0, 0, 0, 255))
    assert colour.decode(bytes_of(inks, "jpeg"), "").max() < 10


@pytest.mark.parametrize("orientation", [*range(10), 60000])
def test_photographs_are_turned_upright(tmp_path, orientation):
    pixels = RNG.integers(0, 256, (6, 10, 3), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = picture(tmp_path / "a.png", pixels, exif=exif)
    with Image.open(path) as image:
        upright = np.asarray(ImageOps.exif_transpose(image))
    assert read_header(path)[:2] == upright.shape[:2]
    found = Pictures(*upright.shape).decode(path.read_bytes(), "")
    np.testing.assert_array_equal(found, upright)


def test_damaged_exif_data_is_no_damage_of_the_picture(tmp_path):
    pixels = np.full((6, 10, 3), 90)
    path = picture(tmp_path / "a.jpg", pixels, exif=b"Exif\0\0II*\0\xff\xff\xff\x7f")
    (header,) = in_threads(read_header, [path])
    assert header[:2] == (6, 10)
    read = Pictures(6, 10, 3).read([path])
    assert not read.damaged
    np.testing.assert_allclose(read.x[0], 90, atol=3)


def test_pictures_come_in_their_order():
    assert list(in_threads(lambda x: x * x, range(3000))) == [k * k for k in range(3000)]


def test_units_are_those_of_every_channel(monkeypatch):
    x = RNG.integers(0, 256, (30, 4, 5, 3), np.uint8)
    monkeypatch.setattr(folders, "_BLOCK", 200)
    found, whole = channel_units(x), Standardise.of(x, (0, 1, 2))
    np.testing.assert_allclose(found.mean, whole.mean, rtol=1e-6)
    np.testing.assert_allclose(found.scale, whole.scale, rtol=1e-6)
    assert channel_units(np.zeros((2, 2, 2, 1), np.uint8)).scale.tolist() == [1.0]


def test_many_pictures_lie_in_a_file_and_are_decoded_once(tmp_path, monkeypatch):
    root = two_classes(tmp_path / "mine", 10)
    (root / "dark" / "bad.png").write_bytes(b"nothing")
    monkeypatch.setenv("CREDAX_DATA", str(tmp_path / "cache"))
    with pytest.warns(UserWarning, match="1 of 21 pictures"):
        whole = load(root, validation=0.25)
    monkeypatch.setattr(picture_store, "LARGE", 100)
    with pytest.warns(UserWarning, match="1 of 21 pictures"):
        first = load(root, validation=0.25)
    monkeypatch.setattr(Pictures, "read", None)
    with pytest.warns(UserWarning, match="1 of 21 pictures"):
        again = load(root, validation=0.25)
    for data in (first, again):
        for name in ("train", "validation", "test"):
            own = getattr(data, name)
            assert isinstance(own.x, np.memmap)
            np.testing.assert_array_equal(own.x, getattr(whole, name).x)
            np.testing.assert_array_equal(own.y, getattr(whole, name).y)
    (file,) = (tmp_path / "cache").glob("pictures/*/rows.bytes")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DamagedFile, match="cut short; remove the folder"):
        load(root, validation=0.25)
    assert not list((tmp_path / "cache").glob("pictures/*/tmp*"))


def test_a_changed_picture_is_noticed(tmp_path):
    root = two_classes(tmp_path)
    about = About.of(load(root))
    assert about.difference(load(root)) is None
    picture(root / "dark" / "0.png", grey(50))
    assert "rows are others" in about.difference(load(root))
    again = read_preparation(About.from_json(about.to_json()), "config.json")
    assert again == load(root).preparation
    broken = about.to_json()
    broken["preparation"]["height"] = 9
    with pytest.raises(DamagedFile):
        read_preparation(About.from_json(broken), "config.json")


def test_labelled_pictures_are_those_of_the_model(tmp_path):
    two_classes(tmp_path / "a" / "train", 2)
    two_classes(tmp_path / "a" / "test", 3)
    split = labelled_pictures(tmp_path / "a", Pictures(8, 8, 1), ("light", "dark"))
    assert split.y.tolist() == [1, 1, 1, 0, 0, 0]
    np.testing.assert_array_equal(split.x.mean((1, 2, 3)) > 125, split.y == 0)
    with pytest.raises(InputError, match="has the class 'light'; the model knows dark, red"):
        labelled_pictures(tmp_path / "a", Pictures(8, 8, 1), ("dark", "red"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: None, "pictures of 0 classes"),
        (lambda p: picture(p / "one" / "a.png", grey(9)), "pictures of 1 classes"),
        (lambda p: (two_classes(p / "train", 2), two_classes(p / "other", 2)), "the folder other/"),
        (lambda p: (two_classes(p / "train", 2), picture(p / "test" / "odd" / "a.png", grey(9))),
         "the class 'odd' outside train/"),
    ],
)  # fmt: skip
def test_folders_that_are_no_data_set_are_one_sentence(tmp_path, make, words):
    make(tmp_path)
    with pytest.raises(InputError) as caught:
        load(tmp_path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sets_by_name_come_before_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    two_classes(tmp_path / "digits")
    assert load("digits").input_shape == (8, 8, 1)
    assert load("digits").num_classes == 10
    assert load("./digits").num_classes == 2
    with pytest.raises(InputError, match="there is no folder"):
        load("nowhere/")
