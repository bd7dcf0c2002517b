"""The step of repulsive ensembles: over devices, in turns, with diverged members, at what cost."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from repulsive_cases import batch_of, dynamics_of, gradient, largest_scaled, start, step

import credax as cx
from credax.data import Split
from credax.methods.repulsive.embeddings import InputGradients
from credax.methods.repulsive.kernels import gradient_repulsion
from credax.methods.repulsive.lengthscale import DenseMetric, Factored
from credax.problem import Batch
from credax.training.engine import build_program
from credax.training.loop import MemberDiverged
from credax.training.members import Map, Shard, Unroll, Vmap
from credax.training.program import Rows, advance, initialise

pytestmark = pytest.mark.slow

CLASSES = 3
PROBLEM = cx.Problem(cx.networks.MLP((6,), CLASSES, "tanh"), cx.Categorical(), weight_decay=1e-2)


def rows(batch=8, inputs=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(batch, inputs)), rng.integers(0, CLASSES, batch)


# --- over devices and in turns -------------------------------------------------------------------


def test_strategies_give_one_gradient(float64):
    """All at once, in groups with and without residuals, unrolled, over members, over data."""
    x, y = rows()
    dynamics, recomputed = (
        dynamics_of(cx.FoRDE(8, rank=3, pullback=kind), PROBLEM, x, y) for kind in ("vjp", "jvp")
    )
    batch, state = batch_of(x, y), start(dynamics, x)
    expected = gradient(dynamics, state, batch)
    for dynamic, strategy in (
        (dynamics, Map(1)),
        (recomputed, Map(3)),
        (recomputed, Unroll()),
        (dynamics, Unroll()),
        (dynamics, Shard(jax.make_mesh((8, 1), ("members", "data")))),
        (dynamics, Shard(jax.make_mesh((1, 8), ("members", "data")))),
        (dynamics, Shard(jax.make_mesh((2, 4), ("members", "data")))),
    ):
        found = gradient(dynamic, state, batch, strategy)
        assert largest_scaled(expected, found) < 1e-10, strategy


COLLECTIVE = re.compile(r"= (\S+) (all-gather|all-reduce|all-to-all|collective-permute)\(")


def collectives(members, data, gradients, metric):
    """How many numbers each exchange between devices carries when the repulsion is partitioned."""
    mesh = jax.make_mesh((members, data), ("members", "data"))
    spec = jax.sharding.PartitionSpec("members", "data")
    sharding = jax.sharding.NamedSharding(mesh, spec)
    cotangent = lambda g, m: gradient_repulsion(g, m).cotangent  # noqa: E731
    compiled = jax.jit(cotangent, in_shardings=(sharding, None), out_shardings=sharding)
    text = compiled.lower(gradients, metric).compile().as_text()
    sizes = []
    for shape, name in COLLECTIVE.findall(text):
        digits = re.findall(r"\[([\d,]*)\]", shape)
        sizes.append((name, max(int(np.prod([int(n) for n in d.split(",") if n])) for d in digits)))
    return sizes


def test_devices_exchange_projected_gradients_or_normalisers_only():
    members, batch, inputs, rank = 8, 16, 200, 3
    g = np.random.default_rng(0).normal(size=(members, batch, inputs)).astype(np.float32)
    vectors = np.linalg.qr(np.random.default_rng(1).normal(size=(inputs, rank)))[0]
    metric = Factored(jnp.asarray(vectors, jnp.float32), jnp.ones(rank))
    over_members = collectives(8, 1, g, metric)
    assert over_members
    assert max(size for _, size in over_members) <= members * members * batch
    over_data = collectives(1, 8, g, metric)
    assert over_data
    assert max(size for _, size in over_data) <= members


# --- ensembles that do not repel -----------------------------------------------------------------


@pytest.fixture(scope="module")
def split(blobs):
    x, y = blobs
    return Split(x, y, cx.Standardise.of(x))


TRAINING = cx.Training(epochs=2, batch_size=16, last_batch="pad")


def fitted(record, split, problem=PROBLEM, training=TRAINING, **options):
    return cx.fit(problem, record, split, key=3, training=training, progress=False, **options)


def bits(posterior):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(posterior.variables)]


def assert_same_bits(one, other):
    for a, b in zip(bits(one), bits(other), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("record", "members"),
    [
        (cx.FoRDE(3, repulsion_scale=0.0), 3),
        (cx.LIT(3, strength=0.0), 3),
        (cx.WeightWGD(3, repulsion_scale=0.0), 3),
        (cx.FoRDE(1), 1),
    ],
    ids=["forde", "lit", "weight-wgd", "one member"],
)
def test_without_repulsion_it_is_a_deep_ensemble_bit_for_bit(split, record, members):
    plain = fitted(cx.DeepEnsemble(members, batches="shared"), split)
    assert_same_bits(fitted(record, split), plain)


@pytest.mark.parametrize(
    "record", [cx.LIT(1), cx.WeightWGD(1), cx.SVGD(1), cx.SVGD(1, bandwidth="heat")], ids=repr
)
def test_one_member_follows_its_own_loss(float64, record):
    x, y = rows()
    batch = batch_of(x, y)
    alone = dynamics_of(cx.FoRDE(1), PROBLEM, x, y)
    state = start(alone, x)
    dynamics = dynamics_of(record, PROBLEM, x, y)
    found = gradient(dynamics, start(dynamics, x, params=state.descent.variables.params), batch)
    assert largest_scaled(gradient(alone, state, batch), found) < 1e-12


def test_log_probabilities_with_a_floor_train_to_the_end(split):
    record = cx.FoRDE(3, gradient_of="log_prob", relative_floor=1e-3, period=2, fraction=0.5)
    posterior = fitted(record, split)
    assert all(np.isfinite(leaf).all() for leaf in bits(posterior))
    assert posterior.num_members == 3


# --- a member that is lost -----------------------------------------------------------------------

RECORDS = [
    cx.FoRDE(4),
    cx.LIT(4, gradient_of="logit"),
    cx.WeightWGD(4, estimator="ssge"),
    cx.SVGD(4),
    cx.FunctionWGD(4, function_prior="cauchy"),
    cx.FunctionSVGD(4, function_prior="cauchy", estimator="mixed"),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_survivors_are_the_smaller_ensemble(float64, record):
    """The last of four is NaN: the other three move as an ensemble of three, to rounding."""
    x, y = rows()
    batch = batch_of(x, y)
    network = cx.networks.MLP((), CLASSES)
    problem = cx.Problem(network, cx.Categorical(), weight_decay=1e-2)
    four = dynamics_of(record, problem, x, y)
    three = dynamics_of(dataclasses.replace(record, members=3), problem, x, y)
    state = start(four, x)
    params = jax.tree.map(lambda leaf: leaf.at[3].set(jnp.nan), state.descent.variables.params)
    lost = start(four, x, params=params)
    kept = start(three, x, params=jax.tree.map(lambda leaf: leaf[:3], params))
    found = jax.tree.map(lambda leaf: leaf[:3], gradient(four, lost, batch))
    assert largest_scaled(gradient(three, kept, batch), found) < 1e-10


def test_a_lost_member_is_left_out_by_fit(split):
    """The last member starts at NaN; the others end as the ensemble without it."""
    key = jax.random.key(0)
    first = jax.vmap(lambda i: jax.random.fold_in(jax.random.fold_in(key, i), 0))(jnp.arange(4))
    draw = lambda k: jax.random.uniform(jax.random.fold_in(k, 99))  # noqa: E731
    values = np.asarray(jax.vmap(draw)(first))
    last = float(values[3])
    assert len(set(values.tolist())) == 4

    def initialise_some(key, x):
        w = jax.random.normal(key, (x.shape[-1], CLASSES), x.dtype)
        return {"w": jnp.where(draw(key) == last, jnp.nan, w)}

    network = cx.FunctionNetwork(initialise_some, lambda p, x: x @ p["w"])
    problem = cx.Problem(network, cx.Categorical())
    run = lambda members: cx.fit(  # noqa: E731
        problem, cx.SVGD(members), split, key=0, training=TRAINING, progress=False
    )
    with pytest.warns(MemberDiverged, match="member 3"):
        four = run(4)
    assert four.num_members == 3
    three = run(3)
    for a, b in zip(bits(four), bits(three), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


# --- what is recorded ----------------------------------------------------------------------------


def test_force_ratio_and_scales_are_reported(float64):
    x, y = rows()
    batch = batch_of(x, y)
    half = dynamics_of(cx.FoRDE(3, repulsion_scale=0.5, period=3), PROBLEM, x, y)
    state = start(half, x)
    _, info = step(half, state, batch)
    none = dynamics_of(cx.FoRDE(3, repulsion_scale=0.0), PROBLEM, x, y)
    decay = jax.tree.map(lambda leaf: 1e-2 * leaf, state.descent.variables.params)
    drive = jax.tree.map(np.subtract, gradient(none, state, batch), decay)
    update = jax.tree.map(lambda a, b, c: a - b - c, gradient(half, state, batch), drive, decay)

    def norm(tree):
        return np.sqrt(sum(np.square(a).reshape(3, -1).sum(1) for a in jax.tree.leaves(tree)))

    np.testing.assert_allclose(info["force_ratio"], norm(update) / norm(drive), rtol=1e-8)
    np.testing.assert_allclose(info["repulsion_scale"], 1.5)
    assert int(info["alive"]) == 3
    assert info["gradient_cosine"].shape == info["gradient_distance"].shape == (3,)
    # Between two updates the last measurements stand.
    later, info = step(half, step(half, state, batch)[0], batch)
    np.testing.assert_allclose(info["force_ratio"], later.measured["force_ratio"])
    assert float(info["repulsion_scale"]) == 0


# --- cost ----------------------------------------------------------------------------------------


def jaxprs(closed):
    yield closed
    for equation in closed.eqns:
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from jaxprs(inner)


@pytest.mark.parametrize("record", [cx.FoRDE(6, rank=4), cx.LIT(6), cx.FoRDE(6, bandwidth="heat")])
def test_no_array_over_pairs_rows_and_inputs(record):
    members, batch, inputs = 6, 7, 300
    x, y = rows(batch, inputs)
    x = x.astype(np.float32)
    problem = cx.Problem(cx.networks.MLP((2,), CLASSES), cx.Categorical())
    dynamics = dynamics_of(record, problem, x, y)
    state = jax.eval_shape(lambda: start(dynamics, x))
    keys = jax.random.split(jax.random.key(0), members)
    run = lambda s, b: dynamics.step(keys, s, b, Vmap(), jnp.ones(members, bool))  # noqa: E731
    program = jax.make_jaxpr(run)(state, batch_of(x, y))
    sizes = [
        int(np.prod(out.aval.shape))
        for part in jaxprs(program.jaxpr)
        for equation in part.eqns
        for out in equation.outvars
    ]
    assert max(sizes) < members * members * batch * inputs / 4


def test_metrics_travel_as_arguments():
    """The whole program's text, constants included, is far smaller than the metric."""
    x, y = rows(16, 700)
    split = Split(x.astype(np.float32), y)
    problem = cx.Problem(cx.networks.MLP((2,), CLASSES), cx.Categorical())
    training = cx.Training(epochs=1, batch_size=8)
    dynamics = cx.FoRDE(2).dynamics(problem, split, training)
    assert isinstance(dynamics.repulsion.metric, DenseMetric)
    assert dynamics.repulsion.metric.matrix.nbytes > 1.5e6
    program = build_program(problem, dynamics, training, split, jax.random.key(0))
    data = Rows(jnp.asarray(split.x), jnp.asarray(split.y))
    carry = initialise(program, Rows(split.x[:1], split.y[:1]))
    text = advance.lower((program, data, jnp.int32(0), jnp.int32(1), None), carry).as_text()
    assert len(text) < 1e6


def flops(function, *arguments):
    return jax.jit(function).lower(*arguments).compile().cost_analysis()["flops"]


@pytest.mark.parametrize("rank", [None, 16])
def test_compiled_work_is_the_formula(rank):
    """(6F - f1 + T) / (3F - f1), T = 2 D r for a metric of rank r; within three per cent."""
    members, batch, inputs, width = 3, 32, 64, 128
    network = cx.networks.MLP((width, width), 10)
    problem = cx.Problem(network, cx.Categorical())
    keys = jax.random.split(jax.random.key(0), members)
    x, y = jnp.zeros((batch, inputs)), jnp.zeros(batch, int)
    variables = jax.eval_shape(jax.vmap(lambda key: problem.init(key, x)), keys)
    metric = None if rank is None else Factored(jnp.zeros((inputs, rank)), jnp.ones(rank))
    data = Batch(x, y, jnp.ones(batch))

    def plain(params):
        loss = lambda p: problem.loss(variables._replace(params=p), data, num_data=1)[0]  # noqa: E731
        return jax.vmap(jax.grad(loss))(params)

    def repelled(kind):
        def run(params, metric):
            space = InputGradients(pullback=kind)
            embedding = space.embed(problem, Vmap(), variables._replace(params=params), data, keys)
            nll = lambda out: problem.negative_log_likelihood(out, data)  # noqa: E731
            towards = jax.vmap(jax.grad(nll))(embedding.outputs)
            return embedding.pullback(towards, gradient_repulsion(embedding.z, metric).cotangent)

        return flops(run, variables.params, metric)

    first, whole = inputs * width, inputs * width + width * width + width * 10
    extra = 0 if rank is None else 2 * inputs * rank
    formula = (6 * whole - first + extra) / (3 * whole - first)
    ratio = repelled("vjp") / flops(plain, variables.params)
    assert abs(ratio / formula - 1) < 0.03, (ratio, formula)
    if rank is None:
        assert abs(repelled("jvp") / repelled("vjp") - 1) < 0.01
