"""What may watch a training: it is shown the members every so many steps and changes nothing."""

from typing import Protocol

from credax.network import Variables


class Observer(Protocol):
    """Called with the members, on a leading axis, before the first step and ``every`` steps."""

    every: int
    """Steps between two looks."""

    def __call__(self, step: int, members: Variables) -> None:
        """The members after ``step`` steps."""
        ...
