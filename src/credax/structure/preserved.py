"""Are these still the same functions? Outputs before and after, in float64."""

import jax
import jax.numpy as jnp
import numpy as np

from credax.network import Variables
from credax.networks.convolution import using_implementation
from credax.structure.groups import Structure
from credax.structure.rows import Arrays
from credax.structure.verify import DOUBLE, SINGLE, SymmetryViolation, drawn_inputs


def check_preserved(structure: Structure, before: Arrays, after: Arrays, what: str) -> float:
    """The greatest change of an output over the greatest output; an error above 1e-10.

    ``before`` and ``after`` have a members axis and the same members. 1e-4 is allowed where the
    network computes in float32; nothing is judged without a network, under ``epsilon="ignore"``,
    or where outputs are not finite before. Cost: two evaluations of a few rows for each of two
    members, in the program that checked the trace.
    """
    if structure.network is None or structure.epsilon == "ignore":
        return 0.0
    members = len(next(iter(before.values())))
    tolerance = SINGLE if structure.single else DOUBLE
    worst = 0.0
    for index in sorted({0, members - 1} if members else ()):
        change = _change(structure, before, after, index)
        if change > tolerance:
            raise SymmetryViolation(
                f"{what} changed the outputs of member {index} by {change:.1e} relative where "
                f"{tolerance:.0e} is allowed; its weights may span too many magnitudes for "
                "float64, else please report the network; pass check=False to go on"
            )
        worst = max(worst, change)
    return worst


def _change(structure: Structure, before: Arrays, after: Arrays, index: int) -> float:
    with jax.enable_x64(True), using_implementation("native"):
        x = drawn_inputs(structure.example, 0)
        outputs = [
            jax.tree.leaves(structure.run(_variables(structure, arrays, index), x))
            for arrays in (before, after)
        ]
        if not all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in outputs[0]):
            return 0.0
        scale = max(float(jnp.max(jnp.abs(leaf))) for leaf in outputs[0])
        pairs = zip(*outputs, strict=True)
        change = max(float(jnp.max(jnp.abs(a - b))) for a, b in pairs)
    return change / scale if scale > 0 else float(change > 0)


def _variables(structure: Structure, arrays: Arrays, index: int) -> Variables:
    # Host arrays are in the order of the tree's leaves.
    return jax.tree.unflatten(structure.tree, [np.asarray(a)[index] for a in arrays.values()])
