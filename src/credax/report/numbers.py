"""Numbers as people read them: ticks on axes, decimals in columns, durations and sizes."""

import math
from collections.abc import Iterable, Sequence

from credax.errors import InputError

MISSING = "–"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def ticks(low: float, high: float, count: int = 5) -> tuple[float, ...]:
    """Round numbers (1, 2 or 5 times a power of ten apart) inside ``[low, high]``.

    >>> ticks(0.0, 1.0)
    (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    """
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"an axis from {low} to {high} has no ticks; give finite low < high")
    rough = (high - low) / count
    power = math.floor(math.log10(rough))
    factor = min((1, 2, 5, 10), key=lambda f: abs(math.log(f * 10.0**power / rough)))
    step = factor * 10.0**power
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # Rounding to the step's own decimals gives 0.3, not 0.30000000000000004.
    return tuple(round(k * step, 1 - power) + 0.0 for k in range(first, last + 1))


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Ticks for a logarithmic axis: powers of ten, with 2 and 5 between where there is room.

    >>> log_ticks(0.02, 3.0)
    (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
    """
    if not (math.isfinite(high) and 0 < low < high):
        raise InputError(f"a logarithmic axis from {low} to {high}; give finite 0 < low < high")
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 3 else (1,)
    every = max(1, math.ceil((last - first) / 6))
    values = [float(f"{f}e{k}") for k in range(first, last + 1, every) for f in factors]
    return tuple(v for v in values if low * (1 - 1e-9) <= v <= high * (1 + 1e-9))


def tick_labels(values: Sequence[float]) -> list[str]:
    """Labels for ticks, all with the decimals that the finest needs.

    >>> tick_labels([0.0, 0.5, 1.0]), tick_labels([-2e6, 0.0])
    (['0.0', '0.5', '1.0'], ['−2×10⁶', '0'])
    """
    largest = max((abs(v) for v in values), default=0.0)
    smallest = min((abs(v) for v in values if v != 0), default=1.0)
    if largest >= 1e5 or smallest < 1e-4:
        return [scientific(v) for v in values]
    return [_minus(f"{v:.{max(map(_decimals, values))}f}") for v in values]


def scientific(value: float, digits: int = 3) -> str:
    """A number as a power of ten.

    >>> scientific(0.000021)
    '2.1×10⁻⁵'
    """
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return _minus(f"{mantissa}×10{str(int(exponent)).translate(_SUPERSCRIPTS)}")


def column_decimals(values: Iterable[float], errors: Iterable[float] = ()) -> int:
    """Decimals for a column: four figures of its largest number, and two of its largest error.

    >>> column_decimals([0.97, 0.5]), column_decimals([123.4]), column_decimals([0.97], [2e-4])
    (4, 1, 5)
    """
    largest = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    leading = math.floor(math.log10(largest)) if largest else -1
    decimals = min(max(3 - leading, 0), 4) if leading >= -2 else 3 - leading
    error = max((e for e in errors if math.isfinite(e)), default=0.0)
    wanted = 1 - math.floor(math.log10(error)) if error > 0 else decimals
    # Errors far below the values are rounding, and their figures would only widen the table.
    return min(max(decimals, wanted), decimals + 2, 12)


def fixed(value: float | None, decimals: int = 4) -> str:
    """A number with so many decimals; a dash where there is none or it is not finite.

    >>> fixed(-0.5, 2), fixed(float("nan"))
    ('−0.50', '–')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    return _minus(f"{value:.{decimals}f}")


def short(value: float | None, figures: int = 4) -> str:
    """A number with so many significant figures.

    >>> short(0.123456), short(12345.6), short(2e-7), short(None)
    ('0.1235', '12346', '2×10⁻⁷', '–')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        return scientific(value, figures)
    leading = math.floor(math.log10(abs(value))) if value else 0
    return _minus(f"{value:.{max(figures - 1 - leading, 0)}f}")


def compact(value: float, figures: int = 4) -> str:
    """A number with at most so many significant figures and no zeros at its end.

    >>> compact(0.009), compact(41.0), compact(-1234.56)
    ('0.009', '41', '−1235')
    """
    text = short(value, figures)
    return text.rstrip("0").rstrip(".") if "." in text and "×" not in text else text


def percent(share: float) -> str:
    """A share in percent.

    >>> percent(0.9), percent(0.975)
    ('90 %', '97.5 %')
    """
    return f"{100 * share:.4g} %"


def duration(seconds: float) -> str:
    """Seconds as a person says them.

    >>> duration(0.25), duration(12.3), duration(245), duration(4000)
    ('0.25 s', '12.3 s', '4 min 05 s', '1 h 07 min')
    """
    if not math.isfinite(seconds):
        return MISSING
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min"


def size(count: float) -> str:
    """Bytes in powers of a thousand.

    >>> size(512), size(1_300_000_000)
    ('512 B', '1.3 GB')
    """
    if not math.isfinite(count):
        return MISSING
    units = ("B", "kB", "MB", "GB", "TB")
    power = min(int(math.log10(count) // 3), len(units) - 1) if count >= 1 else 0
    return f"{float(f'{count / 1000**power:.3g}'):g} {units[power]}"


def _decimals(value: float) -> int:
    text = f"{value:.10g}"
    return len(text.partition(".")[2]) if "e" not in text else 5


def _minus(text: str) -> str:
    return text.replace("-", "−")
