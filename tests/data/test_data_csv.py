import numpy as np
import pytest

from credax.data import load
from credax.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.normal(3, 2, (40, 2)).round(6)
SPECIES = np.array(["wolf", "ant", "cat", "ant"] * 10)


def write(tmp_path, text, name="mine.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def lines(target, header="", delimiter=","):
    rows = [delimiter.join([*map(str, x), str(t)]) for x, t in zip(X, target, strict=True)]
    return "\n".join(([header] if header else []) + rows) + "\n"


@pytest.mark.parametrize("header", ["", "width,height,species"])
def test_text_classes_with_and_without_a_header(tmp_path, header):
    data = load(write(tmp_path, lines(SPECIES, header)))
    assert data.task == "classification"
    assert data.class_names == ("ant", "cat", "wolf")
    assert np.bincount(data.test.y).tolist() == [4, 2, 2]
    assert np.bincount(data.train.y).tolist() == [16, 8, 8]
    lookup = dict(zip(map(tuple, X.astype(np.float32)), SPECIES, strict=True))
    for split in (data.train, data.test):
        for x, y in zip(split.x, split.y, strict=True):
            assert lookup[tuple(x)] == data.class_names[y]
    np.testing.assert_allclose(data.train.inputs.mean, data.train.x.mean(axis=0), rtol=1e-5)


def test_numbers_are_a_regression_in_units_of_the_training_rows(tmp_path):
    y = X @ [2.0, -1.0]
    data = load(write(tmp_path, lines(y, "a,b,target")), test_fraction=0.25, split=3)
    assert data.task == "regression"
    assert (len(data.train), len(data.test)) == (30, 10)
    np.testing.assert_allclose(data.test.y, data.test.x @ [2.0, -1.0], rtol=1e-4, atol=1e-4)
    assert data.train.targets.scale == pytest.approx(data.train.y.std(), rel=1e-5)
    other = load(tmp_path / "mine.csv", test_fraction=0.25, split=4)
    assert not np.array_equal(other.test.x, data.test.x)


@pytest.mark.parametrize(
    ("target", "options", "task", "names"),
    [
        (np.arange(40) % 3 + 1, {}, "classification", ("1", "2", "3")),
        (np.arange(40) % 3 + 9, {}, "classification", ("9", "10", "11")),
        (np.arange(40) % 3 + 1, {"task": "regression"}, "regression", ()),
        (np.arange(40), {}, "regression", ()),
        (np.arange(40) % 2 / 2, {}, "regression", ()),
        (np.arange(40) % 2 / 2, {"task": "classification"}, "classification", ("0", "0.5")),
        (np.array(["1", "2", "3+", "1"] * 10), {"task": "classification"}, "classification",
         ("1", "2", "3+")),
    ],
)  # fmt: skip
def test_the_task_is_guessed_or_given(tmp_path, target, options, task, names):
    data = load(write(tmp_path, lines(target, "a,b,t")), **options)
    assert (data.task, data.class_names) == (task, names)


@pytest.mark.parametrize(("delimiter", "name"), [(";", "m.csv"), ("\t", "m.tsv"), ("\t", "m.csv")])
def test_delimiters_are_found(tmp_path, delimiter, name):
    header = delimiter.join(["a", "b", "t"])
    assert load(write(tmp_path, lines(SPECIES, header, delimiter), name)).input_shape == (2,)


def test_target_by_name_or_number_and_columns_left_out(tmp_path):
    text = "id,species,a\n" + "\n".join(f"row{k},{SPECIES[k]},{X[k, 0]}" for k in range(40))
    path = write(tmp_path, text)
    for target in ("species", 1, -2):
        for ignore in ("id", ["id"]):
            data = load(path, target=target, ignore=ignore)
            assert data.input_shape == (1,)
            assert data.class_names == ("ant", "cat", "wolf")


def test_header_of_numbers_as_pandas_writes_it(tmp_path):
    y = X @ [2.0, -1.0]
    assert len(load(write(tmp_path, lines(y, "0,1,target"))).train) == 32
    assert len(load(write(tmp_path, lines(y, "0,1,2")), header=True).train) == 32
    assert len(load(tmp_path / "mine.csv", header=False).train) == 33


def test_quotes_blank_lines_and_a_byte_order_mark(tmp_path):
    rows = "".join(f'{k}, "{"x,y" if k % 2 else "z"}"\n\n' for k in range(8)).replace(", ", ",")
    data = load(write(tmp_path, "\ufeffa,kind\n" + rows), target="kind", header=True)
    assert data.class_names == ("x,y", "z")


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "mine.csv is empty"),
        ("a,b\n", {}, "has 0 rows of data"),
        ("a\n1\n2\n3\n", {}, "no feature column beside the target 'a'"),
        ("a,b,t\n1,2,3\n1,2\n", {}, "2 cells in line 3 and 3 in line 1"),
        ("1,2,3\n1,,4\n5,6,7\n", {}, "line 2: column '1' holds '', which is not"),
        ("a,b,t\n1,2,3\n1,red,4\n2,3,4\n1,5,7\n", {}, "line 3: column 'b' holds 'red'"),
        ("a,b,t\n1,inf,3\n1,2,4\n2,3,4\n1,5,7\n", {}, "line 2: column 'b' holds 'inf'"),
        ("1,x,3\n4,5,6\n7,8,9\n", {}, "mixes numbers and text (1, x, 3); say whether"),
        ("a,t\n1,3.5\n2,n/a\n3,1\n", {}, "line 3: the target 't' holds 'n/a' (1 of 3 rows"),
        ("a,t\n1,3.5\n2,\n3,1\n", {}, "line 3: the target 't' holds ''"),
        ("a,t\n1,3.5\n2,odd\n3,1\n", {}, "line 3: the target 't' holds 'odd'; give a number"),
        ("a,t\n1,nan\n2,2.5\n3,1\n", {}, "line 2: the target 't' holds 'nan'"),
        ("a,t\n1,u\n2,v\n3,w\n", {}, "3 different texts in 3 rows"),
        ("a,t\n1,u\n2,v\n3,w\n", {"task": "regression"}, "the target 't' holds 'u'"),
        ("a,t\n1,2\n3,4\n", {"target": "z"}, "unknown column of"),
        ("a,t\n1,2\n3,4\n", {"target": 5}, "target is column 5; "),
        ("a,t\n1,2\n3,4\n", {"ignore": "z"}, "unknown column of"),
        ("a,t\n1,2\n3,4\n", {"test_fraction": 0.1}, "leaves no row on one side of 2 rows"),
        ("a,t\n1,2\n3,4\n", {"task": "ranking"}, "task is 'ranking'"),
        ("a,t\n1,2\n3,4\n", {"delimiter": ",,"}, "cannot be read as UTF-8 CSV"),
        ("a,t\n1,2\n3,4\n", {"targets": "t"}, "did you mean 'target'?"),
        ("a,t\n1e300,2.5\n3,4\n1,2\n1,1\n1,5\n", {}, "not a finite float32"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path, text, options, message):
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load(path, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("contents", [b"\xff\xfe\x00a,b", b"a,t\n\xe9,1\n"])
def test_bytes_that_are_not_text(tmp_path, contents):
    path = tmp_path / "mine.csv"
    path.write_bytes(contents)
    with pytest.raises(InputError, match=r"mine\.csv cannot be read as UTF-8 CSV"):
        load(path)


def test_decimal_commas_are_read_and_said_where_they_could_be_thousands(tmp_path):
    texts = [[f"{v:.3f}".replace(".", ",") for v in x] for x in X]
    rows = [";".join([*text, species]) for text, species in zip(texts, SPECIES, strict=True)]
    path = write(tmp_path, "\n".join(["a;b;kind", *rows]))
    data = load(path)
    assert data.feature_names == ("a", "b")
    every = np.sort(np.concatenate([data.train.x, data.test.x])[:, 0])
    np.testing.assert_allclose(every, np.sort(X[:, 0].round(3)), rtol=1e-6)
    whole = [";".join([f"{i},234", "1", species]) for i, species in enumerate(SPECIES, 1)]
    path = write(tmp_path, "\n".join(["a;b;kind", *whole]), "whole.csv")
    with pytest.warns(UserWarning, match="1,234 is 1.234"):
        assert load(path).train.x[:, 0].max() < 41
    many = [*whole[:-1], "1,234,567;1;ant"]
    path = write(tmp_path, "\n".join(["a;b;kind", *many]), "many.csv")
    with pytest.warns(UserWarning, match="1,234 is"), pytest.raises(InputError, match="1,234,567"):
        load(path)
