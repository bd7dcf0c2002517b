"""The rows that may be bought, and what one fixed set of members predicts for them."""

import dataclasses
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from credax.active.last_layer import LastLayer, last_layer
from credax.errors import InputError
from credax.keys import numpy_generator
from credax.posterior import Posterior
from credax.prediction import ClassPrediction, NonFinitePrediction, Prediction

TARGETS = 256
"""Rows of the pool that stand for the target rows, where none are given."""
TWICE = 8
"""Rows that are predicted twice, to see that members are functions."""
SMALLEST = 64
"""Chunks have a power of two of rows from here on, so that a shrinking pool compiles seldom."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """The unlabelled rows that may be bought, as one posterior sees them.

    Every chunk is predicted with the same ``key``, so that member ``s`` of one chunk is member
    ``s`` of every other: scores do not depend on ``chunk``, and joint quantities of two rows exist.
    A posterior whose members differ from row to row (dropout with a mask per row) is refused.

    >>> import credax as cx
    >>> problem = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical())
    >>> x = np.zeros((10, 2), np.float32)
    >>> variables = jax.vmap(lambda key: problem.init(key, x))(jax.random.split(jax.random.key(0)))
    >>> pool = Candidates(cx.posterior.population(problem, variables, x), x, chunk=4)
    >>> len(pool), [p.log_probs.shape for p in pool.predictions()]
    (10, [(2, 4, 3), (2, 4, 3), (2, 2, 3)])
    """

    posterior: Posterior
    x: np.ndarray
    """Raw inputs ``[candidates, ...]``: an array or a memory map, read chunk by chunk."""
    labelled_x: np.ndarray | None = None
    """Raw inputs that have labels already."""
    key: Key[Array, ""] | None = None
    """For posteriors that draw: the one set of draws for the whole pool. None: the stored ones."""
    chunk: int = 4096
    """Rows that are predicted and scored at a time."""
    target_x: np.ndarray | None = None
    """Raw inputs whose labels matter (EPIG); None takes a sample of the candidates."""

    def __post_init__(self):
        if self.chunk < 1:
            raise InputError(f"chunk is {self.chunk}; predict at least 1 row at a time")
        if len(self.x) == 0:
            raise InputError("x has no rows; give at least one candidate to choose from")

    def __len__(self) -> int:
        return len(self.x)

    def predictions(self) -> Iterator[Prediction]:
        """Predictions of the candidates, ``chunk`` rows at a time (the last has fewer)."""
        for prediction, rows in self.padded_predictions():
            yield jax.tree.map(lambda leaf, n=rows: np.asarray(leaf)[:, :n], prediction)

    def padded_predictions(self) -> Iterator[tuple[Prediction, int]]:
        """As `predictions`, filled up to a common number of rows, with how many of them count."""
        size = min(self.chunk, _power_of_two(len(self.x)))
        for start in range(0, len(self.x), size):
            rows = np.asarray(self.x[start : start + size])
            yield self._predict(rows, size, start), len(rows)

    def prediction(self) -> Prediction:
        """All candidates: ``members * candidates * classes`` numbers, on the host."""
        parts = list(self.predictions())
        return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *parts)

    def targets(self) -> Prediction:
        """The same members at ``target_x``, or at a sample of up to 256 candidates."""
        rows = self.target_x
        if rows is None:
            generator = numpy_generator(jax.random.key(0) if self.key is None else self.key)
            picked = generator.permutation(len(self.x))[:TARGETS]
            rows = np.asarray(self.x[np.sort(picked)])
        if len(rows) == 0:
            raise InputError("target_x has no rows; give at least one, or leave it out")
        pool = dataclasses.replace(self, x=rows)
        return pool.prediction()

    def features(self, x: np.ndarray) -> Float[np.ndarray, "rows features"]:
        """What goes into the last linear layer, of all members side by side, over ``√members``.

        Squared distances are then the mean over members of those of one network's features.
        """
        hidden = self.last_layer(x).hidden
        return hidden.reshape(len(hidden), -1) / math.sqrt(hidden.shape[1])

    def last_layer(self, x: np.ndarray) -> LastLayer:
        """Inputs of the last linear layer and the predictions, network by network."""
        size = min(self.chunk, _power_of_two(len(x)))
        parts = []
        for start in range(0, len(x), size):
            rows = np.asarray(x[start : start + size])
            part = last_layer(self.posterior, _filled(rows, size))
            parts.append(part.first(len(rows)))
        return LastLayer.concatenate(parts)

    def _predict(self, rows: np.ndarray, size: int, start: int) -> Prediction:
        """Rows filled up to ``size``; of the first chunk some are predicted twice."""
        more = min(TWICE, len(rows)) if start == 0 else 0
        rows = _filled(np.concatenate([rows[:more], rows]), size + more)
        with warnings.catch_warnings():
            # A prediction that is not finite is an error here.
            warnings.simplefilter("ignore", NonFinitePrediction)
            prediction = self.posterior.predict(rows, key=self.key)
        kept = jax.tree.map(lambda leaf: leaf[:, more:], prediction) if more else prediction
        _check_finite(kept, start)
        if more:
            _check_consistent(prediction, more)
        return kept


def _power_of_two(rows: int) -> int:
    return max(SMALLEST, 1 << (rows - 1).bit_length())


def _filled(rows: np.ndarray, size: int) -> np.ndarray:
    missing = size - len(rows)
    return np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)]) if missing else rows


def _values(prediction: Any) -> list[np.ndarray]:
    if isinstance(prediction, ClassPrediction):
        return [np.exp(np.asarray(prediction.log_probs))]
    return [np.asarray(prediction.means), np.asarray(prediction.variances)]


def _check_finite(prediction: Any, start: int) -> None:
    bad = np.any([~np.isfinite(v).all(axis=-1) for v in _values(prediction)], axis=0)
    if bad.any():
        members, rows = np.nonzero(bad)
        raise InputError(
            f"the prediction of candidate {start + int(rows[0])} by the member at position "
            f"{members[0]} is not finite; leave that member out of the posterior, or scale the "
            "inputs"
        )


def _check_consistent(prediction: Any, more: int) -> None:
    """The first rows are there twice: a member that is one function says the same of both."""
    for values in _values(prediction):
        once, again = values[:, :more], values[:, more : 2 * more]
        # Far above rounding, far below what a mask does.
        if (np.abs(once - again) > 1e-3 * (np.abs(once).max() + 1e-30)).any():
            raise InputError(
                "the posterior's members change from row to row, so that they are no functions "
                "and rows of a pool cannot be compared; use masks that all rows share, such as "
                "MCDropout(consistent=True)"
            )
