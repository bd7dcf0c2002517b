"""A structure in words: groups with what makes and reads them, then every array's axes."""

from collections.abc import Iterator
from typing import Any

from credax.structure.groups import Structure, UnitGroup
from credax.structure.labels import Label, Leaf, Product, Sum


def tree(structure: Structure, arrays: bool = True) -> str:
    """The structure as an indented tree, for people.

    >>> import jax, credax as cx
    >>> network, x = cx.networks.MLP((5,), outputs=3), jax.ShapeDtypeStruct((2, 7), "float32")
    >>> shapes = jax.eval_shape(network.init, jax.random.key(0), x)
    >>> print(tree(cx.structure.trace(network, shapes, x, verify=False), arrays=False))
    1 group of hidden units
    └─ group 0: 5 units, 1 scaling
       ├─ params/0_dense/kernel  output  scaling 0: +1
       ├─ params/0_dense/bias  elementwise  scaling 0: +1
       └─ params/1_dense/kernel  input  scaling 0: -1
    """
    return "\n".join(_lines(structure, arrays))


def _lines(structure: Structure, arrays: bool) -> Iterator[str]:
    yield f"{_count(len(structure.groups), 'group')} of hidden units" + _error(structure)
    for group in structure.groups:
        last = group is structure.groups[-1] and not arrays
        yield f"{'└─' if last else '├─'} {_head(structure, group)}"
        for occurrence in group.occurrences:
            powers = [
                f"{k}: {'+' if e > 0 else ''}{e}"
                for k, e in structure.exponents(group, occurrence.place)
            ]
            text = f"{occurrence.path}  {occurrence.role}"
            text += f"  scaling {', '.join(powers)}" if powers else ""
            end = occurrence is group.occurrences[-1]
            yield f"{' ' if last else '│'}  {'└─' if end else '├─'} {text}"
    if arrays:
        yield "└─ arrays"
        paths = sorted(structure.axes, key=lambda path: structure.first_use.get(path, 10**9))
        for path in paths:
            mark = "└─" if path == paths[-1] else "├─"
            axes = " × ".join(_axis(structure, axis) for axis in structure.axes[path])
            yield f"   {mark} {path}  {axes or 'one number'}"


def _error(structure: Structure) -> str:
    if structure.error is None:
        return ""
    return f"; a random symmetry of all changes outputs by {structure.error:.1e}"


def _head(structure: Structure, group: UnitGroup) -> str:
    text = (
        f"group {group.id}: {_count(group.size, 'unit')}, {_count(len(group.scalings), 'scaling')}"
    )
    if group.base:
        beside = " and ".join(_name(structure, atom) for atom in group.base)
        text += f", an order of its own for each of {beside}"
    return text + (", a stream of several producers" if len(group.producers) > 1 else "")


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _name(structure: Structure, atom: int) -> str:
    group = structure.by_atom.get(atom)
    size = structure.sizes[atom]
    return f"group {group.id} ({size})" if group else f"{size} fixed indices"


def _axis(structure: Structure, axis) -> str:
    text = _label(structure, axis.label) or "1"
    return text if axis.role == "elementwise" else f"{text} {axis.role}"


def _label(structure: Structure, label: Label) -> str:
    if isinstance(label, Leaf):
        group = structure.by_atom.get(label.atom)
        size = structure.sizes[label.atom]
        return f"{size} (group {group.id})" if group else f"{size}"
    if isinstance(label, Product):
        return "·".join(_label(structure, part) for part in label.factors)
    if isinstance(label, Sum):
        return "[" + " + ".join(_label(structure, part) for part in label.segments) + "]"
    return str(label.size)


def summary(structure: Structure) -> dict[str, Any]:
    """The structure as plain data, for machines."""
    return {
        "groups": [
            {
                "id": group.id,
                "units": group.size,
                "base": [_name(structure, atom) for atom in group.base],
                "producers": list(group.producers),
                "consumers": list(group.consumers),
                "scalings": [
                    {f"{p.path}:{p.position}": str(e) for p, e in row.items()}
                    for row in group.scalings
                ],
            }
            for group in structure.groups
        ],
        "arrays": {
            path: [
                {"size": a.size, "role": a.role, "label": _label(structure, a.label)} for a in axes
            ]
            for path, axes in structure.axes.items()
        },
        "pinned": sorted(set(structure.pinned.values())),
        "error": structure.error,
    }
