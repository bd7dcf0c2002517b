"""Kernels that were not made here: of infinitely wide networks, and those of tinygp."""

from typing import Any, Literal

import equinox as eqx
import jax
from jaxtyping import Array, Float

from credax.errors import InputError, MissingExtra
from credax.functions.kernels.base import Kernel
from credax.infinite.net import Serial


class InfiniteKernel(Kernel):
    """The kernel of an infinitely wide network: its NNGP, or its neural tangent kernel.

    ``shape`` is that of one input where the network takes pictures; rows come flattened. The
    network's own scales are not hyper-parameters: multiply the kernel by a number for a variance
    that is.

    >>> from credax import infinite
    >>> net = infinite.serial(infinite.InfiniteDense(8), infinite.ReLU(), infinite.InfiniteDense(1))
    >>> import jax.numpy as jnp
    >>> InfiniteKernel(net)(jnp.array([[1.0, 0.0]]), jnp.array([[1.0, 0.0]])).tolist()
    [[0.25]]
    """

    net: Serial = eqx.field(static=True)
    kind: Literal["nngp", "ntk"] = eqx.field(default="nngp", static=True)
    shape: tuple[int, ...] = eqx.field(default=(), static=True)

    def __check_init__(self):
        if self.kind not in ("nngp", "ntk"):
            raise InputError(f"kind is {self.kind!r}; give 'nngp' or 'ntk'")

    def __call__(self, x1, x2):
        """The recursion over the layers."""
        state = self.net.pair_state(self._rows(x1), self._rows(x2))
        return state.covariance if self.kind == "nngp" else state.tangent

    def diagonal(self, x: Float[Array, "rows columns"]) -> Float[Array, " rows"]:
        """Each row with itself."""
        return jax.vmap(lambda row: self(row[None], row[None])[0, 0])(x)

    def _rows(self, x: Array) -> Array:
        return x.reshape(len(x), *self.shape) if self.shape else x


class TinygpKernel(Kernel):
    """A kernel of tinygp, whose numbers (scales, constants) are hyper-parameters as they are."""

    inner: Any

    def __call__(self, x1, x2):
        """Pair by pair, as tinygp computes it."""
        evaluate = self.inner.evaluate
        return jax.vmap(lambda a: jax.vmap(lambda b: evaluate(a, b))(x2))(x1)

    def diagonal(self, x: Float[Array, "rows columns"]) -> Float[Array, " rows"]:
        """Each row with itself."""
        return jax.vmap(self.inner.evaluate_diag)(x)


def as_kernel(value: Any) -> Kernel:
    """A kernel of credax from one of tinygp, from an infinite network, or as it is.

    >>> from credax import infinite
    >>> as_kernel(infinite.serial(infinite.InfiniteDense(1))).kind
    'nngp'
    """
    if isinstance(value, Kernel):
        return value
    if isinstance(value, Serial):
        return InfiniteKernel(value)
    if type(value).__module__.split(".")[0] == "tinygp":
        return TinygpKernel(value)
    raise InputError(
        f"kernel is a {type(value).__name__}; give a name such as 'rbf' or 'matern52 + linear', a "
        "kernel of credax.functions.kernels, one of tinygp, or a network of credax.infinite"
    )


def require_tinygp() -> Any:
    """The package tinygp, or an error that names the command."""
    try:
        import tinygp
    except ImportError as error:
        raise MissingExtra("tinygp", "gp", "a kernel of tinygp") from error
    return tinygp
