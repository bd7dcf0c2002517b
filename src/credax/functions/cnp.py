"""Conditional neural processes: a prediction from the mean of encoded context points."""

from dataclasses import dataclass
from typing import ClassVar

from credax.functions.set_record import SetProcess


@dataclass(frozen=True)
class CNP(SetProcess):
    """A conditional neural process: trained on tasks, it predicts a new one from its context.

    ``r = mean_i enc(x_i, y_i)`` over the context, outputs ``dec(r, x*)``, trained on ``log p(y_T |
    x_T, C)`` of random contexts. Targets are independent given the context: it has no draws of
    functions but their mean. The problem gives the likelihood; its network and prior are not used.
    Reference: Garnelo et al., Conditional neural processes, ICML 2018.

    >>> CNP(hidden=64).aggregate
    'mean_and_count'
    """

    name: ClassVar[str] = "cnp"
    title: ClassVar[str] = "Conditional neural process"
