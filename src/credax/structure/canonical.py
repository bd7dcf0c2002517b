"""One representative of all symmetric copies of a network: units scaled, then sorted.

Scaling exists for positively homogeneous activations only; the trace decides where.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from credax.errors import InputError
from credax.network import Variables
from credax.structure.groups import Place, Structure, UnitGroup, place_of
from credax.structure.labels import leaves
from credax.structure.symmetry import (
    Element,
    apply,
    compose,
    identity,
    inverse,
    is_population,
    moved_array,
)
from credax.structure.units import Arrays, host_arrays, producer_places, unit_rows
from credax.structure.verify import check_preserved

Scale = Literal["unit_norm", "unit_variance", "min_mass", "none"]
Order = Literal["max", "first", "mean", "median", "norm", "output", "none"]
SCALES = ("unit_norm", "unit_variance", "min_mass", "none")
ORDERS = ("max", "first", "mean", "median", "norm", "output", "none")


class Form(NamedTuple):
    """A named choice of canonical form."""

    scale: str
    order: str
    streams: str
    anchor: str


FORMS = {
    "paper": Form("unit_norm", "first", "leave", "first"),
    "published_text": Form("unit_norm", "max", "leave", "first"),
    "balanced": Form("min_mass", "max", "sort", "all"),
}


def canonicalise(
    structure: Structure,
    population: Any,
    *,
    scale: str | Mapping[tuple[int, int], Any] = "unit_norm",
    order: str = "max",
    streams: str = "sort",
    anchor: str = "all",
    constant: float = 1.0,
    check: bool = True,
) -> tuple[Any, Element]:
    """The population with scalings and permutations removed, and the element that did it.

    - ``scale``: "unit_norm" (every unit's incoming weights have norm ``constant``, biases only
      multiplied; norm scales become ±1), "unit_variance", "min_mass" (least squared weights),
      "none", or given factors ``{(group, direction): λ}``. All scale ends in the last layer.
    - ``order``: units by descending "max", "first", "mean", "median" or "norm" of their incoming
      weights, by ascending first "output" weight, or "none".
    - ``streams``: "sort" residual streams too, or "leave" them (the published, partial removal).
    - ``anchor``: producers of a stream that set its scale, "all" that are settled or the "first".
    - ``check``: evaluate the first and the last network before and after in float64; raise
      `SymmetryViolation` where an output changes by more than 1e-10 relative.

    A unit whose weights are zero keeps its scale (`dead_units` names them). ``population``: a
    `Population`, or variables with or without a members axis. Runs on the host in float64. Cost:
    one pass over the weights for every direction. Reference: Laurent et al. 2024; true maxima and
    streams are credax's choice.

    >>> import jax, credax as cx
    >>> forward = lambda p, x: jax.nn.relu(x @ p["w1"].T) @ p["w2"].T
    >>> network = cx.FunctionNetwork(lambda key, x: {}, forward)
    >>> first, second = np.array([[3.0, 4.0], [0.0, 2.0]]), np.array([[1.0, 2.0], [2.0, 0.0]])
    >>> variables = cx.Variables({"w1": first, "w2": second}, {})
    >>> structure = cx.structure.trace(network, variables, np.zeros((3, 2)))
    >>> canonical, element = canonicalise(structure, variables)
    >>> canonical.params["w1"].round(12).tolist(), canonical.params["w2"].round(12).tolist()
    ([[0.0, 1.0], [0.6, 0.8]], [[4.0, 5.0], [0.0, 10.0]])
    """
    _check(scale, order, streams, anchor)
    variables = getattr(population, "variables", population)
    members = is_population(structure, variables)
    arrays = host_arrays(structure, variables)
    element = scaling(structure, arrays, scale, anchor, constant)
    scaled = moved(structure, arrays, element)
    if order != "none":
        element = _sorted(structure, scaled, element, order, streams, anchor)
    if check:
        check_form(structure, arrays, element)
    element = element if members else one(element)
    return _with(population, apply(structure, variables, element)), element


def check_form(structure: Structure, arrays: Arrays, element: Element) -> float:
    """The greatest relative change of outputs of the first and last network; an error if any."""
    ends = sorted({0, len(next(iter(arrays.values()))) - 1})
    before = {name: array[ends] for name, array in arrays.items()}
    some = Element(
        {name: value[ends] for name, value in element.permutations.items()},
        {name: value[ends] for name, value in element.log_scales.items()},
        structure,
    )
    return check_preserved(structure, before, moved(structure, before, some), "the canonical form")


def restore(structure: Structure, population: Any, element: Element) -> Any:
    """Undo `canonicalise`: permutations exactly, scales to rounding."""
    variables = getattr(population, "variables", population)
    return _with(population, apply(structure, variables, inverse(element)))


def _with(population: Any, variables: Variables) -> Any:
    if not hasattr(population, "variables"):
        return variables
    import dataclasses

    return dataclasses.replace(population, variables=variables)


def _check(scale, order, streams, anchor) -> None:
    for name, given, known in (
        ("scale", "unit_norm" if isinstance(scale, Mapping) else scale, SCALES),
        ("order", order, ORDERS),
        ("streams", streams, ("sort", "leave")),
        ("anchor", anchor, ("all", "first")),
    ):
        if given not in known:
            raise InputError(f"{name} is {given!r}; choose one of {', '.join(known)}")


def one(element: Element) -> Element:
    """The element of a population of one, without its members axis."""
    permutations = {name: value[0] for name, value in element.permutations.items()}
    logs = {name: value[0] for name, value in element.log_scales.items()}
    return Element(permutations, logs, element.structure)


def moved(structure: Structure, arrays: Arrays, element: Element) -> Arrays:
    """Host arrays after an element with a members axis."""
    return {
        name: moved_array(structure, name, array, element, True) for name, array in arrays.items()
    }


def scaling(structure: Structure, arrays: Arrays, scale, anchor: str, constant: float) -> Element:
    """The element that only scales, one per member."""
    members = len(next(iter(arrays.values())))
    element = identity(structure, members)
    if isinstance(scale, Mapping):
        given = {
            name: np.broadcast_to(np.log(value), element.log_scales[name].shape)
            for name, value in scale.items()
        }
        return Element(element.permutations, {**element.log_scales, **given}, structure)
    if scale == "none":
        return element
    if scale == "min_mass":
        from credax.structure.mass import least_mass

        # Directions that cost nothing (in front of a norm) stay where unit norms put them.
        element = _by_norm(structure, arrays, element, "unit_norm", anchor, constant)
        return compose(least_mass(structure, moved(structure, arrays, element)), element)
    return _by_norm(structure, arrays, element, scale, anchor, constant)


def _by_norm(structure, arrays, element, scale, anchor, constant) -> Element:
    """Directions in the order of their pivots, so that what feeds a unit is settled before it."""
    settled: set[tuple[int, int]] = set()
    for group, k, pivot in directions(structure):
        places = _anchors(structure, group, k, pivot, anchor, settled)
        rows = unit_rows(structure, arrays, group, places)
        rows = rows + structure.shifts.get(pivot.path, 0.0)
        size = np.sqrt((rows**2).sum(-1))
        if scale == "unit_variance" and rows.shape[-1] > 1:
            size = rows.std(-1, ddof=1)
        logs = np.where(size > 0, np.log(constant / np.where(size > 0, size, 1)), 0.0)
        logs = logs / float(group.scalings[k][pivot])
        still = identity(structure, len(size))
        step = Element(still.permutations, {**still.log_scales, (group.id, k): logs}, structure)
        arrays = {**arrays, **moved(structure, _touched(arrays, group, k), step)}
        total = {**element.log_scales, (group.id, k): logs}
        element = Element(element.permutations, total, structure)
        settled.add((group.id, k))
    return element


def _touched(arrays: Arrays, group: UnitGroup, k: int) -> Arrays:
    paths = {place.path for place in group.scalings[k]}
    return {path: array for path, array in arrays.items() if path in paths}


def directions(structure: Structure) -> list[tuple[UnitGroup, int, Place]]:
    """Every scaling with its pivot, the earliest place that no other scaling of its group moves."""
    found = []
    for group in structure.groups:
        for k, row in enumerate(group.scalings):
            others = {p for j, other in enumerate(group.scalings) if j != k for p in other}
            own = [o.place for o in group.occurrences if o.place in row and o.place not in others]
            pivot = min(own, key=lambda place: structure.first_use.get(place.path, 10**9))
            found.append((group, k, pivot))
    return sorted(found, key=lambda d: (structure.first_use.get(d[2].path, 10**9), d[0].id))


def _anchors(structure, group, k, pivot, anchor, settled) -> list[Place]:
    """The places whose norm a direction sets."""
    if anchor == "first":
        return [pivot]
    row = group.scalings[k]
    role = next(o.role for o in group.occurrences if o.place == pivot)
    chosen = []
    for occurrence in group.occurrences:
        place = occurrence.place
        alike = occurrence.role == role and row.get(place) == row[pivot]
        alike &= structure.is_bias(place.path) == structure.is_bias(pivot.path)
        alike &= place.path.split("/")[0] == pivot.path.split("/")[0]
        alone = all(place not in other for j, other in enumerate(group.scalings) if j != k)
        if alike and alone and _settled(structure, group, k, place, settled):
            chosen.append(place)
    return chosen or [pivot]


def _settled(structure, group, k, place, settled) -> bool:
    """Whether no scaling that is still to come moves an array, other than the one at hand."""
    for other in structure.groups:
        for j, row in enumerate(other.scalings):
            waiting = (other.id, j) not in settled | {(group.id, k)}
            if waiting and any(p.path == place.path and p != place for p in row):
                return False
    return True


def _sorted(structure, arrays, element, order, streams, anchor) -> Element:
    """Group after group, from the inputs on (by outgoing weights: from the outputs back)."""
    done: set[int] = set()
    for group in reversed(structure.groups) if order == "output" else structure.groups:
        done.add(group.atom)
        producers = {place.path for place in producer_places(structure, group)}
        if streams == "leave" and len(producers) > 1:
            continue
        ranks = _ranks(structure, arrays, group, order, anchor, done)
        still = identity(structure, len(ranks))
        step = Element({**still.permutations, group.id: ranks}, still.log_scales, structure)
        element = compose(step, element)
        touched = {o.path for o in group.occurrences}
        changed = {path: array for path, array in arrays.items() if path in touched}
        arrays = {**arrays, **moved(structure, changed, step)}
    return element


def _ranks(structure, arrays, group, order, anchor, done) -> np.ndarray:
    """The order of units: by the statistic, ties by all their numbers, then by index."""
    places = producer_places(structure, group)
    if order == "output":
        outgoing = [o.place for o in group.occurrences if o.role == "input"] or places
        outgoing = [p for p in outgoing if _in_order(structure, group, p, done)] or outgoing
        statistic = -_settled_rows(structure, arrays, group, outgoing[-1], done)[..., 0]
    elif order == "first":
        statistic = _settled_rows(structure, arrays, group, places[0], done)[..., 0]
    else:
        chosen = places[:1] if anchor == "first" else places
        statistic = _statistic(unit_rows(structure, arrays, group, chosen), order)
    keys = _digits(statistic)
    ranks = np.argsort(-keys, axis=-1, kind="stable")
    ordered = np.take_along_axis(keys, ranks, -1)
    tied = (ordered[..., 1:] == ordered[..., :-1]).any(-1)
    if tied.any():
        others = [o.place for o in group.occurrences if o.place not in places]
        rows = [_settled_rows(structure, arrays, group, p, done) for p in [*places, *others]]
        full = _digits(np.concatenate(rows, -1))
        for index in np.argwhere(tied):
            at = tuple(index)
            ranks[at] = np.lexsort([*-full[at].T[::-1], -keys[at]])
    return ranks


def _in_order(structure, group, place, done) -> bool:
    """Whether the other groups on an array have their order already."""
    for label in structure.labels(place.path):
        for leaf in leaves(label):
            free = leaf.atom in structure.by_atom and leaf.atom not in group.base
            if (
                place_of(leaf) != place
                and free
                and (leaf.atom not in done or leaf.atom == group.atom)
            ):
                return False
    return True


def _settled_rows(structure, arrays, group, place, done) -> np.ndarray:
    """A unit's numbers at a place; sorted where their order is not settled yet."""
    rows = unit_rows(structure, arrays, group, [place])
    return rows if _in_order(structure, group, place, done) else -np.sort(-rows, axis=-1)


def _statistic(rows: np.ndarray, order: str) -> np.ndarray:
    if order == "max":
        return rows.max(-1)
    if order == "mean":
        return rows.mean(-1)
    if order == "median":  # the lower one of an even count
        return np.partition(rows, (rows.shape[-1] - 1) // 2, -1)[..., (rows.shape[-1] - 1) // 2]
    return np.sqrt((rows**2).sum(-1))


def _digits(statistic: np.ndarray) -> np.ndarray:
    """Ten significant digits: equal norms stay equal whatever order they were summed in."""
    size = np.where(statistic == 0, 1.0, np.abs(statistic))
    scale = 10.0 ** (9 - np.floor(np.log10(size * (1 + 1e-12))))
    return np.round(statistic * scale) / scale
