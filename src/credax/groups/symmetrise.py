"""Networks made equivariant from outside: averaged over the group, or canonicalised first."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from credax.errors import InputError, unknown
from credax.groups.action import Matrices, Representation, Trivial
from credax.network import Network, Variables

BATCHES = ("full", "closed", "random", "shuffled", "shared")


@jax.tree_util.register_static
@dataclass(frozen=True, eq=False)
class GroupAverage:
    """``mean_g ρ_Y(g)⁻¹ f(ρ_X(g) x)``: test-time averaging, exact for representations.

    Cost: the group's order times the network. Its variables are the network's own, so that a
    trained network can be averaged.
    """

    network: Network
    inputs: Representation
    output: Representation | None = None
    kind: ClassVar[str] = "group_average"

    def init(self, key, x) -> Variables:
        """The network's variables."""
        return self.network.init(key, x)

    def apply(self, variables, x, *, key=None, train=False):
        """The averaged outputs; the state is that of the untransformed rows."""
        group = self.inputs.group
        output = self.output or Trivial(group)
        total, state = 0.0, variables.state
        for element in range(group.order):
            turned = self.inputs.apply(element, x)
            outputs, new = self.network.apply(variables, turned, key=key, train=train)
            state = new if element == 0 else state
            total = total + output.apply(int(group.inverse[element]), outputs)
        return total / group.order, state


@jax.tree_util.register_static
@dataclass(frozen=True, eq=False)
class Canonicalised:
    """``ρ_Y(h) f(ρ_X(h)⁻¹ x)`` with ``h`` chosen by a learned score of every turned input.

    ``scorer`` gives one number per row; the element whose turned-back input scores best is taken,
    so that all inputs of an orbit share one canonical form (ties aside). In training the choice
    is passed straight through a softmax of sharpness ``sharpness``. Discontinuous where two
    elements score alike. References: Kaba et al. 2023; the score of each copy as in
    Mondal et al. 2023.
    """

    network: Network
    scorer: Network
    inputs: Representation
    output: Representation | None = None
    sharpness: float = 1.0
    kind: ClassVar[str] = "canonicalised"

    def init(self, key, x) -> Variables:
        """The variables of both networks."""
        parts = {"network": self.network, "scorer": self.scorer}
        each = {
            name: part.init(jax.random.fold_in(key, i), x)
            for i, (name, part) in enumerate(parts.items())
        }
        return Variables(
            {name: v.params for name, v in each.items()},
            {name: v.state for name, v in each.items()},
        )

    def apply(self, variables, x, *, key=None, train=False):
        """The network's outputs of the canonical forms, turned back."""
        group = self.inputs.group
        copies = jnp.stack(
            [self.inputs.apply(int(group.inverse[h]), x) for h in range(group.order)], axis=1
        )
        inner = {n: Variables(variables.params[n], variables.state[n]) for n in variables.params}
        flat = copies.reshape(-1, *copies.shape[2:])
        scores = self.scorer.apply(inner["scorer"], flat)[0].reshape(copies.shape[:2])
        choice = jax.nn.one_hot(jnp.argmax(scores, axis=1), group.order, dtype=scores.dtype)
        if train:
            soft = jax.nn.softmax(self.sharpness * scores, axis=1)
            choice = jax.lax.stop_gradient(choice - soft) + soft
        chosen = jnp.einsum("bg,bg...->b...", choice, copies.astype(choice.dtype))
        outputs, new = self.network.apply(inner["network"], chosen, key=key, train=train)
        state = {**variables.state, "network": new}
        if self.output is None:
            return outputs, state
        turned = jnp.stack([self.output.apply(h, outputs) for h in range(group.order)], axis=1)
        return jnp.einsum("bg,bgo->bo", choice, turned), state


def twin(
    params: dict[str, Any], element: int, inputs: Matrices, output: Matrices | None = None
) -> dict[str, Any]:
    """Parameters ``θ'`` of a dense network with ``f_θ'(x) = ρ_Y(g) f_θ(ρ_X(g)⁻¹ x)``.

    The first kernel ``[inputs, features]`` becomes ``ρ_X(g) W``, the last ``W ρ_Y(g)ᵀ`` and its
    bias ``ρ_Y(g) b``. Trained alike on augmented data the twins stay twins, if the whole pipeline
    keeps the symmetry: the deterministic test of one.
    """
    names = sorted(params)
    size = inputs.matrices.shape[1]
    if "kernel" not in params[names[0]] or np.shape(params[names[0]]["kernel"])[0] != size:
        raise InputError(
            f"params starts with {names[0]!r}, not with a dense layer of {size} inputs; twins are "
            "for dense networks on the vectors that the group turns"
        )
    moved = {name: dict(params[name]) for name in names}
    first, last = moved[names[0]], moved[names[-1]]
    first["kernel"] = jnp.asarray(inputs.matrices[element], first["kernel"].dtype) @ first["kernel"]
    if output is not None:
        turn = jnp.asarray(output.matrices[element], last["kernel"].dtype)
        last["kernel"] = last["kernel"] @ turn.T
        if "bias" in last:
            last["bias"] = turn @ last["bias"]
    return moved


def twin_ensemble(params: dict[str, Any], inputs: Matrices, output: Matrices | None = None):
    """All twins of a network, on a leading axis; their mean is its average over the group."""
    each = [twin(params, g, inputs, output) for g in range(inputs.group.order)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)


def pipeline_violations(
    representation: Representation,
    *,
    optimiser: str = "sgd",
    gaussian_start: bool = True,
    batches: str = "full",
    units: Any = None,
) -> list[str]:
    """One sentence for everything that keeps an augmented ensemble from being equivariant.

    ``batches`` is "full", "closed", "random" or "shuffled" (a fresh order for every member), or
    "shared" (one order for all members); ``units`` is the inputs' `credax.Standardise`.
    """
    if batches not in BATCHES:
        raise unknown("batches", batches, BATCHES)
    found = []
    kind = representation.kind
    if kind == "approximate":
        found.append("the action is no representation (interpolation): expect a plateau")
    if kind == "orthogonal" and optimiser in ("adam", "rmsprop"):
        found.append(
            f"{optimiser} acts entry by entry and does not commute with rotations: use sgd"
        )
    if kind == "orthogonal" and not gaussian_start:
        found.append("first-layer weights that are not Gaussian prefer the axes: use Gaussian ones")
    if batches == "shared":
        found.append("one order of batches for all members is a choice that breaks the symmetry")
    if (
        units is not None
        and np.size(units.mean) > 1
        and np.ptp(units.mean) + np.ptp(units.scale) > 0
    ):
        found.append(
            "inputs are standardised entry by entry, which the group does not commute with"
        )
    return found
