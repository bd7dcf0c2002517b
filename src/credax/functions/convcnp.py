"""Convolutional conditional neural processes: a context on a grid, for one or two input columns."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from credax.errors import DamagedFile, InputError
from credax.functions.grid_network import Axis, GridNetwork
from credax.functions.process_descent import Form
from credax.functions.process_record import NeuralProcessRecord

MOST_GRID = 2**16
"""Points of a grid."""


@dataclass(frozen=True)
class ConvCNP(NeuralProcessRecord):
    """A conditional neural process that shifts with its inputs: convolutions on a grid.

    The density and the values of a context are smoothed onto a grid, pass residual convolutions,
    and are smoothed back to the targets. For one input column, or two, such as pixel positions.
    The grid covers the training inputs and a margin; inputs beyond it count as its edge. Reference:
    Gordon et al., Convolutional conditional neural processes, ICLR 2020.

    >>> ConvCNP(hidden=32).floor
    0.01
    """

    name: ClassVar[str] = "convcnp"
    title: ClassVar[str] = "Convolutional CNP"

    floor: float = 0.01
    """Least standard deviation of a prediction, in standard units (heteroscedastic noise)."""
    hidden: int = 64
    """Channels."""
    blocks: int = 6
    """Residual blocks of convolutions."""
    kernel_size: int | None = None
    """Grid points of a kernel, an odd number; by default 9, or 5 with two columns."""
    resolution: int | None = None
    """Grid points over the range of the training inputs; by default 64, or 16 with two columns."""
    margin: float = 0.1
    """Share of the range by which the grid reaches beyond it, on either side."""

    def check(self) -> None:
        """Sizes from 1, an odd kernel."""
        NeuralProcessRecord.check(self)
        self.at_least(1, "hidden", "blocks")
        if self.kernel_size is not None and (self.kernel_size < 1 or self.kernel_size % 2 == 0):
            raise InputError(f"kernel_size is {self.kernel_size}; give an odd number from 1")
        if self.resolution is not None and not 2 <= self.resolution <= MOST_GRID:
            raise InputError(f"resolution is {self.resolution}; it lies from 2 to {MOST_GRID}")
        if not 0 <= self.margin <= 10:
            raise InputError(f"margin is {self.margin}; give a share of the range in [0, 10]")

    def process(self, points) -> GridNetwork:
        """A grid over these points, and its convolutions."""
        columns = points.shape[1]
        if columns not in (1, 2):
            raise InputError(
                f"inputs have {columns} columns; convcnp works on grids of 1 or 2 columns: use "
                "cnp, np or anp"
            )
        steps = self.resolution or (64 if columns == 1 else 16)
        axes = tuple(_axis(points[:, i], steps, self.margin) for i in range(columns))
        return self._network(axes)

    def stored_process(self, content: dict[str, Any], form: Form, path: Any) -> GridNetwork:
        """The grid of the file."""
        axes: Any = content.get("axes")
        if not isinstance(axes, list) or len(axes) != form.columns or not all(map(_fits, axes)):
            raise DamagedFile(f"{path} has no grid that fits its inputs; restore it from a copy")
        return self._network(tuple(Axis(*axis) for axis in axes))

    def _network(self, axes: tuple[Axis, ...]) -> GridNetwork:
        size = self.kernel_size or (9 if len(axes) == 1 else 5)
        return GridNetwork(axes=axes, hidden=self.hidden, blocks=self.blocks, kernel_size=size)


def _fits(axis: Any) -> bool:
    """Whether this is the beginning, the step and the size of an axis."""
    if not isinstance(axis, list) or len(axis) != 3:
        return False
    numbers = all(isinstance(v, int | float) and math.isfinite(v) for v in axis)
    return numbers and axis[1] > 0 and isinstance(axis[2], int) and 2 <= axis[2] <= MOST_GRID


def _axis(points: np.ndarray, steps: int, margin: float) -> Axis:
    """Equal steps over the range of points and a margin on either side."""
    low, high = float(points.min()), float(points.max())
    span = high - low if high > low else 1.0
    step = span / (steps - 1)
    extra = math.ceil(margin * span / step)
    return Axis(low - extra * step, step, steps + 2 * extra)
