"""Canonical forms: equal for every symmetric copy, idempotent, reversible, same function."""

import jax
import numpy as np
import pytest
from structure_cases import TABLE, plain, relu, small, struct

from credax import Variables
from credax.errors import InputError
from credax.structure import apply, canonicalise, random, restore, trace
from credax.structure.canonical import ORDERS, SCALES
from credax.structure.verify import draw_variables

pytestmark = pytest.mark.slow

NETWORKS = ["mlp", "cnn", "resnet-batch", "grouped", "resnet-frn-padded", "residual-flatten"]
MORE = ["mlp-one-input", "preact", "transformer", "concatenations", "stacked", "lstm"]


def prepared(name, **options):
    network, shape, _ = TABLE[name]
    x = struct(*shape)
    shapes = jax.eval_shape(network.init, jax.random.key(0), x)
    structure = trace(network, shapes, x, verify=False, **options)
    return network, shape, structure, draw_variables(structure, shapes, seed=2)


def distance(a, b):
    return max(
        float(np.abs(x - y).max() / max(np.abs(x).max(), 1e-30))
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
        if x.size
    )


def check_form(structure, variables, copy, scale, order, anchor):
    how = {"scale": scale, "order": order, "anchor": anchor}
    form, element = canonicalise(structure, variables, **how)
    if "none" not in (scale, order):
        again, _ = canonicalise(structure, copy, **how)
        assert distance(form, again) < 1e-10, how
    twice, _ = canonicalise(structure, form, **how)
    assert distance(form, twice) < 1e-12, how
    assert distance(variables, restore(structure, form, element)) < 1e-14, how


@pytest.mark.parametrize("name", NETWORKS + MORE)
def test_all_copies_have_one_form(name):
    _, _, structure, variables = prepared(name)
    copy = apply(structure, variables, random(structure, 3))
    for choice in (("unit_norm", "max", "all"), ("min_mass", "norm", "all")):
        check_form(structure, variables, copy, *choice)


@pytest.mark.parametrize("name", NETWORKS + MORE)
def test_all_copies_have_one_form_whatever_it_is(name):
    """Every scale and order, and both anchors."""
    _, _, structure, variables = prepared(name)
    copy = apply(structure, variables, random(structure, 3))
    choices = [(scale, order, "all") for scale in SCALES for order in ORDERS]
    choices += [(scale, "max", "first") for scale in SCALES]
    for choice in choices:
        check_form(structure, variables, copy, *choice)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_function_stays(name, float64):
    network, shape, structure, variables = prepared(name)
    x = np.random.default_rng(0).standard_normal(shape)
    run = jax.jit(lambda v: network.apply(v, x)[0])
    before = run(variables)
    for scale in ("unit_norm", "min_mass"):
        form, _ = canonicalise(structure, variables, scale=scale)
        assert np.abs(run(form) - before).max() <= 1e-10 * np.abs(before).max()


def dense(first, second):
    network = plain({}, lambda p, x: relu(x @ p["w1"].T) @ p["w2"].T)
    variables = Variables({"w1": np.array(first), "w2": np.array(second)}, {})
    return trace(network, variables, np.zeros((3, len(first[0])))), variables


def test_worked_example():
    structure, variables = dense([[3.0, 4.0], [0.0, 2.0]], [[1.0, 2.0], [2.0, 0.0]])
    form, element = canonicalise(structure, variables, order="none")
    np.testing.assert_allclose(form.params["w1"], [[0.6, 0.8], [0, 1]], atol=1e-15)
    np.testing.assert_allclose(form.params["w2"], [[5, 4], [10, 0]], rtol=1e-14)
    np.testing.assert_allclose(element.scales[0, 0], [0.2, 0.5])
    form, element = canonicalise(structure, variables)
    assert element.permutations[0].tolist() == [1, 0]
    np.testing.assert_allclose(form.params["w1"], [[0, 1], [0.6, 0.8]], atol=1e-15)


def test_max_is_the_maximum_and_first_is_the_first():
    structure, variables = dense([[3.0, 0.0], [1.0, 9.0]], [[1.0, 1.0]])
    how = {"scale": "none"}
    assert canonicalise(structure, variables, order="max", **how)[1].permutations[0][0] == 1
    assert canonicalise(structure, variables, order="first", **how)[1].permutations[0][0] == 0


def test_constant_and_given_scales():
    structure, variables = dense([[3.0, 4.0], [0.0, 2.0]], [[1.0, 2.0], [2.0, 0.0]])
    form, _ = canonicalise(structure, variables, constant=3.0)
    np.testing.assert_allclose(np.linalg.norm(form.params["w1"], axis=1), 3, rtol=1e-12)
    given = {(0, 0): np.array([2.0, 4.0])}
    form, _ = canonicalise(structure, variables, scale=given, order="none")
    np.testing.assert_allclose(form.params["w1"], [[6, 8], [0, 8]])


def test_batch_norm_scales_become_plus_or_minus_one():
    """Negative scales keep their sign and every λ is positive (a defect of the published code)."""
    _, _, structure, variables = prepared("mlp-batch")
    scale = variables.params["1_batch_norm"]["scale"]
    assert min(scale) < 0
    form, element = canonicalise(structure, variables, order="none")
    np.testing.assert_allclose(form.params["1_batch_norm"]["scale"], np.sign(scale), rtol=1e-14)
    kernel = form.params["0_dense"]["kernel"]
    np.testing.assert_allclose(np.linalg.norm(kernel, axis=0), 1, rtol=1e-14)
    assert all((value > 0).all() for value in element.scales.values())


def test_a_zero_row_keeps_its_scale():
    structure, variables = dense([[0.0, 0.0], [1.0, 2.0]], [[1.0, 1.0]])
    form, element = canonicalise(structure, variables, order="none")
    assert element.scales[0, 0][0] == 1
    assert np.isfinite(form.params["w2"]).all()


def test_streams_may_be_left():
    _, _, structure, variables = prepared("resnet-batch")
    _, element = canonicalise(structure, variables, streams="leave")
    for group in structure.groups:
        still = np.array_equal(element.permutations[group.id], np.arange(group.size))
        assert still == (len(group.producers) > 1)


def test_a_population_is_its_members_and_half_precision_is_promoted():
    _, _, structure, one = prepared("grouped")
    members = [jax.tree.map(lambda a, s=s: a * (1 + 0.1 * s * np.cos(a)), one) for s in range(5)]
    many = jax.tree.map(lambda *leaves: np.stack(leaves), *members)
    form, element = canonicalise(structure, many)
    for index, member in enumerate(members):
        alone, own = canonicalise(structure, member)
        assert distance(alone, jax.tree.map(lambda leaf, i=index: leaf[i], form)) < 1e-15
        assert np.array_equal(own.permutations[1], element.permutations[1][index])
    half = jax.tree.map(lambda leaf: leaf.astype(np.float16), one)
    single = jax.tree.map(lambda leaf: leaf.astype(np.float32), half)
    (low, low_element), (high, high_element) = (canonicalise(structure, v) for v in (half, single))
    assert distance(low, high) == 0
    for name, order in low_element.permutations.items():
        assert np.array_equal(order, high_element.permutations[name])


def test_options_are_checked():
    structure, variables = dense([[3.0, 4.0], [0.0, 2.0]], [[1.0, 2.0], [2.0, 0.0]])
    for option in ("scale", "order", "streams", "anchor"):
        with pytest.raises(InputError, match=option):
            canonicalise(structure, variables, **{option: "no"})


def test_a_projection_of_streams_is_complete():
    """Random symmetries of streams too: the published removal leaves them, ours does not."""
    network, x = small(), struct(2, 8, 8, 3)
    shapes = jax.eval_shape(network.init, jax.random.key(0), x)
    structure = trace(network, shapes, x, verify=False)
    variables = draw_variables(structure, shapes, seed=4)
    stream = next(g.id for g in structure.groups if len(g.producers) > 1)
    copy = apply(structure, variables, random(structure, 1, groups=(stream,)))
    assert distance(canonicalise(structure, variables)[0], canonicalise(structure, copy)[0]) < 1e-10
    left = [canonicalise(structure, v, streams="leave")[0] for v in (variables, copy)]
    assert distance(*left) > 1e-3
