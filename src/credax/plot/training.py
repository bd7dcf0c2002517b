"""Learning curves of a run."""

from pathlib import Path
from typing import Any

from credax.errors import InputError
from credax.plot.axes import axes
from credax.plot.primitives import member_line
from credax.training.run import RunFolder


def learning_curves(
    history: Any, *, value: str = "loss", ax: Any = None, label: str | None = None
) -> Any:
    """A number of the training against epochs: the mean over members, and each member faintly.

    ``history`` is a run's folder, or its records (lines of ``metrics.jsonl``); ``value`` is one of
    their numbers, such as "loss", "nll", "validation_nll" or "learning_rate".
    """
    ax = axes(ax)
    if isinstance(history, str | Path):
        history = RunFolder(Path(history)).history()
    lines = [line for line in history if value in line and "epoch" in line]
    if not lines:
        known = sorted({name for line in history for name in line})
        raise InputError(f"value is {value!r}, which no record has; they have {', '.join(known)}")
    epochs = [line["epoch"] for line in lines]
    (curve,) = ax.plot(epochs, [line[value] for line in lines], label=label)
    members = [line.get(f"member_{value}") for line in lines]
    if all(own is not None and len(own) > 1 for own in members):
        for own in zip(*members, strict=True):
            member_line(ax, epochs, own, curve.get_color())
    ax.set(xlabel="epoch", ylabel=value.replace("_", " "))
    return ax
