"""Elements of a network's symmetry group: apply, invert, compose, sample.

An element rescales the units of every group and then permutes them. Permutations are exact for any
activation; scalings exist only where the traced computation is positively homogeneous.
"""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from credax.errors import InputError
from credax.files import tree_names
from credax.keys import numpy_generator
from credax.network import Variables
from credax.structure.groups import Structure, UnitGroup, place_of
from credax.structure.labels import Leaf
from credax.structure.views import MEMBERS, View, broadcast, namespace, transform

Rounding = Literal["none", "power_of_two"]


class Element(eqx.Module):
    """One symmetry, or one per member: scale by ``exp(log_scales)``, then permute.

    ``permutations[group]`` has shape ``[base..., units]`` and ``log_scales[group, direction]`` the
    same; unit i of the result is unit ``permutations[..., i]`` of what came. A leading ``members``
    axis is allowed on all of them.
    """

    permutations: dict[int, Any]
    log_scales: dict[tuple[int, int], Any]
    structure: Structure = eqx.field(static=True)

    @property
    def batched(self) -> bool:
        """Whether there is a leading members axis."""
        return self.members is not None

    @property
    def members(self) -> int | None:
        """How many members there are, or None for one symmetry."""
        for group in self.structure.groups:
            shape = self.permutations[group.id].shape
            return shape[0] if len(shape) == len(group.base) + 2 else None
        return None

    def base(self, group: UnitGroup) -> tuple[int, ...]:
        """The atoms that a group's arrays have axes for, before the units."""
        return (MEMBERS, *group.base) if self.batched else group.base

    @property
    def scales(self) -> dict[tuple[int, int], Array]:
        """The factors λ themselves."""
        return {name: namespace(v).exp(v) for name, v in self.log_scales.items()}


def identity(structure: Structure, members: int | None = None) -> Element:
    """The symmetry that changes nothing (one per member, if asked)."""
    permutations, logs = {}, {}
    for group in structure.groups:
        shape = (*(() if members is None else (members,)), *group.base_sizes, group.size)
        permutations[group.id] = np.broadcast_to(np.arange(group.size), shape)
        for k in range(len(group.scalings)):
            logs[group.id, k] = np.zeros(shape)
    return Element(permutations, logs, structure)


def random(
    structure: Structure,
    key: Key[Array, ""] | int,
    scale_std: float = 0.5,
    *,
    members: int | None = None,
    groups: tuple[int, ...] | None = None,
) -> Element:
    """A uniform permutation of every group and log-normal scales of every direction.

    ``members`` draws one per member; ``groups`` names those to move, the others stay.
    """
    generator = numpy_generator(key)
    element = identity(structure, members)
    permutations, logs = dict(element.permutations), dict(element.log_scales)
    for group in structure.groups:
        if groups is not None and group.id not in groups:
            continue
        shape = permutations[group.id].shape
        permutations[group.id] = np.argsort(generator.random(shape), axis=-1)
        for k in range(len(group.scalings)):
            logs[group.id, k] = scale_std * generator.standard_normal(shape)
    return Element(permutations, logs, structure)


def apply(
    structure: Structure, variables: Variables, element: Element, *, rounding: Rounding = "none"
) -> Variables:
    """The same function with other numbers: ``variables`` scaled, then permuted.

    Leaves may have a leading ``members`` axis, the element too: thousands of networks are moved at
    once. numpy arrays stay numpy arrays. Permutations are bit-exact. Every array is multiplied
    once; float16 is promoted to float32. ``rounding="power_of_two"`` rounds each λ to a power of
    two, so that scaling and its inverse are bit-exact too. Cost: one pass over the numbers.

    >>> import credax as cx
    >>> network, x = cx.networks.MLP((4,), outputs=2), jnp.ones((1, 3))
    >>> variables = network.init(jax.random.key(0), x)
    >>> structure = cx.structure.trace(network, variables, x)
    >>> element = random(structure, jax.random.key(1))
    >>> moved = apply(structure, variables, element)
    >>> bool(jnp.allclose(network.apply(moved, x)[0], network.apply(variables, x)[0]))
    True
    """
    if rounding not in ("none", "power_of_two"):
        raise InputError(f"rounding is {rounding!r}; choose none or power_of_two")
    if rounding == "power_of_two":
        element = rounded(element)
    population = is_population(structure, variables)
    names, (arrays, tree) = tree_names(variables), jax.tree.flatten(variables)
    if element.batched and not population:
        arrays = [
            namespace(array).broadcast_to(array, (element.members or 1, *array.shape))
            for array in arrays
        ]
    moved = [
        moved_array(structure, name, array, element, population or element.batched)
        for name, array in zip(names, arrays, strict=True)
    ]
    return jax.tree.unflatten(tree, moved)


def apply_dual(
    structure: Structure, gradients: Variables, element: Element, *, power: int = 1
) -> Variables:
    """Gradients of the weights, moved as a symmetry moves the weights.

    Where ``apply`` multiplies a weight by λ, its gradient is divided by it:
    ``∇L(T ω) = T⁻ᵀ ∇L(ω)``. Hand it what an optimiser keeps, in the shape of the variables, when a
    network in training is moved: momentum with ``power=1``, squared gradients with ``power=2``.
    Units are permuted as those of the weights. Exact for plain momentum; the steps of an optimiser
    that divides by its second moments are not invariant under scalings, whatever is carried.

    >>> import credax as cx
    >>> from credax.structure import random, trace
    >>> network, x = cx.networks.MLP((4,), outputs=2), jax.numpy.ones((3, 2))
    >>> variables = network.init(jax.random.key(0), x)
    >>> structure = trace(network, variables, x)
    >>> moved = apply_dual(structure, variables, random(structure, 1))
    >>> moved.params["0_dense"]["kernel"].shape
    (2, 4)
    """
    if power < 1:
        raise InputError(f"power is {power}; give 1 for gradients and momenta, 2 for their squares")
    population = is_population(structure, gradients)
    if element.batched and not population:
        raise InputError(
            "element has a members axis and gradients have none; give one element, or gradients of "
            "every member"
        )
    logs = {name: -power * value for name, value in element.log_scales.items()}
    against = Element(element.permutations, logs, structure)
    names, (arrays, tree) = tree_names(gradients), jax.tree.flatten(gradients)
    moved = [
        moved_array(structure, name, array, against, population, shifted=False)
        for name, array in zip(names, arrays, strict=True)
    ]
    return jax.tree.unflatten(tree, moved)


def inverse(element: Element) -> Element:
    """The symmetry that undoes this one: argsort of the orders, minus the logarithms.

    Exact for permutations; scales come back to within a few roundings.
    """
    orders, logs = {}, {}
    for group in element.structure.groups:
        order = element.permutations[group.id]
        back = namespace(order).argsort(order, axis=-1)
        orders[group.id] = _carried(group, back, element, along=False)
        for k in range(len(group.scalings)):
            logs[group.id, k] = -_carried(group, element.log_scales[group.id, k], element)
    return Element(orders, logs, element.structure)


def compose(first: Element, second: Element) -> Element:
    """``apply(compose(a, b)) = apply(a) after apply(b)``; both with a members axis, or none.

    Scales: b's, and a's seen from before b. Orders: b's, then a's.
    """
    undo = inverse(second)
    orders, logs = {}, {}
    for group in first.structure.groups:
        later = _carried(group, first.permutations[group.id], undo, along=False)
        order = second.permutations[group.id]
        orders[group.id] = namespace(order).take_along_axis(order, later, axis=-1)
        for k in range(len(group.scalings)):
            value = _carried(group, first.log_scales[group.id, k], undo)
            logs[group.id, k] = second.log_scales[group.id, k] + value
    return Element(orders, logs, first.structure)


def _carried(group: UnitGroup, array, element: Element, along: bool = True):
    """A vector ``[base..., units]`` after the permutation of its base and, if asked, its units."""
    last = Leaf(group.atom, {}) if along else None
    leaves = (*(Leaf(atom, {}) for atom in element.base(group)), last)
    return permuted(element.structure, View(array, leaves), element).array


def rounded(element: Element) -> Element:
    """The element with every λ rounded to a power of two."""
    logs = {
        name: namespace(value).round(value / np.log(2)) * np.log(2)
        for name, value in element.log_scales.items()
    }
    return Element(element.permutations, logs, element.structure)


def is_population(structure: Structure, variables: Variables) -> bool:
    """Whether every array has a leading members axis; an error if shapes fit neither way."""
    names = tree_names(variables)
    if set(names) != set(structure.axes):
        odd = sorted(set(names) ^ set(structure.axes))
        raise InputError(f"variables do not fit the structure: they differ at {', '.join(odd[:3])}")
    ranks = set()
    for name, leaf in zip(names, jax.tree.leaves(variables), strict=True):
        shape = tuple(axis.size for axis in structure.axes[name])
        extra = len(leaf.shape) - len(shape)
        if extra not in (0, 1) or tuple(leaf.shape[extra:]) != shape:
            raise InputError(
                f"{name} has shape {tuple(leaf.shape)}; the structure was traced with {shape}, so "
                f"give that or (members, {', '.join(map(str, shape))})"
            )
        ranks.add(extra)
    if len(ranks) == 2:
        raise InputError(
            "variables have a members axis on some arrays only; give it to all or none"
        )
    return ranks == {1}


def frame(structure: Structure, name: str, array, population: bool):
    """Labels and sizes of an array's axes, the members axis first if it has one."""
    labels = structure.labels(name)
    if not population:
        return labels, structure.sizes
    sizes = {**structure.sizes, MEMBERS: array.shape[0]}
    return (Leaf(MEMBERS, {}), *labels), sizes


def moved_array(
    structure: Structure, name: str, array, element: Element, population: bool, *, shifted=True
):
    """One array scaled, then permuted; ``shifted`` with what the network adds to it."""
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return array
    if array.dtype in (jnp.float16, jnp.bfloat16):
        array = array.astype(jnp.float32)
    shift = structure.shifts.get(name, 0.0) if shifted else 0.0
    labels, sizes = frame(structure, name, array, population)

    def act(view: View):
        return permuted(structure, _scaled(structure, view, element, shift), element).array

    return transform(array, labels, sizes, act)


def log_factor(structure: Structure, view: View, element: Element):
    """The logarithm of what scaling multiplies a view by; None where nothing acts."""
    logs = None
    for axis, leaf in enumerate(view.leaves):
        group = structure.by_atom.get(leaf.atom) if leaf else None
        if leaf is None or group is None:
            continue
        for k, exponent in structure.exponents(group, place_of(leaf)):
            value = element.log_scales[group.id, k]
            if isinstance(value, np.ndarray) and not value.any():
                continue
            value = broadcast(value, view, element.base(group), axis)
            term = float(exponent) * value
            logs = term if logs is None else logs + term
    return logs


def _scaled(structure: Structure, view: View, element: Element, shift: float) -> View:
    logs = log_factor(structure, view, element)
    if logs is None:
        return view
    dtype, xp = view.array.dtype, namespace(logs)
    array = _power(logs).astype(dtype) * view.array
    if shift:
        # The network adds `shift` to this array and it is the sum that scales; written so that the
        # small number is never taken from a rounded sum.
        array = array + (xp.expm1(logs) * shift).astype(dtype)
    return view._replace(array=array)


def _power(logs):
    """``exp`` that gives powers of two exactly where the exponent is one."""
    xp, base = namespace(logs), np.log(2)
    whole = xp.round(logs / base)
    exact = xp.ldexp(xp.ones_like(logs), whole.astype(np.int32))
    near = xp.abs(logs - whole * base) <= 8 * xp.finfo(logs.dtype).eps * xp.abs(logs)
    return xp.where(near, exact, xp.exp(logs))


def permuted(structure: Structure, view: View, element: Element) -> View:
    """Every axis of the view in its group's new order; what rests on a base moves before it."""
    for group in structure.depth_first:
        for axis, leaf in enumerate(view.leaves):
            if leaf is not None and leaf.atom == group.atom:
                array = _taken(view, element, group, axis)
                view = view._replace(array=array)
    return view


def _taken(view: View, element: Element, group: UnitGroup, axis: int):
    order, base = element.permutations[group.id], element.base(group)
    if isinstance(order, np.ndarray) and np.all(order == np.arange(group.size)):
        return view.array
    xp = namespace(view.array)
    if not base:
        return xp.take(view.array, order, axis=axis)
    index = broadcast(order, view, base, axis)
    # Only the axes of the index may differ from 1: the others are broadcast by hand for numpy.
    shape = tuple(
        n if i == axis else m
        for i, (n, m) in enumerate(zip(index.shape, view.array.shape, strict=True))
    )
    return xp.take_along_axis(view.array, xp.broadcast_to(index, shape), axis=axis)
