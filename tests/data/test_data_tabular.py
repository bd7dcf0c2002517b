"""Columns of a table: what each is, what it becomes, and that new rows are treated alike."""

import builtins
import json
import warnings
from datetime import date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from messy_tables import HEADER, customers, write_table

from credax.data import from_frame, load
from credax.data.about import About
from credax.data.columns import Columns
from credax.data.frame import frame_of
from credax.data.preparation import read_preparation
from credax.data.tabular import labelled_rows, read_frame
from credax.errors import DamagedFile, InputError, MissingExtra

ROWS = customers()


def numbers(rows=40, seed=0):
    return np.random.default_rng(seed).normal(size=rows)


def encoded(frame, **options):
    """The whole frame through the columns decided on its training rows."""
    data = from_frame(frame, target="y", **options)
    return data, data.preparation.encode(frame_of(frame))


def test_all_writings_of_one_table_are_one_data_set(tmp_path):
    """Separator, decimal comma, date format, byte order mark, line ends and container aside."""
    options = {"target": "bought", "ignore": "id", "validation": 0.2}
    first = load(write_table(tmp_path / "a.csv", ROWS), **options)
    german = {"delimiter": ";", "comma": True, "mark": True, "end": "\r\n"}
    typed = pd.read_csv(tmp_path / "a.csv", parse_dates=["since"])
    typed["member"] = typed["member"] == "yes"
    typed.to_parquet(tmp_path / "d.parquet")
    typed.to_feather(tmp_path / "e.feather")
    others = [
        load(write_table(tmp_path / "b.csv", ROWS, **german), **options),
        load(write_table(tmp_path / "c.tsv", ROWS, delimiter="\t"), **options),
        load(tmp_path / "d.parquet", **options),
        load(tmp_path / "e.feather", **options),
        from_frame(typed, **options),
        from_frame(pl.from_pandas(typed), **options),
        from_frame(pa.Table.from_pandas(typed), **options),
    ]
    assert first.class_names == ("buys, often", "leaves")
    assert first.feature_names[:5] == (
        "colour=blue", "colour=green", "colour=red", "age", "age missing"
    )  # fmt: skip
    for other in others:
        assert other.feature_names == first.feature_names
        for split in ("train", "validation", "test"):
            one, two = getattr(first, split), getattr(other, split)
            np.testing.assert_array_equal(one.x, two.x)
            np.testing.assert_array_equal(one.y, two.y)
        assert other.train.inputs.same_as(first.train.inputs)


def test_what_is_decided_sees_training_rows_only():
    """A level, a median and an offset that held-out rows alone would change."""
    frame = pd.DataFrame({"a": numbers(), "kind": ["u", "v"] * 20, "y": numbers(seed=1)})
    data = from_frame(frame, target="y", validation=0.25)
    held = [row for row in range(40) if np.float32(frame["y"][row]) not in data.train.y]
    assert len(held) == len(data.test) + len(data.validation)
    changed = frame.copy()
    changed.loc[held, "a"] = 1e6
    changed.loc[held[0], "kind"] = "w"
    changed.loc[held[1], "a"] = np.nan
    with pytest.warns(UserWarning, match="2 of 40 rows are unlike all training rows"):
        again = from_frame(changed, target="y", validation=0.25)
    assert again.preparation.columns == data.preparation.columns
    np.testing.assert_array_equal(again.train.x, data.train.x)
    assert again.train.inputs.same_as(data.train.inputs)


def test_missing_numbers_are_the_median_and_marked():
    values = numbers()
    values[::5] = np.nan
    data, found = encoded(pd.DataFrame({"a": values, "y": numbers(seed=1)}))
    assert data.feature_names == ("a", "a missing")
    median = np.float32(np.median(data.train.x[data.train.x[:, 1] == 0, 0]))
    np.testing.assert_array_equal(found.x[:, 1], np.isnan(values))
    np.testing.assert_allclose(found.x[::5, 0], median, rtol=1e-6)
    assert not any(found.flags)


def test_missing_texts_are_the_most_frequent_and_marked():
    kinds = ["b", "b", "a", None] * 10
    data, found = encoded(pd.DataFrame({"kind": kinds, "y": numbers()}))
    assert data.feature_names == ("kind=a", "kind=b", "kind missing")
    assert found.x[:4].tolist() == [[0, 1, 0], [0, 1, 0], [1, 0, 0], [0, 1, 1]]


def test_what_training_never_showed_is_flagged_and_not_guessed():
    frame = pd.DataFrame({"kind": ["u", "v"] * 20, "a": numbers(), "one": 5.0, "y": numbers()})
    columns = from_frame(frame, target="y").preparation
    new = pd.DataFrame({"one": [5.0, 6.0, 5.0], "a": [1.0, 2.0, None], "kind": ["u", "w", "v"]})
    found = columns.encode(frame_of(new))
    assert found.x[:, :2].tolist() == [[1, 0], [0, 0], [0, 1]]
    assert found.flags[0] == ()
    assert found.flags[1] == ("kind has the unseen level 'w'", "one was always 5 in training")
    assert found.flags[2] == ("a is missing, as it never was in training",)
    with pytest.warns(UserWarning, match="2 of 3 rows are unlike all training rows"):
        np.testing.assert_array_equal(columns.inputs(new), found.x)


@pytest.mark.parametrize(
    "texts",
    [
        ["2024-02-29", "2023-12-31T18:00", "2024-01-01 06:00:00"],
        ["29.02.2024", "31.12.2023 18:00", "1.1.2024 06:00"],
        ["29/02/2024", "31/12/2023 18:00", "01/01/2024 06:00"],
        ["02/29/2024", "12/31/2023 18:00", "01/01/2024 06:00"],
        ["2024-02-29T01:00+01:00", "2023-12-31T23:30+05:30", "2024-01-01T06:00Z"],
    ],
)
def test_dates_are_year_month_weekday_and_days(texts):
    whens = [datetime(2024, 2, 29), datetime(2023, 12, 31, 18), datetime(2024, 1, 1, 6)]
    frame = pd.DataFrame({"when": texts * 8, "y": numbers(24)})
    data, found = encoded(frame)
    assert data.feature_names == ("when year", "when month", "when weekday", "when days")
    first = datetime(2023, 12, 31)
    for row, when in enumerate(whens):
        days = (when - first) / timedelta(days=1)
        np.testing.assert_allclose(found.x[row], [when.year, when.month, when.weekday(), days])


def test_dates_that_may_be_either_are_asked_about():
    frame = pd.DataFrame({"when": ["01/02/2024", "03/04/2024"] * 10, "y": numbers(20)})
    with pytest.raises(InputError, match="--kinds when=date-dmy or when=date-mdy"):
        from_frame(frame, target="y")
    days = {
        order: from_frame(frame, target="y", kinds={"when": f"date-{order}"}).preparation
        for order in ("dmy", "mdy")
    }
    month = {order: c.inputs(frame.head(2))[:, 0].tolist() for order, c in days.items()}
    assert month == {"dmy": [2.0, 4.0], "mdy": [1.0, 3.0]}


def test_typed_dates_of_every_library_agree():
    whens = [date(2024, 1, 1) + timedelta(days=k) for k in range(40)]
    zone = timezone(timedelta(hours=2))
    aware = [datetime(w.year, w.month, w.day, 2, tzinfo=zone) for w in whens]
    y = numbers()
    frames = [
        pd.DataFrame({"w": pd.to_datetime(whens), "y": y}),
        pd.DataFrame({"w": pd.Series(whens, dtype=object), "y": y}),
        pd.DataFrame({"w": pd.Series(aware), "y": y}),
        pl.DataFrame({"w": whens, "y": y}),
        pa.table({"w": whens, "y": y}),
    ]
    first, *others = (from_frame(frame, target="y") for frame in frames)
    for other in others:
        np.testing.assert_array_equal(other.train.x, first.train.x)


def test_times_in_seconds_keep_their_digits():
    """Neighbouring Unix times are equal in float32: 128 seconds is its step there."""
    times = 1_700_000_000.0 + np.arange(40)
    assert len(np.unique(times.astype(np.float32))) < 3
    data, found = encoded(pd.DataFrame({"t": times, "a": numbers(), "y": numbers(seed=1)}))
    np.testing.assert_array_equal(np.diff(found.x[:, 0]), 1.0)
    assert data.preparation.columns[0].offset == pytest.approx(1_700_000_020, abs=10)
    assert data.preparation.columns[1].offset == 0
    standard = np.asarray(data.train.inputs(data.train.x))[:, 0]
    np.testing.assert_allclose([standard.mean(), standard.std()], [0, 1], atol=1e-5)


def test_a_target_that_float32_cannot_hold_is_refused():
    frame = pd.DataFrame({"a": numbers(), "y": 1_700_000_000.5 + np.arange(40)})
    with pytest.raises(InputError, match="subtract a constant"):
        from_frame(frame, target="y")
    frame["y"] = [1e39, *range(39)]
    with pytest.raises(InputError, match=r"row 1: the target 'y' holds 1e[+]39"):
        from_frame(frame, target="y")


@pytest.mark.parametrize("place", [0, 39])
def test_values_that_do_not_fit_are_refused_by_column_and_row(place):
    values = numbers()
    values[place] = 1e39
    with pytest.raises(InputError, match=f"row {place + 1}: column 'a' holds 1e[+]39"):
        from_frame(pd.DataFrame({"a": values, "y": numbers(seed=1)}), target="y")


def test_labels_are_the_classes_that_occur(tmp_path):
    labels = [0, 1000, 2000] * 10
    data = from_frame(pd.DataFrame({"a": numbers(30), "y": labels}), target="y")
    assert data.class_names == ("0", "1000", "2000")
    assert sorted(set(data.train.y.tolist())) == [0, 1, 2]
    np.savez(tmp_path / "mine.npz", x=numbers(30)[:, None], y=np.array(labels))
    own = load(tmp_path / "mine.npz")
    assert own.class_names == ("0", "1000", "2000")
    assert own.num_classes == 3


def test_several_targets_are_one_regression():
    frame = pd.DataFrame({"u": numbers(), "a": numbers(seed=2), "v": numbers(seed=1)})
    data = from_frame(frame, target=["v", "u"])
    assert (data.task, data.num_targets, data.target_names) == ("regression", 2, ("v", "u"))
    rows = {tuple(y): x[0] for x, y in zip(data.test.x, data.test.y, strict=True)}
    for _, row in frame.astype(np.float32).iterrows():
        assert rows.get((row["v"], row["u"]), row["a"]) == row["a"]
    with pytest.raises(InputError, match="name one to classify"):
        from_frame(frame, target=["v", "u"], task="classification")


def test_kinds_are_as_said():
    frame = pd.DataFrame({"zip": [10115, 80331] * 10, "flag": [0, 1] * 10, "y": numbers(20)})
    data = from_frame(frame, target="y", kinds=["zip=category", "flag=boolean"])
    assert data.feature_names == ("zip=10115", "zip=80331", "flag")
    texts = frame.astype({"zip": str})
    np.testing.assert_array_equal(
        data.preparation.inputs(texts.drop(columns="y")), data.preparation.inputs(frame)
    )


def test_zeros_and_ones_are_not_scaled():
    frame = pd.DataFrame({"kind": ["u"] * 38 + ["v"] * 2, "a": numbers(), "y": numbers(seed=1)})
    units = from_frame(frame, target="y", split=1).train.inputs
    assert units.mean[:2].tolist() == [0, 0]
    assert units.scale[:2].tolist() == [1, 1]
    assert units.mean[2] != 0


def test_empty_and_constant_columns_tell_nothing():
    frame = pd.DataFrame(
        {"nothing": None, "same": "x", "when": date(2024, 1, 1), "a": numbers(), "y": numbers()}
    )  # fmt: skip
    data = from_frame(frame, target="y")
    assert data.feature_names == ("a",)
    notes = {line[0]: line[3] for line in data.preparation.described()}
    assert notes["nothing"] == "no training row has a value"
    assert notes["same"] == notes["when"] == "constant: of no use"
    assert data.preparation.names == ("same", "when", "a")
    new = pd.DataFrame({"same": ["z"], "when": ["2025-01-01"], "a": [1.0]})
    assert data.preparation.encode(frame_of(new)).flags == (
        ("same has the unseen level 'z'", "when was always 2024-01-01 in training"),
    )
    with pytest.raises(InputError, match="no feature column beside the target"):
        from_frame(frame.drop(columns="a"), target="y")


def test_a_row_number_is_pointed_out():
    frame = pd.DataFrame({"n": range(40), "code": [f"0{k % 9}" for k in range(40)], "y": numbers()})
    notes = {line[0]: line[3] for line in from_frame(frame, target="y").preparation.described()}
    assert notes["n"] == "looks like a row number: consider --ignore n"
    assert notes["code"] == "leading zeros: if it is a code, say --kinds code=category"


def test_the_record_survives_json_and_nothing_else_is_read(tmp_path):
    path = write_table(tmp_path / "a.csv", ROWS)
    data = load(path, target="bought", ignore="id")
    about = About.from_json(json.loads(json.dumps(About.of(data).to_json())))
    again = read_preparation(about, "config.json")
    assert isinstance(again, Columns)
    assert again == data.preparation
    frame = read_frame(path, again.names)
    assert frame.passed_over == ("id", "bought")
    np.testing.assert_array_equal(again.encode(frame).x, data.preparation.encode(frame).x)


@pytest.mark.parametrize(
    ("column", "change"),
    [
        (0, {"fill": "mauve"}), (0, {"levels": ["red"]}), (0, {"kind": "sound"}),
        (1, {"fill": "old"}), (1, {"offset": "0"}), (1, {"missing": 0}),
        (2, {"fill": "perhaps"}), (3, {"fill": "soon"}), (3, {"parts": ["year"] * 4 + ["x"]}),
    ],
)  # fmt: skip
def test_a_damaged_record_is_said_to_be_so(tmp_path, column, change):
    path = write_table(tmp_path / "a.csv", ROWS)
    content = About.of(load(path, target="bought", ignore="id")).to_json()
    content["preparation"]["columns"][column] |= change
    with pytest.raises(DamagedFile, match=r"config\.json"):
        read_preparation(About.from_json(content), "config.json")


def test_labelled_rows_are_those_of_the_model(tmp_path):
    path = write_table(tmp_path / "a.csv", ROWS)
    data = load(path, target="bought", ignore="id")
    order = (6, 2, 1, 3, 4, 5)
    other = write_table(
        tmp_path / "b.csv",
        [[row[k] for k in order] for row in ROWS[:20]],
        [HEADER[k] for k in order],
    )
    split = labelled_rows(read_frame(other), data.preparation, data.class_names)
    assert [data.class_names[y] for y in split.y] == [row[6] for row in ROWS[:20]]
    x = data.preparation.encode(read_frame(path)).x[:20]
    np.testing.assert_array_equal(split.x, x)
    write_table(other, [["stays", *row[1:6]] for row in ROWS[:4]], ["bought", *HEADER[1:6]])
    with pytest.raises(InputError, match="line 2: the class 'stays' is not one of the model's"):
        labelled_rows(read_frame(other), data.preparation, data.class_names)


BASE = {"a": numbers(), "kind": ["u", "v"] * 20, "y": numbers(seed=1)}


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({"kind": [f"n{k}" for k in range(40)]}, {}, "leave it out with --ignore kind"),
        ({"kind": [f"n{k % 31 % 100}" for k in range(40)] }, {"kinds": {"kind": "number"}},
         "which is not a finite number"),
        ({"kind": ["1", "2", "x"] * 13 + ["1"]}, {}, "--kinds kind=category"),
        ({"kind": ["5%", "7%"] * 20}, {}, "in a form that is not read, such as '5%'"),
        ({"kind": ["1,234", "5,678"] * 20}, {}, "in a form that is not read, such as '1,234'"),
        ({"kind": ["31.12.24", "1.1.25"] * 20}, {}, "--kinds kind=category"),
        ({"kind": [[1], [2]] * 20}, {}, "column 'kind' holds a list"),
        ({"kind": [timedelta(1)] * 40}, {}, "timedelta"),
        ({"a": ["inf", *["1"] * 39]}, {}, "row 1: column 'a' holds 'inf'"),
        ({"a": [np.inf, *range(39)]}, {}, "row 1: column 'a' holds 'inf', which is not a finite"),
        ({"y": [None, *range(39)]}, {}, "row 1: the target 'y' holds '' (1 of 40 rows have no"),
        ({"y": ["", *["u"] * 39]}, {}, "(1 of 40 rows have no target)"),
        ({"y": ["NaN", *["u", "v", "w"] * 13]}, {}, "(1 of 40 rows have no target)"),
        ({"y": ["same"] * 40}, {}, "one value in all rows"),
        ({"y": [3.0] * 40}, {}, "one value in all rows"),
        ({"y": [date(2024, 1, 1)] * 40}, {}, "holds dates"),
        ({}, {"target": "z"}, "unknown column of frame 'z'"),
        ({}, {"target": ()}, "target is ()"),
        ({}, {"ignore": "z"}, "unknown column of frame 'z'"),
        ({}, {"ignore": ["y"]}, "named by both target and ignore"),
        ({}, {"ignore": ["a", "kind"]}, "no feature column beside the target 'y'"),
        ({}, {"kinds": {"z": "number"}}, "unknown column of frame 'z'"),
        ({}, {"kinds": {"a": "colour"}}, "a column is one of number, boolean"),
        ({}, {"kinds": ["a"]}, "write NAME=KIND"),
        ({}, {"kinds": {"kind": "boolean"}}, "neither true nor false"),
        ({}, {"kinds": {"kind": "date"}}, "not a date"),
        ({}, {"task": "ranking"}, "task is 'ranking'"),
        ({}, {"validation": 1.5}, "validation is 1.5"),
    ],
)  # fmt: skip
def test_bad_frames_are_one_sentence(change, options, words):
    with pytest.raises(InputError) as caught:
        from_frame(pd.DataFrame({**BASE, **change}), **{"target": "y", **options})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", [3, 17, 36])
def test_the_row_that_is_named_is_the_row_of_the_frame(tmp_path, place):
    """Whichever split it falls into, also when only training rows are looked at."""
    cells = [*map(str, range(40))]
    cells[place] = "odd"
    frame = pd.DataFrame({"a": cells, "b": numbers(), "y": numbers(seed=1)})
    with pytest.raises(InputError, match=f"row {place + 1}: column 'a' holds 'odd'"):
        from_frame(frame, target="y")
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=f"line {place + 2}: column 'a' holds 'odd'"):
        load(tmp_path / "t.csv", target="y")


def test_what_a_spreadsheet_says_of_its_separator(tmp_path):
    text = "sep=;\na,b;c;y\n" + "".join(f"{k},5;{k % 3};{k % 2},25\n" for k in range(20))
    (tmp_path / "t.csv").write_text(text)
    data = load(tmp_path / "t.csv", target="y")
    assert data.feature_names == ("a,b", "c")
    assert set(data.train.y.tolist()) == {0.25, 1.25}
    (tmp_path / "t.csv").write_text(text.replace("7,5;", "x;"))
    with pytest.raises(InputError, match=r"line 10: column 'a,b' holds 'x'"):
        load(tmp_path / "t.csv", target="y")


def test_numbers_with_underscores_are_names():
    frame = pd.DataFrame({"code": ["1_0", "2_0"] * 20, "y": numbers()})
    assert from_frame(frame, target="y").feature_names == ("code=1_0", "code=2_0")


def test_many_levels_are_refused_with_advice():
    frame = pd.DataFrame({"city": [f"c{k % 60}" for k in range(900)], "y": numbers(900)})
    with pytest.raises(InputError, match="holds 60 different texts and at most 50 are encoded"):
        from_frame(frame, target="y")


@pytest.mark.parametrize(
    "frame",
    [pl.DataFrame(BASE).lazy(), [1, 2], np.ones((3, 2)), pd.DataFrame(BASE).iloc[:1]],
    ids=["lazy", "list", "array", "one row"],
)
def test_what_is_no_frame_is_refused(frame):
    with pytest.raises(InputError, match=r"collect it first|give a pandas or polars|at least two"):
        from_frame(frame, target="y")


def test_two_columns_of_one_name_are_refused():
    frame = pd.DataFrame([[1, 2, 3]] * 4, columns=["a", "a", "y"])
    with pytest.raises(InputError, match="two columns named 'a'"):
        from_frame(frame, target="y")


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("a,a,t\n1,2,3\n4,5,6\n", {"target": "t"}, "two columns named 'a'"),
        ("a,t\n1,2\n", {"target": "t"}, "has 1 rows of data; give at least two"),
        ("a,t\n", {"target": "t"}, "has 0 rows of data"),
        ("a,t\n1,2\n3\n", {"target": "t"}, "1 cells in line 3 and 2 in line 1"),
        ("a,t\n1,2\n3,4\n", {"target": "T"}, "unknown column of"),
        ("1,2\n3,4\n5,6\n7,8\n", {"kinds": ["a=number"]}, "has no header"),
        ("1,2\n3,4\n5,6\n7,8\n", {"target": ["0", "1"], "header": False}, "has no header"),
    ],
)
def test_bad_text_tables_are_one_sentence(tmp_path, text, options, words):
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=r"mine\.csv") as caught:
        load(path, **options)
    assert words in str(caught.value)


def test_a_class_of_one_row_may_miss_the_training_rows(tmp_path):
    frame = pd.DataFrame({"a": numbers(), "y": ["u", "v"] * 19 + ["u", "rare"]})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seeds = [from_frame(frame, target="y", split=k, test_fraction=0.5) for k in range(8)]
    lost = [data.class_names.index("rare") not in data.train.y for data in seeds]
    assert any(lost)
    assert sum("no training row has the class 'rare'" in str(w.message) for w in caught) == sum(
        lost
    )


def test_types_of_arrow_and_their_missing_values(tmp_path):
    rows = [None if k % 7 == 0 else k for k in range(40)]
    text = [None if v is None else "uv"[v % 2] for v in rows]
    days = [None if v is None else date(2024, 1, 1) + timedelta(days=v) for v in rows]
    plain = pa.table({"n": pa.array(rows, pa.float64()), "t": text, "d": days, "y": numbers()})
    kinds = {
        "n": pa.array(rows, pa.int16()),
        "t": pa.array(text).dictionary_encode(),
        "d": pa.array(days).cast(pa.timestamp("ns")).cast(pa.timestamp("ns", "UTC")),
    }
    other = pa.table({**kinds, "y": numbers()})
    money = [None if v is None else f"{v}.00" for v in rows]
    decimal = pa.array(money).cast(pa.decimal128(9, 2))
    third = pa.table(
        {"n": decimal, "t": pa.array(text, pa.large_string()), "d": days, "y": numbers()}
    )
    found = []
    for number, table in enumerate((plain, other, third)):
        pa.parquet.write_table(table, tmp_path / f"{number}.parquet")
        found.append(load(tmp_path / f"{number}.parquet", target="y"))
    frame = plain.to_pandas().assign(t=pd.Categorical(text))
    found.append(from_frame(frame, target="y"))
    frame = pl.from_arrow(plain).with_columns(pl.col("t").cast(pl.Categorical), n=pl.Series(rows))
    found.append(from_frame(frame, target="y"))
    frame = plain.to_pandas().convert_dtypes()
    found.append(from_frame(frame, target="y"))
    assert [name for name in found[0].feature_names if "missing" in name] == [
        "n missing", "t missing", "d missing"
    ]  # fmt: skip
    for data in found[1:]:
        assert data.feature_names == found[0].feature_names
        np.testing.assert_array_equal(data.train.x, found[0].train.x)


def test_ids_keep_every_digit(tmp_path):
    ids = [2**62 + 1, None, 2**53 + 1, -7]
    table = pa.table({"id": pa.array(ids, pa.int64()), "a": [1.0, 2.0, 3.0, np.inf]})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    frame = read_frame(tmp_path / "t.parquet", ("id", "a"), exact=("id",))
    assert frame["id"].texts() == [str(2**62 + 1), "", str(2**53 + 1), "-7"]
    assert frame["a"].texts() == ["1", "2", "3", "inf"]


@pytest.mark.parametrize("name", ["bad.parquet", "bad.feather"])
def test_damaged_columnar_files_are_one_sentence(tmp_path, name):
    table = pa.table({"a": [1.0, 2.0], "y": [1.0, 2.0]})
    write = {"parquet": pa.parquet.write_table, "feather": pa.feather.write_feather}
    write[name[4:]](table, tmp_path / name)
    content = (tmp_path / name).read_bytes()
    for damaged in (b"", b"PAR1", content[: len(content) // 2], b"x" * 100):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(DamagedFile, match=rf"{name} is not a readable"):
            load(tmp_path / name)


def test_nested_columns_are_passed_over_if_they_are_not_needed(tmp_path):
    table = pa.table({**BASE, "nested": [[1, 2]] * 40})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    data = load(tmp_path / "t.parquet", target="y", ignore="nested")
    assert data.feature_names == ("a", "kind=u", "kind=v")
    frame = read_frame(tmp_path / "t.parquet", data.preparation.names)
    assert frame.passed_over == ("y", "nested")
    with pytest.raises(InputError, match="column 'nested' holds a"):
        load(tmp_path / "t.parquet", target="y")


def test_too_many_cells_are_refused_before_they_are_expanded(tmp_path, monkeypatch):
    pa.parquet.write_table(pa.table({"a": np.zeros(1000)}), tmp_path / "t.parquet")
    monkeypatch.setattr("credax.reading.columnar.MOST_CELLS", 999)
    with pytest.raises(InputError, match="1000 rows of 1 columns; at most 999 cells"):
        load(tmp_path / "t.parquet")


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "t.parquet").write_bytes(b"")
    real = builtins.__import__

    def refuse(name, *rest, **more):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match=r"pip install 'credax\[data\]'"):
        load(tmp_path / "t.parquet")
