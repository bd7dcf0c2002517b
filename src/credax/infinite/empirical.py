"""The tangent kernel of a network of finite width, ``Θ = J Jᵀ``, at given parameters."""

import math
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from credax.errors import InputError, unknown
from credax.infinite.kernel import KERNEL_MEMORY, Kernels
from credax.infinite.structured import check_structured, row_bytes, structured
from credax.network import Network, Variables, count_params, output_struct

Method = Literal["contraction", "vector_products", "structured"]
Outputs = Literal["full", "trace", "diagonal"]
METHODS = ("contraction", "vector_products", "structured")
OUTPUTS = ("full", "trace", "diagonal")


def empirical_ntk(
    network: Network,
    variables: Variables,
    x1: Any,
    x2: Any = None,
    *,
    method: Method = "contraction",
    outputs: Outputs = "full",
    memory_limit: int = KERNEL_MEMORY,
) -> Float[np.ndarray, "first second *outputs"]:
    """``Θ(x1, x2) = Σ_θ ∂f(x1)/∂θ ∂f(x2)/∂θ`` of any network in evaluation mode, in float64.

    ``full`` is ``[first, second, outputs, outputs]``, ``diagonal`` its diagonal over outputs and
    ``trace`` the mean of that diagonal (the infinite-width kernel is their common value).
    ``contraction`` multiplies Jacobians, ``N² O² P`` for N inputs, O outputs and P parameters, best
    for few outputs; ``vector_products`` pulls every output of ``x2`` back and pushes it forward to
    ``x1``, ``N² O`` forward passes and no Jacobian, best for many; ``structured``, for networks of
    `credax.infinite.serial` only, multiplies activations and backward signals layer by layer,
    ``N² O² W`` a dense layer of width W instead of ``N² O² W²``. Blocks of both batches keep within
    ``memory_limit`` bytes; a batch with itself is symmetric to the bit.
    """
    for name, value, allowed in (("method", method, METHODS), ("outputs", outputs, OUTPUTS)):
        if value not in allowed:
            raise unknown(name, value, allowed)
    if method == "structured":
        check_structured(network)
    first = np.asarray(x1, np.float64)
    second = first if x2 is None else np.asarray(x2, np.float64)
    with jax.enable_x64(True):
        variables = in_float64(variables)
        size = _tile(network, variables, first, method, memory_limit)
        rows = []
        for i in range(0, len(first), size):
            row = []
            for j in range(0, len(second), size):
                a, b = first[i : i + size], second[j : j + size]
                if x2 is None and j < i:
                    row.append(_transposed(rows[j // size][i // size]))
                else:
                    block = _BLOCKS[method](network, variables, jnp.asarray(a), jnp.asarray(b))
                    row.append(np.asarray(block))
            rows.append(row)
        whole = np.concatenate([np.concatenate(row, axis=1) for row in rows])
    if x2 is None:
        whole = (whole + _transposed(whole)) / 2
    if outputs == "full":
        return whole
    diagonal = np.einsum("abii->abi", whole)
    return diagonal.mean(-1) if outputs == "trace" else diagonal


def ntk_vector_product(
    network: Network, variables: Variables, x: Any, vector: Float[np.ndarray, "rows outputs"]
) -> Float[np.ndarray, "rows outputs"]:
    """``Θ(x, x) v`` without the kernel: one backward and one forward pass."""
    with jax.enable_x64(True):
        rows, direction = jnp.asarray(x, float), jnp.asarray(vector, float)
        variables = in_float64(variables)
        struct = output_struct(network, variables, jax.ShapeDtypeStruct(rows.shape, rows.dtype))
        if direction.shape != struct.shape:
            raise InputError(
                f"vector has shape {direction.shape}; the network's outputs have {struct.shape}"
            )
        return np.asarray(_product(network, variables, rows, direction))


def linearise(network: Network, variables: Variables) -> Callable[[Any, Any], Array]:
    """``(params, x) -> f(θ₀, x) + J(x) (params - θ₀)``: the network that infinite width trains."""
    return taylor(network, variables, 1)


def taylor(network: Network, variables: Variables, order: int) -> Callable[[Any, Any], Array]:
    """The network expanded in its parameters about ``variables`` to first or second order."""
    if order not in (1, 2):
        raise InputError(f"order is {order}; the expansion has order 1 or 2")

    def expanded(params: Any, x: Array) -> Array:
        move = jax.tree.map(jnp.subtract, params, variables.params)

        def along(step):
            moved = jax.tree.map(lambda p, d: p + step * d, variables.params, move)
            return network.apply(Variables(moved, variables.state), x)[0]

        def slope(step):
            return jax.jvp(along, (step,), (jnp.ones_like(step),))

        zero = jnp.zeros((), jax.tree.leaves(move)[0].dtype)
        if order == 1:
            value, first = slope(zero)
            return value + first
        (value, first), (_, second) = jax.jvp(slope, (zero,), (jnp.ones_like(zero),))
        return value + first + second / 2

    return expanded


class EmpiricalKernel(eqx.Module):
    """A finite network as a kernel for `EnsembleDynamics`: ``f fᵀ / outputs`` and its mean NTK."""

    network: Network
    variables: Variables

    def kernels(self, x1: Any, x2: Any = None) -> Kernels:
        """The outputs' products and the tangent kernel, averaged over outputs."""
        ntk = empirical_ntk(self.network, self.variables, x1, x2, outputs="trace")
        with jax.enable_x64(True):
            variables = in_float64(self.variables)
            one, other = (
                np.asarray(_outputs(self.network, variables, jnp.asarray(x, float)))
                for x in (x1, x1 if x2 is None else x2)
            )
        return Kernels(one @ other.T / one.shape[1], ntk)


def monte_carlo_kernel(
    network: Network, x: Any, draws: int, key: Key[Array, ""]
) -> tuple[Kernels, Kernels]:
    """Mean over initialisations of a finite network's kernels, and its standard error."""
    if draws < 2:
        raise InputError(f"draws is {draws}; a standard error needs at least 2")
    x = np.asarray(x, np.float64)
    found = []
    for number in range(draws):
        with jax.enable_x64(True):
            variables = network.init(jax.random.fold_in(key, number), jnp.asarray(x[:1]))
        found.append(EmpiricalKernel(network, variables).kernels(x))
    nngp, ntk = (np.stack(each) for each in zip(*found, strict=True))
    return (
        Kernels(nngp.mean(0), ntk.mean(0)),
        Kernels(*(a.std(0, ddof=1) / math.sqrt(draws) for a in (nngp, ntk))),
    )


def in_float64(variables: Variables) -> Variables:
    """Floating leaves in double precision; call it inside ``jax.enable_x64(True)``."""

    def convert(leaf):
        leaf = jnp.asarray(leaf)
        return leaf.astype(jnp.float64) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(convert, variables)


def _tile(network, variables, x, method: Method, memory_limit: int) -> int:
    """Rows of a block: two Jacobians, or as many parameter vectors as it has outputs, must fit."""
    struct = output_struct(network, variables, jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype))
    if struct.ndim != 2:
        raise InputError(f"the network gives {struct.shape} for one row; it must give [1, outputs]")
    if method == "structured":
        a_row = row_bytes(network, variables, x)
    else:
        a_row = 16 * count_params(variables) * struct.shape[-1]
    if a_row > memory_limit:
        raise InputError(
            f"memory_limit is {memory_limit} bytes and one row needs {a_row}; raise it, or use "
            "ntk_vector_product"
        )
    return max(1, min(len(x), memory_limit // a_row))


def _transposed(block: np.ndarray) -> np.ndarray:
    return block.transpose(1, 0, 3, 2)


def _function(network, variables):
    return lambda params, x: network.apply(Variables(params, variables.state), x)[0]


@eqx.filter_jit
def _outputs(network, variables, x):
    return network.apply(variables, x)[0]


@eqx.filter_jit
def _contraction(network, variables, x1, x2):
    function = _function(network, variables)

    def jacobian(x):
        rows = jax.vmap(
            lambda row: jax.jacrev(lambda p: function(p, row[None])[0])(variables.params)
        )
        return rows(x)

    one = jacobian(x1)
    other = one if x1 is x2 else jacobian(x2)
    parts = []
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        flat = [leaf.reshape(*leaf.shape[:2], -1) for leaf in (a, b)]
        parts.append(jnp.einsum("aip,bjp->abij", *flat))
    return sum(parts[1:], parts[0])


@eqx.filter_jit
def _vector_products(network, variables, x1, x2):
    function = _function(network, variables)

    def column(row):
        values, pull = jax.vjp(lambda p: function(p, row[None])[0], variables.params)

        def one(basis):
            (direction,) = pull(basis)
            return jax.jvp(lambda p: function(p, x1), (variables.params,), (direction,))[1]

        return jax.vmap(one)(jnp.eye(len(values)))

    return jax.vmap(column)(x2).transpose(2, 0, 3, 1)


@eqx.filter_jit
def _product(network, variables, x, vector):
    function = _function(network, variables)
    _, pull = jax.vjp(lambda p: function(p, x), variables.params)
    return jax.jvp(lambda p: function(p, x), (variables.params,), pull(vector))[1]


_BLOCKS = {
    "contraction": _contraction,
    "vector_products": _vector_products,
    "structured": eqx.filter_jit(structured),
}
