"""What lives beside the weights and moves against them: gradients, momenta, second moments."""

import jax

from credax.errors import InputError
from credax.files import tree_names
from credax.network import Variables
from credax.structure.groups import Structure
from credax.structure.symmetry import Element, is_population, moved_array


def apply_dual(
    structure: Structure, gradients: Variables, element: Element, *, power: int = 1
) -> Variables:
    """Gradients of the weights, moved as a symmetry moves the weights.

    Where ``apply`` multiplies a weight by λ, its gradient is divided by it:
    ``∇L(T ω) = T⁻ᵀ ∇L(ω)``. Hand it what an optimiser keeps, in the shape of the variables, when a
    network in training is moved: momentum with ``power=1``, squared gradients with ``power=2``.
    Units are permuted as those of the weights. Exact for plain momentum; the steps of an optimiser
    that divides by its second moments are not invariant under scalings, whatever is carried.

    >>> import credax as cx
    >>> from credax.structure import random, trace
    >>> network, x = cx.networks.MLP((4,), outputs=2), jax.numpy.ones((3, 2))
    >>> variables = network.init(jax.random.key(0), x)
    >>> structure = trace(network, variables, x)
    >>> moved = apply_dual(structure, variables, random(structure, 1))
    >>> moved.params["0_dense"]["kernel"].shape
    (2, 4)
    """
    if power < 1:
        raise InputError(f"power is {power}; give 1 for gradients and momenta, 2 for their squares")
    population = is_population(structure, gradients)
    if element.batched and not population:
        raise InputError(
            "element has a members axis and gradients have none; give one element, or gradients of "
            "every member"
        )
    logs = {name: -power * value for name, value in element.log_scales.items()}
    against = Element(element.permutations, logs, structure)
    names, (arrays, tree) = tree_names(gradients), jax.tree.flatten(gradients)
    moved = [
        moved_array(structure, name, array, against, population, shifted=False)
        for name, array in zip(names, arrays, strict=True)
    ]
    return jax.tree.unflatten(tree, moved)
