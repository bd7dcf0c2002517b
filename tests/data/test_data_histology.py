"""Tiles of tissue: made-up files of both layouts and compressions, damage, and the real ones."""

import numpy as np
import pytest

from credax.data.histology import CLASSES, histology, load_histology, read_tile
from credax.errors import InputError

Image = pytest.importorskip("PIL.Image")
RNG = np.random.default_rng(0)


def write(path, compression="packbits", side=224):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = RNG.integers(0, 256, (side, side, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, compression=compression)
    return pixels


@pytest.mark.parametrize("compression", ["packbits", "raw", "tiff_lzw"])
def test_blocks_are_averaged(tmp_path, compression):
    pixels = write(tmp_path / "ADI-A.tif", None if compression == "raw" else compression)
    tile = read_tile(tmp_path / "ADI-A.tif", 32)
    assert tile[3, 5, 1] == pytest.approx(pixels[21:28, 35:42, 1].mean(), rel=1e-6)


def test_both_layouts(tmp_path):
    for number, name in enumerate(CLASSES):
        for copy in range(3):
            place = f"{name}/{copy}.tif" if number % 2 else f"{name}-{copy}.tif"
            write(tmp_path / place, side=64)
    x, y = load_histology(tmp_path, size=32, per_class=2)
    assert x.shape == (18, 32, 32, 3)
    np.testing.assert_array_equal(y, np.repeat(np.arange(9), 2))
    data = histology(tmp_path, size=32, train=2, test=1)
    assert (len(data.train), len(data.test)) == (18, 9)
    assert data.num_classes == 9


def test_what_cannot_be_read_is_said(tmp_path):
    with pytest.raises(InputError, match="1214456"):
        load_histology(tmp_path)
    (tmp_path / "ADI-A.tif").write_bytes(b"II*\x00 not an image")
    with pytest.raises(InputError, match="not a readable image"):
        load_histology(tmp_path)
    with pytest.raises(InputError, match="divide"):
        load_histology(tmp_path, size=33)
    write(tmp_path / "ADI-A.tif", side=64)
    with pytest.raises(InputError, match="1 tile of class ADI"):
        histology(tmp_path, size=32)
    write(tmp_path / "ADI-B.tif", side=64)
    data = histology(tmp_path, size=32)  # two tiles, whatever was asked for: one for each side
    assert (len(data.train), len(data.test)) == (1, 1)


def test_the_published_tiles(shared_folder):
    folder = None if shared_folder is None else shared_folder / "data" / "nct_crc_tiles"
    if folder is None or not folder.exists():
        pytest.skip("the shared tiles are not here")
    x, y = load_histology(folder)
    assert x.shape == (9, 32, 32, 3)
    np.testing.assert_array_equal(y, np.arange(9))
    assert 0 <= x.min() < x.max() <= 255
