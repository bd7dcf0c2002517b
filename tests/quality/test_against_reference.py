"""Columns against a reference: held-out members near zero, a tight cloud far, symmetry removed."""

import dataclasses

import jax
import numpy as np
import pytest

import credax as cx
from credax.posterior import population
from credax.quality import against_reference
from credax.structure import apply, random, trace

pytestmark = pytest.mark.slow

OPTIONS = {"permutations": 199, "resamples": 100}
NETWORK = cx.networks.MLP((6,), outputs=3)
X = np.zeros((2, 4), np.float32)


def drawn(count, seed):
    """Independent initialisations: a population known to have one distribution."""
    keys = jax.random.split(jax.random.key(seed), count)
    variables = jax.vmap(lambda key: NETWORK.init(key, X))(keys)
    return population(cx.Problem(NETWORK, cx.Categorical()), variables, X)


@pytest.fixture(scope="module")
def reference():
    return drawn(120, 0)


def cloud(member, count=40, spread=1e-3):
    """Copies of one network with a little noise."""
    rng = np.random.default_rng(0)
    one = jax.tree.map(lambda leaf: np.asarray(leaf[:1]), member.variables)
    noisy = jax.tree.map(
        lambda leaf: (
            np.repeat(leaf, count, 0)
            + spread * rng.standard_normal((count, *leaf.shape[1:])).astype(leaf.dtype)
        ),
        one,
    )
    return population(member.problem, noisy, X)


def test_the_same_law_is_near_and_a_tight_cloud_is_far(reference):
    own = against_reference(drawn(40, 1), reference, **OPTIONS)
    far = against_reference(cloud(drawn(1, 2)), reference, **OPTIONS)
    for name in ("mmd", "ns", "ns_balanced"):
        # If equal, the statistic has mean zero: its interval holds it, and p is not extreme.
        assert own[f"{name}_low"] <= 0 <= own[f"{name}_high"], name
        assert own[f"{name}_p_value"] > 0.01
        assert far[f"{name}_tenths"] > 3
        assert far[f"{name}_p_value"] == pytest.approx(1 / 200)
    assert own["reference_networks"] == 120


def test_ns_does_not_see_symmetries_and_mmd_does(reference):
    x = drawn(40, 3)
    one = jax.tree.map(lambda leaf: np.asarray(leaf[0]), x.variables)
    structure = trace(NETWORK, one, X)
    moved = apply(structure, x.variables, random(structure, 5, 1.0, members=40))
    moved = dataclasses.replace(x, variables=moved)
    plain = against_reference(x, reference, **OPTIONS)
    after = against_reference(moved, reference, structure=structure, **OPTIONS)
    assert after["ns_tenths"] == pytest.approx(plain["ns_tenths"], abs=1e-4)
    assert after["mmd_tenths"] > plain["mmd_tenths"] + 0.1


def test_members_of_the_reference_itself_are_left_out(reference):
    found = against_reference(reference.take(range(20)), reference, **OPTIONS)
    assert found["reference_networks"] == 100
    assert abs(found["mmd_tenths"]) < 0.3


def test_evaluate_adds_them(reference):
    x = drawn(5, 1)
    found = against_reference(x, reference, **OPTIONS)
    values = cx.evaluate(x.predict(X), np.array([0, 1]), ["accuracy"], weights=found)
    assert values["weights/ns_tenths"] == found["ns_tenths"]
    assert next(iter(values)) == "accuracy"


def test_runs_make_intervals_wider(reference):
    """Ten copies each of four networks are four networks, not forty."""
    four = drawn(4, 7).take(np.repeat(np.arange(4), 10))
    alone = against_reference(four, reference, **OPTIONS)
    together = against_reference(four, reference, runs=4, **OPTIONS)
    width = [v["mmd_high"] - v["mmd_low"] for v in (alone, together)]
    assert width[1] > width[0]


@pytest.mark.parametrize(
    ("posterior", "reference", "words"),
    [
        (drawn(1, 0), drawn(3, 1), "has 1 network"),
        (drawn(3, 0), drawn(3, 0), "not members of the posterior itself"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(posterior, reference, words):
    with pytest.raises(cx.InputError, match=words):
        against_reference(posterior, reference)


def test_another_network_is_refused(reference):
    other = cx.networks.MLP((5,), outputs=3)
    keys = jax.random.split(jax.random.key(0), 3)
    variables = jax.vmap(lambda key: other.init(key, X))(keys)
    with pytest.raises(cx.InputError, match="another network"):
        against_reference(drawn(3, 1), population(reference.problem, variables, X))


def test_runs_must_fall_evenly(reference):
    with pytest.raises(cx.InputError, match="do not fall evenly"):
        against_reference(drawn(5, 1), reference, runs=2)
