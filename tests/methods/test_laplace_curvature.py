"""The curvature against a second route: dense Jacobians, factors by hand, blocks of any size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laplace_cases import surround

import credax as cx
from credax.methods.laplace import curvature
from credax.methods.laplace.curvature import (
    curvature_product,
    dense_sums,
    kronecker_sums,
    rows_at_once,
)
from credax.methods.laplace.fit import curvature_blocks
from credax.methods.laplace.lanczos import leading_eigenpairs
from credax.methods.laplace.likelihood import curvature_root, row_outputs
from credax.methods.laplace.plan import make_plan
from credax.methods.laplace.subset import Subset, named
from credax.structure.linear_layers import linear_layers

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("float64"),
    # Random networks are at no mode.
    pytest.mark.filterwarnings("ignore::credax.methods.laplace.fit.NotConverged"),
]
RNG = np.random.default_rng(0)


def mlp_case(likelihood=None, outputs=3, **options):
    problem = cx.Problem(
        cx.networks.MLP((5,), outputs=outputs, activation="tanh", **options),
        likelihood or cx.Categorical(),
        prior=cx.GaussianPrior(precision=1.0),
    )
    x = np.random.default_rng(0).normal(size=(11, 4))
    y = np.arange(11) % 3
    variables = problem.init(jax.random.key(1), x)
    return problem, variables, cx.Split(x, y)


class TinyCNN:
    """A 3x3 convolution with stride 2, tanh, and a dense head."""

    def __new__(cls):
        layers = cx.networks
        conv = layers.Conv(3, stride=2)
        return layers.Sequential(
            (conv, layers.Activation("tanh"), layers.Flatten(), layers.Dense(3))
        )


def cnn_case():
    problem = cx.Problem(TinyCNN(), cx.Categorical(), prior=cx.GaussianPrior(precision=1.0))
    x = np.random.default_rng(2).normal(size=(7, 5, 5, 2))
    variables = problem.init(jax.random.key(3), x)
    return problem, variables, cx.Split(x, np.arange(7) % 3)


def dense_curvature(problem, variables, data):
    """``Σ Jᵀ Λ J`` by Jacobians of all rows at once and Hessians of the loss in the outputs."""
    weights = problem.weights(variables.params)
    subset = Subset(tuple(named(weights)))

    def outputs(vector):
        whole = cx.Variables(subset.put(weights, vector), variables.state)
        return problem.outputs(whole, problem.prepare_inputs(data.x))[0]

    start = subset.take(weights)
    rows, values = jax.jacfwd(outputs)(start), outputs(start)

    def loss(values, y):
        return -problem.likelihood.log_prob(values[None], y[None])[0]

    y = problem.prepare(data.x, data.y).y
    hessians = jax.vmap(jax.hessian(loss))(values, y)
    return np.einsum("nap,nab,nbq->pq", rows, hessians, rows)


def test_sums_and_products_against_dense_jacobians():
    problem, variables, data = mlp_case()
    expected = dense_curvature(problem, variables, data)
    subset = Subset(tuple(named(variables.params)))
    size = len(expected)
    for rows in (1, 4, 11):  # ragged last block included
        (full,) = dense_sums(problem, variables, subset, (size,), data, rows)
        (diagonal,) = dense_sums(problem, variables, subset, (-size,), data, rows)
        np.testing.assert_allclose(full, expected, atol=1e-12)
        np.testing.assert_allclose(diagonal, np.diag(expected), atol=1e-12)
        vector = RNG.normal(size=size)
        found = curvature_product(problem, variables, subset, data, rows, vector)
        np.testing.assert_allclose(found, expected @ vector, atol=1e-10)


@pytest.mark.parametrize(
    ("likelihood", "outputs"),
    [(cx.Categorical(), 3), (cx.Bernoulli(), 1), (cx.Gaussian(0.3), 3)],
    ids=lambda v: str(v),
)
def test_curvature_of_likelihoods(likelihood, outputs):
    problem, variables, data = mlp_case(likelihood, outputs)
    y = data.y % 2 if outputs == 1 else data.y
    y = np.eye(3)[data.y] if isinstance(likelihood, cx.Gaussian) else y
    data = cx.Split(data.x, y)
    subset = Subset(tuple(named(variables.params)))
    expected = dense_curvature(problem, variables, data)
    (full,) = dense_sums(problem, variables, subset, (len(expected),), data, 11)
    np.testing.assert_allclose(full, expected, atol=1e-10)


def test_curvature_of_a_variance_is_its_information():
    """Of a learned variance: the variance of the score, by 2e5 draws (four standard errors)."""
    problem = cx.Problem(cx.networks.MLP((), outputs=2), cx.HeteroscedasticGaussian())
    outputs = jnp.array([0.3, -0.4])
    root = curvature_root(problem, cx.Variables({}, {}), outputs)
    noise = np.sqrt(np.asarray(jax.nn.softplus(outputs[1])) + 1e-6)
    y = 0.3 + noise * RNG.normal(size=(200_000, 1))

    def log_prob(o, y):
        return problem.likelihood.log_prob(o[None], y[None])[0]

    scores = np.asarray(jax.vmap(lambda y: jax.grad(log_prob)(outputs, y))(jnp.asarray(y)))
    products = scores[:, :, None] * scores[:, None, :]
    error = products.std(0) / np.sqrt(len(y))
    assert np.all(np.abs(products.mean(0) - root @ root.T) < 4 * error)


def test_low_rank_of_full_rank_is_full():
    problem, variables, data = mlp_case()
    size = sum(leaf.size for leaf in jax.tree.leaves(variables.params))
    options = {"subset": "all", "prior_precision": 0.7}
    full = surround(problem, [variables], data, cx.Laplace(structure="full", **options))
    low = surround(
        problem, [variables], data, cx.Laplace(structure="low_rank", rank=size, **options)
    )
    np.testing.assert_allclose(low.log_evidence, full.log_evidence, atol=1e-8)
    for a, b in zip(full.function_moments(data.x), low.function_moments(data.x), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)


def test_lanczos_finds_the_leading_part_of_a_matrix_of_low_rank():
    basis = np.linalg.qr(RNG.normal(size=(60, 60)))[0]
    values = np.zeros(60)
    values[:8] = [50, 20, 20, 9, 5, 3, 2, 1]
    matrix = (basis * values) @ basis.T
    found, vectors = leading_eigenpairs(lambda v: matrix @ v, 60, 20)
    np.testing.assert_allclose(found, values[:20], atol=1e-9)
    np.testing.assert_allclose((vectors * found) @ vectors.T, matrix, atol=1e-8)


@pytest.mark.parametrize("case", [mlp_case, cnn_case])
def test_kronecker_factors_by_hand(case):
    """``A`` sums and ``G`` averages over positions, each over all rows before they meet."""
    problem, variables, data = case()
    x = data.x
    plan = make_plan(problem, variables, x, structure="kfac", subset="all")
    path = plan.pieces[0].names[0]
    kernel, bias = (named(variables.params)[name] for name in plan.pieces[0].names)
    if kernel.ndim == 4:
        patches = jax.lax.conv_general_dilated_patches(
            jnp.asarray(x), (3, 3), (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        n, h, w, _ = patches.shape
        # The library orders channels before windows; a kernel is [rows, columns, channels, out].
        rows = patches.reshape(n, h * w, 2, 9).swapaxes(2, 3).reshape(n, h * w, 18)
    else:
        rows = x[:, None]
    rows = np.asarray(rows)

    def head(z):
        if kernel.ndim == 4:
            z = z.reshape(h, w, -1)
        inner = jnp.tanh(z).ravel() @ named(variables.params)[plan.pieces[1].names[0]]
        return inner + named(variables.params)[plan.pieces[1].names[1]]

    matrix = kernel.reshape(-1, kernel.shape[-1])
    a, g = 0.0, 0.0
    for one in rows:
        z = jnp.asarray(one) @ matrix + bias
        root = curvature_root(problem, variables, head(z))
        columns = np.einsum("cto,ck->kto", jax.jacrev(head)(z), root)
        with_one = np.concatenate([one, np.ones((len(one), 1))], axis=1)
        a = a + with_one.T @ with_one / len(rows)
        g = g + np.einsum("kto,ktp->op", columns, columns) / len(one)
    for block in (1, 3, len(x)):
        sums = kronecker_sums(problem, variables, plan.layers, True, data, block)
        np.testing.assert_allclose(sums[path][0], a, atol=1e-10)
        np.testing.assert_allclose(sums[path][1], g, atol=1e-10)


@pytest.mark.parametrize("case", [mlp_case, cnn_case])
def test_kronecker_predictions_against_dense_covariances(case):
    """``J Σ Jᵀ`` without Jacobians equals the product with the covariance of all weights."""
    problem, variables, data = case()
    record = cx.Laplace(subset="all", prior_precision=0.5)
    posterior = surround(problem, [variables], data, record)
    _, covariance = posterior.function_moments(data.x)
    roots = [
        jax.vmap(f.draw)(jnp.eye(p.size)).T
        for p, f in zip(posterior.plan.pieces, posterior.factors[0], strict=True)
    ]
    expected = np.zeros(covariance.shape[1:])
    for number, root in enumerate(roots):

        def outputs(delta, number=number):
            deltas = [jnp.zeros(p.size) for p in posterior.plan.pieces]
            deltas[number] = delta
            moved = posterior.plan.moved(variables.params, deltas)
            return problem.outputs(cx.Variables(moved, {}), jnp.asarray(data.x))[0]

        rows = np.asarray(jax.jacfwd(outputs)(jnp.zeros(len(root)))) @ np.asarray(root)
        expected += np.einsum("ncp,ndp->ncd", rows, rows)
    np.testing.assert_allclose(covariance[0], expected, rtol=1e-9, atol=1e-12)


def test_a_convolution_with_one_position_is_a_dense_layer():
    """KFAC with shared weights, where no weight is shared in fact, is the exact curvature."""
    network = cx.networks.Sequential(
        (cx.networks.Conv(2, window=3, padding="VALID"), cx.networks.Flatten())
    )
    problem = cx.Problem(network, cx.Gaussian(0.5), prior=cx.GaussianPrior(precision=1.0))
    x = np.random.default_rng(5).normal(size=(6, 3, 3, 2))
    data = cx.Split(x, np.zeros((6, 2)))
    variables = problem.init(jax.random.key(0), x)
    found = [
        surround(problem, [variables], data, cx.Laplace(structure=s, subset="all"))
        for s in ("kfac", "full")
    ]
    np.testing.assert_allclose(found[0].log_evidence, found[1].log_evidence, atol=1e-8)
    a, b = (posterior.function_moments(x)[1] for posterior in found)
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_arrays_that_no_product_reads_have_blocks_of_their_own():
    problem, variables, data = mlp_case(norm="batch")
    plan = make_plan(problem, variables, data.x, structure="kfac", subset="all")
    kinds = {piece.names: piece.kind for piece in plan.pieces}
    norms = [name for name in named(variables.params) if "norm" in name]
    assert norms
    assert all(kinds[(name,)] == "dense" for name in norms)
    posterior = surround(problem, [variables], data, cx.Laplace(subset="all"))
    assert posterior.predict(data.x).probs.shape == (11, 3)


def test_a_tied_kernel_is_not_factored():
    def function(params, row):
        return jnp.tanh(row @ params["tied"]) @ params["tied"] @ params["out"] + params["bias"]

    params = {"tied": jnp.eye(3), "out": jnp.ones((3, 2)), "bias": jnp.zeros(2)}
    found = linear_layers(function, params, jnp.ones(3))
    assert list(found.layers) == ["out"]
    assert found.layers["out"].bias == "bias"


def test_linearised_draws_have_the_linearised_covariance():
    problem, variables, data = mlp_case()
    posterior = surround(problem, [variables], data, cx.Laplace(subset="all", prior_precision=2.0))
    draws = posterior.sample(jax.random.key(0), 4000)
    weights, row = variables.params, jnp.asarray(data.x[0])

    def outputs(params):
        return row_outputs(problem, cx.Variables(params, {}), row)

    def moved(params):
        delta = jax.tree.map(jnp.subtract, params, weights)
        return jax.jvp(outputs, (weights,), (delta,))[1]

    values = np.asarray(jax.vmap(moved)(draws.params))
    expected = np.asarray(posterior.function_moments(data.x[:1])[1])[0, 0]
    products = values[:, :, None] * values[:, None, :]
    error = products.std(0) / np.sqrt(len(values))
    assert np.all(np.abs(products.mean(0) - expected) < 4 * error)


@pytest.mark.parametrize("structure", ["diagonal", "full"])
def test_a_fit_never_holds_the_jacobians_of_all_rows(structure, monkeypatch):
    """With memory for five rows' Jacobians, all blocks have five, and add up to the whole."""
    problem, variables, _ = mlp_case()
    x = np.random.default_rng(4).normal(size=(40, 4))
    data = cx.Split(x, np.arange(40) % 3)
    seen, inner = [], curvature._dense

    def watched(problem, variables, subset, part, sizes, kind):
        seen.append(len(part.x))
        return inner(problem, variables, subset, part, sizes, kind)

    monkeypatch.setattr(curvature, "_dense", watched)
    plan = make_plan(problem, variables, x, structure=structure, subset="all")
    room = 5.5 * plan.bytes_per_row(8) / 0.25e9
    blocks = [
        curvature_blocks(problem, variables, data, plan, rank=1, memory=memory)
        for memory in (room, 1.0)
    ]
    assert seen == [5] * 8 + [40]
    for few, many in zip(*(jax.tree.leaves(each) for each in blocks), strict=True):
        np.testing.assert_allclose(few, many, rtol=1e-10, atol=1e-12)


def test_rows_at_once_bound_the_memory():
    """A diagonal fit holds Jacobians of a block of rows, never of all data."""
    parameters, outputs = 10_000_000, 10
    rows = rows_at_once(4 * outputs * parameters, memory=2.0)
    assert 1 <= rows * 4 * outputs * parameters <= 2e9
    assert rows_at_once(10**12, memory=1.0) == 1
    assert rows_at_once(10, memory=1.0) == 512
