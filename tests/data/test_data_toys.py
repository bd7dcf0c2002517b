import numpy as np
import pytest

from credax.data import load, names, toys
from credax.errors import InputError

TOYS = [name for name in names() if name.startswith("toy/")]


@pytest.mark.parametrize("name", TOYS)
def test_a_seed_fixes_everything_and_test_size_changes_no_training_row(name):
    a, b, other = load(name, seed=3), load(name, seed=3, test=7), load(name, seed=4)
    np.testing.assert_array_equal(a.train.x, b.train.x)
    np.testing.assert_array_equal(a.train.y, b.train.y)
    assert len(b.test) == 7
    assert not np.array_equal(a.train.x, other.train.x)
    assert not np.array_equal(a.train.x[:7], a.test.x[:7])


def test_cubic_noise_has_variance_nine():
    data = toys.cubic(train=200_000)
    residual = data.train.y - data.train.x[:, 0].astype(np.float64) ** 3
    assert residual.mean() == pytest.approx(0, abs=0.03)
    assert residual.var() == pytest.approx(9, rel=0.02)
    assert np.abs(data.train.x).max() == pytest.approx(4, abs=1e-3)
    small = toys.cubic()
    assert len(small.train) == 20
    np.testing.assert_allclose(np.asarray(small.train.targets(small.train.y)).std(), 1, rtol=1e-5)


def test_sinusoid_has_a_gap():
    data = toys.sinusoid_gap(train=5000, noise=0.0)
    x = data.train.x[:, 0]
    assert np.abs(x).min() >= toys.GAP
    assert np.abs(x).max() <= 2
    assert 0.45 < (x > 0).mean() < 0.55
    np.testing.assert_allclose(data.train.y, 2 * np.sin(4 * x.astype(np.float64)), atol=1e-5)


def test_moons_are_two_half_circles():
    data = toys.two_moons(train=400, noise=0.0)
    x, y = data.train.x.astype(np.float64), data.train.y
    upper, lower = x[y == 0], x[y == 1]
    np.testing.assert_allclose(np.hypot(*upper.T), 1, atol=1e-6)
    np.testing.assert_allclose(np.hypot(*(lower - [1, 0.5]).T), 1, atol=1e-6)
    assert (upper[:, 1] >= -1e-6).all()
    assert (lower[:, 1] <= 0.5 + 1e-6).all()
    noisy = toys.two_moons(train=20_000, noise=0.1).train
    radius = np.hypot(*noisy.x[noisy.y == 0].T)
    assert radius.std() == pytest.approx(0.1, rel=0.05)


def test_spirals_are_one_arm_turned():
    data = toys.spirals(train=300, classes=3, noise=0.0)
    points = data.train.x[:, 0].astype(np.float64) + 1j * data.train.x[:, 1]
    unwound = points * np.exp(-2j * np.pi * (np.abs(points) + data.train.y / 3))
    np.testing.assert_allclose(np.angle(unwound), 0, atol=1e-5)
    assert np.bincount(data.train.y).tolist() == [100] * 3
    assert data.num_classes == 3


def test_regression_1d_is_as_described():
    data = load("toy/regression-1d")
    x = 2 * data.train.x[:, 0]
    inside = [
        ((x >= low) & (x <= high)).sum() for low, high in ((-7.2, -4.8), (-1.2, 1.2), (4.8, 7.2))
    ]
    assert inside == [115, 136, 149]
    np.testing.assert_allclose(data.train.x[:, 1], (x / 2) ** 2, rtol=1e-6)
    assert data.train.y.min() > -0.61
    assert data.train.y.max() < 0.90
    assert data.train.inputs is None
    assert data.train.targets is None
    big = toys.regression_1d(test=100_000).test
    residual = big.y - toys.regression_curve(2 * big.x[:, 0].astype(np.float64))
    assert residual.std() == pytest.approx(0.05, rel=0.02)
    share = (2 * big.x[:, 0] < -4).mean()
    assert share == pytest.approx(115 / 400, abs=1e-4)


def test_classification_2d_is_as_described():
    data = load("toy/classification-2d")
    assert np.bincount(data.train.y).tolist() == [50] * 5
    assert data.train.inputs is None
    big = toys.classification_2d(train=100_000).train
    for label in range(5):
        cloud = big.x[big.y == label].astype(np.float64)
        assert np.hypot(*cloud.mean(axis=0)) == pytest.approx(2, abs=0.01)
        np.testing.assert_allclose(cloud.std(axis=0), 0.34, rtol=0.02)


@pytest.mark.parametrize("name", TOYS)
def test_grids_cover_the_plotting_range_in_the_shape_of_the_inputs(name):
    data, grid = load(name), toys.grid(name, 11)
    assert grid.shape[1:] == data.input_shape
    assert grid.dtype == np.float32
    planes = ("toy/two-moons", "toy/spirals", "toy/classification-2d", "toy/two-clouds")
    assert len(grid) == (121 if name in planes else 11)
    assert (grid.min(axis=0) <= data.train.x.min(axis=0)).all()
    assert (grid.max(axis=0) >= data.train.x.max(axis=0)).all()


def test_published_plotting_ranges():
    assert toys.grid("toy/cubic", 2).ravel().tolist() == [-6, 6]
    assert toys.grid("toy/regression-1d", 2).tolist() == [[-5, 25], [5, 25]]
    assert np.abs(toys.grid("toy/classification-2d", 2)).max() == pytest.approx(7.2)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("toy/cubic", {"train": 0}, "train is 0; give a number of rows"),
        ("toy/cubic", {"test": 2.5}, "test is 2.5"),
        ("toy/cubic", {"seed": -1}, "seed is -1; give a whole number"),
        ("toy/spirals", {"classes": 1}, "classes is 1; give at least 2"),
        ("toy/classification-2d", {"classes": 0}, "classes is 0"),
        ("toy/two-moons", {"rows": 5}, "no option 'rows'; it takes: seed, train, test, noise"),
        ("toy/two-moons", {"split": 1}, "no option 'split'"),
    ],
)
def test_bad_options_are_one_sentence(name, options, message):
    with pytest.raises(InputError) as caught:
        load(name, **options)
    assert message in str(caught.value)


def test_unknown_toys_have_no_grid():
    with pytest.raises(InputError, match="did you mean 'toy/cubic'"):
        toys.grid("toy/cubicc")


@pytest.mark.parametrize(
    ("make", "low", "high", "curve"),
    [(toys.cubic_gap, 2, 4, lambda x: x**3), (toys.sine, 0.5, 2, lambda x: 2 * np.sin(4 * x))],
)
def test_toys_of_priors_on_functions_have_a_gap(make, low, high, curve):
    data = make(train=2000, noise=0.0)
    x = data.train.x[:, 0].astype(np.float64)
    assert np.abs(x).min() >= low
    assert np.abs(x).max() <= high
    assert 0.45 < (x > 0).mean() < 0.55
    np.testing.assert_allclose(data.train.y, curve(x), atol=1e-4)
    assert len(make().train) == 20
