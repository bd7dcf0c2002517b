"""NS is the MMD of canonical forms; invariant under any symmetry of any member."""

import sys
import types

import numpy as np
import pytest

from credax.quality import discrepancy_without_symmetries, maximum_mean_discrepancy

PLAIN = {"permutations": 0, "resamples": 0, "repeats": 0}


@pytest.fixture
def sorting(monkeypatch):
    """A stand-in for the structure room: canonical means sorted along the only axis."""
    module = types.ModuleType("credax.structure.canonical")
    module.canonicalise = lambda structure, rows, **_: (np.sort(rows, axis=1), None)
    package = types.ModuleType("credax.structure")
    monkeypatch.setitem(sys.modules, "credax.structure", package)
    monkeypatch.setitem(sys.modules, "credax.structure.canonical", module)


def test_symmetric_copies_change_the_mmd_and_not_what_is_left(sorting):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 5)), rng.standard_normal((30, 5))
    x = np.sort(x, axis=1)
    turned = rng.permuted(x, axis=1)
    left = [discrepancy_without_symmetries(None, rows, y, **PLAIN).unbiased for rows in (x, turned)]
    assert left[0] == pytest.approx(left[1], abs=1e-12)
    assert maximum_mean_discrepancy(x, y, **PLAIN).unbiased > 10 * abs(left[0])
