"""Principal components: against the reference's record, a planted direction, and other routes."""

from pathlib import Path

import numpy as np
import pytest

from credax.data import Split
from credax.data.pca import Components, principal_components, second_moment
from credax.errors import InputError
from credax.standardise import Standardise

GOLDEN = np.load(Path(__file__).parent.parent / "golden" / "forde_pca.npz")


def images(rows=70, shape=(3, 4, 2), seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, *shape)) + rng.normal(size=shape)
    return Split(x, np.zeros(rows, int), Standardise.of(x, axis=(0, 1, 2)))


def flat(split):
    x = (np.asarray(split.x, float) - split.inputs.mean) / split.inputs.scale
    return x.reshape(len(x), -1)


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_the_references_components(name):
    x = GOLDEN[f"{name}/images_uint8"]
    units = Standardise(255 * GOLDEN[f"{name}/mean"], 255 * GOLDEN[f"{name}/std"])
    whole = principal_components(Split(x, np.zeros(len(x), int), units))
    roots = GOLDEN[f"{name}/sqrt_eigenvalues"].astype(float)
    np.testing.assert_allclose(np.sqrt(whole.values), roots, rtol=1e-5, atol=1e-6)
    theirs = GOLDEN[f"{name}/eigenvectors"].astype(float)
    moment = (theirs * roots**2) @ theirs.T
    ours = (whole.vectors * whole.values) @ whole.vectors.T
    np.testing.assert_allclose(ours, moment, rtol=0, atol=2e-6 * np.abs(moment).max())


@pytest.mark.parametrize("centre", [False, True])
def test_components_diagonalise_the_second_moment(centre):
    split = images()
    whole = principal_components(split, centre=centre)
    x = flat(split)
    x = x - x.mean(0) if centre else x
    moment = x.T @ x / (len(x) - 1)
    np.testing.assert_allclose(second_moment(split, centre), moment, atol=1e-10)
    eye = whole.vectors.T @ whole.vectors
    assert np.abs(eye - np.eye(len(eye))).max() < 1e-10
    assert (whole.values >= 0).all()
    assert (np.diff(whole.values) <= 0).all()
    np.testing.assert_allclose(whole.values.sum(), np.trace(moment), rtol=1e-10)
    np.testing.assert_allclose(whole.total, np.trace(moment), rtol=1e-10)
    np.testing.assert_allclose((whole.vectors * whole.values) @ whole.vectors.T, moment, atol=1e-10)
    assert (whole.centred, whole.rows, whole.dimension) == (centre, 70, 24)
    assert whole.explained == pytest.approx(1)


def test_centring_matters_when_there_is_a_mean_image():
    split = images()
    assert np.abs(second_moment(split, False) - second_moment(split, True)).max() > 0.1


def test_blocks_give_the_whole():
    split = images()
    done = []
    blockwise = second_moment(
        split, True, block=16, report=lambda rows, of: done.append((rows, of))
    )
    np.testing.assert_allclose(blockwise, second_moment(split, True), atol=1e-10)
    assert done == [(16, 70), (32, 70), (48, 70), (64, 70), (70, 70)]


def test_a_planted_pixel_is_found_at_its_flattened_place():
    """Height, width, channel in this order: other orders put it elsewhere."""
    rng = np.random.default_rng(0)
    shape, place = (4, 5, 3), (1, 3, 2)
    x = rng.normal(size=(60, *shape))
    x[:, *place] *= 30
    first = principal_components(Split(x, np.zeros(60, int)), rank=1).vectors[:, 0]
    assert np.argmax(np.abs(first)) == np.ravel_multi_index(place, shape)
    other = np.ravel_multi_index((place[2], place[0], place[1]), (3, 4, 5))
    assert np.argmax(np.abs(first)) != other


@pytest.mark.parametrize("centre", [False, True])
def test_randomised_components_are_the_exact_ones(centre):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 60)) * 0.85 ** np.arange(60) + 0.5
    split = Split(x, np.zeros(90, int))
    whole = principal_components(split, centre=centre)
    sketch = principal_components(split, rank=6, centre=centre, exact=False)
    np.testing.assert_allclose(sketch.values, whole.values[:6], rtol=1e-6)
    overlap = np.abs(np.sum(sketch.vectors * whole.vectors[:, :6], axis=0))
    np.testing.assert_allclose(overlap, 1, atol=1e-6)
    np.testing.assert_allclose(sketch.total, whole.total, rtol=1e-10)
    np.testing.assert_allclose(sketch.next_value, whole.values[6], rtol=1e-3)
    assert sketch.explained == pytest.approx(whole.values[:6].sum() / whole.total)


def test_truncation_by_number_and_by_share():
    whole = principal_components(images())
    five = whole.truncate(5)
    assert five.vectors.shape == (24, 5)
    assert five.next_value == whole.values[5]
    assert five.last_value == whole.values[-1]
    shares = np.cumsum(whole.values) / whole.total
    ninety = whole.truncate(0.9)
    assert shares[len(ninety.values) - 1] >= 0.9 > shares[len(ninety.values) - 2]
    assert whole.truncate(1.0) is whole.truncate(None) is whole.truncate(24) is whole
    twice = whole.truncate(8).truncate(3)
    assert (twice.next_value, twice.last_value) == (whole.values[3], whole.values[-1])


def test_files_give_the_components_back(tmp_path):
    kept = principal_components(images(), rank=4, centre=True)
    path = tmp_path / "pca.npz"
    kept.save(path)
    again = Components.load(path)
    for name, value in kept.__dict__.items():
        np.testing.assert_array_equal(getattr(again, name), value)
    assert isinstance(again.rows, int)
    assert again.centred is True


def test_bad_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*credax pca"):
        Components.load(tmp_path / "none.npz")
    (tmp_path / "other.npz").write_bytes(b"PK not really")
    with pytest.raises(InputError, match="does not hold principal components"):
        Components.load(tmp_path / "other.npz")
    np.savez(tmp_path / "strange.npz", x=np.ones(3))
    with pytest.raises(InputError, match="does not hold principal components"):
        Components.load(tmp_path / "strange.npz")


@pytest.mark.parametrize("rank", [0, 25, 2.5, -1])
def test_impossible_ranks(rank):
    with pytest.raises(InputError, match=f"rank is {rank}"):
        principal_components(images(), rank=rank)


def test_ranks_that_need_more_components():
    four = principal_components(images(), rank=4)
    with pytest.raises(InputError, match="there are 4 components"):
        four.truncate(9)
    with pytest.raises(InputError, match="explain only"):
        four.truncate(0.999)
    with pytest.raises(InputError, match="give a whole number such as 512"):
        principal_components(images(), rank=0.9, exact=False)
    with pytest.raises(InputError, match="rank is 99"):
        principal_components(images(), rank=99, exact=False)
    with pytest.raises(InputError, match="at least 2"):
        second_moment(images()[:1])
