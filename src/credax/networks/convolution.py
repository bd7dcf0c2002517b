"""Convolution of images, as the platform's own or as one matrix product over patches."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from credax.errors import InputError, unknown
from credax.network import Variables
from credax.networks import initialisers
from credax.networks.initialisers import float_dtype

Implementation = Literal["auto", "native", "gemm"]
Padding = Literal["SAME", "VALID"]

IMPLEMENTATIONS = ("auto", "native", "gemm")


def convolve(
    x: Float[Array, "batch height width inputs"],
    kernel: Float[Array, "rows columns group_inputs outputs"],
    *,
    stride: int = 1,
    padding: Padding = "SAME",
    groups: int = 1,
    implementation: str = "auto",
) -> Float[Array, "batch new_height new_width outputs"]:
    """Cross-correlation of images with a kernel.

    >>> convolve(jnp.ones((1, 3, 3, 1)), jnp.ones((3, 3, 1, 1)))[0, :, :, 0].tolist()
    [[4.0, 6.0, 4.0], [6.0, 9.0, 6.0], [4.0, 6.0, 4.0]]
    """
    if implementation not in IMPLEMENTATIONS:
        raise unknown("implementation", implementation, IMPLEMENTATIONS)
    if implementation == "auto":
        implementation = "gemm" if jax.default_backend() == "cpu" else "native"
    if implementation == "native" or groups != 1:
        return _native(x, kernel, stride, padding, groups)
    return _gemm(x, kernel, stride, padding)


def _native(x, kernel, stride, padding, groups):
    return jax.lax.conv_general_dilated(
        x,
        kernel,
        (stride, stride),
        padding,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def _gemm(x, kernel, stride, padding):
    rows, columns, inputs, outputs = kernel.shape
    patches = _patches(x, (rows, columns), stride, padding)
    return patches @ kernel.reshape(rows * columns * inputs, outputs)


def _patches(x, size, stride, padding):
    """The window around each position, ``[batch, height, width, rows * columns * inputs]``."""
    window, steps = (1, *size, 1), (1, stride, stride, 1)
    if size == (1, 1):
        return x[:, ::stride, ::stride]
    pads = jax.lax.padtype_to_pads(x.shape, window, steps, padding)
    x = jnp.pad(x, pads)
    height = (x.shape[1] - size[0]) // stride + 1
    width = (x.shape[2] - size[1]) // stride + 1
    shifts = [
        x[:, i : i + (height - 1) * stride + 1 : stride, j : j + (width - 1) * stride + 1 : stride]
        for i in range(size[0])
        for j in range(size[1])
    ]
    return jnp.concatenate(shifts, axis=-1)


@jax.tree_util.register_static
@dataclass(frozen=True)
class Conv:
    """A convolution of images ``[batch, height, width, channels]``.

    ``implementation`` says how it is computed (see `convolve`); the numbers are the same.

    >>> conv = Conv(8, stride=2)
    >>> x = jnp.ones((1, 6, 6, 3))
    >>> conv.apply(conv.init(jax.random.key(0), x), x)[0].shape
    (1, 3, 3, 8)
    """

    features: int
    window: int = 3
    stride: int = 1
    padding: Padding = "SAME"
    groups: int = 1
    bias: bool = True
    initialiser: str = "lecun"
    implementation: str = "auto"
    kind: ClassVar[str] = "conv"

    def __post_init__(self):
        if self.padding not in ("SAME", "VALID"):
            raise unknown("padding", self.padding, ["SAME", "VALID"])

    def init(self, key, x) -> Variables:
        """A kernel ``[window, window, inputs / groups, features]`` and, if asked, a zero bias."""
        dtype, inputs = float_dtype(x), x.shape[-1]
        if inputs % self.groups or self.features % self.groups:
            raise InputError(
                f"groups is {self.groups}; it must divide both the {inputs} input channels "
                f"and the {self.features} features"
            )
        shape = (self.window, self.window, inputs // self.groups, self.features)
        fan_in = self.window**2 * shape[2]
        params = {"kernel": initialisers.kernel(self.initialiser, key, shape, fan_in, dtype)}
        if self.bias:
            params["bias"] = jnp.zeros((self.features,), dtype)
        return Variables(params, {})

    def apply(self, variables, x, *, key=None, train=False):
        """The convolved images; there is no state."""
        outputs = convolve(
            x,
            variables.params["kernel"],
            stride=self.stride,
            padding=self.padding,
            groups=self.groups,
            implementation=self.implementation,
        )
        if self.bias:
            outputs = outputs + variables.params["bias"]
        return outputs, variables.state
