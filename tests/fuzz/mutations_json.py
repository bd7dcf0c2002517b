"""Damage to JSON: types, missing and unknown names, depth, numbers; and to tables of text."""

import copy
import json
import sys

_DEEP = "\0deep\0"
_VALUES = (
    None, True, False, 0, -1, 1, 10**9, -(10**9), 2**31, 2**63, 2**64, 10**30, 1e308, -1e-308, 0.5,
    float("nan"), float("inf"), "", "x", "../../etc/passwd", "a\0b", "\ud800", "9" * 30, [], {},
    [[]], [0], [None], {"x": 1}, [1, "a"], _DEEP, 10**4400, "long" * 5000, [-1, -1], [10**12] * 3,
)  # fmt: skip


def _nodes(content, place=()):
    yield place
    if isinstance(content, dict):
        for key in content:
            yield from _nodes(content[key], (*place, key))
    elif isinstance(content, list):
        for i in range(min(len(content), 50)):
            yield from _nodes(content[i], (*place, i))


def changed(content, rng):
    """JSON content with one or two nodes replaced, removed, added or doubled."""
    content = copy.deepcopy(content)
    for _ in range(int(rng.integers(1, 3))):
        places = list(_nodes(content))
        place = places[rng.integers(len(places))]
        if not place:
            if rng.integers(10) == 0:
                return _VALUES[rng.integers(len(_VALUES))]
            place = places[-1] or place
            if not place:
                return _VALUES[rng.integers(len(_VALUES))]
        *way, last = place
        inner = content
        for key in way:
            inner = inner[key]
        action = int(rng.integers(6))
        if action == 0:
            del inner[last]
        elif action == 1 and isinstance(inner, dict):
            inner["unknown"] = inner[last]
        elif action == 2 and isinstance(inner[last], list):
            inner[last] = inner[last] * 2
        elif action == 3 and isinstance(inner[last], int | float) and inner[last] == inner[last]:
            inner[last] = [-inner[last], inner[last] * 10**6, inner[last] + 1, str(inner[last])][
                rng.integers(4)
            ]
        else:
            inner[last] = _VALUES[rng.integers(len(_VALUES))]
    return content


def dumps(content):
    sys.set_int_max_str_digits(0)
    text = json.dumps(content).replace(json.dumps(_DEEP), "[" * 100_000 + "]" * 100_000)
    sys.set_int_max_str_digits(4300)
    return text


def json_structure(path, rng):
    path.write_text(dumps(changed(json.loads(path.read_text()), rng)))


def json_line(path, rng):
    lines = path.read_text().splitlines()
    i = int(rng.integers(len(lines)))
    lines[i] = dumps(changed(json.loads(lines[i]), rng))
    path.write_text("\n".join(lines) + "\n")


def json_text(path, rng):
    text = [
        "[" * 200_000,
        '{"a":' * 100_000,
        "9" * 100_000,
        "NaN",
        '"' + '\\"' * 100_000,
        "\ufeff{}",
        "null",
        "[1,",
        "{}",
    ][rng.integers(9)]
    if rng.integers(2):
        path.write_text(text)
    else:
        path.write_text(path.read_text() + text)


def cells(path, rng):
    lines = path.read_text(errors="replace").splitlines() or [""]
    mark = "\t" if path.suffix == ".tsv" else "," if path.suffix == ".csv" else " "
    i = int(rng.integers(len(lines)))
    row = lines[i].split(mark)
    odd = ["nan", "inf", "1e999", "", "x", "1_000", "-1", "1e300", "9" * 400, '"', "1,2", "0x10"]
    odd += ["é", "\0", "1e-400", "1e38", "٣", "\u2028", "99999999999999999999"]
    j = int(rng.integers(len(row)))
    row[j] = odd[rng.integers(len(odd))]
    if rng.integers(8) == 0:
        row.append("1")
    lines[i] = mark.join(row)
    if rng.integers(8) == 0:
        lines = lines[: rng.integers(len(lines) + 1)]
    path.write_text("\n".join(lines), encoding="utf-8")
