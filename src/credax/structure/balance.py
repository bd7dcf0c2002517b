"""Least mass where every weight has one unit at either end: sweeps without a single logarithm.

With ``u = λ²`` a weight from unit j to unit i has mass ``a_ij u_i / u_j``; unit i is balanced by
``u_i = sqrt(Σ_k a_ki u_k / Σ_j a_ij / u_j)``. Both sums are kept, and taken again only when what
they are made of has changed.
"""

from typing import NamedTuple

import numpy as np

from credax.structure.sweeps import (
    Logs,
    Problem,
    Solution,
    Term,
    Variable,
    layer_factors,
    layer_powers,
    lower_bound,
)

LETTERS = "abcdefghijklmnopqrstuvwxy"
MEMBERS = "z"
SMALLEST_GAIN = 1e-18
"""Where balancing saves a smaller share of the mass, units are balanced to about its root."""
FIRST_LOOK = 6
"""Sweeps before anyone looks whether it is enough."""


class Edge(NamedTuple):
    """A term between two variables: ``head`` multiplies its weights, ``tail`` divides them."""

    term: Term
    head: Variable | None
    tail: Variable | None

    def axes(self, name: Variable | None) -> str:
        """The letters of a variable's axes in the term."""
        if name is None:
            return MEMBERS
        (found,) = (axes for other, _, axes in self.term.uses if other == name)
        return "".join(LETTERS[axis] for axis in found) + MEMBERS

    def summed(self, towards: Variable, other: Variable | None, factor) -> np.ndarray:
        """Squares times the other end's factor, summed to the units of ``towards``."""
        whole = LETTERS[: self.term.squares.ndim - 1] + MEMBERS
        if other is None:
            return np.einsum(f"{whole}->{self.axes(towards)}", self.term.squares)
        parts = f"{whole},{self.axes(other)}->{self.axes(towards)}"
        return np.einsum(parts, self.term.squares, factor)


def edges_of(problem: Problem) -> list[Edge] | None:
    """The terms as edges; None where one has other powers, or a variable twice."""
    found = []
    for term in problem.terms:
        heads = [name for name, exponent, _ in term.uses if exponent == 1]
        tails = [name for name, exponent, _ in term.uses if exponent == -1]
        plain = len(heads) + len(tails) == len(term.uses)
        if not plain or len(heads) > 1 or len(tails) > 1 or heads == tails != []:
            return None
        found.append(Edge(term, heads[0] if heads else None, tails[0] if tails else None))
    return found


class Balance:
    """Factors ``u`` of all variables and the sums around them, in one place for the sweeps."""

    def __init__(self, problem: Problem, edges: list[Edge]):
        self.problem, self.edges = problem, edges
        self.names = list(problem.shapes)
        members = problem.members
        self.factors = {n: np.ones((*shape, members)) for n, shape in problem.shapes.items()}
        self.inverses = {name: factor.copy() for name, factor in self.factors.items()}
        self.entering = {name: [e for e in edges if e.head == name] for name in self.names}
        self.leaving = {name: [e for e in edges if e.tail == name] for name in self.names}
        self.sums: dict[tuple[int, str], np.ndarray] = {}
        self.dead: dict[Variable, np.ndarray | None] = {}

    def incoming(self, name: Variable) -> np.ndarray:
        """``Σ_j a_ij / u_j``."""
        return _added([self._sum(edge, "in") for edge in self.entering[name]])

    def outgoing(self, name: Variable) -> np.ndarray:
        """``Σ_k a_ki u_k``."""
        return _added([self._sum(edge, "out") for edge in self.leaving[name]])

    def _sum(self, edge: Edge, side: str) -> np.ndarray:
        key = (id(edge.term.squares), side)
        if key not in self.sums:
            if side == "in":
                other = edge.tail
                factor = None if other is None else self.inverses[other]
                self.sums[key] = edge.summed(edge.head, other, factor)  # pyright: ignore[reportArgumentType]
            else:
                other = edge.head
                factor = None if other is None else self.factors[other]
                self.sums[key] = edge.summed(edge.tail, other, factor)  # pyright: ignore[reportArgumentType]
        return self.sums[key]

    def settle(self, name: Variable) -> None:
        """Balance every unit of a variable."""
        rising, falling = self.incoming(name), self.outgoing(name)
        if name not in self.dead:
            # Weights without a head or tail have no mass at all where a unit is dead.
            alive = (rising > 0) & (falling > 0)
            self.dead[name] = None if alive.all() else ~alive
        dead = self.dead[name]
        if dead is not None:
            rising, falling = np.where(dead, 1, rising), np.where(dead, 1, falling)
        ratio = np.divide(falling, rising)
        self.factors[name] = np.sqrt(ratio, out=ratio)
        self.inverses[name] = np.divide(1, ratio)
        self._forget(name)

    def saving(self) -> np.ndarray:
        """What balancing one variable after another would save, as a share of the mass.

        ``u A + B / u`` falls to ``2 sqrt(A B)``: the saving is a square, so that nothing cancels.
        """
        saved = np.zeros(self.problem.members)
        for name in self.names:
            rising, falling = self.incoming(name), self.outgoing(name)
            inner = np.sqrt(self.factors[name] * rising) - np.sqrt(self.inverses[name] * falling)
            saved += _over_units(inner, inner)
        return saved / np.where((total := self.layers().sum(0)) > 0, total, 1)

    def _forget(self, name: Variable) -> None:
        for edge in self.entering[name]:
            self.sums.pop((id(edge.term.squares), "out"), None)
        for edge in self.leaving[name]:
            self.sums.pop((id(edge.term.squares), "in"), None)

    def scale(self, name: Variable, factor: np.ndarray) -> None:
        """Multiply all units of a variable by one factor a member; kept sums follow."""
        self.factors[name] = self.factors[name] * factor
        self.inverses[name] = self.inverses[name] / factor
        for edges, side, by in (
            (self.entering[name], "out", factor),
            (self.leaving[name], "in", 1 / factor),
        ):
            for edge in edges:
                key = (id(edge.term.squares), side)
                if key in self.sums:
                    self.sums[key] = self.sums[key] * by

    def layers(self) -> np.ndarray:
        """The mass of every term ``[terms, members]``, from the sums at its head or tail."""
        found = []
        for edge in self.edges:
            if edge.head is not None:
                found.append(_over_units(self._sum(edge, "in"), self.factors[edge.head]))
            elif edge.tail is not None:
                found.append(_over_units(self._sum(edge, "out"), self.inverses[edge.tail]))
            else:
                found.append(edge.term.squares.reshape(-1, self.problem.members).sum(0))
        return np.stack(found)

    def logs(self) -> Logs:
        """``ℓ = log λ = log(u) / 2``."""
        return {name: 0.5 * np.log(factor) for name, factor in self.factors.items()}


def _added(parts: list[np.ndarray]) -> np.ndarray:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _over_units(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``Σ a b`` over all but members."""
    members = a.shape[-1]
    return np.einsum("am,am->m", a.reshape(-1, members), b.reshape(-1, members))


def solve_balance(problem: Problem, tolerance: float, most_sweeps: int) -> Solution | None:
    """Sweep until balanced and certify; None where the graph or the gap asks for more."""
    edges = edges_of(problem)
    if not edges or not problem.shapes:
        return None
    state = Balance(problem, edges)
    if not all(state.entering[name] and state.leaving[name] for name in state.names):
        return None
    powers = layer_powers(problem)
    for sweep in range(1, most_sweeps + 1):
        for name in state.names:
            state.settle(name)
        for name in reversed(state.names[:-1]):
            state.settle(name)
        if sweep >= FIRST_LOOK and np.all(state.saving() <= SMALLEST_GAIN):
            return _certified(problem, state, tolerance, sweep)
        factors = layer_factors(powers, state.layers(), 5 if sweep == 1 else 1)
        for name, factor in zip(state.names, factors, strict=True):
            state.scale(name, factor)
    return None


def _certified(problem, state: Balance, tolerance: float, sweeps: int) -> Solution | None:
    masses = state_masses(state)
    value = problem.total(masses)
    flow = _routed(state, masses)
    bound = lower_bound(problem, masses) if flow is None else _flow_bound(problem, masses, flow)
    bound = np.minimum(bound, value)
    if not np.all(value - bound <= tolerance * value):
        return None
    return Solution(value, bound, state.logs(), sweeps, problem.imbalance(masses))


def state_masses(state: Balance) -> list[np.ndarray]:
    """Every entry's mass."""
    found = []
    for edge in state.edges:
        mass = edge.term.squares
        for name, exponent, axes in edge.term.uses:
            factor = state.factors[name] if exponent > 0 else state.inverses[name]
            mass = mass * edge.term.spread(factor, axes)
        found.append(mass)
    return found


def _routed(state: Balance, masses: list[np.ndarray]) -> list[np.ndarray] | None:
    """A flow that conserves at every unit: outflows kept, inflows scaled to them, from the end.

    None where the graph has a cycle (a residual stream), which has no end to begin at.
    """
    order = _from_the_end(state)
    if order is None:
        return None
    flow = list(masses)
    for name in order:
        out: np.ndarray | float = 0.0
        into: np.ndarray | float = 0.0
        for number, edge in enumerate(state.edges):
            (axes,) = [a for n, _, a in edge.term.uses if n == name] or [None]
            if axes is None:
                continue
            here = edge.term.gathered(flow[number], axes)
            out, into = (out + here, into) if edge.tail == name else (out, into + here)
        ratio = np.where(into > 0, out / np.where(into > 0, into, 1), 0)
        for number, edge in enumerate(state.edges):
            if edge.head == name:
                (axes,) = [a for n, _, a in edge.term.uses if n == name]
                flow[number] = flow[number] * edge.term.spread(ratio, axes)
    return flow


def _from_the_end(state: Balance) -> list[Variable] | None:
    waiting = {n: {e.head for e in state.leaving[n]} - {None} for n in state.names}
    order: list[Variable] = []
    while waiting:
        ready = [name for name, later in waiting.items() if later <= set(order)]
        if not ready:
            return None
        order += ready
        waiting = {n: later for n, later in waiting.items() if n not in ready}
    return order


def _flow_bound(problem: Problem, masses, flow) -> np.ndarray:
    """``F exp(-E / F)`` with ``F = Σ f`` and ``E = Σ f log(f / m)``."""
    total = problem.total(flow)
    energy = [
        f * np.log(np.divide(f, m, out=np.ones_like(f), where=m > 0))
        for f, m in zip(flow, masses, strict=True)
    ]
    share = problem.total(energy) / np.where(total > 0, total, 1)
    return total * np.exp(-share)
