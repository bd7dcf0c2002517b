"""Everything about training that is not the method: one frozen record, also the CLI's flags.

No jax here: the command line reads its arguments before jax is imported.
"""

import dataclasses
import math
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from credax.errors import InputError, unknown

Name = Literal["sgd", "nesterov", "adam", "adamw", "rmsprop", "lion", "muon"]
OPTIMISERS = ("sgd", "nesterov", "adam", "adamw", "rmsprop", "lion", "muon")
# The command line offers names and numbers; objects of optax are for Python.
if TYPE_CHECKING:
    Optimiser = Rate = Any
else:
    Optimiser, Rate = Name, float
SCHEDULES = (
    "constant",
    "cosine",
    "cyclic-cosine",
    "cyclic-linear",
    "triangular",
    "piecewise-linear",
)


@dataclass(frozen=True)
class Training:
    """How to train: steps, optimiser, schedule, augmentation, members on the device, files.

    In Python ``optimiser`` is also any ``optax.GradientTransformation``, which brings its own
    schedule, or a function from a learning rate (a schedule) to one, which takes the schedule
    chosen here; ``learning_rate`` is also any optax schedule, a function of the step.

    Hashable, so that fits with equal settings share one compiled program.

    >>> import optax
    >>> Training(optimiser=optax.adamw(1e-3)).brings_schedule
    True
    """

    epochs: int = 20
    """Passes over the training rows."""
    batch_size: int = 128
    """Rows per step; the default is at most the number of training rows."""
    optimiser: Optimiser = "sgd"
    """Stochastic gradient descent with momentum (sgd, nesterov), Adam, AdamW, RMSProp (decay .9,
    eps 1e-6), Lion or Muon."""
    learning_rate: Rate = 0.1
    """Base rate, which the schedule multiplies."""
    momentum: float = 0.9
    """Momentum of sgd and nesterov."""
    decoupled_decay: float = 1e-4
    """Weight decay of adamw, lion and muon, outside the loss and beside the prior."""
    nesterov: bool = True
    """Look ahead along the momentum (sgd)."""
    clip_norm: float | None = None
    """Scale each member's gradient down to at most this norm."""
    schedule: Literal[
        "constant", "cosine", "cyclic-cosine", "cyclic-linear", "triangular", "piecewise-linear"
    ] = "cosine"
    """How the learning rate changes over the training."""
    warmup_epochs: float = 0.0
    """Linear rise of the learning rate from zero over so many epochs."""
    final_ratio: float = 0.0
    """Last learning rate over the first (cosine and piecewise-linear)."""
    milestones: tuple[float, float] = (0.5, 0.9)
    """Shares of training between which piecewise-linear falls."""
    cycles: int = 4
    """Cycles of cyclic-cosine, cyclic-linear and triangular."""
    cycle_start: float = 0.0
    """Share of training before the cycles (cyclic-linear, triangular): high, then down to them."""
    cycle_ratios: tuple[float, float] = (1.0, 0.01)
    """Highest and lowest rate of a cycle over the base rate (cyclic-linear, triangular)."""
    last_batch: Literal["drop", "pad"] = "drop"
    """Rows that do not fill a batch: left out this epoch, or a batch padded with weight zero."""
    augment: tuple[str, ...] = ()
    """Random changes of images: flip, crop; functions of key, x and y: FILE.py:NAME."""
    shared_augment: bool = False
    """One draw of the augmentation for all members instead of one each."""
    strategy: Literal["auto", "vmap", "map", "unroll", "shard"] = "auto"
    """How members run: all at once, in groups, one by one, or distributed over devices."""
    members_at_once: int = 1
    """Group size of strategy=map."""
    stepping: Literal["loop", "dispatch"] = "loop"
    """One compiled loop over many steps, or one call per step."""
    placement: Literal["auto", "device", "stream"] = "auto"
    """Training rows on the device, or streamed from the host chunk by chunk."""
    patience: int | None = None
    """Stop a member after so many validations without a better one; it stays as it is then."""
    keep_best: bool = False
    """Return each member as it was at its best validation, not as it was when it stopped."""
    checkpoint_every: int | None = None
    """Checkpoint every n chunks too; by default every 30 seconds."""

    def __post_init__(self):
        for name in ("epochs", "batch_size", "cycles", "members_at_once"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least 1")
        self._check_rate()
        self._check_optimiser()
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum is {self.momentum}; it lies in [0, 1)")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise InputError(
                f"clip_norm is {self.clip_norm}; give a positive number or leave it out"
            )
        if self.schedule not in SCHEDULES:
            raise unknown("schedule", self.schedule, SCHEDULES)
        if not 0 <= self.milestones[0] < self.milestones[1] <= 1:
            raise InputError(f"milestones are {self.milestones}; give two rising shares in [0, 1]")
        if not 0 <= self.final_ratio <= 1:
            raise InputError(f"final_ratio is {self.final_ratio}; it lies in [0, 1]")
        if not 0 <= self.cycle_start < 1:
            raise InputError(f"cycle_start is {self.cycle_start}; give a share in [0, 1)")
        if not self.cycle_ratios[0] >= self.cycle_ratios[1] >= 0:
            raise InputError(
                f"cycle_ratios are {self.cycle_ratios}; give the highest and the lowest rate over "
                "the base rate"
            )
        if self.stepping not in ("loop", "dispatch"):
            raise unknown("stepping", self.stepping, ("loop", "dispatch"))
        for name in ("patience", "checkpoint_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}; it must be at least 1, or left out")

    @property
    def brings_schedule(self) -> bool:
        """Whether the optimiser or the learning rate is an object with a schedule of its own."""
        return callable(self.learning_rate) or is_transformation(self.optimiser)

    def _check_rate(self) -> None:
        rate = self.learning_rate
        if callable(rate):
            return
        if not isinstance(rate, numbers.Real) or not 0 < float(rate) < math.inf:
            raise InputError(
                f"learning_rate is {rate}; give a positive number, or a function of the step such "
                "as an optax schedule"
            )

    def _check_optimiser(self) -> None:
        if isinstance(self.optimiser, str):
            if self.optimiser not in OPTIMISERS:
                raise unknown("optimiser", self.optimiser, OPTIMISERS)
        elif not is_transformation(self.optimiser) and not callable(self.optimiser):
            raise InputError(
                f"optimiser is a {type(self.optimiser).__name__}; give one of "
                f"{', '.join(OPTIMISERS)}, an optax.GradientTransformation, or a function "
                "learning_rate -> transformation"
            )
        if not (math.isfinite(self.decoupled_decay) and self.decoupled_decay >= 0):
            raise InputError(f"decoupled_decay is {self.decoupled_decay}; it is not negative")
        own = "optimiser" if is_transformation(self.optimiser) else "learning_rate"
        names = ["schedule", "warmup_epochs"] if self.brings_schedule else []
        if own == "optimiser" and names:
            names += ["learning_rate", "clip_norm"]
        default = Training.__dataclass_fields__
        for name in names:
            given = getattr(self, name)
            if given != default[name].default and (name, given) != ("schedule", "constant"):
                raise InputError(
                    f"{own} is an object with a schedule of its own and {name} is {given!r}, which "
                    "it would not see; leave it out (or let the object do it), or give a function "
                    "learning_rate -> optimiser or a number"
                )

    def for_rows(self, num_data: int) -> "Training":
        """These settings with a default batch no larger than the data; a chosen one stays."""
        chosen = self.batch_size != Training.batch_size
        return self if chosen or self.batch_size <= num_data else self.replace(batch_size=num_data)

    def steps_per_epoch(self, num_data: int) -> int:
        """Steps in one epoch of so many rows."""
        if self.batch_size > num_data:
            raise InputError(
                f"batch_size is {self.batch_size} and there are {num_data} training rows; "
                f"give a batch of at most {num_data}"
            )
        full, rest = divmod(num_data, self.batch_size)
        return full + (1 if rest and self.last_batch == "pad" else 0)

    def replace(self, **changes) -> "Training":
        """The same settings with some changed."""
        return dataclasses.replace(self, **changes)


def is_transformation(optimiser: Any) -> bool:
    """Whether it is what optax calls a gradient transformation: a pair of functions."""
    parts = (getattr(optimiser, name, None) for name in ("init", "update"))
    return not isinstance(optimiser, str | type) and all(map(callable, parts))
