"""One sentence for everything that cannot be: which argument, what came, what to do."""

import numpy as np
import pytest

from credax import groups

PLANE, TURNS = groups.plane_rotations(4), groups.quarter_turns(3)
ROWS = np.ones((2, 3, 3))
CASES = {
    "cyclic": (lambda: groups.Group.cyclic(0), "order is 0"),
    "dihedral": (lambda: groups.Group.dihedral(0), "order is 0"),
    "translations": (lambda: groups.Group.translations(0, 2), "order is 0"),
    "no matrices": (lambda: groups.generated_matrices(np.ones((2, 3))), r"generators has shape"),
    "infinite group": (
        lambda: groups.generated_matrices(PLANE.matrices[1:2] * 1.1, most=20),
        "more than 20",
    ),
    "open set": (lambda: groups.Group.from_matrices(PLANE.matrices[:2]), "not closed"),
    "NaN matrices": (lambda: groups.vectors(np.full((1, 2, 2), np.nan)), "NaN"),
    "shear": (lambda: groups.vectors(np.array([[[1.0, 1.0], [0.0, 1.0]]])), "not orthogonal"),
    "axis": (lambda: groups.rotation_about(np.zeros(3), 1.0), "axis is"),
    "covering": (lambda: groups.covering_radius(0), "order is 0"),
    "plane": (lambda: groups.plane_rotations(0), "order is 0"),
    "sign": (lambda: groups.sign_flip(0), "size is 0"),
    "nothing": (lambda: groups.direct_sum(), "nothing"),
    "two groups": (lambda: groups.direct_sum(PLANE, groups.plane_rotations(3)), "different groups"),
    "axes": (lambda: groups.conjugate(PLANE, np.ones((2, 2))), "by has shape"),
    "element": (lambda: groups.matrix(TURNS, 4), "elements 0 to 3"),
    "lattice": (lambda: groups.quarter_turns(0), "size is 0"),
    "tiny lattice": (lambda: groups.turns_and_shifts(2), "coincide"),
    "turns": (lambda: groups.picture_rotations(4, 0), "order is 0"),
    "interpolation": (lambda: groups.picture_rotations(4, 8, interpolation="cubic"), "bilinear"),
    "mask": (lambda: groups.soft_mask(4, margin=1.0), "margin is 1.0"),
    "fraction": (lambda: groups.DiscHarmonics.of(8, 0.0), "fraction is 0.0"),
    "coarse": (lambda: groups.DiscHarmonics.of(2, 0.1), "no harmonic"),
    "pictures": (lambda: groups.DiscHarmonics.of(8).encode(np.ones((2, 7, 7))), "8 by 8"),
    "orbit": (lambda: groups.orbit(np.ones((2, 4)), TURNS), r"acts on \[..., 3, 3\]"),
    "rows": (lambda: groups.augment(ROWS, np.ones(3), TURNS), "one target per row"),
    "targets": (lambda: groups.augment(np.ones((2, 2)), np.ones((2, 3)), PLANE, PLANE), "y has"),
    "canonical": (
        lambda: groups.GroupAveraged(None, PLANE, canonical=True),
        "canonical is for invariant",
    ),
    "twin": (lambda: groups.twin({"0": {"kernel": np.ones((3, 4))}}, 1, PLANE), "2 inputs"),
    "batches": (lambda: groups.pipeline_violations(PLANE, batches="some"), "batches"),
    "window": (lambda: groups.GroupConv(2, 4, window=4), "odd windows"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_is_refused_in_a_sentence(name, refused):
    refused(*CASES[name])
