"""Do the orders of units still change? Kendall's tau between successive sorts, along training."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

from credax.errors import InputError
from credax.network import Variables
from credax.quality.exchangeability import Rows, unit_rows

SMALL = 128


def unit_ranks(rows: Rows) -> Int[np.ndarray, "members units"]:
    """Each unit's place when units are sorted by their largest incoming weight, largest first.

    >>> unit_ranks(np.array([[[1.0], [3.0], [2.0]]])).tolist()
    [[2, 0, 1]]
    """
    order = np.argsort(-np.asarray(rows).max(-1), axis=1, kind="stable")
    return np.argsort(order, axis=1)


def kendall_tau(first: np.ndarray, second: np.ndarray) -> Float[np.ndarray, " members"]:
    """``(concordant - discordant) / C(n, 2)`` of two rankings without ties, network by network.

    Rankings are places of units, not lists of units: the orders (3,1,2,0,4) and (3,1,0,2,4) have
    tau 0.8, the lists themselves 0.4. Up to 128 units all members are compared at once, faster than
    one call of scipy per member; above, scipy's ``O(n log n)``.

    >>> orders = np.array([[3, 1, 2, 0, 4]]), np.array([[3, 1, 0, 2, 4]])
    >>> kendall_tau(*(np.argsort(order, axis=1) for order in orders)).tolist()
    [0.8]
    """
    first, second = np.atleast_2d(first), np.atleast_2d(second)
    units = first.shape[1]
    if first.shape != second.shape or units < 2:
        raise InputError(
            f"first has shape {first.shape} and second {second.shape}; give equal shapes "
            "[members, units] with at least two units"
        )
    if units > SMALL:
        pairs = zip(first, second, strict=True)
        return np.array([stats.kendalltau(a, b)[0] for a, b in pairs])
    a, b = np.triu_indices(units, 1)
    agree = np.sign(first[:, a] - first[:, b]) * np.sign(second[:, a] - second[:, b])
    return agree.mean(1)


class KendallTracker:
    """An observer of `credax.fit`: tau between sorts of units ``every`` so many steps.

    ``history`` has one record per comparison: ``{"step", "tau": {path: [members]}}``, where
    ``step`` is the later of the two. Tau near 1 means that the order of units no longer
    changes. The tracker is not part of a checkpoint: of a resumed run it sees what is left.

    >>> KendallTracker(every=10, axes={"w": -1}).history
    []
    """

    def __init__(self, every: int, axes: Mapping[str, int] | None = None):
        if every < 1:
            raise InputError(f"every is {every}; give a number of steps, at least 1")
        self.every = every
        self.axes = axes
        self.history: list[dict[str, Any]] = []
        self._last: dict[str, np.ndarray] = {}

    def __call__(self, step: int, members: Variables) -> None:
        """Sort the units of every layer and compare with the sort before."""
        ranks = {name: unit_ranks(rows) for name, rows in unit_rows(members, self.axes).items()}
        if self._last:
            tau = {name: kendall_tau(self._last[name], rank) for name, rank in ranks.items()}
            self.history.append({"step": step, "tau": tau})
        self._last = ranks

    def mean(self, path: str) -> tuple[list[int], list[float]]:
        """Steps, and tau averaged over members, of one layer."""
        steps = [record["step"] for record in self.history]
        return steps, [float(record["tau"][path].mean()) for record in self.history]
