"""What the text of a cell means: nothing, a number, true or false, a date."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from typing import Literal

import numpy as np

from credax.data.cells import is_number

Order = Literal["ymd", "dmy", "mdy"]

MISSING = frozenset(("", "na", "n/a", "#n/a", "nan", "nat", "null", "none", "<na>", "?"))
"""Texts of a cell without a value, in any case."""
NO_LABEL = MISSING - {"none", "?"}
"""The same for a target, whose class may well be called none."""
BOOLEANS = {"true": True, "yes": True, "t": True, "y": True}
BOOLEANS |= {"false": False, "no": False, "f": False, "n": False}

_DATE = re.compile(
    r"(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})"
    r"(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,6})\d*)?)?\s*(Z|[+-]\d{2}:?\d{2})?)?"
)


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no value.

    >>> [is_missing(cell) for cell in ("", "NA", "nan", "0", "no")]
    [True, True, True, False, False]
    """
    return cell.lower() in MISSING


def number_name(value: float) -> str:
    """Whole numbers without a point, others in full: no two numbers have one name.

    >>> number_name(3.0), number_name(0.5)
    ('3', '0.5')
    """
    whole = np.isfinite(value) and value == np.rint(value)
    return str(int(value)) if whole else repr(float(value))


def plain_text(cell: str) -> str:
    """A text by which equal values are equal: numbers in one form, all else as it is."""
    if not is_number(cell):
        return cell
    value = float(cell)
    return number_name(value) if np.isfinite(value) else cell


def date_orders(cells: Iterable[str]) -> set[Order]:
    """In which orders of year, month and day all cells are dates; none if some cell is no date.

    >>> sorted(date_orders(["31/01/2024", "01/02/2024"])), sorted(date_orders(["01/02/2024"]))
    (['dmy'], ['dmy', 'mdy'])
    """
    found: set[Order] = {"ymd", "dmy", "mdy"}
    for cell in cells:
        found = {order for order in found if parse_date(cell, order) is not None}
        if not found:
            break
    return found


def parse_date(cell: str, order: Order) -> np.datetime64 | None:
    """A date, perhaps with a time, or None; a time with an offset is turned into UTC.

    Years have four digits. Dates with points have the day first.

    >>> parse_date("31.12.2024 18:30", "dmy")
    np.datetime64('2024-12-31T18:30:00.000000')
    """
    match = _DATE.fullmatch(cell)
    if match is None:
        return None
    first, mark, second, third = match[1], match[2], match[3], match[4]
    if len(first) == 4 and len(third) <= 2:
        if order != "ymd":
            return None
        year, month, day = first, second, third
    elif len(third) == 4 and len(first) <= 2:
        if order == "ymd" or (mark == "." and order == "mdy"):
            return None
        year, (day, month) = third, (first, second) if order == "dmy" else (second, first)
    else:
        return None
    try:
        when = datetime(
            int(year), int(month), int(day), int(match[5] or 0), int(match[6] or 0),
            int(match[7] or 0), int((match[8] or "0").ljust(6, "0")),
        )  # fmt: skip
        return np.datetime64(_in_utc(when, match[9]), "us")
    except (ValueError, OverflowError):
        return None


def _in_utc(when: datetime, zone: str | None) -> datetime:
    if zone is None or zone == "Z":
        return when
    digits = zone[1:].replace(":", "")
    shift = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    offset = timezone(-shift if zone[0] == "-" else shift)
    return when.replace(tzinfo=offset).astimezone(UTC).replace(tzinfo=None)
