"""The values of a column as numbers and as dates; the first cell that is none is named."""

import numpy as np
from jaxtyping import Float

from credax.data.cells import is_number
from credax.data.frame import Frame, Series
from credax.data.parsing import Order, parse_date
from credax.errors import InputError

DAY = np.timedelta64(1, "D")
_ORDERS = {"ymd": "year-month-day", "dmy": "day/month/year", "mdy": "month/day/year"}


def numbers_of(series: Series, frame: Frame) -> Float[np.ndarray, " rows"]:
    """A column as finite numbers, NaN where a value is missing; the first cell that is none is
    named."""
    if series.stored in ("number", "boolean"):
        numbers = np.where(series.missing, np.nan, series.values.astype(np.float64))
    else:
        numbers = np.full(len(series), np.nan)
        for row in np.flatnonzero(~series.missing).tolist():
            numbers[row] = _number(series, row, frame)
    bad = np.isinf(numbers)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"{frame.at(row)}: column {series.name!r} holds {series.texts()[row]!r}, which is not "
            "a finite number; correct it, or leave it empty if it is not known"
        )
    return numbers


def dates_of(series: Series, order: Order, frame: Frame) -> np.ndarray:
    """A column as ``datetime64[us]``, NaT where a value is missing."""
    if series.stored == "date":
        return series.values
    found = np.full(len(series), np.datetime64("NaT", "us"))
    texts, known = series.texts(), {}
    for row in np.flatnonzero(~series.missing).tolist():
        text = texts[row]
        if text not in known:
            known[text] = _date(text, order)
        if known[text] is None:
            raise InputError(
                f"{frame.at(row)}: column {series.name!r} holds {text!r}, which is not a date as "
                f"in training ({_ORDERS[order]}); correct it, or leave it empty"
            )
        found[row] = known[text]
    return found


def _date(text: str, order: Order) -> np.datetime64 | None:
    # The year first, or points, leave no doubt whatever order the training rows had.
    tries: tuple[Order, ...] = (order, "ymd", "dmy") if "." in text else (order, "ymd")
    whens = (parse_date(text, each) for each in tries)
    return next((when for when in whens if when is not None), None)


def date_parts(dates: np.ndarray, offset: float) -> dict[str, np.ndarray]:
    """Year, month, weekday and days since ``offset`` of dates, in float64."""
    days = dates.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    years = dates.astype("datetime64[Y]")
    elapsed = (dates - np.datetime64(0, "us")) / DAY
    return {
        "year": years.astype(np.int64) + 1970.0,
        "month": (months - years.astype("datetime64[M]")).astype(np.int64) + 1.0,
        "weekday": (days.astype(np.int64) + 3.0) % 7,
        "days": elapsed - offset,
    }


def _number(series: Series, row: int, frame: Frame) -> float:
    text = str(series.values[row])
    if not is_number(text):
        raise InputError(
            f"{frame.at(row)}: column {series.name!r} holds {text!r}, which is not a finite "
            "number; correct it, or leave it empty if it is not known"
        )
    return float(text)
