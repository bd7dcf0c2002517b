import io
import tarfile

import numpy as np
import pytest
from data_files import SHARED, pack, unpack, with_shared

from credax.data import describe, load, names
from credax.errors import InputError

RNG = np.random.default_rng(0)
TABLE = np.column_stack([RNG.normal(5, 2, (10, 2)), np.full(10, 0.998), RNG.normal(50, 9, 10)])


def text(array, form="%.17g"):
    out = io.StringIO()
    np.savetxt(out, np.atleast_1d(array), fmt=form)
    return out.getvalue().encode()


def concrete(**changes):
    files = {
        "data.txt": text(TABLE) + b"\n",
        "index_features.txt": text([0, 1, 2], "%d"),
        "index_target.txt": text(3, "%d"),
        "n_splits.txt": text(2, "%d"),
        "index_train_0.txt": text([5, 0, 1, 2, 3, 4, 6, 7], "%d"),
        "index_test_0.txt": text([8, 9], "%d"),
        "index_train_1.txt": text(np.arange(2, 10), "%.18e"),
        "index_test_1.txt": text([1, 0], "%.18e"),
    }
    return files | {name.replace("__", "."): body for name, body in changes.items()}


@pytest.fixture(params=["UCI_Datasets/", "uci/UCI_Datasets/", "", "tar.xz", "zip"])
def root(tmp_path, request):
    files = concrete()
    if request.param in ("tar.xz", "zip"):
        # Another set with the same file names comes first: only the folder tells them apart.
        other = {f"UCI_Datasets/other/data/{name}": b"9" for name in files}
        members = other | {f"UCI_Datasets/concrete/data/{n}": body for n, body in files.items()}
        name = "uci.tar.xz" if request.param == "tar.xz" else "UCI_Datasets.zip"
        pack(tmp_path / name, members)
    else:
        unpack(tmp_path / f"{request.param}concrete/data", files)
    return tmp_path


def test_rows_columns_and_units_of_a_split(root):
    data = load("uci/concrete", root, download=False)
    order = [5, 0, 1, 2, 3, 4, 6, 7]
    np.testing.assert_array_equal(data.train.x, TABLE[order, :3].astype(np.float32))
    np.testing.assert_array_equal(data.train.y, TABLE[order, 3].astype(np.float32))
    np.testing.assert_array_equal(data.test.y, TABLE[8:, 3].astype(np.float32))
    assert data.task == "regression"
    rows = data.train.x.astype(np.float64)
    np.testing.assert_allclose(data.train.inputs.mean, rows.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(data.train.inputs.scale[:2], rows[:, :2].std(axis=0), rtol=1e-6)
    assert data.train.inputs.scale[2] == 1.0  # a constant column
    assert data.train.targets.scale == pytest.approx(TABLE[order, 3].std(), rel=1e-6)
    np.testing.assert_allclose(np.asarray(data.train.inputs(data.train.x))[:, 2], 0, atol=1e-6)


def test_split_chooses_the_rows_and_their_units(root):
    data = load("uci/concrete", root, split=1, download=False)
    np.testing.assert_array_equal(data.test.y, TABLE[[1, 0], 3].astype(np.float32))
    assert data.test.targets.mean == pytest.approx(TABLE[2:, 3].mean(), rel=1e-6)


@pytest.mark.parametrize("split", [2, -1, 0.5, True])
def test_a_split_that_is_not_there(root, split):
    with pytest.raises(InputError, match=r"split is .*; uci/concrete has the splits 0 to 1"):
        load("uci/concrete", root, split=split, download=False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data__txt": b"1 2 x 4\n"}, "data.txt is not a table of numbers"),
        ({"data__txt": b"1 2 3 4\n1 2\n"}, "data.txt is not a table of numbers"),
        ({"data__txt": b" \n"}, "data.txt is empty"),
        ({"data__txt": b"# 1 2 3 4\n"}, "data.txt is not a table of numbers"),
        ({"data__txt": b"1 2 3 4\n"}, "data.txt is not a table of rows"),
        ({"index_features__txt": b"0\n7\n"}, "index_features.txt points outside"),
        ({"index_test_0__txt": b"8\n10\n"}, "index_test_0.txt points outside data.txt (0 to 9)"),
        ({"index_test_0__txt": b"8\n-1\n"}, "points outside"),
        ({"index_test_0__txt": b"8\n8.5\n"}, "not whole"),
        ({"index_test_0__txt": b"7\n8\n"}, "rows in both train and test"),
        ({"index_test_0__txt": b""}, "index_test_0.txt is empty"),
        (
            {"data__txt": text(np.where(np.isclose(TABLE, TABLE[8, 1]), np.nan, TABLE))},
            "in row 0 (1 such",
        ),
    ],
)
def test_damage_is_one_sentence_that_names_the_file(tmp_path, changes, message):
    unpack(tmp_path / "UCI_Datasets/concrete/data", concrete(**changes))
    with pytest.raises(InputError) as caught:
        load("uci/concrete", tmp_path, download=False)
    assert message in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_archive_without_the_set_names_what_is_missing(tmp_path):
    pack(tmp_path / "uci.tar.xz", {"UCI_Datasets/concrete/data/data.txt": b"1"})
    with pytest.raises(InputError, match=r"uci\.tar\.xz has no file 'n_splits\.txt'"):
        load("uci/yacht", tmp_path, download=False)


def test_a_folder_without_the_set_says_what_to_put_where(tmp_path):
    unpack(tmp_path / "UCI_Datasets/concrete/data", concrete())
    with pytest.raises(InputError, match=r"UCI_Datasets.*yacht/data/data\.txt.*into"):
        load("uci/yacht", tmp_path, download=False)


ROWS = {
    "boston-housing": 506,
    "concrete": 1030,
    "energy": 768,
    "kin8nm": 8192,
    "naval-propulsion-plant": 11934,
    "power-plant": 9568,
    "protein-tertiary-structure": 45730,
    "wine-quality-red": 1599,
    "yacht": 308,
}


def test_the_sets_are_listed():
    expected = [f"uci/{n}" for n in (*ROWS, "airfoil", "bike-sharing")]
    assert [name for name in names() if name.startswith("uci/")] == expected


HOUR = (
    "instant,dteday,season,yr,mnth,hr,holiday,weekday,workingday,weathersit,temp,atemp,hum,"
    "windspeed,casual,registered,cnt"
)


def test_tables_of_the_repository_itself(tmp_path):
    """Airfoil by tabs, bikes by commas without the date and the two parts of the count."""
    lines = [f"{800 + i}\t0\t0.3048\t71.3\t0.00266{i}\t{126 + i}.201" for i in range(20)]
    (tmp_path / "airfoil_self_noise.dat").write_text("\n".join(lines) + "\n")
    data = load("uci/airfoil", tmp_path, download=False)
    assert data.train.x.shape == (18, 5)
    rows = np.concatenate([data.train.x[:, 0], data.test.x[:, 0]])
    np.testing.assert_array_equal(np.sort(rows), 800 + np.arange(20))
    np.testing.assert_allclose(data.train.y, data.train.x[:, 0] - 800 + 126.201, rtol=1e-6)
    other = load("uci/airfoil", tmp_path, split=1, download=False)
    assert not np.array_equal(other.test.x, data.test.x)
    lines = [f"{i},2011-01-01,1,0,1,{i},0,6,0,1,0.24,0.28,0.81,0.0,3,{i},{i + 3}" for i in range(9)]
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "hour.csv").write_text("\n".join([HOUR, *lines]) + "\n")
    bikes = load("uci/bike-sharing", tmp_path, download=False)
    assert bikes.train.x.shape == (8, 12)
    np.testing.assert_array_equal(bikes.train.y, bikes.train.x[:, 3] + 3)
    with pytest.raises(InputError, match="split is -1; uci/airfoil has the splits 0, 1, 2 and so"):
        load("uci/airfoil", tmp_path, split=-1, download=False)
    (tmp_path / "airfoil_self_noise.dat").write_text("800\tabc\n")
    with pytest.raises(InputError, match="is not the published table"):
        load("uci/airfoil", tmp_path, download=False)
    (tmp_path / "uci" / "hour.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="has no column 'season'"):
        load("uci/bike-sharing", tmp_path, download=False)


@pytest.mark.parametrize("name", ROWS if with_shared("uci.tar.xz") else ["concrete"])
def test_sets_agree_with_their_record_and_with_the_raw_text(tmp_path, name):
    """Numpy on the raw files is the independent route; a made set stands in for absent ones."""
    real = bool(with_shared("uci.tar.xz"))
    place = SHARED if real else tmp_path
    if not real:
        members = {f"UCI_Datasets/concrete/data/{n}": body for n, body in concrete().items()}
        pack(tmp_path / "uci.tar.xz", members)
    data = load(f"uci/{name}", place, split=1, download=False)
    folder = {"boston-housing": "bostonHousing"}.get(name, name)
    with tarfile.open(place / "uci.tar.xz") as tar:
        table, features, target, train, test = (
            np.loadtxt(tar.extractfile(f"UCI_Datasets/{folder}/data/{file}.txt"), ndmin=1)
            for file in ("data", "index_features", "index_target", "index_train_1", "index_test_1")
        )
    if real:
        assert len(table) == len(train) + len(test) == ROWS[name]
        assert data.input_shape == describe(f"uci/{name}").input_shape
    x, y = table[:, features.astype(int)], table[:, int(target[0])]
    np.testing.assert_allclose(data.train.x, x[train.astype(int)], rtol=1e-6)
    np.testing.assert_allclose(data.test.y, y[test.astype(int)], rtol=1e-6)
    np.testing.assert_allclose(data.train.targets.mean, y[train.astype(int)].mean(), rtol=1e-5)
    np.testing.assert_allclose(data.train.targets.scale, y[train.astype(int)].std(), rtol=1e-5)
