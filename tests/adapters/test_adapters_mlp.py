import jax
import jax.numpy as jnp
import numpy as np
import pytest
from adapter_networks import LIBRARIES, layout

from credax.files import load_tree, save_tree
from credax.network import Network, Variables

close = {"rtol": 1e-6, "atol": 1e-6}


def by_hand(numbers, x):
    w1, b1, w2, b2 = (np.asarray(a, np.float64) for a in numbers)
    return np.tanh(np.asarray(x, np.float64) @ w1 + b1) @ w2 + b2


def same_tree(one, two):
    assert jax.tree.structure(one) == jax.tree.structure(two)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b), one, two)


@pytest.mark.optimised
def test_the_same_numbers_give_the_same_outputs(mlp, numbers, x):
    variables = Variables(mlp.pack(*numbers), mlp.network.init(jax.random.key(0), x).state)
    outputs, state = mlp.network.apply(variables, x)
    np.testing.assert_allclose(outputs, by_hand(numbers, x), **close)
    np.testing.assert_array_equal(jax.jit(mlp.network.apply)(variables, x)[0], outputs)
    assert state == {}
    assert isinstance(mlp.network, Network)


def test_packing_matches_what_init_returns(mlp, numbers, x):
    params = mlp.network.init(jax.random.key(0), x).params
    shapes = jax.tree.map(jnp.shape, mlp.pack(*numbers))
    assert jax.tree.map(jnp.shape, params) == shapes


def test_gradients_and_curvature_agree_with_a_hand_written_network(mlp, numbers, x):
    def loss(params):
        return jnp.sum(mlp.network.apply(Variables(params, {}), x, train=True)[0] ** 2)

    def reference(numbers):
        w1, b1, w2, b2 = numbers
        return jnp.sum((jnp.tanh(x @ w1 + b1) @ w2 + b2) ** 2)

    def derivatives(loss, at):
        """The gradient, and the Hessian times the point itself (forward over reverse)."""
        return jax.jit(lambda p: jax.jvp(jax.grad(loss), (p,), (p,)))(at)

    wanted = derivatives(reference, tuple(numbers))
    for got, exact in zip(derivatives(loss, mlp.pack(*numbers)), wanted, strict=True):
        for a, b in zip(mlp.unpack(got), exact, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_members_by_vmap_equal_members_one_by_one(mlp, x):
    keys = jax.random.split(jax.random.key(3), 3)
    together = jax.jit(jax.vmap(mlp.network.init, (0, None)))(keys, x)
    outputs, _ = jax.jit(jax.vmap(mlp.network.apply, (0, None)))(together, x)
    for i, key in enumerate(keys):
        alone = mlp.network.init(key, x)
        for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
            np.testing.assert_allclose(a, b[i], **close)
        np.testing.assert_allclose(outputs[i], mlp.network.apply(alone, x)[0], **close)
    assert not np.allclose(outputs[0], outputs[1])


def test_init_takes_shapes_and_runs_without_computing(mlp, x):
    struct = jax.ShapeDtypeStruct(x.shape, x.dtype)
    key = jax.random.key(0)
    same_tree(mlp.network.init(key, struct), mlp.network.init(key, x))
    shapes = jax.eval_shape(mlp.network.init, key, struct)
    variables = mlp.network.init(key, x)
    assert jax.tree.structure(shapes) == jax.tree.structure(variables)
    assert jax.tree.map(lambda a: a.shape, shapes) == jax.tree.map(jnp.shape, variables)


def test_variables_are_saved_by_path_and_restored_by_shape(mlp, x, tmp_path):
    variables = mlp.network.init(jax.random.key(0), x)
    save_tree(tmp_path / "variables.safetensors", variables)
    shapes = jax.eval_shape(mlp.network.init, jax.random.key(1), x)
    restored, _ = load_tree(tmp_path / "variables.safetensors", shapes)
    same_tree(restored, variables)
    assert [leaf.dtype for leaf in jax.tree.leaves(variables.params)] == [jnp.float32] * 4


def test_params_are_dicts_with_string_keys(mlp, x):
    def walk(tree):
        if isinstance(tree, jax.Array):
            return
        assert type(tree) is dict
        for key, branch in tree.items():
            assert isinstance(key, str)
            walk(branch)

    walk(mlp.network.init(jax.random.key(0), x).params)


@pytest.mark.parametrize("library", LIBRARIES[1:])
def test_a_network_can_be_an_argument_of_jit(library, x):
    network = layout(library).network
    variables = network.init(jax.random.key(0), x)
    outputs = jax.jit(lambda network, variables: network.apply(variables, x)[0])(network, variables)
    np.testing.assert_allclose(outputs, network.apply(variables, x)[0], **close)
    assert jax.tree.leaves(network) == []
