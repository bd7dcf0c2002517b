"""The solver of least mass: closed-form sweeps, a step over layers, and a certificate."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from credax.errors import InputError

Variable = tuple[int, int]
Logs = dict[Variable, np.ndarray]


class Term(NamedTuple):
    """Squares ``[members, axes...]`` and the variables on them: (name, exponent, axes)."""

    squares: np.ndarray
    uses: list[tuple[Variable, float, tuple[int, ...]]]

    def spread(self, value: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        """A variable ``[members, base..., units]`` with its axes where the term has them."""
        targets = (0, *axes)
        order = sorted(range(len(targets)), key=targets.__getitem__)
        shape = [1] * self.squares.ndim
        for target, size in zip(targets, value.shape, strict=True):
            shape[target] = size
        return value.transpose(order).reshape(shape)

    def field(self, logs: Logs):
        """``Σ e ℓ`` at every entry."""
        total = 0.0
        for name, exponent, axes in self.uses:
            total = total + exponent * self.spread(logs[name], axes)
        return total

    def gathered(self, entries: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        """Entries summed over all axes but a variable's, in that variable's order."""
        kept = sorted(axes)
        gone = tuple(i for i in range(1, entries.ndim) if i not in kept)
        summed = entries.sum(gone)
        return summed.transpose([0, *(1 + kept.index(axis) for axis in axes)])


class Solution(NamedTuple):
    """What the sweeps found."""

    value: np.ndarray
    lower_bound: np.ndarray
    logs: Logs
    sweeps: int
    imbalance: np.ndarray


@dataclass
class Problem:
    """All squared weights of a population, and the scalings that act on them."""

    members: int
    shapes: dict[Variable, tuple[int, ...]]
    terms: list[Term]

    def zeros(self) -> Logs:
        """Logarithms of no scaling."""
        return {name: np.zeros((self.members, *shape)) for name, shape in self.shapes.items()}

    def masses(self, logs: Logs) -> list[np.ndarray]:
        """Every entry's mass after scaling."""
        return [t.squares * np.exp(2 * t.field(logs)) if t.uses else t.squares for t in self.terms]

    def total(self, masses: list[np.ndarray]) -> np.ndarray:
        """The mass of each member."""
        flat = [mass.reshape(self.members, -1).sum(-1) for mass in masses]
        return np.sum(flat, 0) if flat else np.zeros(self.members)

    def by_exponent(self, name: Variable, masses) -> dict[float, np.ndarray]:
        """The mass at each unit of a variable, by the power in which it stands."""
        found: dict[float, np.ndarray] = {}
        for term, mass in zip(self.terms, masses, strict=True):
            for other, exponent, axes in term.uses:
                if other == name:
                    here = term.gathered(mass, axes)
                    found[exponent] = found[exponent] + here if exponent in found else here
        return found

    def gradient(self, masses) -> Logs:
        """``Σ e m`` at every unit: incoming minus outgoing mass."""
        result = {}
        for name in self.shapes:
            parts = self.by_exponent(name, masses)
            result[name] = np.sum([e * mass for e, mass in parts.items()], axis=0)
        return result

    def imbalance(self, masses) -> np.ndarray:
        """``Σ|in - out| / mass``."""
        total = self.total(masses)
        parts = [
            np.abs(g).reshape(self.members, -1).sum(-1) for g in self.gradient(masses).values()
        ]
        return np.sum(parts, 0) / np.where(total > 0, total, 1) if parts else 0 * total

    def prune(self) -> tuple[np.ndarray, list[int]]:
        """Leave out units with mass on one side only, again and again; how many, and where."""
        count, names = np.zeros(self.members, int), set()
        changed = True
        while changed:
            changed, masses = False, [term.squares for term in self.terms]
            for name in self.shapes:
                parts = self.by_exponent(name, masses)
                rising = np.sum([m for e, m in parts.items() if e > 0], axis=0)
                falling = np.sum([m for e, m in parts.items() if e < 0], axis=0)
                dead = (rising > 0) != (falling > 0)
                if np.any(dead):
                    changed = True
                    count += dead.reshape(self.members, -1).sum(-1)
                    names.add(name[0])
                    self.terms = [_without(term, name, dead) for term in self.terms]
                    masses = [term.squares for term in self.terms]
        return count, sorted(names)


def _without(term: Term, name: Variable, dead: np.ndarray) -> Term:
    squares = term.squares
    for other, _, axes in term.uses:
        if other == name:
            squares = np.where(term.spread(dead, axes), 0.0, squares)
    return term._replace(squares=squares)


def solve(problem: Problem, tolerance: float, most_sweeps: int) -> Solution:
    """Sweep until nearly balanced, finish by Newton, certify; an error where that fails."""
    logs, names = problem.zeros(), list(problem.shapes)
    halved = {name for term in problem.terms for name in _twice(term)}
    unequal = problem.imbalance(problem.masses(logs))
    for sweeps in range(most_sweeps + 1):
        unequal = problem.imbalance(problem.masses(logs))
        if np.all(unequal <= 1e-5):
            found = _finish(problem, logs, sweeps)
            if np.all(found.value - found.lower_bound <= tolerance * found.value):
                return found
        for name in [*names, *reversed(names[:-1])]:
            step = _unit_step(problem.by_exponent(name, problem.masses(logs)))
            logs[name] = logs[name] + (0.5 * step if name in halved else step)
        logs = _layer_step(problem, logs)
    raise InputError(
        f"the least mass was not reached in {most_sweeps} sweeps (imbalance {unequal.max():.1e}); "
        "pass a larger most_sweeps"
    )


def _finish(problem: Problem, logs: Logs, sweeps: int) -> Solution:
    """Newton's method from near the optimum: the error is squared at every step."""
    unequal = problem.imbalance(problem.masses(logs))
    for _ in range(3):
        masses = problem.masses(logs)
        step = _potential(problem, masses)
        closer = {name: logs[name] + 0.5 * step[name] for name in logs}
        new = problem.imbalance(problem.masses(closer))
        if not np.all(new <= unequal):
            break
        logs, unequal = closer, new
        if np.all(unequal <= 1e-13):
            break
    masses = problem.masses(logs)
    value = problem.total(masses)
    return Solution(value, np.minimum(lower_bound(problem, masses), value), logs, sweeps, unequal)


def _potential(problem: Problem, masses) -> Logs:
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
    step = np.where(alive, np.log(np.where(alive, ratio, 1)), 0.0) / (2 * (high - low))
    if len(exponents) == 2:
        return step
    for _ in range(30):  # other powers too: Newton on a convex function of one number
        terms = {e: parts[e] * np.exp(2 * e * step) for e in exponents}
        slope = sum(2 * e * m for e, m in terms.items())
        curve = sum(4 * e * e * m for e, m in terms.items())
        step = step - np.clip(slope / np.where(curve > 0, curve, 1), -1, 1)
    return step


def _layer_step(problem: Problem, logs: Logs) -> Logs:
    """One number for all units of a variable: damped Newton, at most five steps."""
    names = list(problem.shapes)
    if not names:
        return logs
    powers = np.zeros((len(problem.terms), len(names)))
    for i, term in enumerate(problem.terms):
        for name, exponent, _ in term.uses:
            powers[i, names.index(name)] += exponent
    masses = problem.masses(logs)
    layers = np.stack([m.reshape(problem.members, -1).sum(-1) for m in masses], -1)
    shift = np.zeros((problem.members, len(names)))

    def total(s):
        return (layers * np.exp(2 * s @ powers.T)).sum(-1)

    for _ in range(5):
        now = layers * np.exp(2 * shift @ powers.T)
        gradient = 2 * now @ powers
        hessian = 4 * np.einsum("mt,tv,tw->mvw", now, powers, powers)
        ridge = 1e-13 * np.trace(hessian, axis1=1, axis2=2)[:, None, None] + 1e-300
        step = -np.linalg.solve(hessian + ridge * np.eye(len(names)), gradient[..., None])[..., 0]
        for _ in range(8):
            worse = total(shift + step) > total(shift) * (1 + 1e-15)
            if not worse.any():
                break
            step = np.where(worse[:, None], step / 2, step)
        worse = total(shift + step) > total(shift) * (1 + 1e-15)
        shift = shift + np.where(worse[:, None], 0, step)
    result = {}
    for i, name in enumerate(names):
        shape = (problem.members, *(1,) * len(problem.shapes[name]))
        result[name] = logs[name] + shift[:, i].reshape(shape)
    return result


def lower_bound(problem: Problem, masses: list[np.ndarray]) -> np.ndarray:
    """A rigorous lower bound of the least mass (up to rounding) from a flow that conserves.

    For flows f ≥ 0 with ``Σ e f = 0`` at every unit, ``m* ≥ F exp(-E / F)`` with ``F = Σ f`` and
    ``E = Σ f log(f / m)``. Here ``f = m (1 + Σ e φ)`` with φ from one Laplacian solve.
    """
    potential = _potential(problem, masses)
    flow, energy = np.zeros(problem.members), np.zeros(problem.members)
    valid = np.ones(problem.members, bool)
    for term, mass in zip(problem.terms, masses, strict=True):
        part = np.broadcast_to(term.field(potential), mass.shape)
        valid &= (part > -1).reshape(problem.members, -1).all(-1)
        part = np.maximum(part, -1 + 1e-15)
        flow += (mass * (1 + part)).reshape(problem.members, -1).sum(-1)
        energy += (mass * (1 + part) * np.log1p(part)).reshape(problem.members, -1).sum(-1)
    safe = np.where(flow > 0, flow, 1)
    return np.where(valid, flow * np.exp(-energy / safe), 0.0)


def _conjugate_gradients(problem: Problem, masses, right: Logs) -> Logs:
    """Solve ``Σ m e eᵀ φ = right`` for every member, preconditioned by the diagonal."""

    def times(x: Logs) -> Logs:
        fields = [m * t.field(x) for t, m in zip(problem.terms, masses, strict=True) if t.uses]
        terms = [t for t in problem.terms if t.uses]
        return Problem(problem.members, problem.shapes, terms).gradient(fields)

    def dot(a: Logs, b: Logs) -> np.ndarray:
        return np.sum([(a[k] * b[k]).reshape(problem.members, -1).sum(-1) for k in a], axis=0)

    def along(scale: np.ndarray, x: Logs) -> Logs:
        return {k: scale.reshape(-1, *(1,) * (v.ndim - 1)) * v for k, v in x.items()}

    diagonal = {}
    for name in problem.shapes:
        parts = problem.by_exponent(name, masses)
        total = np.sum([e * e * mass for e, mass in parts.items()], axis=0)
        diagonal[name] = np.where(total > 0, total, 1)
    solution = {k: np.zeros_like(v) for k, v in right.items()}
    if not solution:
        return solution
    residual = right
    scaled = {k: residual[k] / diagonal[k] for k in residual}
    direction, size = scaled, dot(residual, scaled)
    start = size
    for _ in range(500):
        if np.all(size <= 1e-26 * start + 1e-300):
            break
        image = times(direction)
        bend = dot(direction, image)
        alpha = np.where(bend > 0, size / np.where(bend > 0, bend, 1), 0)
        step = along(alpha, direction)
        solution = {k: solution[k] + step[k] for k in solution}
        back = along(alpha, image)
        residual = {k: residual[k] - back[k] for k in residual}
        scaled = {k: residual[k] / diagonal[k] for k in residual}
        new = dot(residual, scaled)
        turn = along(np.where(size > 0, new / np.where(size > 0, size, 1), 0), direction)
        direction = {k: scaled[k] + turn[k] for k in scaled}
        size = new
    return solution
