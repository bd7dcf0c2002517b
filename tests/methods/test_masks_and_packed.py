"""Masksembles (counts, coverage, sharing) and Packed-Ensembles (independence, the grouped one)."""

import itertools
import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from modulated_cases import TRAINING, batch_of, classification, jitted, start

import credax as cx
from credax.methods.ensembles.masksembles import Masksembles, draw_masks, ones_per_mask
from credax.methods.ensembles.modulator import named
from credax.methods.ensembles.packed_ensemble import PackedEnsemble
from credax.networks.width import WidthRounded, scaled_widths

# Small programs, many of them: compiling takes longer than a few seconds.
pytestmark = pytest.mark.slow

COUNTS = {(64, 2, 4): 34, (128, 2, 4): 68, (50, 2, 4): 26, (64, 3, 4): 26}


@pytest.mark.parametrize(("case", "ones"), COUNTS.items())
def test_masks_keep_the_published_number(case, ones):
    channels, scale, members = case
    exact = channels / (scale * (1 - (1 - 1 / scale) ** members))
    assert ones_per_mask(channels, scale, members) == ones == math.floor(exact)


@pytest.fixture(scope="module")
def masks():
    """Twenty sets of four masks on 64 channels, scale 2."""
    keys = jax.random.split(jax.random.key(0), 20)
    return np.asarray(jax.jit(jax.vmap(lambda key: draw_masks(key, 64, 2.0, 4)))(keys))


def test_masks_cover_every_channel_and_have_equal_counts(masks):
    assert masks.shape == (20, 4, 64)
    assert set(np.unique(masks)) == {0, 1}
    np.testing.assert_array_equal(masks.sum(-1), 34)
    assert masks.any(1).all()


def test_two_masks_share_about_one_over_the_scale(masks):
    pairs = itertools.combinations(range(4), 2)
    shares = np.stack([(masks[:, i] * masks[:, j]).sum(-1) / 34 for i, j in pairs], 1).mean(1)
    error = shares.std() / math.sqrt(len(shares))
    # Four masks of 34 among about 68 positions; what is dropped was in none.
    assert abs(shares.mean() - 0.5) < 4 * error + 0.01


@pytest.mark.parametrize(
    ("channels", "scale", "members"), [(1, 2.0, 4), (6, 2.0, 4), (10, 6.0, 2), (7, 1.0, 3)]
)
def test_small_groups_have_masks_too(channels, scale, members):
    masks = np.asarray(draw_masks(jax.random.key(1), channels, scale, members))
    assert masks.shape == (members, channels)
    assert masks.any(0).all()
    assert len(set(masks.sum(1))) == 1
    if scale == 1:
        assert masks.all()


@pytest.fixture(scope="module")
def pictures():
    """A residual network with batch statistics, and rows for it."""
    network = cx.networks.ResNet(2, widths=(4, 4), blocks=(1, 1), stem=4)
    return classification(network, (6, 6, 2))


def test_everything_that_reads_a_group_sees_one_mask(pictures):
    """Also across residual sums: written out, a dropped unit has no outgoing weights at all."""
    problem, data = pictures
    dynamics, state = start(problem, Masksembles(members=3, scale=3.0), data)
    structure = dynamics.modulator.structure
    params = jitted(dynamics.members)(state).params
    arrays = named(params)
    plain = named(problem.init(jax.random.key(0), data.x[:1]).params)
    seen = 0
    for group in structure.groups:
        mask = np.asarray(state.fixed[str(group.id)])
        for occurrence in group.occurrences:
            if occurrence.role != "input":
                continue
            name = occurrence.path.removeprefix("params/")
            kernel = np.moveaxis(np.asarray(arrays[name]), occurrence.axis + 1, 1)
            whole = np.moveaxis(np.asarray(plain[name]), occurrence.axis, 0)
            for member in range(3):
                kept = mask[member] > 0
                np.testing.assert_array_equal(kernel[member][~kept], 0)
                # What is kept is not rescaled.
                np.testing.assert_array_equal(kernel[member][kept], whole[kept])
            seen += 1
    assert seen >= 4


def test_masks_come_from_the_runs_key(pictures):
    problem, data = pictures
    method = Masksembles(members=2)
    first, again, other = (start(problem, method, data, key)[1].fixed for key in (0, 0, 1))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert any(not np.array_equal(first[name], other[name]) for name in first)
    # Nothing is shared between two records, and none is changed by training.
    dynamics, state = start(problem, method, data)
    new, _ = jitted(dynamics.step)(jax.random.key(1), state, batch_of(problem, data))
    assert all(np.array_equal(new.fixed[name], first[name]) for name in first)


def test_scale_one_gives_equal_members():
    problem, data = classification(cx.networks.MLP((5,), outputs=2))
    dynamics, state = start(problem, Masksembles(members=3, scale=1.0), data)
    for leaf in jax.tree.leaves(jitted(dynamics.members)(state).params):
        np.testing.assert_array_equal(leaf[1:], jnp.broadcast_to(leaf[:1], leaf[1:].shape))


def test_batch_ensemble_with_masks_as_factors_is_the_same():
    problem, data = classification(cx.networks.MLP((12,), outputs=2))
    masked, state = start(problem, Masksembles(members=2), data)
    plain, other = start(problem, cx.BatchEnsemble(members=2, own="none"), data)
    (mask,) = state.fixed.values()
    inputs = {path: jnp.ones_like(r) for path, r in other.trained.members.inputs.items()}
    inputs["params/1_dense/kernel"] = mask[:, None]
    outputs = jax.tree.map(jnp.ones_like, other.trained.members.outputs)
    factors = other.trained.members._replace(inputs=inputs, outputs=outputs)
    other = other._replace(trained=other.trained._replace(members=factors))
    key, batch = jax.random.key(1), batch_of(problem, data)
    first, _ = jitted(masked.loss)(state.trained, state.fixed, {}, 0, key, batch)
    second, _ = jitted(plain.loss)(other.trained, (), {}, 0, key, batch)
    np.testing.assert_allclose(first, second, rtol=1e-6)


def packed(groups=1, alpha=4.0, network=None, shape=(3,)):
    """A packed ensemble's dynamics, first states and narrow problem."""
    problem, data = classification(network or cx.networks.MLP((4,), outputs=2), shape)
    method = PackedEnsemble(members=2, alpha=alpha, groups=groups)
    narrow = method.trained_problem(problem)
    dynamics = method.dynamics(narrow, data, TRAINING)
    keys = jax.random.split(jax.random.key(0), 2)
    variables = jax.vmap(lambda key: narrow.init(key, data.x[:1]))(keys)
    return narrow, data, dynamics, variables


def test_members_are_independent_and_follow_their_own_gradient():
    """A member's step is that of a network alone: the loss is the sum and not the mean."""
    narrow, data, dynamics, variables = packed()
    assert dynamics.replicas.shared_batches
    batch = batch_of(narrow, data)

    def total(variables):
        step = lambda v: dynamics._loss(v.params, v.state, batch, None)[0]  # noqa: E731
        return jax.vmap(step)(variables)

    jacobian = jax.jacobian(total)(variables)
    for leaf in jax.tree.leaves(jacobian.params):
        np.testing.assert_array_equal(leaf[0, 1], 0)
        np.testing.assert_array_equal(leaf[1, 0], 0)
    alone = jax.grad(lambda p: dynamics._loss(p, {}, batch, None)[0])(
        jax.tree.map(lambda leaf: leaf[0], variables.params)
    )
    for a, b in zip(jax.tree.leaves(jacobian.params), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(a[0, 0], b, rtol=1e-5, atol=1e-7)


def test_it_equals_the_grouped_network():
    """Two members of two channels are one network of four in two groups, from the same weights."""
    network = cx.networks.CNN(2, channels=(4, 4), dense=4)
    narrow, data, _, variables = packed(alpha=1.0, network=network, shape=(8, 8, 1))
    inner = narrow.network
    assert (inner.channels, inner.dense) == ((2, 2), 2)
    each = jax.vmap(lambda v: narrow.outputs(v, data.x)[0])(variables)
    params = variables.params

    def conv(x, layer, groups):
        kernel = jnp.concatenate(list(layer["kernel"]), axis=-1)
        y = jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        )  # fmt: skip
        y = y + layer["bias"].reshape(-1)
        pooled = y.reshape(len(y), y.shape[1] // 2, 2, y.shape[2] // 2, 2, -1).max((2, 4))
        return jax.nn.relu(pooled)

    y = conv(conv(jnp.asarray(data.x), params["0_conv"], 1), params["1_conv"], 2)
    # The groups' features, flattened apart, then dense layers in groups.
    features = jnp.stack(jnp.split(y, 2, -1)).reshape(2, len(y), -1)
    hidden = jax.nn.relu(
        jnp.einsum("mbi,mio->mbo", features, params["2_dense"]["kernel"])
        + params["2_dense"]["bias"][:, None]
    )
    heads = jnp.einsum("mbi,mio->mbo", hidden, params["3_dense"]["kernel"])
    np.testing.assert_allclose(
        each, heads + params["3_dense"]["bias"][:, None], rtol=1e-4, atol=1e-5
    )


def test_groups_of_a_member():
    narrow, data, _, variables = packed(
        groups=2, alpha=2.0, network=cx.networks.CNN(2, channels=(4, 4), dense=4), shape=(8, 8, 1)
    )
    assert variables.params["1_conv"]["kernel"].shape == (2, 3, 3, 2, 4)
    assert narrow.outputs(jax.tree.map(lambda a: a[0], variables), data.x)[0].shape == (8, 2)


@pytest.mark.parametrize("width", range(10, 71))
def test_widths_that_do_not_divide_are_rounded_up_and_said(width):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (rounded,) = scaled_widths((width,), 0.5, groups=3)
    exact = width * 0.5
    assert rounded % 3 == 0
    assert exact <= rounded < exact + 3
    told = any(issubclass(item.category, WidthRounded) for item in caught)
    assert told == (rounded != exact)


@pytest.mark.parametrize(
    "network",
    [
        cx.networks.MLP((8, 6), outputs=3),
        cx.networks.CNN(3, channels=(8, 6), dense=4),
        cx.networks.LeNet5(3),
        cx.networks.ResNet(3, widths=(8, 16), blocks=(1, 1), stem=8),
        cx.networks.ResNet(3, widths=(8, 16), blocks=(1, 1), stem=8, block="bottleneck"),
    ],
    ids=lambda network: type(network).__name__,
)
def test_networks_at_half_the_width(network):
    half = network.with_width(0.5)
    x = jax.ShapeDtypeStruct((1, 28, 28, 1), "float32")
    count = lambda n: sum(  # noqa: E731
        math.prod(leaf.shape)
        for leaf in jax.tree.leaves(jax.eval_shape(n.init, jax.random.key(0), x).params)
    )
    assert count(half) < count(network)
    shapes = jax.eval_shape(half.init, jax.random.key(0), x)
    assert jax.eval_shape(lambda v, a: half.apply(v, a)[0], shapes, x).shape == (1, 3)


def test_bad_input(refused):
    refused(lambda: Masksembles(scale=0.5), "scale is 0.5")
    refused(lambda: Masksembles(scale=7.0), "scale is 7.0")
    problem, data = classification(cx.networks.MLP((), outputs=2))
    refused(lambda: Masksembles().dynamics(problem, data, TRAINING), "no hidden units")
    refused(lambda: PackedEnsemble(alpha=0.0), "alpha is 0.0")
    refused(lambda: PackedEnsemble(groups=0), "groups is 0")
    refused(lambda: PackedEnsemble(groups=2).trained_problem(problem), "groups is 2")
    plain = cx.Problem(
        cx.FunctionNetwork(lambda key, x: {"w": jnp.ones((3, 2))}, lambda p, x: x @ p["w"]),
        cx.Categorical(),
    )
    refused(lambda: PackedEnsemble().trained_problem(plain), "without with_width")
    given = PackedEnsemble(narrow=lambda factor: cx.networks.MLP((int(8 * factor),), outputs=2))
    assert given.trained_problem(plain).network.hidden == (4,)
