"""Reading of files: what is no file, too large, too deep, of other types; seeded and bounded."""

import ast
import gzip
import io
import json
import lzma
import os
import struct
import tarfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from credax import reading
from credax.errors import DamagedFile, InputError
from credax.reading import archives, jsons, regular
from credax.reading import records as r
from credax.reading.tensors import layout, parse

FUZZ = settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def one_sentence(call):
    """What a call gives; the only error it may raise is one sentence."""
    try:
        return call()
    except InputError as error:
        sentence = str(error)
    assert sentence
    assert "\n" not in sentence
    return None


# What is no regular file.


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: None, "there is no file"),
        (lambda p: p.mkdir(), "is a folder"),
        (lambda p: os.mkfifo(p), "is a pipe"),
        (lambda p: p.symlink_to("/dev/zero"), "is a device"),
        (lambda p: p.symlink_to(p), "cannot be opened"),
    ],
)
@pytest.mark.parametrize(
    "read",
    [
        reading.read_bytes,
        reading.read_text,
        reading.read_json,
        reading.read_npy,
        reading.read_npz,
        lambda path: list(reading.tar_members(path)),
        lambda path: list(reading.zip_members(path)),
    ],
)
def test_only_regular_files_are_read_and_nothing_blocks(tmp_path, refused, make, words, read):
    make(tmp_path / "file")
    refused(lambda: read(tmp_path / "file"), words)


def test_a_file_beyond_its_bound_is_refused_before_it_is_read(tmp_path, refused):
    with open(tmp_path / "sparse.json", "wb") as file:
        file.truncate(2**36)
    refused(lambda: reading.read_json(tmp_path / "sparse.json"), "may have at most")
    (tmp_path / "five").write_bytes(b"12345")
    assert reading.read_bytes(tmp_path / "five", 5) == b"12345"
    refused(lambda: reading.read_bytes(tmp_path / "five", 4), "has 5 bytes")


def test_text_that_is_not_utf8_is_a_sentence_and_a_byte_order_mark_is_dropped(tmp_path, refused):
    (tmp_path / "t").write_bytes(b"\xff\xfea")
    refused(lambda: reading.read_text(tmp_path / "t"), "not UTF-8")
    (tmp_path / "t").write_bytes(b"\xef\xbb\xbfa")
    assert reading.read_text(tmp_path / "t") == "a"


# JSON.


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000 + "]" * 100_000, "deeper than 64"),
        ('{"a":' * 65 + "1" + "}" * 65, "deeper than 64"),
        ("9" * 5000, "5000 digits"),
        ("[1e999]", "1e999"),
        ("[NaN]", "NaN"),
        ("[-Infinity]", "Infinity"),
        ('{"a": ', "not valid JSON"),
        ('"\\ud800"', "surrogates"),
        ('"' + '\\"' * 200_000, "not valid JSON"),
        (b"\xff", "not valid JSON"),
    ],
)
def test_hostile_json_is_one_sentence(refused, text, words):
    refused(lambda: reading.parse_json(text, "here", constants=False), words)


def test_brackets_inside_text_are_no_nesting():
    text = json.dumps(["[{" * 100, '"[' * 100, {"\\": "{" * 90}])
    assert reading.parse_json(text, "here") == json.loads(text)
    assert np.isnan(reading.parse_json("NaN", "here"))


def test_lines_end_where_a_crash_cut_them_and_other_damage_is_none(tmp_path):
    path = tmp_path / "lines"
    assert list(reading.read_json_lines(path)) == []
    path.write_text('{"a": 1}\n{"a": 2}\n{"a"')
    assert list(reading.read_json_lines(path)) == [(1, {"a": 1}), (2, {"a": 2})]
    path.write_text('{"a": 1}\n\n{"a"\n3\n{"a": 2}\n')
    found = list(reading.read_json_lines(path))
    assert found == [(1, {"a": 1}), (3, None), (4, None), (5, {"a": 2})]


# Records.

FIELDS = {"name": r.TEXT, "count": r.COUNT, "share": r.maybe(r.NUMBER), "more": r.Optional(r.FLAG)}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "it is a list, not an object"),
        ({"name": "a", "share": 1}, "count is missing"),
        ({"name": 3, "count": 1, "share": 1}, "name is 3, not text"),
        ({"name": "a", "count": 0, "share": 1}, "count is 0, not a whole number from 1"),
        ({"name": "a", "count": True, "share": 1}, "count is True"),
        ({"name": "a", "count": 1, "share": float("nan")}, "share is nan"),
        ({"name": "a", "count": 1, "share": None, "odd": 1}, "odd is not known"),
        ({"name": "a", "count": 1, "share": None, "more": 1}, "more is 1, not true or false"),
    ],
)
def test_a_record_names_what_is_missing_extra_or_of_another_type(refused, content, words):
    refused(lambda: reading.check_record(content, FIELDS, "here"), words)
    whole = {"name": "a", "count": 2, "share": None}
    assert reading.check_record(whole, FIELDS, "here") is whole


def test_entries_inside_are_named_by_their_place(refused):
    nested = {"shards": r.list_of(r.record({"shape": r.SHAPE})), "scores": r.map_of(r.NUMBER)}
    content = {"shards": [{"shape": [2]}, {"shape": [-1]}], "scores": {}}
    refused(lambda: reading.check_record(content, nested, "z"), r"shards\[1\].shape is a list")
    content = {"shards": [], "scores": {"a": "b"}}
    refused(lambda: reading.check_record(content, nested, "z"), r"scores.a is 'b'")
    huge = {"shards": [{"shape": [2**30, 2**30]}], "scores": {}}
    refused(lambda: reading.check_record(huge, nested, "z"), "product below")


@dataclass(frozen=True)
class Settings:
    rate: float
    kind: Literal["a", "b"] = "a"
    sizes: tuple[int, ...] = ()
    limit: int | None = None
    table: dict[str, list[int]] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "no object of settings"),
        ({}, "has no rate"),
        ({"rate": "fast"}, "a rate that it cannot have"),
        ({"rate": True}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"rate": 2**60}, "rate"),
        ({"rate": 1, "kind": "c"}, "kind"),
        ({"rate": 1, "kind": ["a"]}, "kind"),
        ({"rate": 1, "sizes": [1, "2"]}, "sizes"),
        ({"rate": 1, "limit": 1.5}, "limit"),
        ({"rate": 1, "table": {"a": [None]}}, "table"),
        ({"rate": 1, "speed": 2}, "'speed', which is not known"),
    ],
)
def test_settings_are_checked_by_their_annotations(refused, values, words):
    refused(lambda: reading.check_settings(Settings, values, "here"), words)
    whole = {"rate": 1, "kind": "b", "sizes": [3], "limit": None, "table": {"a": [1]}}
    reading.check_settings(Settings, whole, "here")


# Names.


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "/x",
        "a/b",
        "a\\b",
        ".hidden",
        "-rf",
        "a\0b",
        "a\nb",
        "x" * 101,
        "c:d",
    ],
)
def test_a_name_never_leaves_its_folder(refused, name):
    refused(lambda: reading.check_name(name), "name is")


@FUZZ
@given(st.text(max_size=120))
def test_a_name_that_passes_is_one_file_in_the_folder(tmp_path, name):
    if one_sentence(lambda: reading.check_name(name)) is not None:
        assert (tmp_path / f"{name}.json").resolve().parent == tmp_path.resolve()


# Compressed files.


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_expanding_is_bounded_by_the_compressed_size(refused, compress):
    content = os.urandom(1000) * 20
    assert reading.expand(compress(content), "here") == content
    assert reading.expand(compress(content) * 2, "here") == content * 2
    refused(lambda: reading.expand(compress(content)[:-9], "here"), "cannot be decompressed")
    bomb = compress(bytes(archives.MOST_SMALL + 1))
    refused(lambda: reading.expand(bomb, "here"), "100 times its compressed size")


def test_a_compressed_bomb_in_a_tar_or_zip_is_refused(tmp_path, refused):
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("zeros")
        entry.size = archives.MOST_SMALL
        archive.addfile(entry, io.BytesIO(bytes(entry.size)))
    read = lambda: [contents() for _, contents in reading.tar_members(tmp_path / "a.tar.gz")]  # noqa: E731
    refused(read, "100 times")
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(archives.MOST_SMALL + 1))
    read = lambda: [contents() for _, contents in reading.zip_members(tmp_path / "a.zip")]  # noqa: E731
    refused(read, "100 times")
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(archives.MOST_SMALL // 8 + 100))
    refused(lambda: reading.read_npz(tmp_path / "a.npz"), "100 times")


# Arrays.


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"(2, 3), }   ", b"(10**6,10), ", "."),
        (b"(2, 3), }            ", b"(200000000, 30000), }", "declares"),
        (b"(2, 3), }            ", b"(1099511627776, 0), }", "empty"),
        (b"(2, 3)", b"(-2,3)", "."),
        (b"<f8", b"|O8", "."),
        (b"'<f8'", b"'|S0'", "."),
    ],
)
def test_declared_shapes_are_held_against_the_file(tmp_path, refused, old, new, words):
    content = npy(np.ones((2, 3)))
    assert old in content
    (tmp_path / "a.npy").write_bytes(content.replace(old, new))
    refused(lambda: reading.read_npy(tmp_path / "a.npy"), words)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", content.replace(old, new))
    refused(lambda: reading.read_npz(tmp_path / "a.npz"), words)


def test_arrays_come_back_as_numpy_reads_them(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3).T, "b": np.array("x"), "c": np.zeros((0, 3), "u1")}
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    found = reading.read_npz(tmp_path / "a.npz")
    assert list(found) == ["a", "b", "c"]
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    np.save(tmp_path / "a.npy", arrays["a"])
    for mapped in (False, True):
        array = reading.read_npy(tmp_path / "a.npy", mapped=mapped)
        np.testing.assert_array_equal(array, arrays["a"])
        assert isinstance(array, np.memmap) == mapped


def test_inputs_that_are_not_finite_numbers_are_refused(refused):
    refused(lambda: reading.check_numbers(np.array([[1.0], [np.inf]]), "new.npy"), "row 1")
    refused(lambda: reading.check_numbers(np.array(["a"]), "new.npy"), "numbers")


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.update(a=3),
        lambda h: h["a"].pop("dtype"),
        lambda h: h["a"].update(dtype="F99"),
        lambda h: h["a"].update(dtype=["F32"]),
        lambda h: h["a"].update(shape=[-2, -3]),
        lambda h: h["a"].update(shape=[10**12]),
        lambda h: h["a"].update(shape="23"),
        lambda h: h["a"].update(data_offsets=[0]),
        lambda h: h["a"].update(data_offsets=[0, "24"]),
        lambda h: h.update(__metadata__=[]),
        lambda h: h.update(__metadata__={"credax": 3}),
    ],
)
def test_headers_of_safetensors_are_checked_by_type(change):
    head, size = layout({"a": (np.dtype("<f4"), (2, 3))})
    whole = head + bytes(size)
    assert parse(whole, "here")["a"].shape == (2, 3)
    header = json.loads(head[8:])
    change(header)
    text = json.dumps(header).encode()
    with pytest.raises(DamagedFile, match="not a whole safetensors file"):
        parse(struct.pack("<Q", len(text)) + text + bytes(size), "here")


# Damage at random: only one sentence, or something that fits.

DAMAGE = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "double", "fill"]), st.floats(0, 1), st.integers(0, 255)
    ),
    min_size=1,
    max_size=4,
)


def damaged(content, changes):
    content = bytearray(content)
    for kind, where, value in changes:
        start = int(where * (len(content) - 1)) if content else 0
        if kind == "flip" and content:
            content[start] ^= 1 << (value % 8)
        elif kind == "cut":
            del content[start : start + value]
        elif kind == "double":
            content[start:start] = content[start : start + value]
        else:
            content[start : start + 8] = bytes([value]) * 8
    return bytes(content)


def _npz():
    out = io.BytesIO()
    np.savez_compressed(out, x=np.arange(8.0), y=np.array(["a", "b"]))
    return out.getvalue()


def _tar():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name in ("a", "b"):
            entry = tarfile.TarInfo(name)
            entry.size = 600
            archive.addfile(entry, io.BytesIO(bytes(600)))
    return out.getvalue()


def _zip():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"x" * 500)
        archive.writestr("b", os.urandom(5).hex())
    return out.getvalue()


WHOLE = {
    "json": (json.dumps({"a": [1, 2.5, {"b": None}], "c": "d"}).encode(), reading.read_json),
    "lines": (b'{"a": 1}\n{"a": [2]}\n', reading.read_json_lines),
    "text": ("Müller,1\n".encode(), reading.read_text),
    "npy": (npy(np.arange(12.0).reshape(3, 4)), reading.read_npy),
    "mapped": (npy(np.arange(12.0).reshape(3, 4)), lambda p: reading.read_npy(p, mapped=True)),
    "npz": (_npz(), reading.read_npz),
    "gzip": (gzip.compress(b"abc" * 300), lambda p: reading.expand(p.read_bytes(), "here")),
    "tar": (_tar(), lambda p: [(n, c()) for n, c in reading.tar_members(p)]),
    "zip": (_zip(), lambda p: [(n, c()) for n, c in reading.zip_members(p)]),
    "tensors": (
        b"".join([layout({"a": (np.dtype("<f4"), (2, 3))})[0], bytes(24)]),
        lambda p: parse(p.read_bytes(), "here"),
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_random_damage_is_one_sentence_or_read(tmp_path, name):
    content, read = WHOLE[name]
    path = tmp_path / name

    @FUZZ
    @given(DAMAGE)
    def check(changes):
        path.write_bytes(damaged(content, changes))
        one_sentence(lambda: read(path))

    path.write_bytes(content)
    assert read(path) is not None
    check()


LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
ANYTHING = st.recursive(
    LEAF, lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=5), x, max_size=3)
)


@FUZZ
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, ANYTHING)) | ANYTHING)
def test_records_of_any_structure_pass_whole_or_are_one_sentence(content):
    found = one_sentence(lambda: reading.check_record(content, FIELDS, "here"))
    if found is not None:
        assert isinstance(found["name"], str)
        assert found["count"] >= 1


@FUZZ
@given(ANYTHING)
def test_what_json_wrote_is_read_back(content):
    text = json.dumps(content)
    if one_sentence(lambda: reading.parse_json(text, "here")) is not None:
        assert json.dumps(reading.parse_json(text, "here")) == text


def test_the_bounds_are_the_stated_ones():
    assert (jsons.MOST_JSON, jsons.MOST_LINES, jsons.MOST_DEPTH) == (2**26, 2**28, 64)
    assert (regular.MOST_BYTES, regular.MOST_TEXT) == (2**32, 2**30)
    assert (archives.MOST_RATIO, archives.MOST_SMALL) == (100, 2**26)


# No other file of the package opens files to read.

SOURCE = Path(reading.__file__).parent.parent
READERS = {"read_text", "read_bytes", "load_file", "loadmat", "genfromtxt", "fromfile", "ZipFile"}
ALLOWED = {
    "report/page.py": "read_text of the style sheet in the package",
    "experiments/page.py": "read_text of the style sheet in the package",
    "cli/compare.py": "read_text of what it has just written",
    "cli/reproduce.py": "read_text of what it has just written",
    "data/images.py": "open of an image in memory",
    "data/masks.py": "open of an image in memory",
    "data/pictures.py": "open of an image in memory, or of a file that open_regular gave",
    "lazy.py": "read_text of the package itself",
    "training/memory.py": "read_text of what the kernel says of this process",
}


def reads(node):
    """Whether a call opens a file to read it, as far as its text shows."""
    name = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
    owner = getattr(getattr(node.func, "value", None), "id", "")
    if name in READERS:
        return isinstance(node.func, ast.Attribute)
    if name == "load":
        return owner in ("np", "json", "numpy", "pickle")
    modes = [a.value for a in node.args[:2] if isinstance(a, ast.Constant)]
    writes = any(isinstance(m, str) and m[:1] in ("w", "a", "x") for m in modes)
    kept = owner in ("Zoo", "SavedRun", "folder", "run", "self", "reading", "cls", "os", "tarfile")
    return name == "open" and not writes and not kept


def test_every_reader_goes_through_the_door():
    found = set()
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if place.startswith("reading/") or place in ALLOWED:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and reads(node):
                found.add(f"{place}:{node.lineno}: {ast.unparse(node)[:60]}")
    assert not found
