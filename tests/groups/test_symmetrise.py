"""Baselines and the twin test: what is exact at finite width, and what must not be."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import credax as cx
from credax import groups, infinite
from credax.data import Split
from credax.network import Variables

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
SPACE = groups.vectors(groups.octahedral_matrices())
TURNED = groups.conjugate(SPACE, groups.random_rotations(RNG, 1)[0])


def dense(outputs=3, width=8):
    layer = lambda n: infinite.InfiniteDense(n, 1.4, 0.1)  # noqa: E731
    return infinite.serial(
        layer(width), infinite.Erf(), layer(width), infinite.Erf(), layer(outputs)
    )


def train(params, optimiser, space, steps=200):
    """Full-batch descent on the cross product of augmented pairs, in float64."""
    pair = groups.direct_sum(space, space)
    x = np.random.default_rng(1).standard_normal((3, 6))
    whole = groups.augment(x, np.cross(x[:, :3], x[:, 3:]), pair, space)
    net = dense()

    def loss(params):
        outputs = net.apply(Variables(params, {}), jnp.asarray(whole.x))[0]
        return jnp.mean(jnp.square(outputs - whole.y))

    def step(carry, _):
        params, state = carry
        updates, state = optimiser.update(jax.grad(loss)(params), state)
        return (optax.apply_updates(params, updates), state), None

    return jax.lax.scan(step, (params, optimiser.init(params)), length=steps)[0][0]


@pytest.mark.parametrize(
    ("optimiser", "space", "bound"),
    [
        ("sgd", TURNED, (0, 1e-11)),
        ("adam", SPACE, (0, 1e-11)),  # signed permutations: Adam commutes with them
        ("adam", TURNED, (1e-2, np.inf)),  # and not with other rotations
    ],
)
def test_twins_stay_twins_where_the_pipeline_keeps_the_symmetry(optimiser, space, bound, float64):
    make = {"sgd": lambda: optax.sgd(0.1, momentum=0.9), "adam": lambda: optax.adam(0.01)}
    net, pair, element = dense(), groups.direct_sum(space, space), 5
    start = net.init(jax.random.key(0), jnp.ones((1, 6)))
    run = jax.jit(lambda params: train(params, make[optimiser](), space))
    one, other = run(start.params), run(groups.twin(start.params, element, pair, space))
    points = np.random.default_rng(2).standard_normal((4, 6))
    back = pair.apply(int(space.group.inverse[element]), points)
    expected = space.apply(element, np.asarray(net.apply(Variables(one, {}), jnp.asarray(back))[0]))
    found = np.asarray(net.apply(Variables(other, {}), jnp.asarray(points))[0])
    gap = np.abs(found - expected).max() / np.abs(expected).max()
    assert bound[0] <= gap <= bound[1]


def test_all_twins_are_the_group_average(float64):
    net, pair = dense(), groups.direct_sum(TURNED, TURNED)
    start = net.init(jax.random.key(0), jnp.ones((1, 6)))
    x = jnp.asarray(RNG.standard_normal((4, 6)))
    members = groups.twin_ensemble(start.params, pair, TURNED)
    outputs = jax.vmap(lambda params: net.apply(Variables(params, {}), x)[0])(members)
    average = groups.GroupAverage(net, pair, TURNED)
    mean = np.asarray(average.apply(start, x)[0])
    np.testing.assert_allclose(outputs.mean(0), mean, atol=1e-12)
    moved = average.apply(start, jnp.asarray(pair.apply(7, np.asarray(x))))[0]
    np.testing.assert_allclose(moved, TURNED.apply(7, mean), atol=1e-12)


@pytest.mark.parametrize("order", [4, 8])
def test_filters_that_turn(order, float64):
    """Exact under quarter turns, whatever the order; not trivially constant."""
    net = groups.GroupCNN(order, outputs=3, fields=(2, 3), window=5 if order == 8 else 3)
    x = jnp.asarray(RNG.standard_normal((2, 8, 8, 1)))
    variables = net.init(jax.random.key(0), x)
    plain = net.apply(variables, x)[0]
    for k in range(1, 4):
        turned = net.apply(variables, jnp.rot90(x, k, axes=(1, 2)))[0]
        np.testing.assert_allclose(turned, plain, atol=1e-12)
    assert np.abs(plain[0] - plain[1]).max() > 1e-3
    flipped = net.apply(variables, x[:, :, ::-1])[0]
    assert np.abs(flipped - plain).max() > 1e-3


def test_canonical_forms_are_shared_by_an_orbit():
    turns = groups.quarter_turns(6, channels=1)
    network = cx.networks.MLP((8,), outputs=3)
    scorer = cx.networks.MLP((4,), outputs=1)
    net = groups.Canonicalised(network, scorer, turns)
    x = jnp.asarray(RNG.standard_normal((5, 6, 6, 1)), jnp.float32)
    variables = net.init(jax.random.key(0), x)
    plain = net.apply(variables, x)[0]
    for g in range(4):
        np.testing.assert_allclose(net.apply(variables, turns.apply(g, x))[0], plain, atol=1e-6)
    alone = network.apply(Variables(variables.params["network"], {}), turns.apply(1, x))[0]
    assert np.abs(alone - plain).max() > 1e-2

    def loss(params):
        return net.apply(Variables(params, variables.state), x, train=True)[0].sum()

    slopes = jax.grad(loss)(variables.params)["scorer"]
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(slopes)) > 1e-6


def test_augmentation_in_the_engine():
    turns = groups.quarter_turns(3, channels=1)
    x = RNG.standard_normal((6, 3, 3, 1)).astype(np.float32)
    y = np.arange(6)
    key = jax.random.key(0)
    moved, same = groups.RandomElement(turns)(key, jnp.asarray(x), jnp.asarray(y))
    np.testing.assert_array_equal(same, y)
    for row, source in zip(np.asarray(moved), x, strict=True):
        assert any(np.array_equal(row, turns.apply(g, source)) for g in range(4))
    closed, labels = groups.OrbitBatch(turns)(key, jnp.asarray(x[:4]), jnp.asarray(y[:4]))
    np.testing.assert_array_equal(np.asarray(closed), groups.orbit(x[:1], turns).flat)
    np.testing.assert_array_equal(labels, [0, 0, 0, 0])
    with pytest.raises(cx.InputError, match="multiple of 4"):
        groups.OrbitBatch(turns)(key, jnp.asarray(x), jnp.asarray(y))
    blurred = groups.picture_rotations(3, 8)
    one = np.asarray(groups.RandomElement(blurred)(key, jnp.asarray(x), jnp.asarray(y))[0])
    for row, source in zip(one, x, strict=True):
        gaps = [np.abs(row - blurred.apply(g, source)).max() for g in range(8)]
        assert min(gaps) < 1e-6
    split = Split(x, y % 2, cx.Standardise(0.0, 1.0))
    problem = cx.Problem(cx.networks.MLP((4,), outputs=2), cx.Categorical())
    for augmentation in (groups.RandomElement(turns), groups.OrbitBatch(turns)):
        training = cx.Training(epochs=1, batch_size=4, augment=(augmentation,))
        posterior = cx.fit(problem, cx.Single(), split, training=training, progress=False)
        assert posterior.num_members == 1


def test_what_breaks_a_pipeline_is_named():
    assert groups.pipeline_violations(TURNED) == []
    found = groups.pipeline_violations(
        TURNED, optimiser="adam", gaussian_start=False, batches="shared"
    )
    assert len(found) == 3
    assert groups.pipeline_violations(SPACE, optimiser="adam") == []
    assert "plateau" in groups.pipeline_violations(groups.picture_rotations(6, 8))[0]
