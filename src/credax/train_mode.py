"""Parts of a network that train and evaluate apart: batch statistics and dropout.

``apply(train=True)`` switches everything at once. Recomputing batch statistics needs training mode
with dropout off; Monte Carlo dropout needs dropout on and running averages in batch normalisation.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class TrainMode:
    """What ``train=True`` means to credax's own layers while a function is traced.

    ``dropout=False`` makes dropout the identity; the first ``use_running_average`` batch
    normalisations use their running averages (all for None); ``seen`` counts those applied.
    """

    def __init__(self, dropout: bool = True, use_running_average: int | None = 0):
        self.dropout, self.use_running_average, self.seen = dropout, use_running_average, 0


_mode: ContextVar[TrainMode | None] = ContextVar("credax_train_mode", default=None)


@contextmanager
def using_train_mode(
    *, dropout: bool = True, use_running_average: int | None = 0
) -> Iterator[TrainMode]:
    """Within this block networks are traced with these parts in training mode only."""
    mode = TrainMode(dropout, use_running_average)
    token = _mode.set(mode)
    try:
        yield mode
    finally:
        _mode.reset(token)


def use_batch_statistics(train: bool) -> bool:
    """Whether the next batch normalisation uses its batch's statistics."""
    mode = _mode.get()
    if mode is None or not train:
        return train
    mode.seen += 1
    return mode.use_running_average is not None and mode.seen > mode.use_running_average


def use_dropout(train: bool) -> bool:
    """Whether the next dropout layer drops."""
    mode = _mode.get()
    return train and (mode is None or mode.dropout)
