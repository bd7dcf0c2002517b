"""A kernel averaged over a group: the fully augmented ensemble's mean from the original rows."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from credax.errors import InputError
from credax.groups.action import Representation, matrix


class SummedKernels(NamedTuple):
    """NNGP and NTK summed over the group."""

    nngp: Float[np.ndarray, "first second"]
    ntk: Float[np.ndarray, "first second"]


@dataclass(frozen=True, eq=False)
class GroupAveraged:
    """``Σ_h Θ(x, ρ_X(h) x') ρ_Y(h)``: training on the rows with it is training on their orbits.

    Works with `credax.infinite.EnsembleDynamics` unchanged: ``multiplicity`` makes the loss's scale
    that of the augmented set, and with outputs that turn (``output``) rows of the kernel are pairs
    of a point and an output. The mean is that of full augmentation for every point and time; cost
    ``n³`` instead of ``(|G| n)³`` and ``|G| n²`` kernel entries instead of ``|G|² n²``. The
    covariance needs the other representations of the group: take it from the augmented set.

    With ``canonical`` every input is first replaced by the least of its orbit, so that points of
    one orbit get the same mean to the bit; for exact permutations only.
    """

    kernel: Any
    inputs: Representation
    output: Representation | None = None
    canonical: bool = False

    mean_only = True

    def __post_init__(self):
        if self.canonical and (self.output is not None or self.inputs.kind != "permutation"):
            raise InputError(
                "canonical is for invariant outputs of inputs that the group permutes; leave it out"
            )

    @property
    def multiplicity(self) -> int:
        """Augmented rows a row."""
        return self.inputs.group.order

    @property
    def outputs(self) -> int:
        """Outputs that the group mixes; 1 where it leaves them alone."""
        return 1 if self.output is None else int(np.prod(self.output.shape, dtype=int))

    def kernels(self, x1: Any, x2: Any = None) -> SummedKernels:
        """Both kernels, summed over the group; ``[first * outputs, second * outputs]``."""
        first = self._least(np.asarray(x1))
        second = first if x2 is None else self._least(np.asarray(x2))
        size = self.outputs
        shape = (len(first), size, len(second), size)
        nngp, ntk = np.zeros(shape), np.zeros(shape)
        for element in range(self.multiplicity):
            parts = self.kernel.kernels(first, self.inputs.apply(element, second))
            turn = np.eye(1) if self.output is None else matrix(self.output, element)
            for total, part in zip((nngp, ntk), parts, strict=True):
                total += part[:, None, :, None] * turn[None, :, None, :]
        nngp, ntk = (k.reshape(len(first) * size, len(second) * size) for k in (nngp, ntk))
        if x2 is None:  # equal up to the order of sums: h and its inverse change places
            nngp, ntk = (nngp + nngp.T) / 2, (ntk + ntk.T) / 2
        return SummedKernels(nngp, ntk)

    def _least(self, x: np.ndarray) -> np.ndarray:
        if not self.canonical:
            return x
        turned = [self.inputs.apply(g, x).reshape(len(x), -1) for g in range(self.multiplicity)]
        best = turned[0]
        for other in turned[1:]:
            differs = best != other
            place = np.argmax(differs, axis=1)
            rows = np.arange(len(x))
            less = differs.any(1) & (other[rows, place] < best[rows, place])
            best = np.where(less[:, None], other, best)
        return best.reshape(x.shape)
