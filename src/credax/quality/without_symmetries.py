"""NS: the discrepancy that is left when the symmetries of the weights are removed."""

from typing import Any

from credax.errors import unknown
from credax.quality.mmd import Discrepancy, maximum_mean_discrepancy
from credax.structure.canonical import FORMS, canonicalise
from credax.structure.groups import Structure


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
