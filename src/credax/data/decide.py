"""What each column of a table is and how it becomes numbers, decided on the training rows."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from credax.data.cells import is_number
from credax.data.column import KINDS, PARTS, Column, Kind
from credax.data.frame import Frame, Series
from credax.data.parsing import BOOLEANS, Order, date_orders, number_name, plain_text
from credax.data.values import DAY, date_parts, dates_of, numbers_of
from credax.errors import InputError

# Thousands, per cent, currencies, years of two digits: read as text they would be wrong.
_DIGITS = re.compile(r"[$€£]?\s*[+-]?\d[\d.,'’/\s-]*[%$€£]?")
MOST_LEVELS = 50
"""Levels of a category that are encoded one by one; more are refused with advice."""
ROUNDING = 1e-5
"""Share of a column's deviation that rounding to float32 may cost before it gets an offset."""


def decide_columns(frame: Frame, train: np.ndarray, kinds: Mapping[str, str]) -> tuple[Column, ...]:
    """A decision for every column, by its values in the rows of the mask ``train``."""
    for name, kind in kinds.items():
        if name not in frame.names:
            frame[name]  # an error that names the nearest column
        if kind not in KINDS:
            raise InputError(f"kinds has {name}={kind}; a column is one of {', '.join(KINDS)}")
    rows = frame.rows(train)
    found = tuple(decide(series, rows, kinds.get(series.name)) for series in rows.series)
    if not any(column.features for column in found):
        raise InputError(
            f"{frame.where} has no feature column beside the target that tells rows apart; give at "
            "least one that is neither empty, constant nor ignored"
        )
    return found


def decide(series: Series, frame: Frame, wanted: str | None = None) -> Column:
    """The decision for one column of training rows; ``wanted`` is the user's own word."""
    if series.missing.all():
        return Column(series.name, "empty", note="no training row has a value")
    kind, order = _kind(series, frame, wanted)
    missing = int(series.missing.sum())
    decided: Any = {"number": _number, "boolean": _boolean, "date": _date, "category": _category}
    extra = decided[kind](series, frame, order, wanted is not None)
    return Column(series.name, kind, missing=missing, **extra)


def _kind(series: Series, frame: Frame, wanted: str | None) -> tuple[Kind, Order]:
    if wanted is not None:
        kind, _, order = wanted.partition("-")
        if kind == "date" and not order and series.stored == "text":
            return "date", _order(series, frame)
        return kind, order or "ymd"  # pyright: ignore[reportReturnType] (checked against KINDS)
    if series.stored != "text":
        return series.stored, "ymd"
    texts = series.values[~series.missing].tolist()
    if all(map(is_number, texts)):
        return "number", "ymd"
    if all(text.lower() in BOOLEANS for text in texts):
        return "boolean", "ymd"
    if date_orders(dict.fromkeys(texts)):
        return "date", _order(series, frame)
    numeric = [is_number(text) for text in texts]
    if 2 * sum(numeric) > len(texts):
        rows = np.flatnonzero(~series.missing)
        row = int(rows[numeric.index(False)])
        raise InputError(
            f"{frame.at(row)}: column {series.name!r} holds {series.values[row]!r}, which is not a "
            f"finite number, and numbers in {sum(numeric)} of {len(texts)} training rows; correct "
            f"it, say that the column is text with --kinds {series.name}=category, or leave it out "
            "by ignore"
        )
    if all(_DIGITS.fullmatch(text) for text in texts):
        raise InputError(
            f"{frame.where}: column {series.name!r} holds numbers or dates in a form that is not "
            f"read, such as {texts[0]!r}; write 1234.5 and 2024-12-31, or say --kinds "
            f"{series.name}=category"
        )
    return "category", "ymd"


def _order(series: Series, frame: Frame) -> Order:
    texts = [text for text, gone in zip(series.values, series.missing, strict=True) if not gone]
    orders = date_orders(dict.fromkeys(texts))
    if len(orders) == 1:
        return orders.pop()
    if not orders:
        dates_of(series, "ymd", frame)  # an error that names the cell
    raise InputError(
        f"{frame.where}: the dates of column {series.name!r}, such as {texts[0]!r}, may have the "
        f"day or the month first; say which with --kinds {series.name}=date-dmy or "
        f"{series.name}=date-mdy"
    )


def _number(series: Series, frame: Frame, order: Order, given: bool) -> dict[str, Any]:
    numbers = numbers_of(series, frame)
    known = numbers[~np.isnan(numbers)]
    lowest, highest = float(known.min()), float(known.max())
    constant = lowest == highest
    offset = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        lost = np.abs(known - known.astype(np.float32)).max()
        if lost > ROUNDING * known.std():
            # The middle of the range: differences from it need the fewest digits.
            offset = float(np.rint((lowest + highest) / 2)) if not constant else lowest
    if not np.isfinite(lost):
        offset = 0.0  # too large for float32: refused with its row when it is encoded
    return {
        "fill": number_name(float(np.median(known))),
        "offset": offset,
        "constant": constant,
        "note": _number_note(series, known, constant),
    }


def _number_note(series: Series, known: np.ndarray, constant: bool) -> str:
    if constant:
        return "constant: of no use"
    whole = np.array_equal(known, np.rint(known))
    steps = np.diff(known)
    if whole and len(known) > 2 and (steps > 0).all() and known[-1] - known[0] < 3 * len(known):
        return f"looks like a row number: consider --ignore {series.name}"
    coded = series.stored == "text" and any(
        len(t) > 1 and t[0] == "0" and t.isdigit() for t in series.values
    )
    if coded:
        return f"leading zeros: if it is a code, say --kinds {series.name}=category"
    return ""


def _boolean(series: Series, frame: Frame, order: Order, given: bool) -> dict[str, Any]:
    texts = [t.lower() for t, gone in zip(series.texts(), series.missing, strict=True) if not gone]
    known = {**BOOLEANS, "1": True, "0": False}
    for row, text in zip(np.flatnonzero(~series.missing), texts, strict=True):
        if text not in known:
            raise InputError(
                f"{frame.at(int(row))}: column {series.name!r} holds {text!r}, which is neither "
                "true nor false; correct it, or say kinds otherwise"
            )
    counts = Counter(known[text] for text in texts)
    constant = len(counts) == 1
    return {
        "fill": "true" if counts[True] > counts[False] else "false",
        "constant": constant,
        "note": "constant: of no use" if constant else "",
    }


def _category(series: Series, frame: Frame, order: Order, given: bool) -> dict[str, Any]:
    texts = [t for t, gone in zip(series.texts(), series.missing, strict=True) if not gone]
    if all(map(is_number, texts)):
        texts = [plain_text(text) for text in texts]
    counts = Counter(texts)
    if len(counts) == len(texts) > 2 and not given:
        raise InputError(
            f"{frame.where}: column {series.name!r} holds a different text in every row, such as "
            f"{texts[0]!r}, from which nothing can be learned for other rows; leave it out with "
            f"--ignore {series.name} (predict carries it through with --keep {series.name})"
        )
    if len(counts) > MOST_LEVELS:
        raise InputError(
            f"{frame.where}: column {series.name!r} holds {len(counts)} different texts and at "
            f"most {MOST_LEVELS} are encoded; leave it out with --ignore {series.name}, or replace "
            "rare ones by one word"
        )
    constant = len(counts) == 1
    # The most frequent level; of several, the first in the alphabet.
    fill = min(counts, key=lambda level: (-counts[level], level))
    return {
        "fill": fill,
        "levels": tuple(sorted(counts)),
        "constant": constant,
        "note": "constant: of no use" if constant else "",
    }


def _date(series: Series, frame: Frame, order: Order, given: bool) -> dict[str, Any]:
    dates = dates_of(series, order, frame)
    known = dates[~np.isnat(dates)]
    first = known.min()
    offset = float(np.floor((first - np.datetime64(0, "us")) / DAY))
    values = date_parts(known, offset)
    # A part that is constant tells nothing, and new rows would meet an untrained weight.
    parts = tuple(part for part in PARTS if len(np.unique(values[part])) > 1)
    middle = np.sort(known)[(len(known) - 1) // 2]
    return {
        "fill": str(middle),
        "offset": offset,
        "parts": parts,
        "order": order,
        "constant": not parts,
        "note": f"from {str(first)[:10]}" if parts else "constant: of no use",
    }


def kinds_of(given: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """``name=kind`` texts as a mapping; a mapping as it is.

    >>> kinds_of(["zip=category"])
    {'zip': 'category'}
    """
    if isinstance(given, Mapping):
        return dict(given)
    found = {}
    for text in [given] if isinstance(given, str) else given:
        name, equals, kind = text.rpartition("=")
        if not equals:
            raise InputError(
                f"kinds has {text!r}; write NAME=KIND, where KIND is one of {', '.join(KINDS)}"
            )
        found[name] = kind
    return found
