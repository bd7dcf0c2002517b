"""Numerical check of a traced structure: a random symmetry must leave random outputs alone."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from credax.files import tree_names
from credax.network import Variables
from credax.networks.convolution import using_implementation
from credax.structure.groups import Structure
from credax.structure.symmetry import apply, random
from credax.structure.units import Arrays
from credax.structure.values import StructureError

DOUBLE, SINGLE = 1e-10, 1e-4


class SymmetryViolation(StructureError):
    """A symmetry that the trace found does not leave the outputs alone."""


def verify_structure(structure: Structure, variables, x) -> Structure:
    """The structure with its measured error; raises `SymmetryViolation` if it does not hold.

    Random float64 variables and inputs, a random element of the whole group: the greatest change
    of an output, over the greatest output, is at most 1e-10 (1e-4 where the network computes in
    float32). With ``epsilon="ignore"`` the error is measured and not checked.
    """
    tolerance = SINGLE if structure.single else DOUBLE
    run = structure.run
    with jax.enable_x64(True), using_implementation("native"):
        drawn, inputs, plain = _evaluation(structure, run, variables, x)

        def error(groups=None) -> float:
            element = random(structure, 1, 0.3, groups=groups)
            moved = jax.tree.leaves(run(apply(structure, drawn, element), inputs))
            scale = max(float(jnp.max(jnp.abs(a))) for a in plain)
            return max(
                float(jnp.max(jnp.abs(a - b))) / scale for a, b in zip(plain, moved, strict=True)
            )

        found = error() if structure.groups else 0.0
        if found <= tolerance or structure.epsilon == "ignore":
            checked = dataclasses.replace(structure, error=found)
            checked.__dict__["run"] = run  # compiled already
            return checked
        for group in structure.groups:
            alone = error((group.id,))
            if not alone <= tolerance:
                where = ", ".join(dict.fromkeys(o.path for o in group.occurrences))
                raise SymmetryViolation(
                    f"the symmetry of group {group.id} ({group.size} units, in {where}) changes "
                    f"outputs by {alone:.1e} relative where {tolerance:.0e} is allowed; this is a "
                    "defect of a rule, so pass on_unknown='pin' or report the network"
                )
    raise SymmetryViolation(
        f"all symmetries together change outputs by {found:.1e} relative where {tolerance:.0e} is "
        "allowed, though each alone does not; please report the network"
    )


def check_preserved(structure: Structure, before: Arrays, after: Arrays, what: str) -> float:
    """The greatest change of an output over the greatest output; an error above 1e-10.

    ``before`` and ``after`` have a members axis and the same members. 1e-4 is allowed where the
    network computes in float32; nothing is checked without a network, under ``epsilon="ignore"``,
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


def has_single(jaxpr) -> bool:
    """Whether any array of the computation is of lower precision than float64."""
    low = (jnp.float32, jnp.float16, jnp.bfloat16)
    for equation in jaxpr.eqns:
        if any(getattr(v.aval, "dtype", None) in low for v in equation.outvars):
            return True
        for inner in jax.tree.leaves(list(equation.params.values())):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns") and has_single(inner):
                return True
    return False


def _evaluation(structure, run, variables, x):
    """Variables, inputs and outputs to compare: finite, and different for different rows."""
    attempts = 6
    for attempt in range(attempts):
        drawn = draw_variables(structure, variables, seed=attempt, positive=attempt == 3)
        if attempt == attempts - 1 and not _abstract(variables):
            drawn = jax.tree.map(_double, variables)
        inputs = drawn_inputs(x, attempt)
        outputs = jax.tree.leaves(run(drawn, inputs))
        finite = all(bool(jnp.all(jnp.isfinite(a))) for a in outputs)
        if finite and any(_varies(a) for a in outputs):
            return drawn, inputs, outputs
    raise SymmetryViolation(
        "outputs are not finite, or the same for all rows, for random variables, so the symmetries "
        "could not be checked; pass variables that are arrays, more rows in x, or verify=False"
    )


def _varies(outputs) -> bool:
    """Whether rows differ (one row: entries differ), so that saturation cannot hide a mistake."""
    axis = 0 if outputs.ndim and outputs.shape[0] > 1 else None
    range_ = jnp.max(outputs, axis) - jnp.min(outputs, axis)
    return float(jnp.max(range_)) > 1e-3 * float(jnp.max(jnp.abs(outputs)))


def _abstract(variables) -> bool:
    return any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(variables))


def _double(leaf):
    if jnp.issubdtype(leaf.dtype, jnp.floating):
        return np.asarray(leaf, np.float64)
    return leaf


def draw_variables(
    structure: Structure, variables, seed: int = 0, positive: bool = False
) -> Variables:
    """Random variables in float64: normal kernels over the root of their fan-in, the rest mixed.

    Running variances are positive; scales and biases take both signs. Numbers that are not
    floating-point, and counters without axes, stay.
    """
    generator = np.random.default_rng(seed)
    variances = {variance for _, variance in structure.pairs}
    drawn = []
    for name, leaf in zip(tree_names(variables), jax.tree.leaves(variables), strict=True):
        if not jnp.issubdtype(leaf.dtype, jnp.floating) or leaf.shape == ():
            given = not isinstance(leaf, jax.ShapeDtypeStruct)
            drawn.append(_double(leaf) if given else jnp.ones(leaf.shape, leaf.dtype))
            continue
        axes = structure.axes[name]
        noise = generator.standard_normal(leaf.shape)
        read = name in structure.contractions
        fan = np.prod([a.size for a in axes if a.role in ("input", "window")]) if read else 1
        array = noise / np.sqrt(fan) if read else 0.5 * noise + 0.7 * np.sign(noise)
        if name in variances or positive or (name.startswith("state/") and "var" in name):
            array = 0.5 + np.abs(noise)
        drawn.append(array)
    return jax.tree.unflatten(jax.tree.structure(variables), drawn)


def drawn_inputs(x, seed: int):
    """Normal numbers in the shape of the inputs, of at most four rows."""
    generator = np.random.default_rng(seed + 100)

    def draw(leaf):
        rows = min(leaf.shape[0], 4) if leaf.shape else 0
        shape = (rows, *leaf.shape[1:]) if leaf.shape else ()
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            return generator.standard_normal(shape)
        return (
            jnp.zeros(shape, leaf.dtype) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf[:rows]
        )

    return jax.tree.map(draw, x)
