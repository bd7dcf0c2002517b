"""JSON, bounded before it is parsed: size, nesting, the length of numbers."""

import json
import math
import os
import re
from collections.abc import Iterator
from typing import Any

from credax.errors import DamagedFile
from credax.reading.regular import first_line, read_bytes

MOST_JSON = 2**26
"""Bytes of one JSON document, or of one line of a file of JSON lines."""
MOST_LINES = 2**28
"""Bytes of a file of JSON lines."""
MOST_DEPTH = 64
"""Lists and objects inside each other."""
MOST_DIGITS = 20
"""Digits of a whole number: all that 64 bits hold."""

RESTORE = "restore it or remove it"
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|([\[{])|([\]}])', re.DOTALL)


def read_json(
    path: str | os.PathLike[str],
    *,
    constants: bool = True,
    most: int = MOST_JSON,
    remedy: str = RESTORE,
) -> Any:
    """The content of a JSON file; see `parse_json`."""
    return parse_json(read_bytes(path, most), str(path), constants=constants, remedy=remedy)


def parse_json(
    text: bytes | str, where: str, *, constants: bool = True, remedy: str = RESTORE
) -> Any:
    """What JSON text holds, or a `DamagedFile` that names ``where`` it came from.

    Refused before parsing: more than 64 levels of nesting. Refused in parsing: whole numbers of
    more than 20 digits and, unless ``constants``, NaN and infinities (also as ``1e999``).
    """
    try:
        text = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        if text.count("[") + text.count("{") > MOST_DEPTH and _depth(text) > MOST_DEPTH:
            raise ValueError(f"it nests deeper than {MOST_DEPTH} levels")
        hooks: dict[str, Any] = {"parse_int": _whole}
        if not constants:
            hooks |= {"parse_float": _finite, "parse_constant": _finite}
        content = json.loads(text, **hooks)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(content, ensure_ascii=False).encode()  # half a character cannot be written
        return content
    except (ValueError, RecursionError) as error:
        reason = first_line(error)
        sentence = f"{where} is not valid JSON ({reason})" + (remedy and f"; {remedy}")
        raise DamagedFile(sentence) from error


def read_json_lines(
    path: str | os.PathLike[str], *, constants: bool = True
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """The lines of a file with one JSON object per line, by number; a missing file has none.

    A last line cut off by a crash is left out; any other that is no object is None.
    """
    if not os.path.lexists(path):
        return
    for number, line, last in _lines(path):
        try:
            content = parse_json(line, f"line {number} of {path}", constants=constants)
        except DamagedFile:
            content = None
        if isinstance(content, dict) or not last:
            yield number, content if isinstance(content, dict) else None


def _lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, bytes, bool]]:
    """Number, content and whether it is the last, of the lines that are not blank."""
    content = read_bytes(path, MOST_LINES)
    lines = [(n, line) for n, line in enumerate(content.split(b"\n"), 1) if line.strip()]
    for number, line in lines:
        if len(line) > MOST_JSON:
            raise DamagedFile(f"line {number} of {path} has {len(line)} bytes; {RESTORE}")
        yield number, line, number == lines[-1][0]


def _depth(text: str) -> int:
    deepest = depth = 0
    for found in _BRACKET.finditer(text):
        depth += (found[1] is not None) - (found[2] is not None)
        deepest = max(deepest, depth)
    return deepest


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a whole number has {len(digits)} digits")
    return int(digits)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"it holds the number {text[:20]}")
    return value
