"""NS: the discrepancy that is left when the symmetries of the weights are removed."""

from typing import Any

from credax.quality.mmd import Discrepancy, maximum_mean_discrepancy

PUBLISHED = {"scale": "unit_norm", "order": "max"}


def discrepancy_without_symmetries(
    structure: Any, x: Any, y: Any, *, canonical: dict[str, Any] | None = None, **options: Any
) -> Discrepancy:
    """MMD of two populations after every member is put into its canonical form ("NS").

    Both are scaled and sorted by `credax.structure.canonical.canonicalise`; scaling acts only where
    an activation is positively homogeneous. Under ``unit_norm`` all scale ends in the last layer,
    which then dominates the whole vector: read ``per_array`` beside it.

    Args:
        structure: what `credax.structure.trace` says of the network.
        x: a `Population`.
        y: the reference, a `Population`.
        canonical: options of ``canonicalise``; by default unit norms and sorting by the maximum.
        options: those of `maximum_mean_discrepancy`.

    Reference: Laurent et al. 2024, Table 1.
    """
    from credax.structure.canonical import canonicalise  # pyright: ignore[reportMissingImports]

    chosen = PUBLISHED if canonical is None else canonical
    plain = [canonicalise(structure, population, **chosen)[0] for population in (x, y)]
    return maximum_mean_discrepancy(*plain, **options)
