"""A kernel averaged over a group: the fully augmented ensemble's mean from the original rows."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Complex, Float

from credax.errors import InputError
from credax.groups.action import Representation, matrix
from credax.groups.group import irreps


class SummedKernels(NamedTuple):
    """NNGP and NTK summed over the group."""

    nngp: Float[np.ndarray, "first second"]
    ntk: Float[np.ndarray, "first second"]


class Block(NamedTuple):
    """Kernels on whole orbits, as one irreducible representation of the group sees them."""

    size: int
    """Of the representation; the orbits hold it as many times."""
    nngp: Complex[np.ndarray, "first*size second*size"]
    ntk: Complex[np.ndarray, "first*size second*size"]


@dataclass(frozen=True, eq=False)
class GroupAveraged:
    """``Σ_h Θ(x, ρ_X(h) x') ρ_Y(h)``: training on the rows with it is training on their orbits.

    Works with `credax.infinite.EnsembleDynamics` unchanged: ``multiplicity`` makes the loss's scale
    that of the augmented set, and with outputs that turn (``output``) rows of the kernel are pairs
    of a point and an output. The mean is that of full augmentation for every point and time; cost
    ``n³`` instead of ``(|G| n)³`` and ``|G| n²`` kernel entries instead of ``|G|² n²``. The
    covariance on an orbit needs the other representations of the group: `blocks`, which
    `credax.infinite.EnsembleDynamics.orbit_eigenvalues` uses.

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
        """Augmented rows per original row."""
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

    def blocks(self, x1: Any, x2: Any = None) -> list[Block]:
        """``Σ_h Θ(x, ρ_X(h) x') ⊗ D(h)`` for every irreducible ``D``, the trivial one first.

        On whole orbits the kernel is ``Σ_h Θ(x, ρ_X(h) x') ⊗ R(h)`` with the regular representation
        ``R``, in which each ``D`` appears as often as its size: these are its diagonal blocks.
        """
        if self.output is not None or self.canonical:
            raise InputError("blocks are for invariant outputs; leave out output and canonical")
        first = np.asarray(x1)
        second = first if x2 is None else np.asarray(x2)
        turned = [self.inputs.apply(element, second) for element in range(self.multiplicity)]
        parts = [self.kernel.kernels(first, other) for other in turned]
        nngp, ntk = (np.stack(each) for each in zip(*parts, strict=True))
        found = []
        for matrices in irreps(self.inputs.group):
            size = matrices.shape[1]
            shape = (len(first) * size, len(second) * size)
            pair = [np.einsum("gab,gij->aibj", k, matrices).reshape(shape) for k in (nngp, ntk)]
            if x2 is None:
                pair = [(k + k.conj().T) / 2 for k in pair]
            found.append(Block(size, *pair))
        return found

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
