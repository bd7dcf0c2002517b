"""NS is the MMD of canonical forms: no symmetry of any member changes it."""

import jax
import numpy as np
import pytest

import credax as cx
from credax import structure
from credax.errors import InputError
from credax.quality import discrepancy_without_symmetries, maximum_mean_discrepancy

PLAIN = {"permutations": 0, "resamples": 0, "repeats": 0}


@pytest.fixture(scope="module")
def networks():
    """Two populations of one distribution, float64 on the host, and the traced network."""
    network = cx.networks.MLP((6, 5), outputs=3)
    example = np.zeros((1, 4), np.float32)
    shapes = jax.eval_shape(network.init, jax.random.key(0), example)
    traced = structure.trace(network, shapes, example)
    rng = np.random.default_rng(0)

    def draw(count):
        return jax.tree.map(lambda leaf: rng.standard_normal((count, *leaf.shape)), shapes)

    return traced, draw(15), draw(25)


@pytest.mark.parametrize("form", [None, "published_text", "balanced"])
def test_no_symmetry_of_any_member_changes_it(networks, form):
    traced, x, y = networks
    element = structure.random(traced, 1, members=15)
    moved = structure.apply(traced, x, element)
    left = [
        discrepancy_without_symmetries(traced, each, y, form=form, **PLAIN) for each in (x, moved)
    ]
    assert left[0].unbiased == pytest.approx(left[1].unbiased, abs=1e-8)
    for path, part in left[0].per_array.items():
        assert part.unbiased == pytest.approx(left[1].per_array[path].unbiased, abs=1e-8)
    before = [maximum_mean_discrepancy(each, y, **PLAIN).unbiased for each in (x, moved)]
    assert abs(before[0] - before[1]) > 1e-3


def test_it_is_the_mmd_of_canonical_forms(networks):
    traced, x, y = networks
    plain = [structure.canonicalise(traced, each)[0] for each in (x, y)]
    expected = maximum_mean_discrepancy(*plain, **PLAIN).unbiased
    found = discrepancy_without_symmetries(traced, x, y, **PLAIN).unbiased
    assert found == pytest.approx(expected, abs=1e-15)
    with pytest.raises(InputError, match="form"):
        discrepancy_without_symmetries(traced, x, y, form="round")


def test_a_population_in_one_order_hides_it_from_the_mmd_alone(networks):
    """Sorted members against unsorted ones, same distribution: MMD sees it, NS is near zero."""
    traced, x, y = networks
    kept = structure.canonicalise(traced, x, scale="none")[0]
    plain = maximum_mean_discrepancy(kept, y, resamples=0, repeats=0, permutations=499)
    left = discrepancy_without_symmetries(traced, kept, y, resamples=0, repeats=0, permutations=499)
    assert plain.p_value <= 0.01
    assert left.p_value > 0.01
