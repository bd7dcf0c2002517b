"""Matching recovers planted permutations; modulation is what it says in the activations."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from structure_cases import TABLE, plain, relu, struct

from credax import Variables, networks
from credax.errors import InputError
from credax.structure import apply, barrier, kernels, match, modulate, random, trace, unit_shape
from credax.structure.symmetry import Element
from credax.structure.verify import draw_variables

pytestmark = pytest.mark.slow


def prepared(network, shape, seed=0):
    x = struct(*shape)
    shapes = jax.eval_shape(network.init, jax.random.key(0), x)
    structure = trace(network, shapes, x, verify=False)
    return structure, draw_variables(structure, shapes, seed=seed)


def orders_only(element):
    logs = {name: np.zeros_like(value) for name, value in element.log_scales.items()}
    return Element(element.permutations, logs, element.structure)


@pytest.mark.parametrize("hidden", [(16,), (24, 32, 16)])
def test_a_planted_permutation_is_found(hidden):
    """Twenty networks with noise of a hundredth: every unit of every layer comes back."""
    structure, one = prepared(networks.MLP(hidden, 3), (4, 5))
    rng = np.random.default_rng(1)
    many = jax.tree.map(lambda a: np.stack([a + 0.01 * rng.standard_normal(a.shape)] * 20), one)
    planted = orders_only(random(structure, 2, members=20))
    found, element, info = match(structure, apply(structure, many, planted), one, restarts=3)
    for name, order in planted.permutations.items():
        back = np.take_along_axis(order, element.permutations[name], -1)
        assert np.array_equal(back, np.broadcast_to(np.arange(order.shape[-1]), order.shape))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(many), strict=True):
        assert np.array_equal(a, b)
    assert (info.best >= info.before).all()


@pytest.mark.parametrize("name", ["grouped", "resnet-batch", "transformer"])
def test_planted_permutations_of_other_networks(name):
    structure, one = prepared(*TABLE[name][:2])
    there = apply(structure, one, orders_only(random(structure, 5)))
    found, _, info = match(structure, there, one, restarts=8)
    same = all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(found.params), jax.tree.leaves(one.params), strict=True)
    )
    assert same
    assert info.objective.shape == (1, 8)


def test_never_above_brute_force():
    """Unrelated 3-5-4-2 networks against all 5! 4! orders: never above, mostly equal."""
    structure, _ = prepared(networks.MLP((5, 4), 2), (4, 3))
    equal = 0
    for seed in range(10):
        ours, theirs = (
            draw_variables(structure, _shapes(), seed=100 + 2 * seed + i) for i in (0, 1)
        )
        best = _brute(ours.params, theirs.params)
        _, _, info = match(structure, ours, theirs, restarts=10, key=seed)
        assert info.best[0] <= best + 1e-9
        equal += info.best[0] >= best - 1e-9
    assert equal >= 8  # 97 % expected: 8 or more of 10 fails once in a thousand


def _shapes():
    network, x = networks.MLP((5, 4), 2), struct(4, 3)
    return jax.eval_shape(network.init, jax.random.key(0), x)


def _brute(ours, theirs):
    names = ("0_dense", "1_dense", "2_dense")
    (a, b), (c, d), (e, f) = ((ours[n]["kernel"], ours[n]["bias"]) for n in names)
    (a2, b2), (c2, d2), (e2, f2) = ((theirs[n]["kernel"], theirs[n]["bias"]) for n in names)
    best = -np.inf
    second = np.array(list(itertools.permutations(range(4))))
    for first in itertools.permutations(range(5)):
        first = np.array(first)
        fixed = (a[:, first] * a2).sum() + (b[first] * b2).sum() + (f * f2).sum()
        rows = c[first]
        values = [(rows[:, p] * c2).sum() + (d[p] * d2).sum() + (e[p] * e2).sum() for p in second]
        best = max(best, fixed + max(values))
    return best


def test_barriers_vanish_between_symmetric_copies():
    """A network and its permuted copy: a barrier before matching, none after."""
    network = networks.MLP((16, 16), 1)
    structure, one = prepared(network, (32, 3), seed=3)
    copy = apply(structure, one, orders_only(random(structure, 4)))
    x = np.random.default_rng(0).standard_normal((32, 3)).astype(np.float32)
    target = network.apply(one, x)[0]

    def loss(variables):
        return jnp.mean((network.apply(variables, x)[0] - target) ** 2)

    before = barrier(loss, one, copy)
    found, _, _ = match(structure, copy, one)
    after = barrier(loss, one, found)
    assert before.height > 0.01 * float(jnp.var(target))
    assert after.height < 1e-6 * before.height


def test_references_within_the_population():
    structure, one = prepared(networks.MLP((6,), 2), (4, 3))
    rng = np.random.default_rng(0)
    many = jax.tree.map(lambda a: a + 0.05 * rng.standard_normal((5, *a.shape)), one)
    moved = apply(structure, many, orders_only(random(structure, 1, members=5)))
    for reference in ("medoid", "mean"):
        found, _, _ = match(structure, moved, reference)
        spread = max(float(leaf.std(0).max()) for leaf in jax.tree.leaves(found))
        assert spread < 0.2
    with pytest.raises(InputError, match="medoid"):
        match(structure, moved, "median")
    with pytest.raises(InputError, match="several members"):
        match(structure, moved, moved)


@pytest.mark.parametrize("name", ["mlp", "cnn", "grouped", "transformer"])
def test_modulation_scales_what_goes_in_and_what_comes_out(name, float64):
    """``x (W r sᵀ) = ((x r) W) s``, checked by moving the factors to the neighbouring arrays."""
    network, shape, _ = TABLE[name]
    structure, variables = prepared(network, shape)
    x = np.random.default_rng(0).standard_normal(shape)
    rng = np.random.default_rng(1)
    path = kernels(structure)[-1]
    r = rng.uniform(0.5, 2, unit_shape(structure, path, "input"))
    s = rng.uniform(0.5, 2, unit_shape(structure, path, "output"))
    changed = modulate(structure, variables.params, {path: r}, {path: s})
    plain_outputs = network.apply(variables, x)[0]
    outputs = network.apply(variables._replace(params=changed), x)[0]
    assert np.abs(outputs - plain_outputs).max() > 1e-3
    undone = modulate(structure, changed, {path: 1 / r}, {path: 1 / s})
    back = network.apply(variables._replace(params=undone), x)[0]
    np.testing.assert_allclose(back, plain_outputs, rtol=1e-12, atol=1e-12)
    bias = structure.contractions[path].bias
    if bias is not None:
        zero = modulate(structure, variables.params, bias={path: jnp.zeros(s.shape)})
        only = network.apply(variables._replace(params=zero), x)[0]
        twice = modulate(structure, zero, outputs={path: s})
        np.testing.assert_allclose(
            network.apply(variables._replace(params=twice), x)[0], only * s, rtol=1e-12, atol=1e-12
        )


def test_modulation_inside_is_a_change_of_activations(float64):
    rng = np.random.default_rng(0)
    params = {"a": rng.standard_normal((3, 2, 4)), "b": rng.standard_normal((2, 4, 2))}
    network = plain(
        {},
        lambda p, x: jnp.einsum("nhd,hdo->no", relu(jnp.einsum("ni,ihd->nhd", x, p["a"])), p["b"]),
    )
    x = rng.standard_normal((5, 3))
    structure = trace(network, Variables(params, {}), x)
    assert unit_shape(structure, "params/a", "output") == (2, 4)
    assert unit_shape(structure, "params/b", "input") == (2, 4)
    r, s = rng.uniform(size=(2, 4)), rng.uniform(size=(2, 4))
    changed = modulate(structure, params, {"params/b": r}, {"params/a": s})
    hidden = relu(np.einsum("ni,ihd->nhd", x, params["a"]) * s) * r
    np.testing.assert_allclose(
        network.apply(Variables(changed, {}), x)[0],
        np.einsum("nhd,hdo->no", hidden, params["b"]),
        rtol=1e-12,
    )


def test_modulation_maps_over_members():
    structure, variables = prepared(networks.CNN(3, (4, 6), 5), (2, 8, 8, 3))
    path = "params/1_conv/kernel"
    factors = np.random.default_rng(0).uniform(size=(7, 4))
    many = jax.vmap(lambda r: modulate(structure, variables.params, {path: r}))(factors)
    alone = modulate(structure, variables.params, {path: factors[3]})
    np.testing.assert_allclose(many["1_conv"]["kernel"][3], alone["1_conv"]["kernel"], rtol=1e-6)


def test_modulation_says_what_it_cannot_do():
    structure, variables = prepared(*TABLE["grouped"][:2])
    params = variables.params
    with pytest.raises(InputError, match="groups"):
        modulate(structure, params, {"params/1_conv/kernel": np.ones(4)})
    with pytest.raises(InputError, match="no input units"):
        modulate(structure, params, {"params/0_conv/bias": np.ones(8)})
    with pytest.raises(InputError, match="shape"):
        modulate(structure, params, outputs={"params/0_conv/kernel": np.ones(3)})
    depthwise = networks.Sequential((networks.Conv(4), networks.Conv(4, groups=4, bias=False)))
    structure, variables = prepared(depthwise, (2, 5, 5, 3))
    assert unit_shape(structure, "params/1_conv/kernel", "input") == (4,)
    with pytest.raises(InputError, match="no bias"):
        modulate(structure, variables.params, bias={"params/1_conv/kernel": np.ones(4)})
