"""Convolution of images, and how to compute it where: the same numbers in less time."""

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from credax.errors import InputError, unknown
from credax.network import Variables
from credax.networks import initialisers
from credax.networks.initialisers import float_dtype
from credax.networks.once import computed_after, computed_once, gradient_once

Padding = Literal["SAME", "VALID", "CENTRED"]
PADDINGS = ("SAME", "VALID", "CENTRED")

IMPLEMENTATIONS = ("auto", "native", "mixed", "reverse", "gemm")

# Of pictures themselves: the gradient by such an input is a matrix product too.
_FEW_CHANNELS = 8

_chosen: ContextVar[str] = ContextVar("implementation", default="auto")


@contextmanager
def using_implementation(name: str):
    """Within this block, convolutions whose implementation is "auto" are traced as ``name``.

    It acts while a function is traced, not while a compiled one runs.

    >>> with using_implementation("native"):
    ...     jaxpr = jax.make_jaxpr(convolve)(jnp.ones((1, 3, 3, 1)), jnp.ones((3, 3, 1, 1)))
    >>> [equation.primitive.name for equation in jaxpr.eqns]
    ['conv_general_dilated']
    """
    token = _chosen.set(_known(name))
    try:
        yield
    finally:
        _chosen.reset(token)


@contextmanager
def unmapped_kernels():
    """Within this block, "auto" is what is fastest where no ``vmap`` maps over kernels.

    On CPU that is "mixed": forward about twice as fast as "gemm" for small networks.
    """
    with using_implementation(
        "mixed" if _chosen.get() == "auto" and jax.default_backend() == "cpu" else _chosen.get()
    ):
        yield


def convolve(
    x: Float[Array, "batch height width inputs"],
    kernel: Float[Array, "rows columns group_inputs outputs"],
    bias: Float[Array, " outputs"] | None = None,
    *,
    stride: int = 1,
    padding: Padding = "SAME",
    groups: int = 1,
    implementation: str = "auto",
) -> Float[Array, "batch new_height new_width outputs"]:
    """Cross-correlation of images with a kernel, ``y[p] = bias + sum_k x[stride p + k] kernel[k]``.

    ``implementation`` changes the time and not the numbers (to rounding); all are differentiable
    to any order, in both modes unless it says otherwise, and can be mapped:

    - "native" is XLA's convolution. On CPU its weight gradient is slow, many times slower inside a
      loop, and with a mapped kernel (members in ``vmap``) all of it is.
    - "gemm" is a matrix product over shifted copies of ``x``, good in loops and under ``vmap``.
    - "mixed" is native forward and for the gradient of ``x``, a matrix product for the gradient of
      the kernel: on CPU the fastest in loops, as long as the kernel is not mapped.
    - "reverse" is mixed for reverse mode alone, to any order: the one to differentiate a gradient
      by weights again, whose kernel gradients are matrix products then too.
    - "auto" is what `using_implementation` says, else "gemm" on CPU and "native" on accelerators.

    ``padding`` is "VALID" (none), "SAME" (``ceil(size / stride)`` positions, an odd zero at the far
    edge) or "CENTRED" (``(window - 1) // 2`` zeros on both sides, as other libraries pad).
    A grouped convolution that is not native is computed group by group.

    >>> convolve(jnp.ones((1, 3, 3, 1)), jnp.ones((3, 3, 1, 1)))[0, :, :, 0].tolist()
    [[4.0, 6.0, 4.0], [6.0, 9.0, 6.0], [4.0, 6.0, 4.0]]
    """
    if _known(implementation) == "auto":
        implementation = _chosen.get()
    if implementation == "auto":
        implementation = "gemm" if jax.default_backend() == "cpu" else "native"
    if implementation == "native":
        outputs = _native(x, kernel, stride, padding, groups)
        return outputs if bias is None else outputs + bias
    x = computed_once(x)
    if groups == 1:
        outputs = _formulated(x, kernel, stride, padding, implementation)
    else:
        parts = zip(jnp.split(x, groups, -1), jnp.split(kernel, groups, -1), strict=True)
        each = [_formulated(a, b, stride, padding, implementation) for a, b in parts]
        outputs = jnp.concatenate(each, -1)
    return gradient_once(outputs if bias is None else outputs + bias)


def _known(implementation: str) -> str:
    if implementation not in IMPLEMENTATIONS:
        raise unknown("implementation", implementation, IMPLEMENTATIONS)
    return implementation


def _formulated(x, kernel, stride, padding, implementation) -> Any:
    if kernel.shape[:2] == (1, 1):
        return _product(x[:, ::stride, ::stride], kernel[0, 0])
    if implementation == "gemm" or x.shape[-1] < _FEW_CHANNELS:
        return _gemm(x, kernel, stride, padding)
    return (_mixed if implementation == "mixed" else _reverse)(x, kernel, stride, padding)


def _gemm(x, kernel, stride, padding):
    if stride > 1 or x.shape[-1] < _FEW_CHANNELS:
        return _patches(x, kernel, stride, padding)
    return _rows(x, kernel, padding)


def _native(x, kernel, stride, padding, groups=1, labels=("NHWC", "HWIO", "NHWC")):
    return jax.lax.conv_general_dilated(
        x,
        kernel,
        (stride, stride),
        _pads(x, kernel, stride, padding),
        dimension_numbers=labels,
        feature_group_count=groups,
    )


def _patches(x, kernel, stride, padding):
    """The window around each position as a row, times the kernel as a matrix."""
    rows, columns, inputs, outputs = kernel.shape
    (top, height), (left, width) = _geometry(x, kernel, stride, padding)
    windows = [
        _shifted(_shifted(x, i - top, height, stride, 1), j - left, width, stride, 2)
        for i in range(rows)
        for j in range(columns)
    ]
    matrix = kernel.reshape(rows * columns * inputs, outputs)
    return _product(jnp.concatenate(windows, -1), matrix)


def _rows(x, kernel, padding):
    """The columns of a window beside each other in, its rows beside each other out, then added.

    One matrix product of ``columns * inputs`` by ``rows * outputs``: a third of the memory traffic
    of `_patches` for 3x3, and a squarer product where there are few channels.
    """
    rows, columns, inputs, outputs = kernel.shape
    (top, height), (left, width) = _geometry(x, kernel, 1, padding)
    columns_in = [_shifted(x, j - left, width, 1, 2) for j in range(columns)]
    matrix = kernel.transpose(1, 2, 0, 3).reshape(columns * inputs, rows * outputs)
    parts = jnp.split(_product(jnp.concatenate(columns_in, -1), matrix), rows, -1)
    return sum(_shifted(part, i - top, height, 1, 1) for i, part in enumerate(parts))


# Forward and input gradient are the platform's convolution, the weight gradient is a matrix
# product: on CPU the platform's own is several times slower and, inside a loop, far slower still.
@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _mixed(x, kernel, stride, padding):
    return _native(x, kernel, stride, padding)


# Convolves tangents, so that the gradient of the kernel through a tangent is a matrix product too.
# The kernel is turned first: the transpose of this then has the labels that have a fast path.
@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _mixed_tangent(dx, kernel, stride, padding):
    turned, labels = kernel.transpose(0, 1, 3, 2), ("NHWC", "HWOI", "NHWC")
    return _native(dx, turned, stride, padding, labels=labels)


def _mixed_jvp(stride, padding, primals, tangents):
    (x, kernel), (dx, dkernel) = primals, tangents
    outputs = _mixed(x, kernel, stride, padding)
    terms = []
    if not isinstance(dx, SymbolicZero):
        terms.append(_mixed_tangent(dx, kernel, stride, padding))
    if not isinstance(dkernel, SymbolicZero):
        terms.append(_gemm(x, dkernel, stride, padding))
    return outputs, sum(terms) if terms else jnp.zeros_like(outputs)


_mixed.defjvp(_mixed_jvp, symbolic_zeros=True)
_mixed_tangent.defjvp(_mixed_jvp, symbolic_zeros=True)


# The three partial derivatives of one trilinear form, each the derivative of the others: so every
# order of reverse mode is made of these three programs.
@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _reverse(x, kernel, stride, padding):
    return _native(x, kernel, stride, padding)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def _input_gradient(back, kernel, stride, padding, size):
    shape = jax.ShapeDtypeStruct((len(back), *size, kernel.shape[2]), back.dtype)
    forward = lambda x: _mixed_tangent(x, kernel, stride, padding)  # noqa: E731
    return jax.linear_transpose(forward, shape)(back)[0]


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def _kernel_gradient(x, back, stride, padding, window):
    # Shifted copies of either are not to be made before both are there.
    x, back = computed_after(x, back), computed_after(back, x)
    shape = jax.ShapeDtypeStruct((*window, x.shape[-1], back.shape[-1]), x.dtype)
    forward = lambda kernel: _gemm(x, kernel, stride, padding)  # noqa: E731
    return jax.linear_transpose(forward, shape)(back)[0]


def _reverse_back(stride, padding, kept, back):
    x, kernel = kept
    return (
        _input_gradient(back, kernel, stride, padding, x.shape[1:3]),
        _kernel_gradient(x, back, stride, padding, kernel.shape[:2]),
    )


def _input_gradient_back(stride, padding, size, kept, back):
    output, kernel = kept
    return (
        _reverse(back, kernel, stride, padding),
        _kernel_gradient(back, output, stride, padding, kernel.shape[:2]),
    )


def _kernel_gradient_back(stride, padding, window, kept, back):
    x, output = kept
    return (
        _input_gradient(output, back, stride, padding, x.shape[1:3]),
        _reverse(x, back, stride, padding),
    )


for _form, _back in (
    (_reverse, _reverse_back),
    (_input_gradient, _input_gradient_back),
    (_kernel_gradient, _kernel_gradient_back),
):
    _form.defvjp(lambda a, b, *rest, form=_form: (form(a, b, *rest), (a, b)), _back)


# Flat, so that the weight gradient is a product of two matrices as they lie in memory: with the
# batch, height and width apart the compiler would turn one of them round first.
def _product(windows, matrix):
    flat = windows.reshape(-1, windows.shape[-1]) @ matrix
    return flat.reshape(*windows.shape[:-1], matrix.shape[-1])


def _pads(x, kernel, stride, padding):
    if padding == "CENTRED":
        return [((window - 1) // 2,) * 2 for window in kernel.shape[:2]]
    return jax.lax.padtype_to_pads(x.shape[1:3], kernel.shape[:2], (stride, stride), padding)


def _geometry(x, kernel, stride, padding):
    """Zeros before the first row and the number of output rows; the same for columns."""
    pads = _pads(x, kernel, stride, padding)
    return [
        (before, (size + before + after - window) // stride + 1)
        for size, window, (before, after) in zip(x.shape[1:3], kernel.shape[:2], pads, strict=True)
    ]


def _shifted(x, offset: int, length: int, stride: int, axis: int):
    """``out[p] = x[offset + stride p]`` along an axis for ``length`` positions, zeros outside."""
    first = max(0, -(offset // stride))
    last = min(length - 1, (x.shape[axis] - 1 - offset) // stride)
    if last < first:
        shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
        return jnp.zeros(shape, x.dtype)
    start, stop = offset + stride * first, offset + stride * last + 1
    x = jax.lax.slice_in_dim(x, start, stop, stride, axis)
    widths = [(0, 0)] * x.ndim
    widths[axis] = (first, length - 1 - last)
    return jnp.pad(x, widths)


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
        if self.padding not in PADDINGS:
            raise unknown("padding", self.padding, PADDINGS)

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
            variables.params.get("bias"),
            stride=self.stride,
            padding=self.padding,
            groups=self.groups,
            implementation=self.implementation,
        )
        return outputs, variables.state
