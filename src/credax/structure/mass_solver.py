"""The least-mass problem: closed-form sweeps, a step over layers, Newton's method, a certificate.

Members are the last axis of every array here: sums over units then run over whole rows of members,
which is what makes thousands of small networks fast.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from credax.errors import InputError

Variable = tuple[int, int]
Logs = dict[Variable, np.ndarray]


class Term(NamedTuple):
    """Squares ``[axes..., members]`` and the variables on them: (name, exponent, axes)."""

    squares: np.ndarray
    uses: list[tuple[Variable, float, tuple[int, ...]]]

    def broadcast(self, value: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        """A variable ``[base..., units, members]`` with its axes where the term has them."""
        order = sorted(range(len(axes)), key=axes.__getitem__)
        shape = [1] * (self.squares.ndim - 1)
        for axis, size in zip(axes, value.shape, strict=False):
            shape[axis] = size
        return value.transpose([*order, len(axes)]).reshape(*shape, value.shape[-1])

    def field(self, logs: Logs):
        """``Σ e ℓ`` at every entry."""
        total = 0.0
        for name, exponent, axes in self.uses:
            total = total + exponent * self.broadcast(logs[name], axes)
        return total

    def gathered(self, entries: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        """Entries summed over all axes but a variable's, in that variable's order."""
        gone = tuple(i for i in range(entries.ndim - 1) if i not in axes)
        summed = entries.sum(gone) if gone else entries
        kept = sorted(axes)
        return summed.transpose([*(kept.index(axis) for axis in axes), len(axes)])


class Solution(NamedTuple):
    """What the sweeps found; ``value``, ``lower_bound`` and ``imbalance`` are ``[members]``."""

    value: np.ndarray
    lower_bound: np.ndarray
    logs: Logs
    sweeps: int
    imbalance: np.ndarray


@dataclass
class MassProblem:
    """All squared weights of a population, and the scalings that act on them."""

    members: int
    shapes: dict[Variable, tuple[int, ...]]
    terms: list[Term]
    touched: dict[Variable, list[tuple[int, float, tuple[int, ...]]]] = field(init=False)

    def __post_init__(self):
        self.touched = {name: [] for name in self.shapes}
        for number, term in enumerate(self.terms):
            for name, exponent, axes in term.uses:
                self.touched[name].append((number, exponent, axes))

    def zeros(self) -> Logs:
        """Logarithms of no scaling."""
        return {name: np.zeros((*shape, self.members)) for name, shape in self.shapes.items()}

    def masses(self, logs: Logs) -> list[np.ndarray]:
        """Every entry's mass after scaling."""
        return [t.squares * np.exp(2 * t.field(logs)) if t.uses else t.squares for t in self.terms]

    def total(self, entries: list[np.ndarray]) -> np.ndarray:
        """The sum over everything but members."""
        flat = [entry.reshape(-1, self.members).sum(0) for entry in entries]
        return np.sum(flat, 0) if flat else np.zeros(self.members)

    def by_exponent(self, name: Variable, masses) -> dict[float, np.ndarray]:
        """The mass at each unit of a variable, by the power in which it stands."""
        found: dict[float, np.ndarray] = {}
        for number, exponent, axes in self.touched[name]:
            here = self.terms[number].gathered(masses[number], axes)
            found[exponent] = found[exponent] + here if exponent in found else here
        return found

    def gradient(self, masses) -> Logs:
        """``Σ e m`` at every unit: incoming minus outgoing mass."""
        result = {}
        for name in self.shapes:
            parts = self.by_exponent(name, masses)
            result[name] = sum(e * mass for e, mass in parts.items())
        return result

    def imbalance(self, masses) -> np.ndarray:
        """``Σ|in - out| / mass``."""
        total = self.total(masses)
        unequal = self.total([np.abs(value) for value in self.gradient(masses).values()])
        return unequal / np.where(total > 0, total, 1)

    def moved(self, masses, name: Variable, step: np.ndarray) -> list[np.ndarray]:
        """The masses after one more step of one variable."""
        masses, factors = list(masses), {}
        for number, exponent, axes in self.touched[name]:
            if exponent not in factors:
                factors[exponent] = np.exp(2 * exponent * step)
            masses[number] = masses[number] * self.terms[number].broadcast(factors[exponent], axes)
        return masses

    def prune(self) -> tuple[np.ndarray, list[int]]:
        """Leave out units with mass on one side only, again and again; how many, and where."""
        count, names = np.zeros(self.members, int), set()
        changed = True
        while changed:
            changed = False
            for name in self.shapes:
                parts = self.by_exponent(name, [term.squares for term in self.terms])
                rising = sum(m for e, m in parts.items() if e > 0)
                falling = sum(m for e, m in parts.items() if e < 0)
                dead = np.broadcast_to(
                    (rising > 0) != (falling > 0), (*self.shapes[name], self.members)
                )  # pyright: ignore
                if np.any(dead):
                    changed = True
                    count += dead.reshape(-1, self.members).sum(0)
                    names.add(name[0])
                    self.terms = [_without(term, name, dead) for term in self.terms]
        return count, sorted(names)


def _without(term: Term, name: Variable, dead: np.ndarray) -> Term:
    squares = term.squares
    for other, _, axes in term.uses:
        if other == name:
            squares = np.where(term.broadcast(dead, axes), 0.0, squares)
    return term._replace(squares=squares)


def solve(problem: MassProblem, tolerance: float, most_sweeps: int) -> Solution:
    """Sweep until nearly balanced, finish by Newton, certify; an error where that fails."""
    logs, names = problem.zeros(), list(problem.shapes)
    halved = {name for term in problem.terms for name in _twice(term)}
    masses = problem.masses(logs)
    unequal = problem.imbalance(masses)
    for sweeps in range(most_sweeps + 1):
        if np.all(unequal <= 1e-4):
            found = _finish(problem, logs, sweeps)
            if np.all(found.value - found.lower_bound <= tolerance * found.value):
                return found
        for name in [*names, *reversed(names[:-1])]:
            step = _unit_step(problem.by_exponent(name, masses))
            step = 0.5 * step if name in halved else step
            logs[name] = logs[name] + step
            masses = problem.moved(masses, name, step)
        logs = _layer_step(problem, logs, masses, 5 if sweeps == 0 else 1)
        masses = problem.masses(logs)
        unequal = problem.imbalance(masses)
    raise InputError(
        f"the least mass was not reached in {most_sweeps} sweeps (imbalance {unequal.max():.1e}); "
        "pass a larger most_sweeps"
    )


def _finish(problem: MassProblem, logs: Logs, sweeps: int) -> Solution:
    """Newton's method from near the optimum: the error is squared at every step."""
    masses = problem.masses(logs)
    unequal = problem.imbalance(masses)
    for _ in range(4):
        if np.all(unequal <= 1e-13):
            break
        step = _potential(problem, masses)
        closer = {name: logs[name] + 0.5 * step[name] for name in logs}
        new_masses = problem.masses(closer)
        new = problem.imbalance(new_masses)
        if not np.all(new <= np.maximum(unequal, 1e-13)):
            break
        logs, unequal, masses = closer, new, new_masses
    value = problem.total(masses)
    return Solution(value, np.minimum(_lower_bound(problem, masses), value), logs, sweeps, unequal)


def _potential(problem: MassProblem, masses) -> Logs:
    """φ with ``Σ m e eᵀ φ = -Σ e m``: twice Newton's step, and what makes masses a flow."""
    gradient = problem.gradient(masses)
    return _conjugate_gradients(problem, masses, {k: -g for k, g in gradient.items()})


def _twice(term: Term) -> set[Variable]:
    """Variables that stand twice on one term: their units cannot be moved on their own."""
    names = [name for name, _, _ in term.uses]
    return {name for name in names if names.count(name) > 1}


def _unit_step(parts: dict[float, np.ndarray]) -> np.ndarray:
    """The step of each unit that minimises ``Σ_e m_e exp(2 e t)``."""
    exponents = sorted(parts)
    low, high = exponents[0], exponents[-1]
    falling, rising = parts[low], parts[high]
    alive = (rising > 0) & (falling > 0)
    ratio = np.where(alive, -low * falling, 1) / np.where(alive, high * rising, 1)
    step = np.log(ratio) / (2 * (high - low))
    if len(exponents) == 2:
        return step
    for _ in range(30):  # other powers too: Newton on a convex function of one number
        terms = {e: parts[e] * np.exp(2 * e * step) for e in exponents}
        slope = sum(2 * e * m for e, m in terms.items())
        curve = sum(4 * e * e * m for e, m in terms.items())
        step = step - np.clip(slope / np.where(curve > 0, curve, 1), -1, 1)  # pyright: ignore
    return step


def _layer_powers(problem: MassProblem) -> np.ndarray:
    """The power in which all units of each variable together stand on each term."""
    names = list(problem.shapes)
    powers = np.zeros((len(problem.terms), len(names)))
    for i, term in enumerate(problem.terms):
        for name, exponent, _ in term.uses:
            powers[i, names.index(name)] += exponent
    return powers


def _layer_step(problem: MassProblem, logs: Logs, masses, rounds: int) -> Logs:
    """One number for all units of a variable."""
    if not problem.shapes:
        return logs
    layers = np.stack([mass.reshape(-1, problem.members).sum(0) for mass in masses])
    shift = _layer_shift(_layer_powers(problem), layers, rounds)
    return {name: logs[name] + shift[i] for i, name in enumerate(problem.shapes)}


def _layer_shift(powers: np.ndarray, layers: np.ndarray, rounds: int) -> np.ndarray:
    """The steps ``[variables, members]`` of whole layers: in closed form on a chain, else Newton.

    On a chain the product of the layers' masses does not change, so that all become equal to their
    geometric mean at the optimum.
    """
    if _is_chain(powers):
        logs = 0.5 * np.log(_living(layers))
        return np.cumsum(logs.mean(0) - logs, axis=0)[:-1]
    shift = np.zeros((powers.shape[1], layers.shape[1]))
    now = layers
    for _ in range(rounds):
        gradient = 2 * powers.T @ now
        hessian = 4 * np.einsum("tv,tw,tm->vwm", powers, powers, now, optimize=True)
        step = -_solved(hessian, gradient)
        for _ in range(8):
            new = layers * np.exp(2 * powers @ (shift + step))
            worse = new.sum(0) > now.sum(0) * (1 + 1e-15)
            if not worse.any():
                break
            step = np.where(worse, step / 2, step)
        new = layers * np.exp(2 * powers @ (shift + step))
        better = new.sum(0) <= now.sum(0) * (1 + 1e-15)
        shift = shift + np.where(better, step, 0)
        now = np.where(better, new, now)
    return shift


def _living(layers: np.ndarray) -> np.ndarray:
    """The layers' masses, ones for a member with a layer of dead units: nothing to equalise."""
    return np.where((layers > 0).all(0), layers, 1.0)


def _is_chain(powers: np.ndarray) -> bool:
    """Whether variable i raises term i and lowers term i + 1, and nothing else acts."""
    terms, variables = powers.shape
    wanted = np.eye(terms, variables) - np.eye(terms, variables, -1)
    return terms == variables + 1 and bool(np.array_equal(powers, wanted))


def _solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """``matrix x = right`` for positive ``[n, n, members]``, with a tiny ridge."""
    ridge = 1e-13 * np.einsum("vvm->m", matrix) + 1e-300
    stacked = matrix.transpose(2, 0, 1) + ridge[:, None, None] * np.eye(len(matrix))
    return np.linalg.solve(stacked, right.T[..., None])[..., 0].T


def _lower_bound(problem: MassProblem, masses: list[np.ndarray]) -> np.ndarray:
    """A rigorous lower bound of the least mass (up to rounding) from a flow that conserves.

    For flows f ≥ 0 with ``Σ e f = 0`` at every unit, ``m* ≥ F exp(-E / F)`` with ``F = Σ f`` and
    ``E = Σ f log(f / m)``. Here ``f = m (1 + Σ e φ)`` with φ from one Laplacian solve.
    """
    potential = _potential(problem, masses)
    flow, energy, valid = [], [], np.ones(problem.members, bool)
    for term, mass in zip(problem.terms, masses, strict=True):
        part = np.asarray(term.field(potential) if term.uses else np.zeros_like(mass))
        valid &= np.greater(part, -1).reshape(-1, problem.members).all(0)
        part = np.maximum(part, -1 + 1e-15)
        flow.append(mass * (1 + part))
        energy.append(flow[-1] * np.log1p(part))
    total = problem.total(flow)
    share = problem.total(energy) / np.where(total > 0, total, 1)
    return np.where(valid, total * np.exp(-share), 0.0)


def _conjugate_gradients(problem: MassProblem, masses, right: Logs) -> Logs:
    """Solve ``Σ m e eᵀ φ = right`` for every member, preconditioned by the diagonal."""

    def times(x: Logs) -> Logs:
        pairs = zip(problem.terms, masses, strict=True)
        return problem.gradient([m * t.field(x) if t.uses else m for t, m in pairs])

    def dot(a: Logs, b: Logs) -> np.ndarray:
        return problem.total([a[k] * b[k] for k in a])

    diagonal = {}
    for name in problem.shapes:
        parts = problem.by_exponent(name, masses)
        total = sum(e * e * mass for e, mass in parts.items())
        diagonal[name] = np.where(total > 0, total, 1)  # pyright: ignore
    solution, residual = {k: np.zeros_like(v) for k, v in right.items()}, right
    scaled = {k: residual[k] / diagonal[k] for k in residual}
    direction, size = scaled, dot(residual, scaled)
    enough = 1e-29 * problem.total(masses)  # what is left moves the bound by less than this
    for _ in range(500):
        if np.all(size <= enough):
            break
        image = times(direction)
        bend = dot(direction, image)
        alpha = np.where(bend > 0, size / np.where(bend > 0, bend, 1), 0)
        solution = {k: solution[k] + alpha * direction[k] for k in solution}
        residual = {k: residual[k] - alpha * image[k] for k in residual}
        scaled = {k: residual[k] / diagonal[k] for k in residual}
        new = dot(residual, scaled)
        turn = np.where(size > 0, new / np.where(size > 0, size, 1), 0)
        direction = {k: scaled[k] + turn * direction[k] for k in scaled}
        size = new
    return solution
