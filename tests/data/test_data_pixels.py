"""Pictures and masks: folders in every layout, and generated scenes with a known truth."""

import numpy as np
import pytest
from PIL import Image

import credax as cx
from credax.data import draw_depths, draw_shapes, load

SIZE = 16
SCENES = draw_shapes(5, 6, size=SIZE)
DEPTHS = draw_depths(5, 6, size=SIZE)


def _save(folder, name, pixels, palette=None):
    folder.mkdir(parents=True, exist_ok=True)
    picture = Image.fromarray(pixels)
    if palette is not None:
        picture = Image.frombytes("P", picture.size, pixels.astype(np.uint8).tobytes())
        picture.putpalette(palette)
    picture.save(folder / f"{name}.png")


def _folder(root, rows=range(6), images="images", masks="masks", palette=None, ending=("", "")):
    for i in rows:
        _save(root / images, f"p{i}{ending[0]}", SCENES.x[i])
        label = SCENES.y[i].astype(np.uint8)
        _save(root / masks, f"p{i}{ending[1]}", label, palette)
    return root


def _same(data, rows):
    """Every picture with its own mask, exactly: no resampling, no mixing of files."""
    x = np.concatenate([data.train.x, data.test.x])
    y = np.concatenate([data.train.y, data.test.y])
    keys = {SCENES.x[i].tobytes(): SCENES.y[i] for i in rows}
    assert len(x) == len(rows)
    for picture, mask in zip(x, y, strict=True):
        np.testing.assert_array_equal(mask, keys[picture.tobytes()])


@pytest.mark.parametrize("palette", [None, [0, 0, 0, 200, 0, 0, 0, 200, 0]])
def test_integer_and_palette_masks(tmp_path, palette):
    data = load(_folder(tmp_path, palette=palette), task="segmentation")
    _same(data, range(6))
    assert data.kind == "segmentation"
    assert data.class_names == ("0", "1", "2")
    assert data.train.pixels.ignore_label == 255
    assert data.train.x.shape[1:] == (16, 16, 3)


def test_coloured_masks_need_their_colours(tmp_path, refused):
    colours = np.array([[10, 0, 0], [0, 20, 0], [0, 0, 30]], np.uint8)
    for i in range(6):
        _save(tmp_path / "images", f"p{i}", SCENES.x[i])
        _save(tmp_path / "masks", f"p{i}", colours[SCENES.y[i]])
    refused(lambda: load(tmp_path, task="segmentation"), "RGB colours and no palette")
    (tmp_path / "classes.txt").write_text("10 0 0 ground\n0 20 0 disc\n0 0 30 square\n")
    data = load(tmp_path, task="segmentation")
    _same(data, range(6))
    assert data.class_names == ("ground", "disc", "square")
    (tmp_path / "classes.txt").write_text("10 0 0 ground\n0 20 0 disc\n")
    refused(lambda: load(tmp_path, task="segmentation"), "has the colour .0, 0, 30.")


def test_splits_at_either_level_and_the_layout_of_camvid(tmp_path):
    for part, rows in (("train", range(3)), ("val", [3]), ("test", [4, 5])):
        _folder(tmp_path / "a", rows, f"images/{part}", f"masks/{part}")
        _folder(tmp_path / "b", rows, f"{part}/images", f"{part}/masks")
        _folder(tmp_path / "c", rows, part, f"{part}annot")
    for name in "abc":
        data = load(tmp_path / name, task="segmentation")
        sizes = [len(part) for part in (data.train, data.validation, data.test)]
        assert sizes == [3, 1, 2], name
        np.testing.assert_array_equal(data.test.y, SCENES.y[4:])
    assert len(data.class_names) == 11
    assert data.train.pixels.source == "CamVid"


def test_the_layout_of_cityscapes_and_its_numbers(tmp_path):
    """Number 7 is road (0), 8 sidewalk (1), 11 building (2); all others are ignored."""
    numbers = np.array([7, 8, 11], np.uint8)
    for part, rows in (("train", range(3)), ("val", [3, 4])):
        for i in rows:
            _save(tmp_path / f"leftImg8bit/{part}/town", f"p{i}_leftImg8bit", SCENES.x[i])
            own = numbers[SCENES.y[i]]
            own[0, 0] = 4
            _save(tmp_path / f"gtFine/{part}/town", f"p{i}_gtFine_labelIds", own)
            _save(tmp_path / f"gtFine/{part}/town", f"p{i}_gtFine_color", SCENES.x[i])
    data = load(tmp_path, task="segmentation")
    assert len(data.train) == 3
    assert len(data.test) == 2
    assert len(data.class_names) == 19
    wanted = SCENES.y[3:5].copy()
    wanted[:, 0, 0] = 255
    np.testing.assert_array_equal(data.test.y, wanted)


@pytest.mark.parametrize("ending", ["png", "npz"])
def test_depths_of_sixteen_bits_and_arrays(tmp_path, ending):
    """Steps of a millimetre; zero is not known."""
    for i in range(6):
        _save(tmp_path / "images", f"p{i}", DEPTHS.x[i])
        depth = DEPTHS.y[i].copy()
        depth[0] = 0
        if ending == "png":
            _save(tmp_path / "depth", f"p{i}", np.rint(1000 * depth).astype(np.uint16))
        else:
            (tmp_path / "depth").mkdir(exist_ok=True)
            np.savez(tmp_path / "depth" / f"p{i}.npz", depth=depth)
    data = load(tmp_path, task="pixel-regression", depth_steps=1000.0)
    y = np.concatenate([data.train.y, data.test.y])
    assert data.kind == "pixel-regression"
    assert np.isnan(y[:, 0]).all()
    keys = {DEPTHS.x[i].tobytes(): DEPTHS.y[i] for i in range(6)}
    for picture, depth in zip(data.train.x, data.train.y, strict=True):
        np.testing.assert_allclose(depth[1:], keys[picture.tobytes()][1:], atol=5.1e-4)


def test_bad_masks_are_refused_in_one_sentence(tmp_path, refused):
    folder = _folder(tmp_path / "size")
    _save(folder / "masks", "p2", SCENES.y[2][:8].astype(np.uint8))
    refused(lambda: load(folder, task="segmentation"), "p2.png is 8 by 16 and its picture")
    folder = _folder(tmp_path / "labels")
    (folder / "classes.txt").write_text("ground\ndisc\n")
    refused(lambda: load(folder, task="segmentation"), "the label 2, and there are 2 classes")
    folder = _folder(tmp_path / "ignored")
    for i in range(6):
        _save(folder / "masks", f"p{i}", np.full((16, 16), 255, np.uint8))
    refused(lambda: load(folder, task="segmentation"), "all pixels .* ignored")
    refused(lambda: load(folder, task="pixel-regression"), "holds no pictures with targets")
    (folder / "masks" / "p1.png").write_bytes(b"no picture")
    refused(lambda: load(folder, task="segmentation"), "not a readable mask")


def test_pictures_are_scaled_with_their_masks(tmp_path):
    """A mask that is shifted or scaled otherwise than its picture would not match its colours."""
    white = np.zeros((40, 60), np.uint8)
    white[10:30, 20:50] = 1
    for i in range(4):
        _save(tmp_path / "images", f"p{i}", np.repeat(white[..., None] * 255, 3, -1))
        _save(tmp_path / "masks", f"p{i}", white)
    data = load(tmp_path, task="segmentation", size=32)
    wrong = (data.train.x[..., 0] > 127) != (data.train.y == 1)
    assert data.train.x.shape[1:] == (32, 32, 3)
    assert wrong.mean() < 0.005


def test_the_generated_truth_is_what_labels_are_drawn_from():
    """Share of each label against its true probability: four standard errors."""
    scenes = draw_shapes(0, 40, size=16)
    for label in range(3):
        p = scenes.truth[..., label]
        error = np.sqrt((p * (1 - p)).sum()) / p.size
        assert abs((scenes.y == label).mean() - p.mean()) < 4 * error
    depths = draw_depths(0, 40, size=16)
    z = (depths.y - depths.truth) / np.sqrt(depths.noise)
    assert abs(z.mean()) < 4 / np.sqrt(z.size)
    assert abs(z.var() - 1) < 4 * np.sqrt(2 / z.size)
    unseen = draw_shapes(0, 4, size=16, unseen=True)
    assert unseen.unseen.any()
    assert (unseen.y[unseen.unseen] == 255).all()
    assert np.isnan(draw_depths(0, 4, size=16, unseen=True).y).any()


def test_sets_by_name_and_bad_options(refused):
    data = load("pixels/shapes", train=4, test=2, size=8)
    assert data.with_validation(0.25).validation.y.shape == (1, 8, 8)
    assert "segmentation with 4 training and 2 test pictures" in repr(data).replace("\n", " ")
    assert load("pixels/depth", train=4, test=2, size=8).num_targets == 1
    refused(lambda: load("pixels/shapes", train=0), "train is 0")
    refused(lambda: load("pixels/shapes", size=4), "size is 4")
    assert cx.data.describe("pixels/depth").form == "pixel-regression"
