"""What moves with the weights, what stays silent, what is written at an index, what is checked."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import credax as cx
from credax.structure import (
    SymmetryViolation,
    apply,
    apply_dual,
    canonicalise,
    dead_units,
    random,
    trace,
)

X = np.random.default_rng(0).standard_normal((5, 4))


def network_and_variables(hidden=(6, 5)):
    network = cx.networks.MLP(hidden, outputs=3)
    rng = np.random.default_rng(1)
    shapes = jax.eval_shape(
        network.init, jax.random.key(0), jax.ShapeDtypeStruct((5, 4), "float64")
    )
    variables = jax.tree.map(lambda leaf: rng.standard_normal(leaf.shape), shapes)
    return network, variables


def loss(network, variables):
    outputs = network.apply(variables, jnp.asarray(X))[0]
    return jnp.sum(jnp.sin(outputs) * jnp.arange(3))


def test_gradients_move_against_the_weights(float64):
    network, variables = network_and_variables()
    structure = trace(network, variables, X)
    element = random(structure, 3, 0.7)
    gradient = jax.grad(lambda v: loss(network, v))
    there = gradient(apply(structure, variables, element))
    carried = apply_dual(structure, gradient(variables), element)
    for a, b in zip(jax.tree.leaves(there), jax.tree.leaves(carried), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    squares = apply_dual(structure, jax.tree.map(jnp.square, gradient(variables)), element, power=2)
    for a, b in zip(jax.tree.leaves(there), jax.tree.leaves(squares), strict=True):
        np.testing.assert_allclose(jnp.square(a), b, rtol=1e-9, atol=1e-12)


def test_momentum_is_carried_along_a_permutation(float64):
    """A step, a permutation, a step is two steps and the permutation, to rounding."""
    network, variables = network_and_variables()
    structure = trace(network, variables, X)
    optimiser = optax.sgd(0.01, momentum=0.9)
    element = random(structure, 5, 0.0)

    def step(v, momentum):
        updates, state = optimiser.update(
            jax.grad(lambda w: loss(network, w))(v),
            (optax.TraceState(momentum), optax.EmptyState()),
        )
        return optax.apply_updates(v, updates), state[0].trace

    first = step(variables, jax.tree.map(jnp.zeros_like, variables))
    plain = apply(structure, step(*first)[0], element)
    moved = apply(structure, first[0], element), apply_dual(structure, first[1], element)
    for a, b in zip(jax.tree.leaves(plain), jax.tree.leaves(step(*moved)[0]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_powers_are_checked():
    network, variables = network_and_variables()
    structure = trace(network, variables, X)
    with pytest.raises(cx.InputError, match="power is 0"):
        apply_dual(structure, variables, random(structure, 1), power=0)


def test_dead_units_are_named():
    network, variables = network_and_variables()
    structure = trace(network, variables, X)
    assert dead_units(structure, variables) == {}
    variables.params["0_dense"]["kernel"][:, 2] = 0
    variables.params["2_dense"]["kernel"][4] = 0
    found = dead_units(structure, variables)
    assert np.flatnonzero(found[0]).tolist() == [2]
    assert np.flatnonzero(found[1]).tolist() == [4]
    many = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), variables)
    assert dead_units(structure, many)[0].shape == (2, 6)


def test_a_canonical_form_that_changes_the_function_is_refused():
    """The structure of one network, handed the weights of a network that is not homogeneous."""
    network, variables = network_and_variables()
    structure = trace(network, variables, X)
    canonicalise(structure, variables)
    other = cx.networks.MLP((6, 5), outputs=3, activation="tanh")
    structure.__dict__["run"] = jax.jit(lambda v, a: other.apply(v, a, train=False)[0])
    with pytest.raises(SymmetryViolation, match="changed the outputs of member 0"):
        canonicalise(structure, variables)
    canonicalise(structure, variables, check=False)


def scattering(params, x):
    hidden = jax.nn.relu(x @ params["w"])
    table = jnp.zeros((3, hidden.shape[1]), hidden.dtype)
    rows = table.at[jnp.array([0, 1, 2, 0])].add(hidden)
    return jax.nn.relu(rows @ params["v"]) @ params["u"]


def test_what_is_written_at_an_index_keeps_its_other_axes():
    rng = np.random.default_rng(0)
    shapes = {"w": (4, 6), "v": (6, 5), "u": (5, 2)}
    params = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    network = cx.FunctionNetwork(lambda key, x: {}, scattering)
    structure = trace(network, cx.Variables(params, {}), X[:4])
    assert [(group.size, len(group.scalings)) for group in structure.groups] == [(6, 1), (5, 1)]
    assert structure.error < 1e-12


def test_units_written_at_their_own_index_are_pinned():
    def forward(params, x):
        hidden = jax.nn.relu(x @ params["w"])
        return hidden.at[:, 2].set(1.0) @ params["v"]

    rng = np.random.default_rng(0)
    params = {"w": rng.standard_normal((4, 6)), "v": rng.standard_normal((6, 2))}
    network = cx.FunctionNetwork(lambda key, x: {}, forward)
    assert trace(network, cx.Variables(params, {}), X).groups == ()
