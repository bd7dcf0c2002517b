import subprocess
import sys

import numpy as np
import pytest
from data_files import grey, write_idx

import credax.data as data
from credax.data.checks import check
from credax.data.places import ENVIRONMENT
from credax.errors import InputError


def test_every_source_is_described():
    for source in data.sources():
        assert source.description
        assert "\n" not in source.description
        assert source.task in ("classification", "regression")
        assert data.describe(source.name) is source
        assert (source.find is None) == (not source.remedy)
        if source.find is not None:
            assert "{root}" in source.remedy
    assert len(set(data.names())) == len(data.names())


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("CIFAR-10", "cifar10"),
        ("tinyimagenet", "tiny-imagenet"),
        ("FashionMNIST", "fashion-mnist"),
        ("uci/bostonHousing", "uci/boston-housing"),
        ("uci/wine", "uci/wine-quality-red"),
        ("toy/two_moons", "toy/two-moons"),
    ],
)
def test_spelling_of_a_name_does_not_matter(given, name):
    assert data.describe(given).name == name


def test_unknown_names_have_a_suggestion():
    with pytest.raises(InputError, match=r"unknown data set 'cifar11'; did you mean 'cifar10'\?"):
        data.load("cifar11")


def test_sets_without_files_load_as_described():
    for source in data.sources():
        if source.find is None:
            loaded = data.load(source.name)
            assert loaded.name == source.name
            assert loaded.task == source.task
            assert loaded.input_shape == source.input_shape
            assert source.available()
            assert source.where() in ("built in", "comes with sklearn")
            assert data.locate(source.name) is None


def test_a_table_says_where_data_is_or_should_be_put(tmp_path, monkeypatch):
    source = data.describe("mnist")
    assert not source.available(tmp_path)
    assert f"into {tmp_path}/mnist" in source.where(tmp_path)
    write_idx(tmp_path / "mnist", "t10k", *grey(2))
    assert source.available(tmp_path)
    assert source.where(tmp_path) == str(tmp_path / "mnist")
    assert not source.available()
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    assert source.available()
    assert len(data.load("mnist", download=False).test) == 2


def test_a_missing_package_is_said_in_the_table(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    source = data.describe("digits")
    assert not source.available()
    assert source.where() == "run: pip install 'credax[data]'"


def test_the_root_is_the_argument_then_the_variable_then_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, "/from/variable")
    assert data.root_folder(tmp_path) == tmp_path
    assert data.root_folder().as_posix() == "/from/variable"
    monkeypatch.delenv(ENVIRONMENT)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert data.root_folder() == tmp_path / "credax"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert data.root_folder().as_posix().endswith("Library/Caches/credax")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert data.root_folder() == tmp_path / "credax" / "Cache"


def test_published_splits_cannot_be_chosen():
    with pytest.raises(InputError, match="data set 'digits' has no option 'split'; it takes: none"):
        data.load("digits", split=1)
    assert data.describe("uci/yacht").options == ("split",)
    assert data.describe("tiny-imagenet").options == ("classes", "size")


def test_importing_the_room_is_cheap():
    code = (
        "import sys, credax.data; "
        "print(*[m for m in ('sklearn', 'PIL', 'pooch', 'requests', 'scipy.io', 'matplotlib') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def _dataset(x, y, **changes):
    split = data.Split(x, y)
    return data.Dataset("made", **({"train": split, "test": split} | changes))


X, Y = np.ones((3, 2), np.float32), np.array([0, 1, 1])


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (_dataset(X[:0], Y[:0]), "the train split is empty"),
        (_dataset(X, Y, test=data.Split(X[:0], Y[:0])), "the test split is empty"),
        (_dataset(X, Y, validation=data.Split(X[:0], Y[:0])), "the validation split is empty"),
        (_dataset(X[:, 0], Y), "has shape (3,)"),
        (_dataset(X, Y.astype(float)), "type float64; give one integer label per row"),
        (_dataset(X, Y - 1), "is -1; labels are 0, 1, 2, ..."),
        (_dataset(X, X[:, :, None], task="regression"), "y of the train split has shape (3, 2, 1)"),
        (_dataset(X, Y, class_names=("a",)), "row 1 of the train split is 1; labels are 0 to 0"),
    ],
)
def test_what_is_unsound_is_named_with_its_place(dataset, message):
    with pytest.raises(InputError) as caught:
        check(dataset, "here")
    assert str(caught.value).startswith("here: ")
    assert message in str(caught.value)


def test_what_is_sound_passes_unchanged():
    dataset = _dataset(X, Y)
    assert check(dataset, "here") is dataset
    empty = _dataset(X, Y, train=data.Split(X[:0], Y[:0]))
    assert check(empty, "here", train_may_be_empty=True) is empty
