"""BatchEnsemble: rank-one factors on the kernels of one network (Wen, Tran and Ba 2020)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from credax.errors import InputError
from credax.methods.ensemble import positive
from credax.methods.ensembles.modulated import Modulated
from credax.methods.ensembles.modulator import Modulator, Parts, draw_units, per_member
from credax.problem import Problem
from credax.structure import Structure
from credax.structure.factored import Factors
from credax.training import Training


@dataclass(frozen=True)
class BatchEnsemble(Modulated):
    """``members`` networks that share their kernels up to a rank-one factor each.

    ``W_m = W * r_m s_mᵀ``, computed as ``y_m = φ(((x * r_m) W) * s_m + b_m)``: the kernel ``W`` is
    stored and read once. For a convolution ``r`` and ``s`` act on channels. The prior (weight
    decay) is on ``W`` alone. Memory: a kernel ``[a, b]`` and its biases take
    ``a b + M (rank (a + b) + b)`` numbers, a few per cent more than one network. With
    ``batch="split"`` a step costs about one network's; a prediction costs M. The paper trains about
    half as long again as one network.

    Reference: Wen, Tran, Ba, BatchEnsemble: an alternative approach to efficient ensemble and
    lifelong learning, ICLR 2020.

    >>> BatchEnsemble(members=3).batch
    'split'
    """

    name: ClassVar[str] = "batch-ensemble"
    title: ClassVar[str] = "BatchEnsemble"

    members: int = 4
    """Members of each mode."""
    rank: int = 1
    """Products ``r sᵀ`` that are added up for every kernel of a member."""
    initial: Literal["signs", "normal"] = "signs"
    """Factors begin as random signs, or as a normal around 1 with ``initial_std``."""
    initial_std: float = 0.5
    """Standard deviation of factors that begin as a normal."""
    rate_multiplier: float = 0.5
    """Learning rate of the factors over that of everything else."""

    def __post_init__(self):
        Modulated.__post_init__(self)
        positive(self, "initial_std", "rate_multiplier")
        if self.rank < 1:
            raise InputError(f"rank is {self.rank}; it is at least 1")
        if self.rank > 1 and self.initial == "signs":
            raise InputError(
                f"rank is {self.rank} and initial is 'signs', whose sums cancel to zero in many "
                "entries of a kernel; use initial='normal'"
            )

    @property
    def options(self):
        """The learning rate of factors."""
        return {"rate_multiplier": self.rate_multiplier}

    def modulator(
        self, problem: Problem, structure: Structure, training: Training | None, num_data: int
    ) -> "RankOne":
        """Factors on both sides of every kernel."""
        std = None if self.initial == "signs" else self.initial_std
        return RankOne(structure, self.members, self.rank, std)


class RankOne(Modulator):
    """Trained vectors over the input and output units of every kernel, per member."""

    rank: int = eqx.field(static=True, default=1)
    std: float | None = eqx.field(static=True, default=None)

    def init(self, key) -> Parts:
        """Signs, or a normal around 1; of several ranks the sum has the variance of one."""

        def one(key) -> Factors:
            draw = jax.random.rademacher if self.std is None else jax.random.normal
            found = draw_units(self.structure, key, draw, rank=self.rank)
            if self.std is not None:
                found = jax.tree.map(lambda leaf: 1 + self.std * leaf, found)
            scaled = {path: leaf / jnp.sqrt(self.rank) for path, leaf in found.outputs.items()}
            return Factors(found.inputs, scaled)

        return Parts(members=per_member(one, key, self.members))

    def factors(self, common, member, fixed, key) -> Factors:
        """The member's own."""
        return member
