"""Elements: inverse, product, populations, precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from structure_cases import TABLE, struct

from credax import Variables
from credax.errors import InputError
from credax.structure import apply, compose, identity, inverse, random, trace
from credax.structure.symmetry import Element
from credax.structure.verify import draw_variables

NAMES = ["mlp", "resnet-batch", "concatenations", "grouped", "transformer", "stacked"]


@pytest.fixture(scope="module", params=NAMES)
def case(request):
    network, shape, _ = TABLE[request.param]
    x = struct(*shape)
    shapes = jax.eval_shape(network.init, jax.random.key(0), x)
    structure = trace(network, shapes, x, verify=False)
    return structure, draw_variables(structure, shapes, seed=1)


def orders_only(element):
    logs = {name: np.zeros_like(value) for name, value in element.log_scales.items()}
    return Element(element.permutations, logs, element.structure)


def greatest(a, b):
    return max(
        float(np.max(np.abs(x - y) / np.maximum(np.abs(x), 1e-30)))
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
        if x.size
    )


def same_bits(a, b):
    return all(
        np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


def stacked(trees):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def test_permutations_are_undone_bit_for_bit(case):
    structure, variables = case
    element = orders_only(random(structure, 3))
    there = apply(structure, variables, element)
    assert not same_bits(there, variables)
    assert same_bits(apply(structure, there, inverse(element)), variables)


def test_scalings_are_undone_to_rounding(case):
    structure, variables = case
    element = random(structure, 4)
    back = apply(structure, apply(structure, variables, element), inverse(element))
    # Shifted arrays (running variances) lose eps / variance of a rounding more.
    assert greatest(variables, back) < 4e-15


def test_powers_of_two_are_undone_bit_for_bit(case):
    structure, variables = case
    element = random(structure, 5, 2.0)
    if structure.shifts:
        pytest.skip("a running variance takes its epsilon along, which rounds")
    for dtype in (np.float64, np.float32):
        given = jax.tree.map(lambda leaf: leaf.astype(dtype), variables)  # noqa: B023
        there = apply(structure, given, element, rounding="power_of_two")
        back = apply(structure, there, inverse(element), rounding="power_of_two")
        assert not same_bits(there, given)
        assert same_bits(back, given)


def test_composition(case):
    structure, variables = case
    first, second = random(structure, 6), random(structure, 7)
    once = apply(structure, variables, compose(first, second))
    twice = apply(structure, apply(structure, variables, second), first)
    assert greatest(once, twice) < 1e-14
    once = apply(structure, variables, orders_only(compose(first, second)))
    twice = apply(structure, apply(structure, variables, orders_only(second)), orders_only(first))
    assert same_bits(once, twice)


def test_identity_and_its_law(case):
    structure, variables = case
    assert same_bits(apply(structure, variables, identity(structure)), variables)
    element = random(structure, 8)
    still = compose(element, inverse(element))
    for group in structure.groups:
        order = np.broadcast_to(np.arange(group.size), still.permutations[group.id].shape)
        assert np.array_equal(still.permutations[group.id], order)
    assert all(np.abs(value).max() < 1e-14 for value in still.log_scales.values())


def test_a_population_moves_as_its_members_do(case):
    structure, variables = case
    generator = np.random.default_rng(0)
    many = [
        jax.tree.map(lambda leaf: leaf * generator.uniform(0.5, 2, leaf.shape), variables)
        for _ in range(64)
    ]
    elements = random(structure, 9, members=64)
    moved = apply(structure, stacked(many), elements)
    back = compose(inverse(elements), elements)
    for index in (0, 17, 63):
        own = Element(
            {name: value[index] for name, value in elements.permutations.items()},
            {name: value[index] for name, value in elements.log_scales.items()},
            structure,
        )
        alone = apply(structure, many[index], own)
        assert same_bits(alone, jax.tree.map(lambda leaf: leaf[index], moved))  # noqa: B023
        undone = inverse(own)
        batched = inverse(elements)
        for name, value in undone.permutations.items():
            assert np.array_equal(value, batched.permutations[name][index])
    assert all(np.abs(value).max() < 1e-14 for value in back.log_scales.values())


def test_jax_arrays_stay_jax_arrays_and_agree_with_numpy(case):
    structure, variables = case
    element = random(structure, 10)
    given = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), variables)
    on_device = apply(structure, given, element)
    on_host = apply(structure, jax.tree.map(np.asarray, given), element)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(on_device))
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(on_host))
    assert greatest(on_host, on_device) < 1e-5


def test_half_precision_is_promoted(case):
    structure, variables = case
    half = jax.tree.map(lambda leaf: leaf.astype(np.float16), variables)
    element = random(structure, 11)
    moved = apply(structure, half, element)
    assert {leaf.dtype for leaf in jax.tree.leaves(moved)} == {np.dtype(np.float32)}
    single = apply(structure, jax.tree.map(lambda leaf: leaf.astype(np.float32), half), element)
    assert same_bits(moved, single)


def test_wrong_shapes_are_named(case):
    structure, variables = case
    cut = jax.tree.map(lambda leaf: leaf[..., :1] if leaf.ndim else leaf, variables)
    with pytest.raises(InputError, match=r"params/.* has shape"):
        apply(structure, cut, identity(structure))
    with pytest.raises(InputError, match="differ at"):
        apply(structure, Variables({}, {}), identity(structure))
