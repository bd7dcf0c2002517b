"""Groups and actions: tables, homomorphisms, exact and approximate rotations, orbits."""

import numpy as np
import pytest

from credax import groups
from credax.errors import InputError
from credax.groups import Group

RNG = np.random.default_rng(0)
TURN = groups.rotation_about(np.array([1.0, 2.0, 3.0]), 0.7)
EXACT = {
    "quarter turns": groups.quarter_turns(5, channels=2),
    "with flips": groups.quarter_turns(4, flips=True),
    "shifts": groups.shifts(3, 4),
    "turns and shifts": groups.turns_and_shifts(3, flips=False),
    "plane": groups.plane_rotations(7),
    "sign": groups.sign_flip(3),
    "octahedral": groups.vectors(groups.octahedral_matrices()),
    "icosahedral": groups.vectors(groups.icosahedral_matrices()),
    "conjugated": groups.conjugate(groups.vectors(groups.octahedral_matrices()), TURN),
    "sum": groups.direct_sum(groups.plane_rotations(5), groups.plane_rotations(5)),
    "harmonics": groups.DiscHarmonics.of(12, 0.7).representation(8),
    "pictures by quarter turns": groups.picture_rotations(6, 4),
}


@pytest.mark.parametrize(
    ("group", "order", "classes"),
    [
        (Group.cyclic(6), 6, 6),
        (Group.dihedral(4), 8, 5),
        (Group.dihedral(5), 10, 4),
        (Group.translations(2, 3), 6, 6),
        (Group.octahedral(), 24, 5),
        (Group.icosahedral(), 60, 5),
        (Group.direct_product(Group.cyclic(2), Group.dihedral(3)), 12, 6),
    ],
)
def test_known_groups(group, order, classes):
    assert group.order == order
    assert len(group.classes()) == classes
    every = np.arange(order)
    np.testing.assert_array_equal(group.product[every, group.inverse], 0)
    assert group.abelian == (classes == order)


def test_wrong_tables_are_refused():
    good = Group.dihedral(3).product
    wrong = good.copy()
    wrong[[1, 2]] = wrong[[2, 1]]
    with pytest.raises(InputError, match="identity"):
        Group(wrong)
    with pytest.raises(InputError, match="once"):
        Group(np.zeros((3, 3), int))
    loop = np.array(  # a Latin square with an identity that is not associative
        [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]]
    )
    with pytest.raises(InputError, match="associative"):
        Group(loop)
    with pytest.raises(InputError, match="closed"):
        Group.from_matrices(np.stack([np.eye(2), groups.plane_rotations(3).matrices[1]]))


def test_subgroups_and_generators():
    half, kept = Group.cyclic(8).subgroup([2])
    assert half.order == 4
    np.testing.assert_array_equal(kept, [0, 2, 4, 6])
    quarter = groups.rotation_about(np.array([0.0, 0.0, 1.0]), np.pi / 2)
    third = groups.rotation_about(np.array([1.0, 1.0, 1.0]), 2 * np.pi / 3)
    assert Group.from_generators(np.array([quarter, third])).order == 24


@pytest.mark.parametrize("name", EXACT)
def test_exact_actions_are_orthogonal_representations(name):
    found = groups.defects(EXACT[name])
    assert found.homomorphism < 1e-12
    assert found.orthogonality < 1e-12


def test_interpolated_turns_are_no_representation_and_say_so():
    for interpolation in ("nearest", "bilinear"):
        turns = groups.picture_rotations(12, 8, interpolation=interpolation)
        assert turns.kind == "approximate"
        assert groups.defects(turns).homomorphism > 1e-2
        assert groups.defects(turns).orthogonality > 1e-2


def test_turns_are_counter_clockwise():
    picture = RNG.standard_normal((1, 6, 6, 1))
    for turns in (groups.quarter_turns(6, channels=1), groups.picture_rotations(6, 4)):
        np.testing.assert_array_equal(
            turns.apply(1, picture)[0, :, :, 0], np.rot90(picture[0, :, :, 0])
        )
    from credax.groups.pictures import _interpolated

    for interpolation in ("nearest", "bilinear"):  # the interpolating path at a quarter turn
        indices, weights = _interpolated(6, np.pi / 2, interpolation)
        turned = (picture.reshape(-1)[indices] * weights).sum(-1).reshape(6, 6)
        np.testing.assert_allclose(turned, np.rot90(picture[0, :, :, 0]), atol=1e-12)


def test_harmonics():
    """Sizes and conditioning of the table in the specification; turns of smooth pictures."""
    for fraction, count in ((0.5, 109), (0.7, 224), (0.9, 370)):
        harmonics = groups.DiscHarmonics.of(28, fraction)
        assert harmonics.coefficients == count
    values = np.linalg.svd(harmonics.basis, compute_uv=False)
    assert values[0] / values[-1] == pytest.approx(1.11, abs=0.01)
    coefficients = RNG.standard_normal((2, count))
    picture = harmonics.decode(coefficients)
    np.testing.assert_allclose(harmonics.encode(picture), coefficients, atol=1e-11)
    turned = harmonics.decode(coefficients @ harmonics.rotation(np.pi / 2).T)
    np.testing.assert_allclose(turned, np.rot90(picture, axes=(1, 2)), atol=1e-12)
    one, other = harmonics.rotation(0.3), harmonics.rotation(1.1)
    np.testing.assert_allclose(one @ other, harmonics.rotation(1.4), atol=1e-13)
    assert harmonics.representation(8).matrices.shape == (8, count, count)
    assert max(groups.DiscHarmonics.of(12, 0.9, max_frequency=3).frequencies) == 3


def test_orbits_augmentation_and_stabilisers():
    turns = groups.quarter_turns(3)
    x = RNG.standard_normal((4, 3, 3))
    x[2] = 1.0  # left alone by every turn
    y = RNG.standard_normal(4)
    whole = groups.augment(x, y, turns)
    assert whole.x.shape == (16, 3, 3)
    np.testing.assert_array_equal(whole.stabilisers, [1, 1, 4, 1])
    np.testing.assert_array_equal(whole.y, np.repeat(y, 4))
    for g in range(4):
        np.testing.assert_array_equal(whole.x[whole.permutation[g]], turns.apply(g, whole.x))
    found = groups.orbit(x, turns)
    outputs = RNG.standard_normal((7, 16, 2))
    np.testing.assert_array_equal(found.fold(outputs)[:, 1, 3], outputs[:, 7])
    with pytest.raises(InputError, match="4 times 4"):
        found.fold(outputs[:, :3])


def test_targets_turn_with_the_inputs():
    space = groups.conjugate(groups.vectors(groups.octahedral_matrices()), TURN)
    pair = groups.direct_sum(space, space)
    x = RNG.standard_normal((3, 6))
    y = np.cross(x[:, :3], x[:, 3:])
    whole = groups.augment(x, y, pair, space)
    np.testing.assert_allclose(whole.y, np.cross(whole.x[:, :3], whole.x[:, 3:]), atol=1e-13)


def test_splits_keep_their_units_and_refuse_those_that_break_the_symmetry():
    import credax as cx

    turns = groups.quarter_turns(3)
    x, y = RNG.standard_normal((4, 3, 3)).astype(np.float32), np.arange(4)
    split = groups.full_orbit(cx.Split(x, y, cx.Standardise(0.1, 2.0)), turns)
    assert len(split) == 16
    assert split.x.dtype == np.float32
    with pytest.raises(InputError, match="entry by entry"):
        groups.full_orbit(cx.Split(x, y, cx.Standardise.of(x)), turns)


def test_haar_rotations_and_covering():
    turns = groups.random_rotations(RNG, 2000)
    np.testing.assert_allclose(
        turns @ turns.transpose(0, 2, 1), np.broadcast_to(np.eye(3), turns.shape), atol=1e-12
    )
    np.testing.assert_allclose(np.linalg.det(turns), 1)
    # Haar: entries have mean 0 and variance 1/3; 4.5 standard errors.
    assert np.abs(turns.mean(0)).max() < 4.5 * (1 / 3 / 2000) ** 0.5
    assert groups.covering_radius(8) == pytest.approx(0.390, abs=1e-3)
