import numpy as np
import pytest

from credax.data import load
from credax.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.normal(3, 2, (50, 4))
LABELS = np.arange(50) % 5


def write(tmp_path, **arrays):
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays)
    return path


def test_features_and_labels_are_divided_by_class(tmp_path):
    data = load(write(tmp_path, x=X, y=LABELS))
    assert data.task == "classification"
    assert np.bincount(data.test.y).tolist() == [2] * 5
    assert np.bincount(data.train.y).tolist() == [8] * 5
    together = np.concatenate([data.train.x, data.test.x])
    assert sorted(map(tuple, together)) == sorted(map(tuple, X.astype(np.float32)))
    np.testing.assert_allclose(data.train.inputs.mean, data.train.x.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(data.train.inputs.scale, data.train.x.std(axis=0), rtol=1e-5)
    again = load(tmp_path / "mine.npz")
    np.testing.assert_array_equal(again.test.x, data.test.x)
    other = load(tmp_path / "mine.npz", split=1)
    assert not np.array_equal(other.test.x, data.test.x)


def test_given_splits_are_kept(tmp_path):
    path = write(
        tmp_path,
        x_train=X[:30],
        y_train=X[:30, 0],
        x_validation=X[30:40],
        y_validation=X[30:40, 0],
        x_test=X[40:],
        y_test=X[40:, :1],
    )
    data = load(path)
    assert data.task == "regression"
    assert (len(data.train), len(data.validation), len(data.test)) == (30, 10, 10)
    assert data.test.y.shape == (10,)
    assert data.train.targets.mean == pytest.approx(X[:30, 0].mean(), rel=1e-5)
    assert data.validation.targets is data.train.targets
    with pytest.raises(InputError, match=r"split is 1, but .* brings its own splits"):
        load(path, split=1)


def test_root_is_the_folder_of_a_relative_name(tmp_path):
    write(tmp_path, x=X, y=LABELS)
    assert load("mine.npz", tmp_path).name == "mine.npz"


@pytest.mark.parametrize(
    ("y", "options", "task"),
    [
        (LABELS, {}, "classification"),
        (LABELS, {"task": "regression"}, "regression"),
        (LABELS.astype(float), {}, "regression"),
        (LABELS.astype(float), {"task": "classification"}, "classification"),
        (np.arange(50), {}, "regression"),
        (np.arange(50) % 26, {}, "regression"),
        (LABELS > 2, {}, "classification"),
        (np.array(["b", "a"])[LABELS % 2], {}, "classification"),
        (np.stack([LABELS, LABELS], 1), {}, "regression"),
    ],
)
def test_the_task_is_guessed_or_given(tmp_path, y, options, task):
    data = load(write(tmp_path, x=X, y=y), **options)
    assert data.task == task
    assert np.issubdtype(data.train.y.dtype, np.floating if task == "regression" else np.integer)


def test_text_labels_name_the_classes(tmp_path):
    y = np.array(["dog", "ant", "cat", "ant", "dog"] * 10)
    data = load(write(tmp_path, x=np.arange(50.0)[:, None], y=y))
    assert data.class_names == ("ant", "cat", "dog")
    named = [data.class_names[label] for label in data.test.y]
    assert named == y[data.test.x[:, 0].astype(int)].tolist()


def test_given_class_names_and_pictures_of_bytes(tmp_path):
    x = RNG.integers(0, 256, (50, 6, 7), np.uint8)
    names = ["a", "b", "c", "d", "e", "f"]
    data = load(write(tmp_path, x=x, y=LABELS, class_names=names))
    assert data.num_classes == 6
    assert data.input_shape == (6, 7, 1)
    assert data.train.x.dtype == np.uint8
    assert data.train.inputs.mean.shape == (1,)
    colours = load(write(tmp_path, x=np.stack([x, 255 - x, x // 2], -1), y=LABELS))
    np.testing.assert_allclose(
        colours.train.inputs.mean, colours.train.x.mean((0, 1, 2)), rtol=1e-5
    )


def test_other_shapes_have_one_mean(tmp_path):
    x = RNG.normal(size=(50, 4, 3))
    data = load(write(tmp_path, x=x, y=LABELS))
    assert data.input_shape == (4, 3)
    assert data.train.inputs.mean == pytest.approx(data.train.x.mean(), abs=1e-6)


def _with(x, row, value):
    x = x.copy()
    x[row, 1] = value
    return x


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"x": X}, {}, "has the arrays x; it needs x and y"),
        ({"x_train": X, "y_train": LABELS}, {}, "has the arrays x_train, y_train; it needs"),
        ({}, {}, "has the arrays none"),
        ({"x": X, "y": LABELS[:9]}, {}, "x has shape (50, 4) and y (9,)"),
        ({"x": X[:0], "y": LABELS[:0]}, {}, "x is empty"),
        ({"x": X[:, :0], "y": LABELS}, {}, "x of the train split has shape (40, 0)"),
        ({"x": np.full((50, 4), "a"), "y": LABELS}, {}, "x of the train split has type <U1"),
        ({"x": X + 1j, "y": LABELS}, {}, "has type complex128"),
        ({"x": X, "y": LABELS - 1}, {}, "is -1; labels are 0 to 3"),
        ({"x": X, "y": LABELS, "class_names": ["a", "b"]}, {}, "labels are 0 to 1"),
        ({"x": X, "y": X[:, 0]}, {"task": "classification"}, "does not hold class numbers"),
        ({"x": X, "y": LABELS * 10**8}, {"task": "classification"}, "below 1000000"),
        ({"x": X, "y": np.full(50, np.inf)}, {"task": "classification"}, "below 1000000"),
        ({"x": X, "y": np.full(50, "a")}, {"task": "regression"}, "must be numbers"),
        ({"x": X, "y": np.stack([LABELS] * 2, 1)}, {"task": "classification"}, "one label per row"),
        ({"x": X, "y": LABELS}, {"task": "ranking"}, "task is 'ranking'; give 'classification'"),
        ({"x": X, "y": LABELS}, {"test_fraction": 1.5}, "test_fraction is 1.5"),
        ({"x": X, "y": LABELS}, {"test_fraction": 0.001}, "no row on one side of 50"),
        ({"x": X, "y": LABELS}, {"split": -1}, "split is -1"),
        ({"x": X, "y": LABELS}, {"tset_fraction": 0.1}, "did you mean 'test_fraction'?"),
        (
            {"x_train": X, "y_train": LABELS, "x_test": X, "y_test": X[:, 0]},
            {},
            "y differs in type or shape between splits",
        ),
        (
            {"x_train": X, "y_train": LABELS, "x_test": X[:, :3], "y_test": LABELS},
            {},
            "inputs are (4,) in the train split and (3,) in the test split",
        ),
        (
            {"x_train": _with(X, 7, np.nan), "y_train": LABELS, "x_test": X, "y_test": LABELS},
            {},
            "x of the train split has a value that is not a finite float32 in row 7 (1 such rows)",
        ),
        (
            {"x_train": _with(X, 9, 1e300), "y_train": LABELS, "x_test": X, "y_test": LABELS},
            {},
            "not a finite float32 in row 9",
        ),
        (
            {"x_train": X, "y_train": X[:, 0], "x_test": X, "y_test": _with(X, 3, np.inf)[:, 1]},
            {},
            "y of the test split has a value that is not a finite float32 in row 3",
        ),
    ],
)
def test_bad_input_is_one_sentence_that_names_the_file(tmp_path, arrays, options, message):
    path = write(tmp_path, **arrays)
    with pytest.raises(InputError) as caught:
        load(path, **options)
    assert message in str(caught.value)
    assert "mine.npz" in str(caught.value) or message.startswith(("task", "test_", "split", "no "))
    assert "\n" not in str(caught.value)


def test_pickled_objects_are_refused(tmp_path):
    path = write(tmp_path, x=np.array([object()] * 3, dtype=object), y=np.arange(3))
    with pytest.raises(InputError, match="without pickled objects"):
        load(path)


@pytest.mark.parametrize("cut", [0, 5, 100, -30])
def test_a_cut_file_is_named(tmp_path, cut):
    path = write(tmp_path, x=X, y=LABELS)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InputError, match=r"mine\.npz is not a readable \.npz file"):
        load(path)


def test_a_bare_array_under_this_name_is_named(tmp_path):
    path = tmp_path / "mine.npz"
    with path.open("wb") as file:
        np.save(file, X)
    with pytest.raises(InputError, match=r"mine\.npz is not a readable \.npz file"):
        load(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*absent\.npz"):
        load(tmp_path / "absent.npz")
