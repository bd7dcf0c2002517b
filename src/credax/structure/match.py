"""Permuting the units of networks so that they agree with a reference as far as they can."""

from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.optimize import linear_sum_assignment

from credax.errors import InputError
from credax.keys import numpy_generator
from credax.structure.canonical import _with, moved, one, scaling
from credax.structure.groups import Structure
from credax.structure.symmetry import (
    Element,
    apply,
    compose,
    identity,
    is_population,
    random,
)
from credax.structure.units import Arrays, host_arrays, unit_rows

MOST_SWEEPS, MOST_ROUNDS = 50, 20


class MatchInfo(NamedTuple):
    """How well it went: the objective of every restart ``[members, restarts]``, and the best."""

    objective: np.ndarray
    best: np.ndarray
    before: np.ndarray


def match(
    structure: Structure,
    population: Any,
    reference: Any,
    *,
    scale: str = "none",
    restarts: int = 3,
    key: int | jax.Array = 0,
) -> tuple[Any, Element, MatchInfo]:
    """Each member permuted to maximise ``Σ ⟨reference, member⟩`` over learned arrays.

    Equivalently the least distance in weight space. Group by group with the others fixed this is a
    linear assignment; groups are visited in random order until none gains more than 1e-12. Exact
    for one hidden group, a local optimum otherwise, the best of ``restarts``. ``reference``:
    variables of one network, "medoid" (the member nearest all others as they are), or "mean"
    (match all to the mean and take it again, until no order changes). ``scale`` first removes
    scalings as `canonicalise` does; without it large rows dominate. Cost: O(units³) per group
    and sweep, member by member on the host.

    Reference: Ainsworth et al. 2023, Git Re-Basin.
    """
    variables = getattr(population, "variables", population)
    members = is_population(structure, variables)
    arrays = host_arrays(structure, variables)
    scaled = scaling(structure, arrays, scale, "all", 1.0)
    arrays = moved(structure, arrays, scaled)
    generator = numpy_generator(key)
    if isinstance(reference, str):
        element, info = _to_themselves(structure, arrays, reference, restarts, generator)
    else:
        target = host_arrays(structure, getattr(reference, "variables", reference))
        if len(next(iter(target.values()))) != 1:
            raise InputError("reference has several members; give one, 'medoid' or 'mean'")
        target = moved(structure, target, scaling(structure, target, scale, "all", 1.0))
        element, info = _to_one(structure, arrays, target, restarts, generator)
    element = compose(element, scaled)
    element = element if members else one(element)
    return _with(population, apply(structure, variables, element)), element, info


def _learned(arrays: Arrays) -> list[str]:
    return [path for path in arrays if path.startswith("params")]


def _objective(arrays: Arrays, target: Arrays) -> float:
    return float(sum((arrays[path] * target[path]).sum() for path in _learned(arrays)))


def _to_one(structure, arrays, target, restarts, generator) -> tuple[Element, MatchInfo]:
    members = len(next(iter(arrays.values())))
    elements, objectives, before = [], [], []
    for index in range(members):
        member = {path: array[index : index + 1] for path, array in arrays.items()}
        before.append(_objective(member, target))
        tries = [
            _ascend(structure, member, target, attempt, generator)
            for attempt in range(max(1, restarts))
        ]
        objectives.append([objective for _, objective in tries])
        elements.append(max(tries, key=lambda found: found[1])[0])
    permutations = {
        group.id: np.concatenate([e.permutations[group.id] for e in elements])
        for group in structure.groups
    }
    logs = identity(structure, members).log_scales
    table = np.array(objectives)
    info = MatchInfo(table, table.max(1), np.array(before))
    return Element(permutations, logs, structure), info


def _ascend(structure, member, target, attempt, generator) -> tuple[Element, float]:
    """Coordinate ascent, from where it stands or (after the first) from a random order."""
    element = identity(structure, 1)
    if attempt:
        element = random(structure, int(generator.integers(2**31)), 0.0, members=1)
    current = moved(structure, member, element)
    value = _objective(current, target)
    for _ in range(MOST_SWEEPS):
        start = value
        for number in generator.permutation(len(structure.groups)):
            group = structure.groups[number]
            step = _assignment(structure, current, target, group)
            before = {o.path: current[o.path] for o in group.occurrences}
            after = moved(structure, before, step)
            gain = _objective(after, target) - _objective(before, target)
            if gain > 1e-12 * abs(value):
                current, value = {**current, **after}, value + gain
                element = compose(step, element)
        if value <= start + 1e-12 * abs(start):
            break
    return element, value


def _assignment(structure, current, target, group) -> Element:
    """The order of one group that agrees best with the target, the others fixed."""
    places = [o.place for o in group.occurrences if o.path.startswith("params")]
    ours = unit_rows(structure, current, group, places)[0]
    theirs = unit_rows(structure, target, group, places)[0]
    score = np.einsum("...if,...jf->...ij", theirs, ours)
    order = np.empty(score.shape[:-1], int)
    for base in np.ndindex(score.shape[:-2]):
        order[base] = linear_sum_assignment(score[base], maximize=True)[1]
    still = identity(structure, 1)
    return Element({**still.permutations, group.id: order[None]}, still.log_scales, structure)


def _to_themselves(structure, arrays, kind, restarts, generator) -> tuple[Element, MatchInfo]:
    if kind == "medoid":
        flat = np.concatenate(
            [arrays[p].reshape(len(arrays[p]), -1) for p in _learned(arrays)], axis=1
        )
        gram = flat @ flat.T
        squares = np.diag(gram)[:, None] + np.diag(gram)[None] - 2 * gram
        centre = int(np.argmin(np.sqrt(np.maximum(squares, 0)).sum(1)))
        target = {path: array[centre : centre + 1] for path, array in arrays.items()}
        return _to_one(structure, arrays, target, restarts, generator)
    if kind != "mean":
        raise InputError(f"reference is {kind!r}; give variables of one network, medoid or mean")
    total = identity(structure, len(next(iter(arrays.values()))))
    target = {path: array[:1] for path, array in arrays.items()}
    step, info = _to_one(structure, arrays, target, restarts, generator)
    for _ in range(MOST_ROUNDS):
        arrays = moved(structure, arrays, step)
        total = compose(step, total)
        target = {path: array.mean(0, keepdims=True) for path, array in arrays.items()}
        step, info = _to_one(structure, arrays, target, restarts, generator)
        still = identity(structure, 1).permutations
        if all(np.all(step.permutations[name] == order) for name, order in still.items()):
            break
    return total, info


class Barrier(NamedTuple):
    """Losses along the line between two networks, and how far they rise above its ends.

    ``height = max_t loss(t) - ((1 - t) loss(0) + t loss(1))``.
    """

    positions: np.ndarray
    losses: np.ndarray
    height: float


def barrier(loss: Any, first: Any, second: Any, points: int = 11) -> Barrier:
    """The rise of ``loss(variables)`` along the straight line from one network to another.

    Arrays that are not floating-point are taken from the first. Cost: ``points`` evaluations.
    """
    positions = np.linspace(0, 1, points)

    def between(t):
        def mix(a, b):
            a, b = np.asarray(a), np.asarray(b)
            return (1 - t) * a + t * b if np.issubdtype(a.dtype, np.floating) else a

        return jax.tree.map(mix, first, second)

    losses = np.array([float(loss(between(t))) for t in positions])
    line = (1 - positions) * losses[0] + positions * losses[-1]
    return Barrier(positions, losses, float(np.max(losses - line)))
