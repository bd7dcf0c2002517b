"""Empirical Fisher, Hessian, joint covariances and function space, each by a dense second route."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laplace_cases import surround

import credax as cx
from credax.errors import InputError
from credax.methods.laplace.blocks import Kronecker
from credax.methods.laplace.spectra import eigenpairs
from credax.methods.laplace.subset import Subset, named

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("float64"),
    # Random networks are at no mode.
    pytest.mark.filterwarnings("ignore::credax.methods.laplace.fit.NotConverged"),
]
LIKELIHOODS = {"regression": cx.Gaussian(0.4), "classification": cx.Categorical()}


def case(task, precision=0.7, rows=9):
    problem = cx.Problem(
        cx.networks.MLP((4,), outputs=3, activation="tanh"),
        LIKELIHOODS[task],
        prior=cx.GaussianPrior(precision=precision),
    )
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(rows, 2)), np.arange(rows) % 3
    y = rng.normal(size=(rows, 3)) if task == "regression" else y
    return problem, problem.init(jax.random.key(1), x), cx.Split(x, y)


class Dense:
    """Everything by explicit matrices over the vector of all weights."""

    def __init__(self, problem, variables, data):
        self.problem, self.data = problem, data
        self.subset = Subset(tuple(named(variables.params)))
        self.params, self.start = variables.params, self.subset.take(variables.params)

    def outputs(self, vector, x):
        whole = cx.Variables(self.subset.put(self.params, vector), {})
        return self.problem.outputs(whole, jnp.asarray(x))[0]

    def losses(self, vector):
        outputs = self.outputs(vector, self.data.x)
        return -self.problem.likelihood.log_prob(outputs, jnp.asarray(self.data.y))

    def jacobian(self, x):
        return np.asarray(jax.jacfwd(self.outputs)(self.start, x))

    def curvature(self, kind):
        if kind == "hessian":
            return np.asarray(jax.hessian(lambda v: self.losses(v).sum())(self.start))
        if kind == "empirical_fisher":
            gradients = np.asarray(jax.jacfwd(self.losses)(self.start))
            return gradients.T @ gradients
        loss = lambda o, y: -self.problem.likelihood.log_prob(o[None], y[None])[0]  # noqa: E731
        values, y = self.outputs(self.start, self.data.x), jnp.asarray(self.data.y)
        hessians = jax.vmap(jax.hessian(loss))(values, y)
        rows = self.jacobian(self.data.x)
        return np.einsum("nap,nab,nbq->pq", rows, hessians, rows)


def least(dense):
    """A prior precision under which the Hessian is positive."""
    return 1.0 + max(0.0, -np.linalg.eigvalsh(dense.curvature("hessian"))[0])


@pytest.mark.parametrize("task", list(LIKELIHOODS))
@pytest.mark.parametrize("kind", ["empirical_fisher", "hessian"])
def test_curvature_against_explicit_matrices(task, kind):
    problem, variables, data = case(task)
    dense = Dense(problem, variables, data)
    expected, prior = dense.curvature(kind), least(dense)
    size = len(expected)
    options = {"subset": "all", "curvature": kind, "prior_precision": prior}
    full = surround(problem, [variables], data, cx.Laplace(structure="full", **options))
    np.testing.assert_allclose(full.gaussians[0].blocks[0].matrix, expected, atol=1e-9)
    diagonal = surround(problem, [variables], data, cx.Laplace(structure="diagonal", **options))
    values = np.concatenate([block.values for block in diagonal.gaussians[0].blocks])
    np.testing.assert_allclose(values, np.diag(expected), atol=1e-9)
    low = cx.Laplace(structure="low_rank", rank=size, **options)
    low = surround(problem, [variables], data, low).gaussians[0].blocks[0]
    bases = np.linalg.eigh(expected)
    positive = (bases[1] * np.maximum(bases[0], 0)) @ bases[1].T
    np.testing.assert_allclose((low.vectors * low.values) @ low.vectors.T, positive, atol=1e-8)
    # The evidence and the linearised covariance by the dense matrix.
    precision = expected + prior * np.eye(size)
    fit = -float(dense.losses(dense.start).sum())
    ratio = np.linalg.slogdet(precision)[1] - size * np.log(prior)
    evidence = fit - 0.5 * (prior * float(dense.start @ dense.start) + ratio)
    np.testing.assert_allclose(full.log_evidence, [evidence], rtol=1e-9)
    rows = dense.jacobian(data.x)
    covariance = np.einsum("nap,pq,nbq->nab", rows, np.linalg.inv(precision), rows)
    np.testing.assert_allclose(full.function_moments(data.x)[1][0], covariance, rtol=1e-8)


def test_kronecker_empirical_fisher_of_one_row_is_exact():
    """Of one row the gradient of a kernel is ``a gᵀ``, whose outer product is ``aaᵀ ⊗ ggᵀ``."""
    problem, variables, data = case("regression", rows=1)
    record = cx.Laplace(subset="all", curvature="empirical_fisher", prior_precision=1.0)
    posterior = surround(problem, [variables], data, record)
    dense = Dense(problem, variables, data)
    (gradient,) = np.asarray(jax.jacfwd(dense.losses)(dense.start))
    gradients = posterior.plan.vectors(dense.subset.put(dense.params, jnp.asarray(gradient)))
    for block, own in zip(posterior.gaussians[0].blocks, gradients, strict=True):
        np.testing.assert_allclose(block.precision(1.0, 1e-9), np.outer(own, own), atol=1e-8)


@pytest.mark.parametrize("structure", ["full", "kfac", "functional", "diagonal"])
def test_joint_covariance_against_dense_products(structure):
    problem, variables, data = case("classification")
    record = cx.Laplace(structure=structure, subset="all", prior_precision=0.7)
    posterior = surround(problem, [variables, variables], data, record)
    x = np.random.default_rng(3).normal(size=(5, 2))
    mean, joint = posterior.function_moments(x, joint=True, batch_size=2)
    assert joint.shape == (2, 5, 3, 5, 3)
    roots = [
        np.asarray(jax.vmap(f.draw)(jnp.eye(p.size))).T
        for p, f in zip(posterior.plan.pieces, posterior.factors[0], strict=True)
    ]

    def outputs(deltas):
        moved = posterior.plan.moved(variables.params, deltas)
        return problem.outputs(cx.Variables(moved, {}), jnp.asarray(x))[0]

    jacobians = jax.jacfwd(outputs)([jnp.zeros(len(root)) for root in roots])
    halves = [np.asarray(j) @ root for j, root in zip(jacobians, roots, strict=True)]
    expected = sum(np.einsum("nap,mbp->namb", half, half) for half in halves)
    np.testing.assert_allclose(joint[0], expected, rtol=1e-7, atol=1e-12)
    rows = posterior.function_moments(x)
    np.testing.assert_allclose(mean, rows[0], rtol=1e-10)
    own = np.einsum("mnanb->mnab", joint)
    np.testing.assert_allclose(own, rows[1], rtol=1e-8, atol=1e-12)


def test_too_many_rows_for_a_joint_covariance_are_refused():
    problem, variables, data = case("regression")
    record = cx.Laplace(prior_precision=1.0, memory=1e-3)
    posterior = surround(problem, [variables], data, record)
    with pytest.raises(InputError, match=r"joint is True and 1000 rows.*0.001 GB.*fewer rows"):
        posterior.function_moments(np.zeros((1000, 2)), joint=True)


@pytest.mark.parametrize("task", list(LIKELIHOODS))
def test_function_space_equals_the_full_curvature(task):
    """Woodbury: the Gaussian process of the linearised network is the Gaussian over its weights."""
    problem, variables, data = case(task, rows=4)  # 12 kernel rows, 27 weights
    options = {"subset": "all", "prior_precision": 0.7, "samples": 20}
    full, process = (
        surround(problem, [variables], data, cx.Laplace(structure=s, **options))
        for s in ("full", "functional")
    )
    assert process.gaussians[0].blocks[0].vectors.shape == (27, 12)
    x = np.random.default_rng(4).normal(size=(6, 2))
    for one, other in zip(
        full.function_moments(x, joint=True), process.function_moments(x, joint=True), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(full.log_evidence, process.log_evidence, rtol=1e-11)
    one, other = full.predict(x), process.predict(x)
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-9)
    np.testing.assert_allclose(one.epistemic, other.epistemic, rtol=1e-7)


def test_function_space_is_the_gaussian_process_with_that_kernel():
    """``K** - K*n (Knn + σ²)⁻¹ Kn*`` with ``K = J Jᵀ / δ``, by hand."""
    problem, variables, data = case("regression", precision=1.7)
    record = cx.Laplace(structure="functional", subset="all", prior_precision="problem")
    posterior = surround(problem, [variables], data, record)
    dense = Dense(problem, variables, data)
    x = np.random.default_rng(5).normal(size=(4, 2))
    train, test = (dense.jacobian(rows).reshape(-1, len(dense.start)) for rows in (data.x, x))
    kernel = lambda a, b: a @ b.T / 1.7  # noqa: E731
    noisy = kernel(train, train) + 0.4**2 * np.eye(len(train))
    cross = kernel(test, train)
    expected = kernel(test, test) - cross @ np.linalg.solve(noisy, cross.T)
    found = posterior.function_moments(x, joint=True)[1][0].reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


def test_function_space_tunes_prior_and_noise_as_the_full_curvature_does(tmp_path):
    problem, variables, data = case("regression")
    options = {"subset": "all", "noise": "evidence"}
    full, process = (
        surround(problem, [variables, variables], data, cx.Laplace(structure=s, **options))
        for s in ("full", "functional")
    )
    np.testing.assert_allclose(full.log_evidence, process.log_evidence, rtol=1e-8)
    process.save(tmp_path / "p.safetensors")
    loaded = cx.LaplacePosterior.load(tmp_path / "p.safetensors", problem)
    np.testing.assert_array_equal(loaded.predict(data.x).mean, process.predict(data.x).mean)


def test_function_space_that_takes_too_much_is_refused():
    problem, _, data = case("classification")
    many = cx.Split(np.zeros((5000, 2)), np.zeros(5000, int))
    record = cx.Laplace(structure="functional")
    with pytest.raises(InputError, match="the kernel matrix has 15000 rows"):
        record.dynamics(problem, many, cx.Training(1))
    record.dynamics(problem, data, cx.Training(1, 9))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"curvature": "fisher"}, "unknown curvature .fisher."),
        ({"curvature": "hessian"}, "structure is 'kfac'.*use structure='full'"),
        ({"curvature": "hessian", "structure": "functional"}, "structure is 'functional'"),
        ({"curvature": "hessian", "structure": "full"}, "prior_precision is 'evidence'.*'problem'"),
        ({"curvature": "empirical_fisher", "noise": "evidence"}, "noise is 'evidence'"),
        ({"structure": "functional", "prior_precision": "by_layer"}, "is one block"),
    ],
)
def test_what_is_not_defined_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        cx.Laplace(**options)


def test_a_hessian_that_is_not_positive_is_refused_with_its_least_eigenvalue():
    problem, variables, data = case("regression")
    least_value = np.linalg.eigvalsh(Dense(problem, variables, data).curvature("hessian"))[0]
    assert least_value < -0.1
    record = cx.Laplace(
        structure="full", subset="all", curvature="hessian", prior_precision=-0.5 * least_value
    )
    with pytest.raises(InputError, match=f"above {-least_value:.3g}, or use curvature='ggn'"):
        surround(problem, [variables], data, record)


@pytest.mark.parametrize("rows", [2000, 300])
def test_large_factors_give_the_same_posterior(rows):
    """Summed in single precision, and of few rows, against double precision throughout."""
    rng = np.random.default_rng(6)
    a = np.maximum(rng.normal(size=(rows, 1100)), 0).astype(np.float32)
    values, vectors = np.linalg.eigh(a.T.astype(np.float64) @ a / rows)
    a, g = (a.T @ a).astype(np.float64) / rows, np.diag([3000.0, 5.0, 0.01])
    exact = Kronecker(vectors, np.maximum(values, 0), np.eye(3), np.diag(g))
    found = Kronecker.of(a, g, np.float32, (rows, rows))
    np.testing.assert_allclose(found.inputs.T @ found.inputs, np.eye(1100), atol=2e-5)
    for prior in (1.0, 10.0):
        np.testing.assert_allclose(found.log_det(1.0, prior), exact.log_det(1.0, prior), rtol=1e-4)
        direction = jnp.asarray(rng.normal(size=(5, 3300)))
        variances = [
            np.square(block.factor(1.0, prior, np.float64).half(direction)).sum(-1)
            for block in (exact, found)
        ]
        np.testing.assert_allclose(variances[1], variances[0], rtol=1e-3)


def test_few_outer_products_in_double_precision_are_decomposed_exactly():
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(40, 1030))
    matrix = rows.T @ rows
    vectors, values = eigenpairs(matrix, np.float64, 40)
    assert np.sum(values > 0) == 40
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(1030), atol=1e-10)
    np.testing.assert_allclose((vectors * values) @ vectors.T, matrix, atol=1e-9)
    # A bound that is wrong is no harm.
    full = rng.normal(size=(1100, 1030))
    vectors, values = eigenpairs(full.T @ full, np.float64, 40)
    np.testing.assert_allclose((vectors * values) @ vectors.T, full.T @ full, atol=1e-8)
