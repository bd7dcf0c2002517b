"""Linear layers found in a traced computation: their inputs and their output gradients.

The computation of one row is traced and evaluated again. Where a kernel is multiplied with an
activation, the activation is returned as rows ``a [positions, inputs]``, and a perturbation
``[positions, outputs]`` is added to the product, so that the derivative by the perturbation is the
gradient ``g`` by the layer's outputs. The kernel's gradient is ``Σ_positions a gᵀ``, never formed.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from credax.files import tree_names

_INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")
CALLS = ("pjit", "jit", "closed_call", "core_call", "remat", "remat2", "checkpoint")
CALLS = (*CALLS, "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr")
_SHAPES = ("reshape", "transpose", "squeeze", "copy", "rev", "expand_dims")


class ParameterView(NamedTuple):
    """Where a value is a parameter in other order: ``view(parameter) * factor``."""

    path: str
    view: Callable[[Any], Any]
    factor: Any = 1.0
    axes: tuple[int, ...] | None = None
    """After a broadcast: the axes along which it varies."""


class KernelOutput(NamedTuple):
    """Where a value is a kernel's product times ``factor``; ``axes`` are its output units."""

    path: str
    axes: tuple[int, ...]
    factor: Any = 1.0


class LinearLayer(NamedTuple):
    """A kernel that is used once, as the matrix ``view(kernel)`` of ``[inputs, outputs]``."""

    path: str
    positions: int
    inputs: int
    outputs: int
    view: Callable[[Any], Any]
    shape: tuple[int, ...]
    bias: str | None

    def matrix(self, kernel: Array) -> Float[Array, "inputs outputs"]:
        """The kernel as the matrix it is multiplied as."""
        return self.view(kernel)

    def restore(self, matrix: Float[Array, "inputs outputs"]) -> Array:
        """The kernel of a matrix: the inverse of `matrix` (a reordering's transpose)."""
        struct = jax.ShapeDtypeStruct(self.shape, matrix.dtype)
        return jax.linear_transpose(self.view, struct)(matrix)[0]


class LinearLayers(NamedTuple):
    """A function of parameters and one row, with the linear layers in it."""

    function: Callable[[PyTree, Any], Array]
    layers: Mapping[str, LinearLayer]

    def zeros(self, dtype: Any) -> dict[str, Array]:
        """Perturbations of zero."""
        return {p: jnp.zeros((n.positions, n.outputs), dtype) for p, n in self.layers.items()}

    def __call__(self, params: PyTree, row: Any, perturbations: Mapping[str, Any]):
        """The outputs, and for each kernel what goes in, ``[positions, inputs]``, with the number
        that its bias is multiplied with beside them (None without a bias).

        A perturbation is an array ``[positions, outputs]`` or a function of the layer's inputs that
        returns one.
        """
        run = Evaluation(dict(perturbations))
        (outputs,) = run.start(self.function, params, row)
        rows = {path: (run.inputs[path], run.ones.get(path)) for path in self.layers}
        return outputs, rows


def linear_layers(
    function: Callable[[PyTree, Any], Array], params: PyTree, row: Any
) -> LinearLayers:
    """Find the kernels that a function of parameters and one row multiplies with activations.

    A kernel counts if it is used exactly once, by a product without batched axes or by a
    convolution without groups; others (scales of norms, tied or grouped kernels, kernels inside
    loops) are not among ``layers``. ``params`` and ``row`` are arrays or their shapes. A layer's
    ``bias`` is a parameter that is added to that product and used nowhere else.

    >>> import credax as cx
    >>> network, x = cx.networks.MLP((4,), outputs=2), jnp.ones((1, 3))
    >>> params = network.init(jax.random.key(0), x).params
    >>> found = linear_layers(lambda p, row: network.apply(cx.Variables(p, {}), row[None])[0][0],
    ...     params, x[0])
    >>> [(n.path, n.inputs, n.outputs, n.bias) for n in found.layers.values()]
    [('0_dense/kernel', 3, 4, '0_dense/bias'), ('1_dense/kernel', 4, 2, '1_dense/bias')]
    """
    run = Evaluation({})
    jax.eval_shape(lambda p, r: run.start(function, p, r), params, row)
    shapes = dict(zip(tree_names(params), jax.tree.leaves(params), strict=True))
    found = {}
    for path, (tag, positions, inputs, outputs) in run.found.items():
        if run.uses[path] != 1:
            continue
        bias = run.biases.get(path)
        # A broadcast and the addition after it are the only uses of a bias.
        bias = bias if bias is not None and run.uses[bias] == 1 else None
        shape = tuple(shapes[path].shape)
        found[path] = LinearLayer(path, positions, inputs, outputs, tag.view, shape, bias)
    return LinearLayers(function, found)


class Evaluation:
    """One evaluation of a traced computation, with marks on values that are parameters."""

    def __init__(self, perturbations: dict[str, Any]):
        self.perturbations = perturbations
        self.found: dict[str, tuple[ParameterView, int, int, int]] = {}
        self.inputs: dict[str, Array] = {}
        self.ones: dict[str, Any] = {}
        self.biases: dict[str, str] = {}
        self.uses: Counter[str] = Counter()

    def start(self, function, params, row) -> list:
        """Outputs of the function."""
        closed = jax.make_jaxpr(function)(params, row)
        names = tree_names(params)
        marks = [ParameterView(name, lambda p: p) for name in names]
        marks += [None] * (len(closed.jaxpr.invars) - len(names))
        values = [*jax.tree.leaves(params), *jax.tree.leaves(row)]
        outputs, _ = self.run(closed, values, marks)
        return outputs

    def run(self, closed, values: list, marks: list) -> tuple[list, list]:
        """Evaluate a jaxpr; values and marks of its outputs."""
        jaxpr, consts = getattr(closed, "jaxpr", closed), getattr(closed, "consts", ())
        known: dict[Any, tuple[Any, Any]] = {}

        def read(atom):
            return (atom.val, None) if hasattr(atom, "val") else known[atom]

        for variable, const in zip(jaxpr.constvars, consts, strict=True):
            known[variable] = (const, None)
        for variable, value, mark in zip(jaxpr.invars, values, marks, strict=True):
            known[variable] = (value, mark)
        for equation in jaxpr.eqns:
            pairs = [read(atom) for atom in equation.invars]
            inside, tags = [p[0] for p in pairs], [p[1] for p in pairs]
            results, marked = self.equation(equation, inside, tags)
            known |= zip(equation.outvars, zip(results, marked, strict=True), strict=True)
        final = [read(atom) for atom in jaxpr.outvars]
        return [value for value, _ in final], [mark for _, mark in final]

    def equation(self, equation, values, marks) -> tuple[list, list]:
        """One operation, with the marks of its results."""
        name = equation.primitive.name
        if not any(mark is not None for mark in marks):
            results = bind(equation, values)
            return results, [None] * len(results)
        inner = inside(equation)
        if name in CALLS and inner is not None:
            return self.run(inner, values, marks)
        kernels = [i for i, mark in enumerate(marks) if isinstance(mark, ParameterView)]
        product = {"dot_general": _dot, "conv_general_dilated": _convolution}.get(name)
        if product is not None and len(kernels) == 1 and marks[kernels[0]].axes is None:
            found = product(equation, values, kernels[0])
            if found is not None:
                return self.product(equation, values, marks[kernels[0]], found)
        results = bind(equation, values)
        if name in ("add", "add_any") and len(marks) == 2:
            return results, [self.added(values, marks)]
        if name in ("mul", "div"):
            mark = self.scaled(name, values, marks)
            if mark is not None:
                return results, [mark]
        mark = carried(equation, values[0], marks[0]) if len(marks) == 1 else None
        if mark is None:
            self.spend(marks)
        return results, [mark] * len(results)

    def spend(self, marks) -> None:
        """Count a use of each parameter."""
        for mark in marks:
            if isinstance(mark, ParameterView):
                self.uses[mark.path] += 1

    def product(self, equation, values, mark: ParameterView, found) -> tuple[list, list]:
        """A kernel's product: record the inputs, add the perturbation to the outputs."""
        rows, order, axes, inputs, outputs = found
        (result,) = bind(equation, values)
        path, view = mark.path, mark.view
        matrix = lambda p: order(view(p)).reshape(inputs, outputs)  # noqa: E731
        self.uses[path] += 1
        self.found[path] = (mark._replace(view=matrix), len(rows), inputs, outputs)
        self.inputs[path] = rows * mark.factor
        if path in self.perturbations:
            given = self.perturbations[path]
            added: Any = given(self.inputs[path]) if callable(given) else given
            sizes = [n for i, n in enumerate(result.shape) if i not in axes]
            added = added.reshape(*sizes, *(result.shape[i] for i in axes))
            back = [i for i in range(result.ndim) if i not in axes] + list(axes)
            result = result + added.transpose([back.index(i) for i in range(result.ndim)])
        return [result], [KernelOutput(path, axes)]

    def added(self, values, marks) -> KernelOutput | None:
        """A bias added to a product; the sum is no longer a product."""
        pairs = ((0, 1), (1, 0))
        for i, j in pairs:
            product, bias = marks[i], marks[j]
            if isinstance(product, KernelOutput) and isinstance(bias, ParameterView):
                shape = values[i].shape
                long = tuple(axis for axis in product.axes if shape[axis] > 1)
                varies = bias.axes
                if varies is None and values[j].ndim == len(shape):
                    # Axes of length one may be stretched by the addition itself.
                    varies = tuple(a for a, n in enumerate(values[j].shape) if n > 1)
                if varies == long and list(long) == sorted(long):
                    self.uses[bias.path] += 1
                    self.biases[product.path] = bias.path
                    self.ones[product.path] = bias.factor / product.factor
                    return None
        self.spend(marks)
        return None

    def scaled(self, name, values, marks) -> Any:
        """A marked value times or over an unmarked scalar keeps its mark."""
        (first, second), size = marks, [math.prod(jnp.shape(v)) for v in values]
        if first is not None and second is None and size[1] == 1:
            number = jnp.reshape(values[1], ())
            factor = first.factor * number if name == "mul" else first.factor / number
            return first._replace(factor=factor)
        if name == "mul" and second is not None and first is None and size[0] == 1:
            return second._replace(factor=second.factor * jnp.reshape(values[0], ()))
        return None


def bind(equation, values) -> list:
    """The results of an operation of a trace for some values."""
    found = equation.primitive.get_bind_params(equation.params)
    functions, params = found if isinstance(found, tuple) else ((), found)  # up to jax 0.9: both
    results = equation.primitive.bind(*functions, *values, **params)
    return list(results) if equation.primitive.multiple_results else [results]


def inside(equation) -> Any:
    """The computation that an operation calls with its own arguments, or None."""
    inner = next((equation.params[n] for n in _INNER if n in equation.params), None)
    same = inner is not None and _arguments(inner) == len(equation.invars)
    return inner if same else None


def _arguments(inner) -> int:
    return len(getattr(inner, "jaxpr", inner).invars)


def carried(equation, value, mark) -> Any:
    """The mark of a result that is the same numbers in other order or shape."""
    name, params = equation.primitive.name, equation.params
    if name == "convert_element_type":
        return mark
    if isinstance(mark, KernelOutput):
        if name != "transpose":
            return None
        return mark._replace(axes=tuple(params["permutation"].index(a) for a in mark.axes))
    if name == "broadcast_in_dim":
        places, shape = params["broadcast_dimensions"], params["shape"]
        if value.size == math.prod(shape):
            return mark._replace(view=lambda p: mark.view(p).reshape(shape))
        kept = tuple(p for p, n in zip(places, value.shape, strict=True) if n > 1)
        return mark._replace(axes=kept) if mark.axes is None else None
    if name not in _SHAPES or mark.axes is not None:
        return None
    return mark._replace(view=lambda p: equation.primitive.bind(mark.view(p), **params))


def _dot(equation, values, which: int):
    """Activation rows, the kernel's order, result axes of output units, inputs, outputs."""
    contracted, batched = equation.params["dimension_numbers"]
    if batched[0] or batched[1]:
        return None
    kernel, other = values[which], values[1 - which]
    mine, theirs = contracted[which], contracted[1 - which]
    free = [i for i in range(kernel.ndim) if i not in mine]
    rest = [i for i in range(other.ndim) if i not in theirs]
    inputs = math.prod(kernel.shape[i] for i in mine)
    outputs = math.prod(kernel.shape[i] for i in free)
    rows = other.transpose(*rest, *theirs).reshape(-1, inputs)
    first = 0 if which == 0 else len(rest)
    axes = tuple(range(first, first + len(free)))
    return rows, lambda k: k.transpose(*mine, *free), axes, inputs, outputs


def _convolution(equation, values, which: int):
    """The same of a convolution: a row is the window around one position."""
    params = equation.params
    if which != 1 or params["feature_group_count"] != 1 or params["batch_group_count"] != 1:
        return None
    if any(d != 1 for d in params["lhs_dilation"]):
        return None
    x, kernel = values
    left, right, out = params["dimension_numbers"]
    x = x.transpose(left[0], *left[2:], left[1])
    window = tuple(kernel.shape[i] for i in right[2:])
    pads = [(0, 0, 0), *((low, high, 0) for low, high in params["padding"]), (0, 0, 0)]
    x = jax.lax.pad(x, jnp.zeros((), x.dtype), pads)
    strides, dilation = params["window_strides"], params["rhs_dilation"]
    spatial = range(len(window))
    counts = [
        (x.shape[i + 1] - dilation[i] * (window[i] - 1) - 1) // strides[i] + 1 for i in spatial
    ]
    parts = []
    for flat in range(math.prod(window)):
        place, rest = [], flat
        for size in reversed(window):
            rest, offset = divmod(rest, size)
            place.insert(0, offset)
        begin = [0, *(place[i] * dilation[i] for i in spatial), 0]
        stop = [begin[i + 1] + strides[i] * (counts[i] - 1) + 1 for i in spatial]
        stop = [x.shape[0], *stop, x.shape[-1]]
        parts.append(jax.lax.slice(x, begin, stop, [1, *strides, 1]))
    rows = jnp.stack(parts, -2)
    inputs, outputs = math.prod(window) * kernel.shape[right[1]], kernel.shape[right[0]]
    rows = rows.reshape(-1, inputs)
    order = (*right[2:], right[1], right[0])
    return rows, lambda k: k.transpose(order), (out[1],), inputs, outputs
