"""The group laws: inverse and product of symmetries, in the order scale, then permute."""

from credax.structure.groups import Group
from credax.structure.labels import Leaf
from credax.structure.symmetry import Element, permuted
from credax.structure.views import View, namespace


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


def _carried(group: Group, array, element: Element, along: bool = True):
    """A vector ``[base..., units]`` after the permutation of its base and, if asked, its units."""
    last = Leaf(group.atom, {}) if along else None
    leaves = (*(Leaf(atom, {}) for atom in element.base(group)), last)
    return permuted(element.structure, View(array, leaves), element).array
