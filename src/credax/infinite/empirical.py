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
from credax.infinite.layers import InfiniteDense
from credax.infinite.net import Serial, Sum
from credax.infinite.spatial import InfiniteConv
from credax.network import Network, Variables, count_params, output_struct
from credax.networks.sequential import Sequential

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
        _check_structured(network)
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
    network: Network, variables: Variables, x: Any, vector: np.ndarray
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
        a_row = _row_bytes(network, variables, x)
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


def _check_structured(network: Any) -> Serial:
    """The network, if it is built of layers whose Jacobians are known."""
    if not isinstance(network, Serial):
        raise InputError(
            f"method is 'structured' and the network a {type(network).__name__}; it is for those "
            "made by infinite.serial: use 'contraction' or 'vector_products'"
        )
    return network


def _row_bytes(network: Any, variables: Variables, x: Array) -> int:
    """Twice what one input's activations and backward signals take in float64."""
    params = variables.params
    inputs, gradients = jax.eval_shape(lambda row: _signals(network, params, row), x[0])
    return 16 * sum(math.prod(leaf.shape) for leaf in (*inputs, *gradients))


def _structured(network: Any, variables: Variables, x1: Array, x2: Array) -> Array:
    """``Θ(x1, x2)`` as ``[first, second, outputs, outputs]``, a sum over layers.

    The Jacobian of a dense layer is an outer product, so its part is a product of two small Gram
    matrices, ``(w² / n) (δ·δ') (h·h') + b² (δ·δ')`` with the layer's inputs ``h`` and the gradients
    ``δ`` of an output by the layer's outputs. No Jacobian of a dense layer is formed.
    """
    layers: list[Any] = []
    jax.eval_shape(lambda row: _signals(network, variables.params, row, layers), x1[0])
    both = [jax.vmap(lambda row: _signals(network, variables.params, row))(x) for x in (x1, x2)]
    total: Any = 0.0
    for number, layer in enumerate(layers):
        (h1, d1), (h2, d2) = ((inputs[number], gradients[number]) for inputs, gradients in both)
        total = total + _layer_kernel(layer, h1, h2, d1, d2)
    return total


def _signals(network, params, row, layers: list | None = None) -> tuple[list[Array], list[Array]]:
    """Every Gaussian layer's inputs, and the gradients of every output by its outputs."""

    def run(perturbations):
        seen: list[tuple[Any, Array, Array]] = []
        outputs = _run(network, params, row[None], perturbations, seen)[0]
        if layers is not None and not layers:
            layers.extend(layer for layer, _, _ in seen)
        return outputs, ([h[0] for _, h, _ in seen], [z for _, _, z in seen])

    shapes = jax.eval_shape(lambda: run(None)[1][1])
    zeros = [jnp.zeros(shape.shape, shape.dtype) for shape in shapes]
    outputs, pull, (inputs, _) = jax.vjp(run, zeros, has_aux=True)
    (gradients,) = jax.vmap(pull)(jnp.eye(len(outputs), dtype=outputs.dtype))
    return inputs, [gradient[:, 0] for gradient in gradients]


def _run(layer: Any, params: Any, x: Array, perturbations: list[Array] | None, seen: list) -> Array:
    """A layer's outputs; Gaussian layers are perturbed and record their inputs and outputs."""
    if isinstance(layer, Serial):
        for name, inner in zip(Sequential(layer.layers).names, layer.layers, strict=True):
            x = _run(inner, params.get(name, {}), x, perturbations, seen)
        return x
    if isinstance(layer, Sum):
        total: Any = x if layer.shortcut else 0.0
        for number, branch in enumerate(layer.branches):
            total = total + _run(branch, params[str(number)], x, perturbations, seen)
        return total
    outputs = layer.apply(Variables(params, {}), x)[0]
    if not isinstance(layer, InfiniteDense | InfiniteConv):
        return outputs
    number = len(seen)
    seen.append((layer, x, outputs))
    return outputs if perturbations is None else outputs + perturbations[number]


def _layer_kernel(layer: Any, h1: Array, h2: Array, d1: Array, d2: Array) -> Array:
    """One layer's part: products of Gram matrices, or Jacobians where weights are shared."""
    outside = layer.parameterisation == "ntk"
    bias = layer.bias_std**2 if outside else float(layer.bias_std > 0)
    if h1.ndim == 2:
        scale = layer.weight_std**2 / h1.shape[-1] if outside else 1.0
        gradients = jnp.einsum("aif,bjf->abij", d1, d2)
        return (scale * (h1 @ h2.T) + bias)[:, :, None, None] * gradients
    rows1, rows2 = (_patches(layer, h) for h in (h1, h2))
    scale = layer.weight_std**2 / rows1.shape[-1] if outside else 1.0
    flat1, flat2 = (d.reshape(*d.shape[:2], -1, d.shape[-1]) for d in (d1, d2))
    jacobians = [
        jnp.einsum("aipf,apc->aifc", d, rows) for d, rows in ((flat1, rows1), (flat2, rows2))
    ]
    found = scale * jnp.einsum("aifc,bjfc->abij", *jacobians)
    return found + bias * jnp.einsum("aif,bjf->abij", flat1.sum(2), flat2.sum(2))


def _patches(layer: Any, h: Array) -> Array:
    """What every position's weights see, ``[rows, positions, inputs]``."""
    if isinstance(layer, InfiniteDense):
        return h.reshape(len(h), -1, h.shape[-1])
    windows = layer.windows(h.shape[1:3])
    padded = windows.pad(h, 1)
    taps = jnp.stack([windows.tap(padded, 1, offset) for offset in layer.offsets], axis=-2)
    return taps.reshape(len(h), -1, taps.shape[-2] * taps.shape[-1])


_BLOCKS = {
    "contraction": _contraction,
    "vector_products": _vector_products,
    "structured": eqx.filter_jit(_structured),
}
