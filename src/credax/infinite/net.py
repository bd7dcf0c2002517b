"""Layers put together: a network that knows its infinitely wide kernels and its finite self."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from credax.errors import InputError
from credax.infinite.kernel import KERNEL_MEMORY, Kernels, compute
from credax.infinite.spatial import AveragePool, GlobalAveragePool
from credax.infinite.state import PairState, SelfPairs, input_state, same_place
from credax.network import Variables
from credax.networks.sequential import Sequential


def propagate(layer: Any, state: PairState) -> PairState:
    """The kernels after one layer; an activation needs Gaussian inputs."""
    if not hasattr(layer, "dual"):
        return layer.propagate(state)
    if not state.gaussian:
        raise InputError(
            f"the activation {layer} follows a layer whose outputs are not Gaussian, so its kernel "
            "is not known; put an InfiniteDense or InfiniteConv layer between them"
        )
    found = layer.dual(state.covariance, *state.variances(), state.distance)
    own = []
    for one in (state.first, state.second):
        new = layer.dual(one.covariance, *state.own_variances(one), one.distance)
        own.append(SelfPairs(new.covariance, new.distance))
    return state.replace(
        covariance=found.covariance,
        tangent=found.derivative * state.tangent,
        distance=found.distance,
        first=own[0],
        second=own[1],
        gaussian=False,
    )


@jax.tree_util.register_static
@dataclass(frozen=True)
class Serial:
    """Layers one after another: a `credax.network.Network`, and the kernels of its infinite width.

    Made by `serial`. ``init`` and ``apply`` are the finite network in the same parameterisation.
    """

    layers: tuple[Any, ...]
    kind: ClassVar[str] = "serial"

    def propagate(self, state: PairState) -> PairState:
        """The kernels after all layers."""
        for layer in self.layers:
            state = propagate(layer, state)
        return state

    def pair_state(self, x1, x2) -> PairState:
        """The state of every pair of inputs after the last layer, as a pure function of arrays.

        It computes in the precision of its inputs; `kernels` is the same in float64, in blocks.
        """
        return self.propagate(input_state(x1, x2, self.pairs))

    @property
    def pairs(self) -> bool:
        """Whether kernels need every pair of positions: where something pools."""
        return _pools(self)

    def kernels(self, x1, x2=None, *, memory_limit: int = KERNEL_MEMORY) -> Kernels:
        """NNGP and NTK ``[first, second]`` in float64; without ``x2``, of one batch with itself.

        Computed in blocks of pairs that need at most ``memory_limit`` bytes; a batch with itself
        is symmetric to the bit. Cost: layers times pairs, times positions with convolutions, times
        positions again with pooling.
        """
        return compute(self, x1, x2, memory_limit)

    def network(self, output_scale: float = 1.0) -> "OutputScale":
        """The finite network whose outputs are multiplied by ``output_scale``."""
        return OutputScale(self, output_scale)

    def init(self, key, x) -> Variables:
        """The variables of every layer."""
        return Sequential(self.layers).init(key, x)

    def apply(self, variables, x, *, key=None, train=False):
        """The last layer's outputs."""
        return Sequential(self.layers).apply(variables, x, key=key, train=train)


@jax.tree_util.register_static
@dataclass(frozen=True)
class Sum:
    """Branches of one input, added: their kernels add, for independent Gaussian branches."""

    branches: tuple[Any, ...]
    shortcut: bool = False
    kind: ClassVar[str] = "sum"

    def propagate(self, state: PairState) -> PairState:
        """The kernels of the sum."""
        parts = [propagate(branch, state) for branch in self.branches]
        for part, branch in zip(parts, self.branches, strict=True):
            if not part.gaussian:
                raise InputError(
                    f"the branch {branch} of a sum must end in an InfiniteDense or InfiniteConv "
                    "layer"
                )
        parts += [state] if self.shortcut else []
        same_place(parts, "a sum")

        def total(name):
            return sum(getattr(part, name) for part in parts)

        def own(name):
            each = [getattr(part, name) for part in parts]
            first: SelfPairs = each[0]
            for other in each[1:]:
                first = SelfPairs(
                    first.covariance + other.covariance, first.distance + other.distance
                )
            return first

        return parts[0].replace(
            covariance=total("covariance"),
            tangent=total("tangent"),
            distance=total("distance"),
            first=own("first"),
            second=own("second"),
            gaussian=all(part.gaussian for part in parts),
        )

    def init(self, key, x) -> Variables:
        """The variables of every branch."""
        each = [b.init(jax.random.fold_in(key, i), x) for i, b in enumerate(self.branches)]
        return Variables({str(i): v.params for i, v in enumerate(each)}, {})

    def apply(self, variables, x, *, key=None, train=False):
        """The sum of the branches, and the input where there is a shortcut."""
        total = x if self.shortcut else 0.0
        for number, branch in enumerate(self.branches):
            inner = Variables(variables.params[str(number)], {})
            total = total + branch.apply(inner, x, train=train)[0]
        return total, variables.state


@jax.tree_util.register_static
@dataclass(frozen=True)
class OutputScale:
    """A network whose outputs are multiplied by a number: its kernels by the square."""

    inner: Any
    scale: float = 1.0

    def kernels(self, x1, x2=None, *, memory_limit: int = KERNEL_MEMORY) -> Kernels:
        """NNGP and NTK."""
        nngp, ntk = self.inner.kernels(x1, x2, memory_limit=memory_limit)
        return Kernels(self.scale**2 * nngp, self.scale**2 * ntk)

    def init(self, key, x) -> Variables:
        """The inner network's variables."""
        return self.inner.init(key, x)

    def apply(self, variables, x, *, key=None, train=False):
        """The scaled outputs."""
        outputs, state = self.inner.apply(variables, x, key=key, train=train)
        return self.scale * outputs, state


@jax.tree_util.register_static
@dataclass(frozen=True)
class ZeroOutput:
    """``(f_a - f_b) / √2`` of two copies that start equal: zero at first, with the same NTK.

    At infinite width every single network of this kind is the ensemble's mean.
    """

    inner: Any

    def kernels(self, x1, x2=None, *, memory_limit: int = KERNEL_MEMORY) -> Kernels:
        """An NNGP of zeros, and the inner network's NTK."""
        nngp, ntk = self.inner.kernels(x1, x2, memory_limit=memory_limit)
        return Kernels(0.0 * nngp, ntk)

    def init(self, key, x) -> Variables:
        """The same variables twice."""
        params = self.inner.init(key, x).params
        return Variables({"minus": jax.tree.map(jnp.copy, params), "plus": params}, {})

    def apply(self, variables, x, *, key=None, train=False):
        """The difference of both copies."""
        plus, minus = (
            self.inner.apply(Variables(variables.params[name], {}), x, train=train)[0]
            for name in ("plus", "minus")
        )
        return (plus - minus) / 2**0.5, variables.state


def serial(*layers: Any) -> Serial:
    """Layers one after another.

    >>> from credax.infinite import InfiniteDense, Erf
    >>> net = serial(InfiniteDense(512), Erf(), InfiniteDense(1))
    >>> round(float(net.kernels([[1.0, 0.0]]).nngp[0, 0]), 6)
    0.333333
    """
    if not layers:
        raise InputError("serial was given no layers; end in an InfiniteDense layer")
    return Serial(tuple(layers))


def residual(*layers: Any) -> Sum:
    """The input plus a branch of it, which must end in a Gaussian layer (He et al. 2016)."""
    return Sum((Serial(tuple(layers)),), shortcut=True)


def parallel_sum(*branches: Any) -> Sum:
    """The sum of several branches of the same input."""
    if not branches:
        raise InputError("parallel_sum was given no branches; give at least one")
    return Sum(tuple(branches))


def repeat(block: Any, times: int) -> Serial:
    """A block so many times, each with weights of its own."""
    if times < 1:
        raise InputError(f"times is {times}; a block is repeated at least once")
    return Serial((block,) * times)


def zero_output(net: Any) -> ZeroOutput:
    """The network that starts at zero everywhere and has the same NTK."""
    return ZeroOutput(net)


def _pools(layer: Any) -> bool:
    if isinstance(layer, AveragePool | GlobalAveragePool):
        return True
    inner = getattr(layer, "layers", None) or getattr(layer, "branches", ())
    return any(_pools(part) for part in inner)
