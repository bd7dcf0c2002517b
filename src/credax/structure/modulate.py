"""Kernels multiplied along their units: used by dropout; `factored` does it without copies."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from credax.errors import InputError
from credax.files import tree_names
from credax.structure.groups import Structure


def kernels(structure: Structure) -> tuple[str, ...]:
    """The parameters that are contracted with an activation, in the order of the computation."""
    paths = [path for path in structure.contractions if path.startswith("params/")]
    return tuple(sorted(paths, key=lambda path: structure.first_use.get(path, 10**9)))


def unit_axes(structure: Structure, path: str, role: str) -> tuple[int, ...]:
    """The axes of a kernel that are its "input" or its "output" units."""
    if path not in structure.contractions:
        known = ", ".join(kernels(structure)[:5])
        raise InputError(
            f"{path} is not multiplied with activations by a product or a convolution, so it has "
            f"no {role} units; choose from {known}, ..."
        )
    groups = structure.contractions[path].feature_group_count
    axes = structure.axes[path]
    found = tuple(i for i, axis in enumerate(axes) if axis.role == role)
    if role == "input" and groups > 1:
        # A depthwise kernel has one input channel per group: its input units are its output units.
        if all(axes[i].size == 1 for i in found):
            return tuple(i for i, axis in enumerate(axes) if axis.role == "output")
        raise InputError(
            f"{path} is a convolution of {groups} groups with several input channels each, whose "
            "input units have no axis of their own; modulate its outputs instead, as node-bnn does"
        )
    if not found:
        raise InputError(f"{path} has no axis that the trace knows as its {role} units")
    return found


def unit_shape(structure: Structure, path: str, role: str) -> tuple[int, ...]:
    """The shape of a vector over a kernel's "input" or "output" units (all their axes).

    >>> import credax as cx
    >>> network, x = cx.networks.CNN(10), jax.ShapeDtypeStruct((1, 28, 28, 1), "float32")
    >>> shapes = jax.eval_shape(network.init, jax.random.key(0), x)
    >>> structure = cx.structure.trace(network, shapes, x, verify=False)
    >>> unit_shape(structure, "params/1_conv/kernel", "input")
    (32,)
    """
    return tuple(structure.axes[path][i].size for i in unit_axes(structure, path, role))


def modulate(
    structure: Structure,
    params: Any,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    bias: Mapping[str, Any] | None = None,
) -> Any:
    """``params`` with kernels times ``r`` along input units and ``s`` along output units.

    ``x (W * r sᵀ) = ((x * r) W) * s``: scaling a kernel is scaling what goes in and what comes out
    before the bias; of a convolution, input and output channels. ``inputs`` and ``outputs`` map a
    kernel's path ("params/0_dense/kernel") to a vector of `unit_shape`; ``bias`` maps it to the
    array that takes the place of the bias added to its result. Pure: map it over members with
    ``jax.vmap``. Cost: one transient copy of each modulated kernel.

    >>> import credax as cx
    >>> network, x = cx.networks.MLP((4,), outputs=2), jnp.ones((3, 2))
    >>> params = network.init(jax.random.key(0), x).params
    >>> structure = cx.structure.trace(network, cx.Variables(params, {}), x)
    >>> masked = modulate(structure, params, inputs={"params/1_dense/kernel": jnp.zeros(4)})
    >>> network.apply(cx.Variables(masked, {}), x)[0].tolist() == [[0.0, 0.0]] * 3
    True
    """
    names = [f"params/{name}" for name in tree_names(params)]
    leaves, tree = jax.tree.flatten(params)
    arrays = dict(zip(names, leaves, strict=True))
    for role, given in (("input", inputs), ("output", outputs)):
        for path, vector in (given or {}).items():
            factor = _factor(structure, path, role, vector)
            kernel = jnp.asarray(_known(arrays, path))
            arrays[path] = kernel * factor.astype(kernel.dtype)
    for path, array in (bias or {}).items():
        unit_axes(structure, path, "output")
        target = structure.contractions[path].bias
        if target is None or target not in arrays:
            raise InputError(f"no bias is added to the result of {path}; leave it out of bias=")
        if jnp.shape(array) != jnp.shape(arrays[target]):
            raise InputError(
                f"the bias for {path} has shape {jnp.shape(array)}; {target} has "
                f"{jnp.shape(arrays[target])}"
            )
        arrays[target] = jnp.asarray(array, jnp.asarray(arrays[target]).dtype)
    return jax.tree.unflatten(tree, [arrays[name] for name in names])


def _known(arrays: dict, path: str):
    if path not in arrays:
        raise InputError(f"{path} is not among params: {', '.join(list(arrays)[:5])}, ...")
    return arrays[path]


def _factor(structure: Structure, path: str, role: str, vector):
    axes = unit_axes(structure, path, role)
    wanted = tuple(structure.axes[path][i].size for i in axes)
    vector = jnp.asarray(vector)
    if vector.shape != wanted:
        raise InputError(
            f"the {role} factors of {path} have shape {vector.shape}; its {role} units are {wanted}"
        )
    shape = [1] * len(structure.axes[path])
    for axis, size in zip(axes, wanted, strict=True):
        shape[axis] = size
    return vector.reshape(shape)
