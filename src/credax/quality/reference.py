"""How far a posterior's weights are from a reference population's, with and without symmetries."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from credax.errors import InputError, unknown
from credax.network import Variables
from credax.quality.mmd import Discrepancy, maximum_mean_discrepancy
from credax.structure import FORMS, Structure, StructureError, canonicalise, trace

SAMPLES = 100


def against_reference(
    posterior: Any,
    reference: Any,
    *,
    samples: int = SAMPLES,
    key: int = 0,
    runs: int | Sequence[int] | None = None,
    structure: Structure | None = None,
    permutations: int = 999,
    resamples: int = 1000,
) -> dict[str, float]:
    """MMD, NS and NS in the balanced form, in units of 10⁻¹, with intervals and p-values.

    For ``credax.evaluate(prediction, y, weights=...)``. ``ns_tenths`` is the MMD after scalings
    and permutations are removed by unit norms and sorting, ``ns_balanced_tenths`` after they are
    removed by least mass and sorting, which does not push all scale into the last layer.

    Args:
        posterior: a `Population`, or anything with ``sample(key, n)``.
        reference: a `Population` or a `credax.zoo.Zoo` of the same network, in memory as a whole.
            Its networks that are members of the posterior, number by number, are left out: a deep
            ensemble with the seed of the zoo is part of it.
        samples: networks drawn from a posterior that is not a population of its own.
        key: seed of draws and of resampling.
        runs: the run each network came from, or into how many equal runs they fall in order; by
            default each is a run of its own. Intervals resample runs and reference networks.
        structure: what `credax.structure.trace` says of the network; traced here if not given.
        permutations: relabellings for the p-values.
        resamples: bootstrap draws for the intervals.

    Cost: three times that of `maximum_mean_discrepancy`. Reference: Laurent et al. 2024, Table 1.
    """
    x = _members(posterior, samples, key)
    count = _count(x)
    if count < 2:
        raise InputError(
            f"the posterior has {count} network; its distance from a reference needs at least two"
        )
    y = _reference(reference, x)
    structure = structure or _traced(posterior, reference, x)
    options: dict[str, Any] = {
        "runs": _runs(runs, count),
        "permutations": permutations,
        "resamples": resamples,
        "repeats": 0,
        "per_array": False,
        "seed": key,
    }
    found = _columns("mmd", maximum_mean_discrepancy(x, y, **options))
    if structure is not None:
        for name, form in (("ns", None), ("ns_balanced", "balanced")):
            ns = discrepancy_without_symmetries(structure, x, y, form=form, **options)
            found |= _columns(name, ns)
    return {**found, "reference_networks": float(_count(y))}


def _columns(name: str, discrepancy: Discrepancy) -> dict[str, float]:
    found = {f"{name}_tenths": discrepancy.tenths}
    if discrepancy.interval is not None:
        found[f"{name}_low"] = 10 * discrepancy.interval.low
        found[f"{name}_high"] = 10 * discrepancy.interval.high
    if discrepancy.p_value is not None:
        found[f"{name}_p_value"] = discrepancy.p_value
    return found


def _count(variables: Variables) -> int:
    return int(jax.tree.leaves(variables)[0].shape[0])


def _members(posterior: Any, samples: int, key: int) -> Variables:
    found = getattr(posterior, "variables", None)
    # Where masks or noise are drawn on top of few networks, the networks are not the members.
    if isinstance(found, Variables) and _count(found) == getattr(posterior, "num_members", None):
        return jax.tree.map(np.asarray, found)
    return jax.tree.map(np.asarray, posterior.sample(jax.random.key(key), samples))


def _reference(reference: Any, x: Variables) -> Variables:
    """The reference's variables without the networks that are members of ``x``."""
    population = reference.population() if hasattr(reference, "population") else reference
    y: Variables = jax.tree.map(np.asarray, getattr(population, "variables", population))
    if jax.tree.structure(x) != jax.tree.structure(y) or _shapes(x) != _shapes(y):
        raise InputError(
            "reference is a population of another network than the posterior's: arrays differ in "
            "names or shapes; train one with the same network and options, as by credax zoo train"
        )
    own = set(_digests(x))
    kept = np.array([i for i, digest in enumerate(_digests(y)) if digest not in own], int)
    if len(kept) < 2:
        raise InputError(
            f"{len(kept)} networks of the reference are not members of the posterior itself; give "
            "a reference of at least two others"
        )
    return jax.tree.map(lambda leaf: leaf[kept], y)


def _shapes(variables: Variables) -> list[tuple[int, ...]]:
    return [leaf.shape[1:] for leaf in jax.tree.leaves(variables)]


def _digests(variables: Variables) -> list[int]:
    """One number per network, equal for equal params."""
    leaves = [np.ascontiguousarray(leaf) for leaf in jax.tree.leaves(variables.params)]
    return [hash(tuple(leaf[i].tobytes() for leaf in leaves)) for i in range(len(leaves[0]))]


def _traced(posterior: Any, reference: Any, x: Variables) -> Structure | None:
    """The network's structure; None where its operations or inputs are not known."""
    shape = getattr(posterior, "input_shape", None) or getattr(reference, "input_shape", None)
    if shape is None:
        return None
    one = jax.tree.map(lambda leaf: leaf[0], x)
    example = jax.ShapeDtypeStruct((2, *shape), "float32")
    try:
        return trace(posterior.problem.network, one, example, on_unknown="pin")
    except StructureError:
        return None


def _runs(runs: int | Sequence[int] | None, count: int) -> list[int] | None:
    if runs is None or not isinstance(runs, int):
        return runs if runs is None else list(runs)
    if runs < 1 or count % runs:
        raise InputError(f"runs is {runs} and there are {count} networks; they do not fall evenly")
    return [i // (count // runs) for i in range(count)]


def discrepancy_without_symmetries(
    structure: Structure, x: Any, y: Any, *, form: str | None = None, **options: Any
) -> Discrepancy:
    """MMD of two populations after every member is put into its canonical form ("NS").

    Both are scaled and sorted by `credax.structure.canonicalise`; scaling acts only where an
    activation is positively homogeneous. Under unit norms all scale ends in the last layer, which
    then dominates the whole vector: read ``per_array`` beside it, and ``form="balanced"``.

    Args:
        structure: what `credax.structure.trace` says of the network.
        x: a `Population`, or `Variables` with a members axis; in memory as a whole.
        y: the reference, of the same kind.
        form: a name of `credax.structure.FORMS`; by default unit norms, units and streams sorted
            by their maximum.
        options: those of `maximum_mean_discrepancy`.

    Reference: Laurent et al. 2024, Table 1.
    """
    if form is not None and form not in FORMS:
        raise unknown("form", form, FORMS)
    chosen = {} if form is None else FORMS[form]._asdict()
    plain = [canonicalise(structure, population, **chosen)[0] for population in (x, y)]
    return maximum_mean_discrepancy(*plain, **options)
