"""Laplace against numbers recorded from laplace-torch 0.3 (tests/golden/laplace_*)."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laplace_cases import surround

import credax as cx
from credax.methods.laplace.links import bridge, probit

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("float64")]
GOLDEN = Path(__file__).parent.parent / "golden"
STRUCTURES = {"full": "full", "diag": "diagonal", "kron": "kfac"}


def record_of(task):
    return np.load(GOLDEN / f"laplace_{task}.npz")


def problem_of(task, golden):
    outputs, hidden = golden["param2"].shape
    likelihood = cx.Categorical() if task == "classification" else cx.Gaussian(0.4)
    network = cx.networks.MLP((hidden,), outputs=outputs, activation="tanh")
    prior = cx.GaussianPrior(precision=float(golden["prior_precision_scalar"]))
    return cx.Problem(network, likelihood, prior=prior)


def network_of(arrays):
    w1, b1, w2, b2 = (jnp.asarray(a) for a in arrays)
    params = {"0_dense": {"kernel": w1.T, "bias": b1}, "1_dense": {"kernel": w2.T, "bias": b2}}
    return cx.Variables(params, {})


def split_flat(golden, flat):
    """A flat array in the reference's order as arrays of its layers."""
    shapes = [golden[f"param{i}"].shape for i in range(4)]
    cuts = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    return [a.reshape(s) for a, s in zip(np.split(np.asarray(flat), cuts), shapes, strict=True)]


def cases(task):
    names = {key.rsplit("/", 1)[0] for key in record_of(task).files if "/" in key}
    return [(task, name) for name in sorted(names)]


@pytest.mark.parametrize(
    ("task", "case"), [*cases("regression"), *cases("classification")], ids=lambda v: v
)
def test_recorded_numbers(task, case):
    golden = record_of(task)
    subset, structure, _, prior, temperature = case.split("/")
    record = cx.Laplace(
        structure=STRUCTURES[structure],
        subset="all" if subset == "all" else "last_layer",
        bias="separate",
        prior_precision=float(golden["prior_precision_scalar"]),
        temperature=float(temperature[1:]),
    )
    problem = problem_of(task, golden)
    network = network_of([golden[f"param{i}"] for i in range(4)])
    data = cx.Split(golden["X"], golden["Y"])
    posterior = surround(problem, [network], data, record)
    plan = posterior.plan
    if prior != "prior_scalar":
        values = golden[f"prior_precision_{prior.removeprefix('prior_')}"]
        if prior == "prior_layer":
            shapes = [golden[f"param{i}"].shape for i in range(4)]
            values = np.concatenate(
                [np.full(int(np.prod(s)), v) for s, v in zip(shapes, values, strict=True)]
            )
        entries = plan.vectors(network_of(split_flat(golden, values)).params)
        posterior = posterior.with_prior_precision([np.asarray(e) for e in entries])
    evidence = posterior.evidence()
    priors, want = posterior.gaussians[0].priors, lambda key: golden[f"{case}/{key}"]
    np.testing.assert_allclose(evidence.log_likelihood(), want("log_likelihood"), rtol=1e-9)
    np.testing.assert_allclose(evidence.scatter(priors), want("scatter"), rtol=1e-9)
    np.testing.assert_allclose(evidence.log_det_ratio(priors), want("log_det_ratio"), rtol=1e-8)
    np.testing.assert_allclose(posterior.log_evidence, [want("log_marginal_likelihood")], atol=1e-7)
    check_precision(posterior, golden, want("posterior_precision"), subset)
    mean, covariance = posterior.function_moments(golden["X_test"])
    np.testing.assert_allclose(mean[0], want("glm_f_mean"), rtol=1e-9)
    np.testing.assert_allclose(covariance[0], want("glm_f_cov"), rtol=1e-6, atol=1e-10)
    if task == "classification":
        check_links(mean[0], covariance[0], want)
        if f"{case}/predictive_mc" not in golden.files:
            return
        prediction = posterior.predict(golden["X_test"])
        # 100 nodes per row against 200 000 draws.
        np.testing.assert_allclose(prediction.probs, want("predictive_mc"), atol=1e-2)
    else:
        prediction = posterior.predict(golden["X_test"])
        np.testing.assert_allclose(prediction.mean, want("predictive_mean"), rtol=1e-8)
        variance = np.diagonal(want("glm_f_cov"), axis1=-2, axis2=-1)
        np.testing.assert_allclose(prediction.epistemic, variance, rtol=1e-6)


def check_precision(posterior, golden, expected, subset):
    """The posterior precision, in the reference's order of parameters."""
    count = len(golden["params_flat"])
    numbers = np.arange(count, dtype=np.float64)
    gaussian, order = posterior.gaussians[0], []
    positions = posterior.plan.vectors(network_of(split_flat(golden, numbers)).params)
    first = 0 if subset == "all" else count - len(expected)
    found = np.zeros((len(expected), len(expected)))
    scale = 1 / float(gaussian.temperature)
    for block, prior, where in zip(gaussian.blocks, gaussian.priors, positions, strict=True):
        rows = np.asarray(where).astype(int) - first
        precision = block.precision(scale, prior)
        precision = np.diag(precision) if precision.ndim == 1 else precision
        found[np.ix_(rows, rows)] = precision
        order += rows.tolist()
    assert sorted(order) == list(range(len(expected)))
    expected = np.diag(expected) if expected.ndim == 1 else expected
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def check_links(mean, covariance, want):
    np.testing.assert_allclose(
        jax.nn.softmax(probit(mean, covariance)), want("predictive_probit"), rtol=1e-7
    )
    np.testing.assert_allclose(
        jax.nn.softmax(bridge(mean, covariance)), want("predictive_bridge"), rtol=1e-6
    )
    np.testing.assert_allclose(
        jax.nn.softmax(bridge(mean, covariance, normalised=True)),
        want("predictive_bridge_norm"),
        rtol=1e-6,
    )


def kinds():
    return sorted({key.rsplit("/", 1)[0] for key in np.load(GOLDEN / "laplace_kinds.npz").files})


@pytest.mark.parametrize("name", kinds())
def test_recorded_curvatures(name):
    """Empirical Fisher, Hessian and function space.

    The reference scales the empirical Fisher of its squared error: of regression it has
    ``(2 / σ²) Σ g gᵀ`` with ``g = Jᵀ (f - y)``, where outer products of gradients of the
    log-likelihood have ``1 / σ⁴``.
    """
    task, subset, structure, kind, _, _ = name.split("/")
    golden, recorded = record_of(task), np.load(GOLDEN / "laplace_kinds.npz")
    problem, prior = problem_of(task, golden), float(golden["prior_precision_scalar"])
    record = cx.Laplace(
        structure=STRUCTURES.get(structure, structure),
        curvature={"ef": "empirical_fisher"}.get(kind, kind),
        subset="all" if subset == "all" else "last_layer",
        bias="separate",
        prior_precision=prior,
    )
    network = network_of([golden[f"param{i}"] for i in range(4)])
    posterior = surround(problem, [network], cx.Split(golden["X"], golden["Y"]), record)
    factor = 1 / (2 * 0.4**2) if task == "regression" and kind == "ef" else 1.0
    if structure != "functional":
        expected = recorded[f"{name}/posterior_precision"]
        expected = np.diag(expected) if expected.ndim == 1 else expected
        curvature = expected - prior * np.eye(len(expected))
        check_precision(
            posterior, golden, factor * curvature + prior * np.eye(len(expected)), subset
        )
    if factor == 1.0 and f"{name}/glm_f_cov" in recorded.files:
        found = posterior.function_moments(golden["X_test"])[1][0]
        np.testing.assert_allclose(found, recorded[f"{name}/glm_f_cov"], rtol=1e-6, atol=1e-10)
    if structure == "functional":
        joint = posterior.function_moments(golden["X_test"], joint=True)[1][0]
        expected = golden["all/full/ggn/prior_scalar/T1/glm_f_cov_joint"]
        np.testing.assert_allclose(joint.reshape(expected.shape), expected, rtol=1e-6, atol=1e-10)
