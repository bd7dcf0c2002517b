"""Which rows are held out for testing: exact numbers, fixed seeds, classes in proportion."""

import numpy as np
from jaxtyping import Bool

from credax.errors import InputError


def hold_out(
    y: np.ndarray, rows: int, *, stratify: bool, seed: int = 0
) -> "Bool[np.ndarray, ' all_rows']":
    """A mask with exactly ``rows`` rows held out at random.

    With ``stratify`` each class gives its proportional share, rounded down; the rows still owed go
    to the largest remainders.

    >>> mask = hold_out(np.array([0, 0, 0, 0, 1, 1]), 3, stratify=True)
    >>> mask[:4].sum().item(), mask[4:].sum().item()
    (2, 1)
    """
    rng = np.random.default_rng(checked_seed("split", seed))
    classes = np.unique(y, return_inverse=True)[1] if stratify else np.zeros(len(y), int)
    exact = np.bincount(classes) * rows / len(y)
    quota = np.floor(exact).astype(int)
    quota[np.argsort(quota - exact, kind="stable")[: rows - quota.sum()]] += 1
    held = np.zeros(len(y), bool)
    for label, count in enumerate(quota):
        held[rng.permutation(np.flatnonzero(classes == label))[:count]] = True
    return held


def rows_held(rows: int, test_fraction: float) -> int:
    """How many of ``rows`` rows a test fraction holds out; both sides keep at least one."""
    if not 0 < test_fraction < 1:
        raise InputError(
            f"test_fraction is {test_fraction}; give a share of the rows between 0 and 1"
        )
    count = round(test_fraction * rows)
    if not 0 < count < rows:
        raise InputError(
            f"test_fraction is {test_fraction}, which leaves no row on one side of {rows} rows; "
            "choose a share nearer to 0.2 or give more rows"
        )
    return count


def checked_seed(option: str, seed: int) -> int:
    """The seed itself, or an error that names the option it came by."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"{option} is {seed!r}; give a whole number from 0")
    return int(seed)
