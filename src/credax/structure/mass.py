"""The least squared weights of a network over all its scalings: its representation cost.

With ℓ = log λ the mass ``M(ℓ) = Σ w² exp(2 Σ e ℓ)`` is convex; at the optimum the mass that flows
into every hidden unit equals the mass that flows out. Scalings exist for positively homogeneous
activations only. Reference: Laurent et al. 2024 (the problem); solver and certificate are credax's.
"""

from typing import Any, NamedTuple

import numpy as np

from credax.errors import InputError
from credax.structure.canonical import directions, one
from credax.structure.groups import Structure, place_of
from credax.structure.mass_solver import MassProblem, Term, solve
from credax.structure.symmetry import Element, frame, identity, is_population
from credax.structure.units import Arrays, host_arrays
from credax.structure.views import MEMBERS, View, pieces

Variable = tuple[int, int]


class DegenerateMass(InputError):
    """The least mass is not attained: a direction shrinks weights for free."""


class MinimumMass(NamedTuple):
    """The least mass and the scaling that reaches it.

    ``lower_bound`` is rigorous up to rounding: ``value - lower_bound`` bounds the distance to the
    true minimum. ``mass`` is what came; ``imbalance`` is Σ|in - out| / mass at the end; ``dead``
    counts units without incoming or outgoing mass, which the minimum leaves out.
    """

    value: Any
    lower_bound: Any
    element: Element
    sweeps: int
    imbalance: Any
    mass: Any
    dead: Any


def minimum_mass(
    structure: Structure,
    population: Any,
    *,
    biases: bool = False,
    dead: str = "exclude",
    tolerance: float = 1e-12,
    most_sweeps: int = 100,
) -> MinimumMass:
    """The least ``‖T(ω, λ)‖²`` over λ > 0, for one network or a whole population at once.

    ``biases`` counts arrays that are only added. ``dead`` units are left out ("exclude") or an
    error ("raise"). Closed-form sweeps over units with one Newton step over layers per sweep; host,
    float64. Cost: about ten passes over the squared weights summed over windows and fixed axes.

    Batch norm makes the problem degenerate, because shrinking weights before it is free: an error
    that names the group, unless the structure was traced with ``statistics="held"``.

    >>> import jax, credax as cx
    >>> forward = lambda p, x: jax.nn.relu(x @ p["w1"].T) @ p["w2"].T
    >>> network = cx.FunctionNetwork(lambda key, x: {}, forward)
    >>> first, second = np.array([[3.0, 4.0], [0.0, 2.0]]), np.array([[1.0, 2.0], [2.0, 0.0]])
    >>> variables = cx.Variables({"w1": first, "w2": second}, {})
    >>> structure = cx.structure.trace(network, variables, np.zeros((3, 2)))
    >>> least = minimum_mass(structure, variables)
    >>> float(least.mass), round(float(least.value), 9)
    (38.0, 30.360679775)
    """
    if dead not in ("exclude", "raise"):
        raise InputError(f"dead is {dead!r}; choose exclude or raise")
    variables = getattr(population, "variables", population)
    _refuse_degenerate(structure, biases)
    arrays = host_arrays(structure, variables)
    problem = _problem(structure, arrays, biases, frozenset())
    gone, names = problem.prune()
    if dead == "raise" and gone.any():
        raise InputError(
            f"{int((gone > 0).sum())} of {len(gone)} networks have units without incoming or "
            f"outgoing weights (group {', '.join(map(str, names))}); remove them or pass "
            "dead='exclude'"
        )
    result = solve(problem, tolerance, most_sweeps)
    element = _element(structure, len(gone), result.logs)
    total = np.zeros(len(gone))
    for path, array in arrays.items():
        if _counted(structure, path, biases):
            total += (array**2).reshape(len(array), -1).sum(-1)
    found = MinimumMass(
        result.value, result.lower_bound, element, result.sweeps, result.imbalance, total, gone
    )
    if is_population(structure, variables):
        return found
    numbers = {name: getattr(found, name)[0] for name in ("value", "lower_bound", "imbalance")}
    return found._replace(**numbers, mass=total[0], dead=gone[0], element=one(element))


def excess(least: MinimumMass) -> Any:
    """How much heavier a network is than it need be, ``(‖ω‖² - m*) / m*``."""
    return (least.mass - least.value) / least.value


def imbalance(structure: Structure, population: Any, *, biases: bool = False) -> Any:
    """``Σ|in - out| / mass`` as the network is; 0 exactly at the least mass."""
    variables = getattr(population, "variables", population)
    arrays = host_arrays(structure, variables)
    problem = _problem(structure, arrays, biases, frozenset())
    value = problem.imbalance(problem.masses(problem.zeros()))
    return value if is_population(structure, variables) else value[0]


def unbounded_directions(structure: Structure) -> frozenset[Variable]:
    """Directions whose least mass is not attained on their own, or that cost nothing at all."""
    return frozenset(
        (group.id, k)
        for group, k, _ in directions(structure)
        if not {-1, 1} <= {int(np.sign(e)) for e in _exponents(structure, group, k, False)}
    )


def least_mass(structure: Structure, arrays: Arrays) -> Element:
    """The scaling of least mass, with the directions held whose least mass is not attained."""
    problem = _problem(structure, arrays, False, unbounded_directions(structure))
    gone, _ = problem.prune()
    return _element(structure, len(gone), solve(problem, 1e-12, 100).logs)


def _exponents(structure: Structure, group, k: int, biases: bool) -> list[float]:
    row = group.scalings[k]
    return [float(row[p]) for p in row if _counted(structure, p.path, biases)]


def _counted(structure: Structure, path: str, biases: bool) -> bool:
    return path.startswith("params") and (biases or not structure.is_bias(path))


def _refuse_degenerate(structure: Structure, biases: bool) -> None:
    """A direction, or a mixture of directions, along which the mass only shrinks."""
    from scipy.optimize import linprog

    variables = [(g.id, k) for g in structure.groups for k in range(len(g.scalings))]
    column = {name: i for i, name in enumerate(variables)}
    rows: dict[str, np.ndarray] = {}
    for group in structure.groups:
        for k, row in enumerate(group.scalings):
            for place, exponent in row.items():
                if _counted(structure, place.path, biases):
                    counted = rows.setdefault(place.path, np.zeros(len(variables)))
                    counted[column[group.id, k]] += float(exponent)
    if not rows:
        return
    matrix = np.array(list(rows.values()))
    if not matrix.sum(0).any():
        return  # where every fall is matched by a rise, some weight rises along every direction
    answer = linprog(matrix.sum(0), matrix, np.zeros(len(matrix)), bounds=(-1, 1))
    if answer.fun < -1e-9:
        number = variables[int(np.argmax(np.abs(answer.x)))][0]
        group = structure.groups[number]
        raise DegenerateMass(
            f"the least mass is not attained: units of group {number} ({group.size} units, made by "
            f"{', '.join(group.producers) or 'no kernel'}) can be shrunk for free, as in front of "
            "a batch norm; trace with statistics='held', or use canonicalise(scale='min_mass')"
        )


def _element(structure: Structure, members: int, logs: dict[Variable, np.ndarray]) -> Element:
    still = identity(structure, members)
    first = {name: np.moveaxis(value, -1, 0) for name, value in logs.items()}
    return Element(still.permutations, {**still.log_scales, **first}, structure)


def _problem(structure: Structure, arrays: Arrays, biases: bool, hold) -> MassProblem:
    """Squared weights summed over every axis that no variable moves."""
    shapes = {
        (group.id, k): (*group.base_sizes, group.size)
        for group in structure.groups
        for k in range(len(group.scalings))
        if (group.id, k) not in hold and _exponents(structure, group, k, biases)
    }
    members = len(next(iter(arrays.values())))
    terms = []
    for path, array in arrays.items():
        if not _counted(structure, path, biases):
            continue
        squares = np.square(array)
        labels, sizes = frame(structure, path, squares, True)
        terms += [_term(structure, view, shapes) for view in pieces(squares, labels, sizes)]
    return MassProblem(members, shapes, terms)


def _term(structure: Structure, view: View, shapes) -> Term:
    """One piece: squares, and which variable stands at which axes in which power."""
    uses = []
    for axis, leaf in enumerate(view.leaves):
        group = structure.by_atom.get(leaf.atom) if leaf is not None else None
        if leaf is None or group is None:
            continue
        for k, exponent in structure.exponents(group, place_of(leaf)):
            if (group.id, k) in shapes:
                axes = (*(view.axis(atom) for atom in group.base), axis)
                uses.append(((group.id, k), float(exponent), axes))
    kept = sorted({axis for _, _, axes in uses for axis in axes})
    first = view.axis(MEMBERS)
    gone = tuple(i for i in range(view.array.ndim) if i not in kept and i != first)
    squares = np.ascontiguousarray(np.moveaxis(view.array.sum(gone), 0, -1))
    number = {axis: i for i, axis in enumerate(kept)}
    return Term(squares, [(name, e, tuple(number[a] for a in axes)) for name, e, axes in uses])
