"""Parts of a network that train and evaluate apart: batch statistics and dropout.

``apply(train=True)`` switches everything at once. Recomputing batch statistics needs training mode
with dropout off; Monte Carlo dropout needs dropout on and batch statistics at rest.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Phase:
    """What ``train=True`` means to credax's own layers while a function is traced.

    ``dropout=False`` makes dropout the identity; the first ``settled`` batch normalisations use
    their stored statistics (all of them for ``None``). ``seen`` counts those that were applied.
    """

    def __init__(self, dropout: bool = True, settled: int | None = 0):
        self.dropout, self.settled, self.seen = dropout, settled, 0


_phase: ContextVar[Phase | None] = ContextVar("credax_phase", default=None)


@contextmanager
def using_phase(*, dropout: bool = True, settled: int | None = 0) -> Iterator[Phase]:
    """Within this block networks are traced with these parts in training mode only."""
    phase = Phase(dropout, settled)
    token = _phase.set(phase)
    try:
        yield phase
    finally:
        _phase.reset(token)


def normalising(train: bool) -> bool:
    """Whether the next batch normalisation uses its batch's statistics."""
    phase = _phase.get()
    if phase is None or not train:
        return train
    phase.seen += 1
    return phase.settled is not None and phase.seen > phase.settled


def dropping(train: bool) -> bool:
    """Whether the next dropout layer drops."""
    phase = _phase.get()
    return train and (phase is None or phase.dropout)
