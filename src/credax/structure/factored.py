"""Kernels times ``r sᵀ`` without a copy of the kernel: factors on what goes in and what comes out.

``x (W * r sᵀ) = ((x * r) W) * s``. The computation is traced and evaluated again with the right
side. Mapped over members with ``jax.vmap``, a kernel that they share stays one array, and the
products of all members are one product over all of their rows.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float, Int, PyTree

from credax.files import tree_names
from credax.structure.groups import Structure
from credax.structure.linear_layers import CALLS, Evaluation, ParameterView, bind, carried, inside
from credax.structure.modulate import unit_axes, unit_shape

PREFIX = "params/"


class Factors(NamedTuple):
    """What kernels are multiplied with, by path: vectors over units with a leading axis ``rank``.

    The kernel becomes ``W * Σ_k r_k s_kᵀ``; a path may be missing in one of the two.
    """

    inputs: Mapping[str, Float[Array, "rank ..."]]
    outputs: Mapping[str, Float[Array, "rank ..."]]

    @property
    def paths(self) -> set[str]:
        """The kernels that are multiplied."""
        return {*self.inputs, *self.outputs}


class _Units(NamedTuple):
    """For every entry of a kernel the number of its input or output unit."""

    numbers: Int[np.ndarray, "..."]

    def along(self, view: Callable | None, axes: tuple[int, ...]) -> np.ndarray | None:
        """The units along some axes of a view of the kernel; None if others matter too."""
        numbers = self.numbers
        if view is not None:
            with jax.ensure_compile_time_eval():
                numbers = np.asarray(view(jnp.asarray(numbers)))
        others = tuple(i for i in range(numbers.ndim) if i not in axes)
        first = numbers
        for axis in others:
            first = first.take([0], axis)
        if not np.array_equal(np.broadcast_to(first, numbers.shape), numbers):
            return None
        kept = first.squeeze(others)
        order = sorted(axes)
        return kept.transpose([order.index(axis) for axis in axes])


def _units(structure: Structure, path: str, role: str) -> _Units:
    shape = tuple(axis.size for axis in structure.axes[path])
    axes, sizes = unit_axes(structure, path, role), unit_shape(structure, path, role)
    flat = np.arange(int(np.prod(sizes)), dtype=np.int32).reshape(sizes)
    where = [1] * len(shape)
    for axis, size in zip(axes, sizes, strict=True):
        where[axis] = size
    return _Units(np.broadcast_to(flat.reshape(where), shape))


def multiplied(structure: Structure, params: PyTree, factors: Factors) -> PyTree:
    """The parameters with kernels ``W * Σ_k r_k s_kᵀ`` written out: one member's own network."""
    names = [PREFIX + name for name in tree_names(params)]
    leaves, tree = jax.tree.flatten(params)
    arrays = dict(zip(names, leaves, strict=True))
    for path in factors.paths:
        arrays[path] = arrays[path] * _matrix(structure, path, factors).astype(arrays[path].dtype)
    return jax.tree.unflatten(tree, [arrays[name] for name in names])


def _matrix(structure: Structure, path: str, factors: Factors) -> Array:
    """``Σ_k r_k s_kᵀ``, which broadcasts against the kernel."""
    total: Any = 1.0
    for given, role in ((factors.inputs, "input"), (factors.outputs, "output")):
        if path in given:
            shape = [1] * len(structure.axes[path])
            for axis in unit_axes(structure, path, role):
                shape[axis] = structure.axes[path][axis].size
            total = total * given[path].reshape(-1, *shape)
    return jnp.sum(total, axis=0)


def factored(structure: Structure, function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """``function(params, *rest)`` as ``f(params, factors, *rest)`` with kernels times factors.

    Where a kernel is read by a product or a convolution, the factors multiply the activations;
    elsewhere (grouped convolutions, kernels that are transformed first) the kernel is written out.

    >>> import credax as cx
    >>> network, x = cx.networks.MLP((4,), outputs=2), jnp.ones((3, 2))
    >>> params = network.init(jax.random.key(0), x).params
    >>> structure = cx.structure.trace(network, cx.Variables(params, {}), x)
    >>> outputs = factored(structure, lambda p, x: network.apply(cx.Variables(p, {}), x)[0])
    >>> factors = Factors({"params/1_dense/kernel": jnp.zeros((1, 4))}, {})
    >>> outputs(params, factors, x).tolist() == [[0.0, 0.0]] * 3
    True
    """

    def run(params, factors: Factors, *rest):
        closed, shape = jax.make_jaxpr(function, return_shape=True)(params, *rest)
        evaluation = _FactoredEvaluation(structure, params, factors)
        names = tree_names(params)
        marks: list = [
            ParameterView(name, _same) if PREFIX + name in factors.paths else None for name in names
        ]
        values = [*jax.tree.leaves(params), *jax.tree.leaves(rest)]
        marks += [None] * (len(values) - len(marks))
        outputs, marks = evaluation.run(closed, values, marks)
        outputs = [evaluation.written_out(v, m) for v, m in zip(outputs, marks, strict=True)]
        return jax.tree.unflatten(jax.tree.structure(shape), outputs)

    return run


def _same(kernel):
    return kernel


class _FactoredEvaluation(Evaluation):
    """One evaluation of a traced computation with factors on the activations of kernels."""

    def __init__(self, structure: Structure, params: PyTree, factors: Factors):
        super().__init__({})
        self.structure, self.factors = structure, factors
        self.arrays = dict(zip(tree_names(params), jax.tree.leaves(params), strict=True))

    def equation(self, equation, values, marks) -> tuple[list, list]:
        """One operation; a product with a kernel gets its factors."""
        places = [i for i, mark in enumerate(marks) if mark is not None]
        if not places:
            return self._plain(equation, values)
        name = equation.primitive.name
        if len(places) == 1:
            result = self._product(equation, values, places[0], marks[places[0]])
            if result is not None:
                return [result], [None]
        inner = inside(equation)
        if name in CALLS and inner is not None:
            return self.run(inner, values, marks)
        if name in ("mul", "div"):
            mark = self.scaled(name, values, marks)
            if mark is not None:
                return bind(equation, values), [mark]
        if len(marks) == 1:
            mark = carried(equation, values[0], marks[0])
            if isinstance(mark, ParameterView) and mark.axes is None:
                return bind(equation, values), [mark]
        return self._plain(
            equation, [self.written_out(v, m) for v, m in zip(values, marks, strict=True)]
        )

    def _plain(self, equation, values) -> tuple[list, list]:
        results = bind(equation, values)
        return results, [None] * len(results)

    def written_out(self, value, mark: ParameterView | None):
        """The value with the kernel's factors in it."""
        if mark is None:
            return value
        matrix = _matrix(self.structure, PREFIX + mark.path, self.factors)
        kernel = self.arrays[mark.path] * matrix.astype(self.arrays[mark.path].dtype)
        return (mark.view(kernel) * mark.factor).astype(value.dtype)

    def _product(self, equation, values, which: int, mark: ParameterView):
        """``Σ_k s_k * product(x * r_k, W)``, or None if this is no such product."""
        found = _axes(equation, values, which)
        if found is None:
            return None
        contracted, theirs, free, results = found
        path, view = PREFIX + mark.path, None if mark.view is _same else mark.view
        ways = (
            (self.factors.inputs, "input", contracted),
            (self.factors.outputs, "output", free),
        )
        vectors = []
        for given, role, axes in ways:
            if path not in given:
                vectors.append(None)
                continue
            units = _units(self.structure, path, role).along(view, axes)
            if units is None:
                return None
            vectors.append(given[path].reshape(len(given[path]), -1)[:, units])
        product = _ScaledProduct(equation, which, contracted, theirs, free, results)
        given = values[1 - which], values[which], vectors[0], vectors[1]
        small = values[which].size <= values[1 - which].size
        return product.by_kernel_gradient(*given) if small else product(*given)


class _ScaledProduct(NamedTuple):
    """``Σ_k s_k * product(x * r_k, W)`` for one product of the traced computation."""

    equation: Any
    which: int
    contracted: tuple[int, ...]
    theirs: tuple[int, ...]
    free: tuple[int, ...]
    results: tuple[int, ...]

    def bound(self, x, kernel):
        """The product itself."""
        (result,) = bind(self.equation, [kernel, x] if self.which == 0 else [x, kernel])
        return result

    def __call__(self, x, kernel, inputs, outputs):
        """Factors on the activations, so that gradients by factors are sums over activations."""
        total = None
        for r, s in self._each(inputs, outputs):
            result = self.bound(self._times(x, r, self.theirs), kernel)
            result = self._times(result, s, self.results)
            total = result if total is None else total + result
        return total

    def by_kernel_gradient(self, x, kernel, inputs, outputs):
        """The same, whose gradients by factors are taken from each member's gradient by ``W``.

        A kernel smaller than its activations makes that the shorter sum: ``∂s = Σ W r ∂(W r sᵀ)``
        reads the kernel's gradient and not all activations once more.
        """
        differentiated = jax.custom_jvp(self.__call__)
        differentiated.defjvp(self._jvp, symbolic_zeros=True)
        return differentiated(x, kernel, inputs, outputs)

    def _jvp(self, primals, tangents):
        (x, kernel, inputs, outputs), (dx, *others) = primals, tangents
        found, terms = self(*primals), []
        if not isinstance(dx, SymbolicZero):
            for r, s in self._each(inputs, outputs):
                here, there = (self._times(v, r, self.theirs) for v in (x, dx))
                along = jax.jvp(lambda v: self.bound(v, kernel), (here,), (there,))[1]
                terms.append(self._times(along, s, self.results))
        others = [_tangent(p, t) for p, t in zip(primals[1:], others, strict=True)]
        change = jax.jvp(self._whole, tuple(primals[1:]), tuple(others))[1]
        terms.append(jax.jvp(lambda k: self.bound(x, k), (kernel,), (change,))[1])
        return found, sum(terms)

    def _whole(self, kernel, inputs, outputs):
        """``W * Σ_k r_k s_kᵀ``, as the product reads it."""
        total = 0.0
        for r, s in self._each(inputs, outputs):
            total += self._times(self._times(kernel, r, self.contracted), s, self.free)
        return total

    def _each(self, inputs, outputs):
        rank = len(inputs if inputs is not None else outputs)
        return [tuple(v if v is None else v[k] for v in (inputs, outputs)) for k in range(rank)]

    def _times(self, array, vector, axes):
        return array if vector is None else array * _spread(vector[None], axes, array)[0]


def _tangent(primals, tangents):
    return jax.tree.map(
        lambda p, t: jnp.zeros_like(p) if isinstance(t, SymbolicZero) else t, primals, tangents
    )


def _spread(vectors, axes: tuple[int, ...], like):
    """Vectors ``[rank, units...]`` with their units along the axes of an array."""
    order = sorted(range(len(axes)), key=axes.__getitem__)
    shape = [1] * like.ndim
    for axis, size in zip(axes, vectors.shape[1:], strict=True):
        shape[axis] = size
    turned = vectors.transpose(0, *(1 + i for i in order))
    return turned.reshape(len(vectors), *shape).astype(like.dtype)


def _axes(equation, values, which: int):
    """Axes of a product: of the kernel and the activation that meet, of kernel and result kept.

    A call that is one product and nothing else counts as that product, so that a derivative rule
    of its own is kept.
    """
    inner = inside(equation)
    if inner is not None and equation.primitive.name in CALLS:
        jaxpr = getattr(inner, "jaxpr", inner)
        if len(jaxpr.eqns) != 1 or jaxpr.outvars != jaxpr.eqns[0].outvars:
            return None
        if list(jaxpr.eqns[0].invars) != list(jaxpr.invars):
            return None
        return _axes(jaxpr.eqns[0], values, which)
    params = equation.params
    if equation.primitive.name == "dot_general":
        contracted, batched = params["dimension_numbers"]
        if batched[0] or batched[1]:
            return None
        mine, theirs = tuple(contracted[which]), tuple(contracted[1 - which])
        free = tuple(i for i in range(values[which].ndim) if i not in mine)
        first = 0 if which == 0 else values[0].ndim - len(theirs)
        return mine, theirs, free, tuple(range(first, first + len(free)))
    if equation.primitive.name == "conv_general_dilated":
        if which != 1 or params["feature_group_count"] != 1 or params["batch_group_count"] != 1:
            return None
        left, right, out = params["dimension_numbers"]
        return (right[1],), (left[1],), (right[0],), (out[1],)
    return None
