"""Irreducible representations, and covariances on orbits from the original rows alone."""

import numpy as np
import pytest

from credax import groups, infinite
from credax.errors import InputError

RNG = np.random.default_rng(0)
GROUPS = {
    "C1": groups.Group.cyclic(1),
    "C5": groups.Group.cyclic(5),
    "D4": groups.Group.dihedral(4),
    "C4 x C3": groups.Group.direct_product(groups.Group.cyclic(4), groups.Group.cyclic(3)),
    "octahedral": groups.Group.octahedral(),
    "icosahedral": groups.Group.icosahedral(),
}
SIZES = {  # of the irreducible representations, by the character tables
    "C1": [1],
    "C5": [1] * 5,
    "D4": [1, 1, 1, 1, 2],
    "C4 x C3": [1] * 12,
    "octahedral": [1, 1, 2, 3, 3],
    "icosahedral": [1, 3, 3, 4, 5],
}


@pytest.mark.parametrize("name", GROUPS)
def test_irreducible_representations(name):
    """Sizes of the tables, homomorphisms, unitary, orthogonal characters, one per class."""
    group = GROUPS[name]
    found = groups.irreps(group)
    assert [matrices.shape[1] for matrices in found] == SIZES[name]
    assert len(found) == len(group.classes())
    np.testing.assert_allclose(found[0], 1, atol=1e-12)
    for matrices in found:
        products = np.einsum("gij,hjk->ghik", matrices, matrices)
        np.testing.assert_allclose(products, matrices[group.product], atol=1e-10)
        back = matrices @ matrices.conj().transpose(0, 2, 1)
        np.testing.assert_allclose(
            back, np.broadcast_to(np.eye(len(back[0])), back.shape), atol=1e-10
        )
    characters = np.stack([np.einsum("gii->g", matrices) for matrices in found])
    overlaps = characters.conj() @ characters.T / group.order
    np.testing.assert_allclose(overlaps, np.eye(len(found)), atol=1e-10)


class OnFlatInputs:
    """A kernel of flattened lattices."""

    def __init__(self, net):
        self.net = net

    def kernels(self, x1, x2=None):
        flat = lambda x: x.reshape(len(x), -1)  # noqa: E731
        return self.net.kernels(flat(x1), None if x2 is None else flat(x2))


def kernel():
    layer, relu = infinite.InfiniteDense(8, 2**0.5, 0.1), infinite.ReLU()
    return OnFlatInputs(
        infinite.serial(layer, relu, layer, relu, infinite.InfiniteDense(1, 2**0.5, 0.1))
    )


def case(name):
    """A representation, rows with a fixed point where lattices have one, and points elsewhere."""
    if name == "C5":
        turns = groups.plane_rotations(5)
        return turns, RNG.standard_normal((4, 2)), RNG.standard_normal((3, 2))
    if name == "octahedral":
        by = groups.random_rotations(np.random.default_rng(1), 1)[0]
        turns = groups.conjugate(groups.vectors(groups.octahedral_matrices()), by)
        return turns, RNG.standard_normal((3, 3)), RNG.standard_normal((2, 3))
    turns = groups.quarter_turns(3, flips=name == "D4")
    x = RNG.choice([-1.0, 1.0], (5, 3, 3))
    x[0] = 1.0  # every element leaves it alone: the augmented Gram matrix is singular
    return turns, x, RNG.standard_normal((3, 3, 3))


@pytest.mark.parametrize("name", ["C5", "C4", "D4", "octahedral"])
@pytest.mark.parametrize(
    ("options", "times"),
    [
        ({"learning_rate": 0.01}, (0.0, 1.0, 300.0)),
        ({"learning_rate": 0.01, "evolution": "steps", "loss": "half_mean"}, (0, 7)),
        ({"train": "last_layer", "ridge": 0.1}, (np.inf,)),
    ],
)
def test_eigenvalues_on_orbits_equal_those_of_the_augmented_set(name, options, times):
    turns, x, points = case(name)
    y = RNG.standard_normal(len(x))
    whole = groups.augment(x, y, turns)
    full = infinite.EnsembleDynamics(kernel(), whole.x, whole.y, **options)
    reduced = infinite.EnsembleDynamics(groups.GroupAveraged(kernel(), turns), x, y, **options)
    orbits = groups.orbit(points, turns).points
    order = turns.group.order
    for time in times:
        found = reduced.orbit_eigenvalues(points, time)
        assert found.shape == (len(points), order)
        for one, orbit in zip(found, orbits, strict=True):
            covariance = full.covariance(orbit, t=time)
            scale = np.abs(covariance).max()
            wanted = np.linalg.eigvalsh(covariance)
            np.testing.assert_allclose(np.sort(one), wanted, rtol=0, atol=1e-10 * scale)
            invariant = covariance.sum() / order  # of the constant vector
            np.testing.assert_allclose(one[0], invariant, rtol=0, atol=1e-10 * scale)
        single = full.orbit_deviation(orbits, (1,), t=time).single
        np.testing.assert_allclose(found[:, 1:].sum(1) / order, single, rtol=1e-9, atol=1e-12)


def test_what_has_no_blocks_is_told():
    turns, x, points = case("C5")
    with pytest.raises(InputError, match="no blocks"):
        infinite.EnsembleDynamics(kernel(), x, np.zeros(4)).orbit_eigenvalues(points, 1.0)
    vectors = groups.GroupAveraged(kernel(), turns, turns)
    with pytest.raises(InputError, match="invariant outputs"):
        vectors.blocks(x)
    averaged = groups.GroupAveraged(kernel(), turns)
    fast = infinite.EnsembleDynamics(
        averaged, x, np.zeros(4), learning_rate=100.0, evolution="steps"
    )
    with pytest.raises(InputError, match="diverges"):
        fast.orbit_eigenvalues(points, 3)
