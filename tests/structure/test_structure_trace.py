"""What the trace finds: table 2.7 of the specification, libraries, roles, errors."""

import dataclasses
import time
from fractions import Fraction

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from structure_cases import TABLE, plain, relu, small, struct

from credax import adapters, networks
from credax.errors import InputError
from credax.files import tree_names
from credax.structure import StructureError, SymmetryViolation, apply, random, register_rule, trace
from credax.structure.rules import RULES
from credax.structure.verify import draw_variables, verify_structure


def traced(network, shape, **options):
    x = struct(*shape)
    return trace(network, jax.eval_shape(network.init, jax.random.key(0), x), x, **options)


def found(structure):
    return sorted((g.size, g.base_sizes, len(g.scalings)) for g in structure.groups)


@pytest.mark.parametrize("name", TABLE)
def test_table(name):
    network, shape, wanted = TABLE[name]
    structure = traced(network, shape)
    assert found(structure) == sorted(wanted)
    assert structure.error <= 1e-14  # far below what is allowed: exact up to rounding


@pytest.mark.parametrize("name", ["mlp", "cnn", "resnet-batch", "grouped", "transformer"])
def test_acting_at_one_place_alone_changes_the_outputs(name, float64):
    """The negative control: half a symmetry is none."""
    network, shape, _ = TABLE[name]
    structure, x = traced(network, shape), struct(*shape)
    shapes = jax.eval_shape(network.init, jax.random.key(0), x)
    inputs = np.random.default_rng(0).standard_normal(shape)
    run = jax.jit(lambda v: network.apply(v, inputs)[0])
    for seed in range(20):  # until no layer is saturated for every row
        variables = draw_variables(structure, shapes, seed=seed)
        before = run(variables)
        if jnp.ptp(before, 0).max() > 0.1 * jnp.abs(before).max():
            break
    names, leaves = tree_names(variables), jax.tree.leaves(variables)
    for group in structure.groups:
        chosen, changes = group.occurrences[0].path, []
        for seed in range(6):  # a group of two is left as it is by every second permutation
            moved = apply(structure, variables, random(structure, seed, 0.5, groups=(group.id,)))
            both = zip(names, leaves, jax.tree.leaves(moved), strict=True)
            half = [new if path == chosen else old for path, old, new in both]
            after = run(jax.tree.unflatten(jax.tree.structure(variables), half))
            changes.append(jnp.max(jnp.abs(after - before)) / jnp.max(jnp.abs(before)))
        assert max(changes) > 1e-3, group


def test_exponents_of_a_dense_network():
    structure = traced(networks.MLP((5, 6), 3), (2, 7))
    assert [
        {f"{place.path}:{place.position}": int(value) for place, value in group.scalings[0].items()}
        for group in structure.groups
    ] == [
        {"params/0_dense/kernel:1": 1, "params/0_dense/bias:0": 1, "params/1_dense/kernel:0": -1},
        {"params/1_dense/kernel:1": 1, "params/1_dense/bias:0": 1, "params/2_dense/kernel:0": -1},
    ]


@pytest.mark.parametrize(
    ("statistics", "inner", "stream"), [("consistent", 2, 4), ("held", 2, 4), ("free", 3, 7)]
)
def test_resnet18_has_twelve_groups(statistics, inner, stream):
    network, x = networks.ResNet18(10), struct(1, 32, 32, 3)
    shapes = jax.eval_shape(network.init, jax.random.key(0), x)
    start = time.process_time()
    structure = trace(network, shapes, x, statistics=statistics, verify=False)
    seconds = time.process_time() - start
    sizes = [group.size for group in structure.groups]
    assert sorted(sizes) == sorted([64, 128, 256, 512] * 3)
    for size in (64, 128, 256, 512):
        counts = sorted(len(g.scalings) for g in structure.groups if g.size == size)
        assert counts == [inner, inner, stream]
    assert seconds < 5  # 0.1 s alone; the bound only catches a change of order


@pytest.mark.parametrize(
    "network",
    [
        networks.ResNet20(10),
        networks.ResNet20(10, norm="frn"),
        networks.ResNet18(10, norm="frn"),
        networks.ResNet50(10),
        networks.PreActResNet18(10),
        networks.WideResNet(16, 4, 10),
        networks.ResNet18(10, norm="group"),
    ],
    ids=lambda n: f"{n.block}-{n.norm}-{n.stem}",
)
def test_published_networks_are_followed(network):
    structure = traced(network, (1, 32, 32, 3), verify=False)
    assert len(structure.groups) > 8
    assert set(structure.pinned.values()) <= {"input", "output", "a window"}
    streams = [g for g in structure.groups if len(g.producers) > 1]
    assert streams


def test_a_convolution_made_of_products_has_the_same_groups():
    shape = (2, 8, 8, 3)
    native = traced(networks.CNN(3, (9, 6), 5), shape)
    gemm = traced(networks.CNN(3, (9, 6), 5, implementation="gemm"), shape)
    assert found(native) == found(gemm)


def test_flatten_shares_the_channels():
    network, shape, _ = TABLE["residual-flatten"]
    structure = traced(network, shape)
    kernel = structure.axes["params/3_dense/kernel"][0]
    stream = next(g for g in structure.groups if len(g.producers) > 1)
    assert kernel.size == 2 * 2 * 8
    assert kernel.label.factors[-1].atom == stream.atom
    assert "params/3_dense/kernel" in stream.consumers


@pytest.mark.parametrize(
    ("activation", "scalings"),
    [
        (jax.nn.relu, [{1: 1, 0: -1}]),
        (jax.nn.leaky_relu, [{1: 1, 0: -1}]),
        (jnp.abs, [{1: 1, 0: -1}]),
        (lambda x: x, [{1: 1, 0: -1}]),
        (lambda x: jax.nn.relu(x) ** 2, [{1: 1, 0: -2}]),
        (jnp.square, [{1: 1, 0: -2}]),
        *((f, []) for f in (jax.nn.silu, jax.nn.gelu, jnp.tanh, jax.nn.sigmoid, jax.nn.softplus)),
        *((f, []) for f in (jax.nn.elu, jax.nn.celu, jax.nn.selu, jax.nn.relu6, jax.nn.hard_tanh)),
        *((f, []) for f in (jax.nn.squareplus, jax.nn.softmax, jnp.sin, jax.nn.soft_sign)),
    ],
)
def test_which_activation_scales(activation, scalings):
    network = plain({"a": (3, 4), "b": (4, 2)}, lambda p, x: activation(x @ p["a"]) @ p["b"])
    (group,) = traced(network, (2, 3)).groups
    assert group.size == 4
    rows = [{p.position: value for p, value in row.items()} for row in group.scalings]
    assert rows == [{k: Fraction(v) for k, v in row.items()} for row in scalings]


def test_gates():
    """Each half of a product scales on its own; of a gated linear unit only the free half."""
    shapes = {"a": (3, 4), "b": (3, 4), "c": (4, 2)}
    bilinear = plain(shapes, lambda p, x: ((x @ p["a"]) * (x @ p["b"])) @ p["c"])
    gated = plain(shapes, lambda p, x: ((x @ p["a"]) * jax.nn.sigmoid(x @ p["b"])) @ p["c"])
    assert found(traced(bilinear, (2, 3))) == [(4, (), 2)]
    (group,) = traced(gated, (2, 3)).groups
    assert {place.path for place in group.scalings[0]} == {"params/a", "params/c"}


def test_epsilon_ignored_is_measured():
    structure = traced(TABLE["resnet-frn-padded"][0], (2, 8, 8, 3), epsilon="ignore")
    exact = traced(TABLE["resnet-frn-padded"][0], (2, 8, 8, 3))
    assert sum(len(g.scalings) for g in structure.groups) > sum(
        len(g.scalings) for g in exact.groups
    )
    assert 1e-10 < structure.error < 1e-3


class EquinoxCNN(eqx.Module):
    layers: list

    def __init__(self, key):
        a, b, c, d = jax.random.split(key, 4)
        self.layers = [
            eqx.nn.Conv2d(2, 4, 3, key=a), eqx.nn.Conv2d(4, 6, 3, key=b),
            eqx.nn.Linear(24, 5, key=c), eqx.nn.Linear(5, 3, key=d),
        ]  # fmt: skip

    def __call__(self, x):
        one, two, three, four = self.layers
        x = jax.nn.relu(two(jax.nn.relu(one(x))))
        return four(jax.nn.relu(three(x.reshape(-1))))


class NnxCNN(nnx.Module):
    def __init__(self, rngs):
        self.one = nnx.Conv(2, 4, (3, 3), padding="VALID", rngs=rngs)
        self.two = nnx.Conv(4, 6, (3, 3), padding="VALID", rngs=rngs)
        self.three, self.four = nnx.Linear(24, 5, rngs=rngs), nnx.Linear(5, 3, rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.two(nnx.relu(self.one(x))))
        return self.four(nnx.relu(self.three(x.reshape(x.shape[0], -1))))


class LinenCNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        for width in (4, 6):
            x = nn.relu(nn.Conv(width, (3, 3), padding="VALID")(x))
        return nn.Dense(3)(nn.relu(nn.Dense(5)(x.reshape(x.shape[0], -1))))


def haiku_cnn(x):
    for width in (4, 6):
        x = jax.nn.relu(hk.Conv2D(width, 3, padding="VALID")(x))
    return hk.Linear(3)(jax.nn.relu(hk.Linear(5)(hk.Flatten()(x))))


LIBRARIES = {
    "equinox": lambda: (adapters.from_equinox(EquinoxCNN), (2, 2, 6, 6)),
    "nnx": lambda: (adapters.from_nnx(NnxCNN), (2, 6, 6, 2)),
    "linen": lambda: (adapters.from_linen(LinenCNN()), (2, 6, 6, 2)),
    "haiku": lambda: (adapters.from_haiku(haiku_cnn), (2, 6, 6, 2)),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_agree(library):
    network, shape = LIBRARIES[library]()
    structure = traced(network, shape)
    assert found(structure) == [(4, (), 1), (5, (), 1), (6, (), 1)]
    assert all(c.read_once and c.bias for c in structure.contractions.values())


def test_batch_norm_of_libraries():
    """Both vectors of a batch norm, found through each library's own way to write it."""

    def haiku(x, is_training):
        x = hk.BatchNorm(True, True, 0.9)(hk.Linear(4)(x), is_training)
        return hk.Linear(2)(jax.nn.relu(x))

    class Linen(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            x = nn.BatchNorm(use_running_average=not train)(nn.Dense(4)(x))
            return nn.Dense(2)(nn.relu(x))

    class Nnx(nnx.Module):
        def __init__(self, rngs):
            self.one, self.two = nnx.Linear(3, 4, rngs=rngs), nnx.Linear(4, 2, rngs=rngs)
            self.norm = nnx.BatchNorm(4, rngs=rngs)

        def __call__(self, x):
            return self.two(nnx.relu(self.norm(self.one(x))))

    networks_of = {
        "haiku": adapters.from_haiku(haiku),
        "linen": adapters.from_linen(Linen()),
        "nnx": adapters.from_nnx(Nnx),
        "equinox": adapters.from_equinox(lambda key: EquinoxNorm(key, "ema")),
    }
    for name, network in networks_of.items():
        structure = traced(network, (4, 3))
        assert found(structure) == [(4, (), 2)], name
        assert len(structure.pairs) == 1, name


class EquinoxNorm(eqx.Module):
    one: eqx.nn.Linear
    two: eqx.nn.Linear
    norm: eqx.nn.BatchNorm

    def __init__(self, key, mode):
        self.one, self.two = eqx.nn.Linear(3, 4, key=key), eqx.nn.Linear(4, 2, key=key)
        self.norm = eqx.nn.BatchNorm(4, "batch", mode=mode)

    def __call__(self, x, state):
        x, state = self.norm(self.one(x), state)
        return self.two(jax.nn.relu(x)), state


def test_a_corrected_running_variance_scales_behind_the_norm_only():
    """Equinox's "batch" mode divides the variance by a counted number before it adds epsilon."""
    structure = traced(adapters.from_equinox(lambda key: EquinoxNorm(key, "batch")), (4, 3))
    assert found(structure) == [(4, (), 1)]


def test_roles_biases_and_groups():
    structure = traced(TABLE["grouped"][0], (2, 5, 5, 3))
    roles = {path: [axis.role for axis in axes] for path, axes in structure.axes.items()}
    assert roles["params/0_conv/kernel"] == ["window", "window", "input", "output"]
    assert roles["params/0_conv/bias"] == ["elementwise"]
    assert roles["params/2_dense/kernel"] == ["input", "output"]
    assert structure.contractions["params/1_conv/kernel"].feature_group_count == 2
    assert structure.contractions["params/1_conv/kernel"].bias == "params/1_conv/bias"
    assert [
        a.role for a in traced(networks.MLP((5,), 1), (2, 1)).axes["params/0_dense/kernel"]
    ] == [
        "input",
        "output",
    ]
    heads = traced(TABLE["transformer"][0], (2, 4, 5))
    assert [axis.role for axis in heads.axes["params/q"]] == ["input", "output", "output"]
    assert [axis.role for axis in heads.axes["params/o"]] == ["input", "input", "output"]
    assert heads.contractions["params/q"].bias == "params/qb"


def test_a_kernel_read_twice_says_so():
    network = plain(
        {"a": (3, 3), "b": (3, 2)}, lambda p, x: relu(relu(x @ p["a"]) @ p["a"]) @ p["b"]
    )
    structure = traced(network, (2, 3))
    assert not structure.contractions["params/a"].read_once
    assert structure.contractions["params/b"].read_once
    assert found(structure) == []  # the inputs' axis is the hidden axis


def unknown_operation(p, x):
    h = x @ p["w"]
    return jnp.linalg.cholesky(p["s"] @ p["s"].T) @ relu(h).T


def test_an_unknown_operation_is_named():
    network = plain({"w": (3, 4), "s": (4, 4)}, lambda p, x: unknown_operation(p, x).T)
    with pytest.raises(StructureError) as caught:
        traced(network, (2, 3))
    text = str(caught.value)
    assert "`cholesky`" in text
    assert "[4,4]" in text
    assert "params/" in text
    assert "unknown_operation" in text or "test_structure_trace.py" in text
    assert "on_unknown='pin'" in text
    assert "\n" not in text
    pinned = traced(network, (2, 3), on_unknown="pin")
    assert found(pinned) == [(4, (), 0)]  # the columns of s, which s sᵀ sums over
    assert "cholesky" in " ".join(pinned.pinned.values())
    assert pinned.error <= 1e-10


def test_sorting_by_an_index_pins():
    def function(p, x):
        h = relu(x @ p["a"])
        order = jnp.argsort(h, axis=-1)
        return jnp.take_along_axis(h, order, axis=-1) @ p["b"]

    structure = traced(plain({"a": (3, 4), "b": (4, 2)}, function), (2, 3))
    assert found(structure) == []
    assert any("sort" in reason or "index" in reason for reason in structure.pinned.values())


def test_a_users_operation_can_be_taught():
    primitive = jax.extend.core.Primitive("half_wave")
    primitive.def_abstract_eval(lambda x: jax.core.ShapedArray(x.shape, x.dtype))
    primitive.def_impl(lambda x: jnp.maximum(x, 0))
    jax.interpreters.mlir.register_lowering(
        primitive,
        jax.interpreters.mlir.lower_fun(lambda x: jnp.maximum(x, 0), multiple_results=False),
    )
    network = plain({"a": (3, 4), "b": (4, 2)}, lambda p, x: primitive.bind(x @ p["a"]) @ p["b"])
    with pytest.raises(StructureError, match="`half_wave`"):
        traced(network, (2, 3))
    assert found(traced(network, (2, 3), on_unknown="pin")) == []
    register_rule("half_wave", lambda context, equation, values: [values[0]._replace(origin=None)])
    try:
        assert found(traced(network, (2, 3))) == [(4, (), 1)]
    finally:
        del RULES["half_wave"]


def test_a_wrong_structure_is_refused():
    """Verification bites: a scaling that the activation does not allow names its group."""
    x = struct(2, 3)
    good = networks.MLP((4,), 2)
    bad = networks.MLP((4,), 2, activation="tanh")
    shapes = jax.eval_shape(good.init, jax.random.key(0), x)
    structure = trace(good, shapes, x)
    with pytest.raises(SymmetryViolation, match="group 0"):
        verify_structure(dataclasses.replace(structure, error=None, network=bad), shapes, x)


def test_captured_constants():
    mask = jnp.array([1.0, 0.0, 2.0, 1.0])
    shapes = {"a": (3, 4), "b": (4, 2)}
    masked = plain(shapes, lambda p, x: (relu(x @ p["a"]) * mask) @ p["b"])
    flat = plain(shapes, lambda p, x: (relu(x @ p["a"]) * jnp.full(4, 2.0)) @ p["b"])
    assert found(traced(masked, (2, 3))) == []
    assert found(traced(flat, (2, 3))) == [(4, (), 1)]


def test_hidden_units_seen_as_a_square_stay_one_group():
    def function(p, x):
        h = relu(x @ p["a"]).reshape(-1, 2, 3)
        return relu(h).reshape(-1, 6) @ p["b"]

    assert found(traced(plain({"a": (3, 6), "b": (6, 2)}, function), (2, 3))) == [(6, (), 1)]


def test_a_group_in_a_square_product_is_not_given_more_freedom_than_it_has():
    """``h[g, c] k[g', c]`` summed over c: the order of c must not depend on g."""

    def function(p, x):
        h = relu(jnp.einsum("bi,igc->bgc", x, p["a"]))
        square = jnp.einsum("bgc,bhc->bgh", h, relu(jnp.einsum("bi,igc->bgc", x, p["c"])))
        return square.reshape(x.shape[0], -1) @ p["b"]

    structure = traced(plain({"a": (3, 2, 4), "c": (3, 2, 4), "b": (4, 2)}, function), (2, 3))
    assert all(group.base == () for group in structure.groups if group.size == 4)
    assert structure.error <= 1e-10


def test_options_are_checked():
    network, shape, _ = TABLE["mlp"]
    for option in ("on_unknown", "epsilon", "statistics"):
        with pytest.raises(InputError, match=option):
            traced(network, shape, **{option: "no"})


def test_unused_parameters_are_pinned():
    structure = traced(
        plain({"a": (3, 4), "b": (4, 2), "idle": (5,)}, lambda p, x: relu(x @ p["a"]) @ p["b"]),
        (2, 3),
    )
    assert found(structure) == [(4, (), 1)]
    assert "does not reach the output" in structure.pinned.values()


def test_small_resnet_has_negative_scales_covered():
    """The variables of the check have scales of both signs (a defect of the published code)."""
    network, x = small(), struct(2, 8, 8, 3)
    shapes = jax.eval_shape(network.init, jax.random.key(0), x)
    drawn = draw_variables(trace(network, shapes, x), shapes)
    scale = drawn.params["01_batch_norm" if "01_batch_norm" in drawn.params else "1_batch_norm"][
        "scale"
    ]
    assert min(scale) < 0 < max(scale)


def test_constants_beside_each_other_are_not_one():
    """Segments of ones and of twos: a bias over both may not be permuted across them."""

    def function(p, x):
        ones, twos = jnp.ones((x.shape[0], 2)), jnp.full((x.shape[0], 3), 2.0)
        h = jnp.concatenate([ones.astype(x.dtype), twos.astype(x.dtype), relu(x @ p["a"])], -1)
        return relu(h + p["b"]) @ p["c"]

    structure = traced(plain({"a": (3, 4), "b": (9,), "c": (9, 2)}, function), (2, 3))
    assert sorted(group.size for group in structure.groups) == [2, 3, 4]


def test_a_running_log_sum_allows_no_scaling():
    def function(p, x):
        h = jnp.einsum("bti,ij->btj", x, p["a"])
        return jax.lax.cumlogsumexp(h, axis=1).sum(1) @ p["b"]

    assert found(traced(plain({"a": (3, 4), "b": (4, 2)}, function), (2, 5, 3))) == [(4, (), 0)]


def test_a_network_that_computes_in_single_precision_is_judged_by_it():
    def function(p, x):
        return relu(x.astype(jnp.float32) @ p["a"].astype(jnp.float32)) @ p["b"]

    structure = traced(plain({"a": (3, 4), "b": (4, 2)}, function), (2, 3))
    assert found(structure) == [(4, (), 1)]
    assert structure.error < 1e-4
