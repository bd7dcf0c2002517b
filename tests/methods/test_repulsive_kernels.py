"""FoRDE's repulsion of input gradients against golden values, loops and differences (float64)."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax.methods.repulsive import kernels
from credax.methods.repulsive.kernels import GradientKernel, cosine_penalty
from credax.methods.repulsive.lengthscale import DenseMetric, Factored, Identity

pytestmark = pytest.mark.slow

gradient_repulsion = eqx.filter_jit(kernels.gradient_repulsion)

GOLDEN = np.load(Path(__file__).parent.parent / "golden" / "forde_repulsion.npz")
CASES = ["M5_B7_D12", "M4_B3_D6", "M2_B4_D4", "M3_B1_D5"]
BANDWIDTHS = ["per_reference", "per_sample"]
FIXTURE = np.array([[[1, 0], [1, 1]], [[0, 1], [1, -1]], [[-1, 0], [2, 1]]], float)
WEIGHTED = (np.eye(2), np.array([4.0, 1.0]))


def draws(members=4, batch=3, inputs=5, seed=0):
    return np.random.default_rng(seed).normal(size=(members, batch, inputs))


def by_loops(g, bandwidth="per_reference", pooling="log_of_mean", w=None, eps=0.0):
    """R and dR/dg by three loops and no algebra: the slow, plain route."""
    members, batch, inputs = g.shape
    w = np.ones(inputs) if w is None else w
    n = np.sqrt(np.square(g).sum(-1) + eps)
    s = g / n[..., None]
    q = s * np.sqrt(w)
    d2 = np.array(
        [
            [[((q[i, b] - q[j, b]) ** 2).sum() for b in range(batch)] for j in range(members)]
            for i in range(members)
        ]
    )
    if bandwidth == "per_reference":
        h = np.array([[np.median(d2[:, j, b]) for b in range(batch)] for j in range(members)])
    else:
        h = np.array([[np.median(d2[:, :, b]) for b in range(batch)] for _ in range(members)])
    h = h / np.log(members) + 1e-12
    a = np.exp(-d2 / h[None])
    cotangent, value = np.zeros_like(g), 0.0
    for i in range(members):
        value += (
            np.log(a[i].sum() / batch) / batch
            if pooling == "log_of_mean"
            else np.log(a[i].sum(0)).mean() / batch
        )
        for b in range(batch):
            z = a[i].sum() if pooling == "log_of_mean" else batch * a[i, :, b].sum()
            dq = sum(
                -(2 / batch) * a[i, j, b] / z * (q[i, b] - q[j, b]) / h[j, b]
                for j in range(members)
            )
            ds = np.sqrt(w) * dq
            cotangent[i, b] = (ds - s[i, b] * (s[i, b] @ ds)) / n[i, b]
    return value, cotangent


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_golden_repulsion_and_gradient(case, precision):
    variants = sorted(
        {k.split("/")[1] for k in GOLDEN if k.startswith(case + "/") and k.count("/") == 2}
    )
    assert variants
    with jax.enable_x64(precision == "float64"):
        for variant in variants:
            get = lambda name, v=variant: GOLDEN[f"{case}/{v}/{name}"]  # noqa: E731
            eps = float(variant.split("eps")[-1])
            metric = Identity()
            if "pca" in variant:
                vectors = jnp.asarray(GOLDEN[f"{case}/eigenvectors"])
                metric = Factored(
                    vectors, jnp.square(jnp.asarray(GOLDEN[f"{case}/sqrt_eigenvalues"]))
                )
            g = jnp.asarray(GOLDEN[f"{case}/input_gradients"])
            result = gradient_repulsion(g, metric, GradientKernel(eps=eps))
            exact = precision == "float64"
            np.testing.assert_allclose(
                result.repulsion, get("repulsion"), rtol=1e-10 if exact else 1e-5
            )
            expected = get("grad_input_gradients")
            np.testing.assert_allclose(
                result.cotangent,
                expected,
                rtol=0,
                atol=(1e-10 if exact else 1e-5) * np.abs(expected).max(),
            )


@pytest.mark.parametrize(
    ("bandwidth", "value", "forces"),
    [
        (
            "per_reference",
            0.5410370761,
            [
                [[0, 0.0250708621], [0.2438519373, -0.2438519373]],
                [[0, 0], [0.0005813054, 0.0005813054]],
                [[0, 0.0241740323], [-0.0545461734, 0.1090923469]],
            ],
        ),
        (
            "per_sample",
            0.4427756304,
            [
                [[0, 0.0271622088], [0.2331033463, -0.2331033463]],
                [[0, 0], [0.0005813054, 0.0005813054]],
                [[0, 0.0271582693], [-0.0740251373, 0.1480502746]],
            ],
        ),
    ],
)
def test_a_fixture_worked_out_by_hand(float64, bandwidth, value, forces):
    result = gradient_repulsion(
        FIXTURE, Factored(*map(jnp.asarray, WEIGHTED)), GradientKernel(bandwidth, eps=0.0)
    )
    np.testing.assert_allclose(result.repulsion, value, atol=1e-9)
    np.testing.assert_allclose(result.cotangent, forces, atol=1e-9)


def test_fixture_mean_of_log_and_lit(float64):
    metric = Factored(*map(jnp.asarray, WEIGHTED))
    pooled = gradient_repulsion(FIXTURE, metric, GradientKernel(pooling="mean_of_log", eps=0.0))
    np.testing.assert_allclose(pooled.repulsion, 0.5212880664, atol=1e-9)
    np.testing.assert_allclose(cosine_penalty(FIXTURE)[1], 1.9999989000, atol=1e-9)


@pytest.mark.parametrize("bandwidth", BANDWIDTHS)
@pytest.mark.parametrize("pooling", ["log_of_mean", "mean_of_log"])
def test_loops_agree(float64, bandwidth, pooling):
    g, w = draws(), np.array([3.0, 1.0, 0.5, 2.0, 0.1])
    value, cotangent = by_loops(g, bandwidth, pooling, w)
    metric = Factored(jnp.eye(5), jnp.asarray(w))
    result = gradient_repulsion(g, metric, GradientKernel(bandwidth, pooling, eps=0.0))
    np.testing.assert_allclose(result.repulsion, value, rtol=1e-10)
    np.testing.assert_allclose(result.cotangent, cotangent, rtol=1e-9, atol=1e-12)
    with jax.enable_x64(False):
        single = gradient_repulsion(
            g.astype(np.float32),
            Factored(jnp.eye(5), jnp.asarray(w)),
            GradientKernel(bandwidth, pooling),
        )
        np.testing.assert_allclose(single.cotangent, cotangent, atol=2e-5 * np.abs(cotangent).max())


def frozen(g, reference, bandwidth, eps=0.0, estimator="kde", recompute=False):
    """R of the first argument, with references and bandwidths held at a base point."""
    unit = lambda a: a / jnp.sqrt(jnp.square(a).sum(-1, keepdims=True) + eps)  # noqa: E731
    base = unit(g if recompute else reference)
    d2 = jnp.square(base[:, None] - base[None]).sum(-1)
    members, batch = g.shape[:2]
    axis = 0 if bandwidth == "per_reference" else (0, 1)
    h = jnp.median(d2, axis=axis) / jnp.log(members) + 1e-12
    h = h[None] if bandwidth == "per_reference" else h[None, None]
    now = jnp.square(unit(g)[:, None] - base[None]).sum(-1)
    return jnp.log(jnp.exp(-now / h).sum((1, 2)) / batch).sum() / batch


@pytest.mark.parametrize("bandwidth", BANDWIDTHS)
def test_closed_form_is_automatic_differentiation(float64, bandwidth):
    g = jnp.asarray(draws())
    exact = jax.grad(frozen)(g, g, bandwidth)
    cotangent = gradient_repulsion(g, None, GradientKernel(bandwidth, eps=0.0)).cotangent
    np.testing.assert_allclose(cotangent, exact, atol=1e-12)
    moving = jax.grad(lambda a: frozen(a, g, bandwidth, recompute=True))(g)
    assert np.abs(moving - cotangent).max() / np.abs(cotangent).max() > 1e-3


def test_blob_is_the_whole_gradient_at_fixed_bandwidth(float64):
    g = jnp.asarray(draws())
    base = gradient_repulsion(g, None, GradientKernel("per_sample", eps=0.0))

    def whole(a):
        s = a / jnp.linalg.norm(a, axis=-1, keepdims=True)
        fixed = g / jnp.linalg.norm(g, axis=-1, keepdims=True)
        d2 = jnp.square(fixed[:, None] - fixed[None]).sum(-1)
        h = jnp.median(d2.reshape(-1, 3), axis=0) / jnp.log(4) + 1e-12
        now = jnp.square(s[:, None] - s[None]).sum(-1)
        return jnp.log(jnp.exp(-now / h).sum((1, 2)) / 3).sum() / 3

    np.testing.assert_allclose(whole(g), base.repulsion, rtol=1e-12)
    blob = gradient_repulsion(
        g, None, GradientKernel("per_sample", estimator="blob", eps=0.0)
    ).cotangent
    np.testing.assert_allclose(blob, jax.grad(whole)(g), atol=1e-12)


def test_the_force_is_tangent_and_scales_inversely(float64):
    g = draws()
    kernel = GradientKernel(eps=0.0)
    result = gradient_repulsion(g, None, kernel)
    inner = np.abs((np.asarray(result.cotangent) * g).sum(-1))
    size = np.linalg.norm(result.cotangent, axis=-1) * np.linalg.norm(g, axis=-1)
    assert (inner <= 1e-10 * size).all()
    scaled = g.copy()
    scaled[1] *= 7.0
    other = gradient_repulsion(scaled, None, kernel)
    np.testing.assert_allclose(other.cotangent[1], result.cotangent[1] / 7, rtol=1e-9)
    np.testing.assert_allclose(other.repulsion, result.repulsion, rtol=1e-9)


@pytest.mark.parametrize(
    ("members", "value"), [(3, 0.510826), (4, 0.559616), (5, 0.587787), (10, 0.641854)]
)
@pytest.mark.parametrize("bandwidth", BANDWIDTHS)
def test_equidistant_members(float64, members, value, bandwidth):
    if bandwidth == "per_sample" and members == 3:
        # Zero diagonal: 3 zeros and 6 equal distances, the median is the distance all the same.
        pass
    g = np.eye(members)[:, None, :]
    result = gradient_repulsion(g, None, GradientKernel(bandwidth, eps=0.0))
    np.testing.assert_allclose(
        result.repulsion / members, np.log1p((members - 1) / members), atol=1e-9
    )
    np.testing.assert_allclose(result.repulsion / members, value, atol=1e-6)


def test_two_members_always_stand_at_one_quarter(float64):
    result = gradient_repulsion(draws(members=2), None, GradientKernel(eps=0.0))
    np.testing.assert_allclose(3 * result.repulsion / 2, 0.22314355131, atol=1e-9)


def test_kernel_properties(float64):
    g = draws(members=6)
    sample = gradient_repulsion(g, None, GradientKernel("per_sample", eps=0.0)).kernel
    np.testing.assert_allclose(np.diag(sample), 1, atol=1e-12)
    np.testing.assert_allclose(sample, sample.T, atol=1e-12)
    assert np.linalg.eigvalsh(sample).min() >= -1e-10
    assert (sample > 0).all()
    reference = gradient_repulsion(g, None, GradientKernel("per_reference", eps=0.0)).kernel
    assert np.abs(reference - reference.T).max() > 1e-3


def test_invariances(float64):
    g = draws()
    kernel = GradientKernel(eps=0.0)
    base = gradient_repulsion(g, None, kernel)
    turn = np.linalg.qr(draws(1, 5, 5, seed=3)[0])[0]
    turned = gradient_repulsion(g, Factored(jnp.asarray(turn), jnp.ones(5)), kernel)
    np.testing.assert_allclose(turned.cotangent, base.cotangent, atol=1e-12)
    scaled = gradient_repulsion(g, Factored(jnp.eye(5), jnp.full(5, 9.0)), kernel)
    np.testing.assert_allclose(scaled.repulsion, base.repulsion, rtol=1e-9)
    np.testing.assert_allclose(scaled.cotangent, base.cotangent, atol=1e-9)
    rows = gradient_repulsion(g[:, [2, 0, 1]], None, kernel)
    np.testing.assert_allclose(rows.repulsion, base.repulsion, rtol=1e-12)
    order = [3, 1, 0, 2]
    members = gradient_repulsion(g[order], None, kernel)
    np.testing.assert_allclose(members.cotangent, np.asarray(base.cotangent)[order], atol=1e-12)
    twice = gradient_repulsion(np.concatenate([g, g], axis=1), None, kernel)
    np.testing.assert_allclose(twice.kernel, base.kernel, atol=1e-12)
    np.testing.assert_allclose(2 * twice.repulsion, base.repulsion, rtol=1e-12)


def test_dense_and_factored_metrics_agree(float64):
    g, w = draws(), np.array([3.0, 1.0, 0.5, 2.0, 0.1])
    turn = np.linalg.qr(draws(1, 5, 5, seed=3)[0])[0]
    kernel = GradientKernel(eps=0.0)
    factored = gradient_repulsion(g, Factored(jnp.asarray(turn), jnp.asarray(w)), kernel)
    dense = gradient_repulsion(g, DenseMetric(jnp.asarray((turn * w) @ turn.T)), kernel)
    with_rest = gradient_repulsion(g, Factored(jnp.asarray(turn), jnp.asarray(w), 0.3), kernel)
    for other in (dense, with_rest):
        np.testing.assert_allclose(other.repulsion, factored.repulsion, rtol=1e-10)
        np.testing.assert_allclose(other.cotangent, factored.cotangent, atol=1e-10)


def test_degenerate_cases(float64):
    alone = gradient_repulsion(draws(members=1))
    assert float(alone.repulsion) == 0
    assert not np.asarray(alone.cotangent).any()
    same = gradient_repulsion(np.repeat(draws(members=1), 4, axis=0))
    np.testing.assert_allclose(3 * same.repulsion, 4 * np.log(4), rtol=1e-9)
    # Differences of equal numbers are rounding at most, here divided by the bandwidth's floor.
    assert np.abs(same.cotangent).max() < np.finfo(float).eps / kernels.FLOOR
    assert not np.asarray(gradient_repulsion(np.zeros((3, 2, 4))).cotangent).any()
    g = draws()
    g[2] = 0.0
    vanished = gradient_repulsion(g, None, GradientKernel(relative_floor=1e-3))
    assert np.isfinite(vanished.cotangent).all()
    scalar = gradient_repulsion(draws(inputs=1))
    assert np.abs(scalar.cotangent).max() < 1e-12
    graph = gradient_repulsion(draws(inputs=1), None, GradientKernel(embedding="graph"))
    assert np.abs(graph.cotangent).max() > 1e-3


def test_a_relative_floor_bounds_the_force(float64):
    """|v| <= |dR/ds| / n, and n >= floor x typical |g|: no explosion as one gradient vanishes."""
    sizes = []
    for scale in (1e-6, 1e-10, 1e-20):
        g = draws()
        g[0, 0] *= scale
        sizes.append(
            np.abs(gradient_repulsion(g, None, GradientKernel(relative_floor=1e-3)).cotangent).max()
        )
    assert max(sizes) < 1e4
    g = draws()
    g[0, 0] *= 1e-10
    assert np.abs(gradient_repulsion(g, None, GradientKernel()).cotangent).max() > 1e6


def test_graph_embedding_is_automatic_differentiation(float64):
    g = jnp.asarray(draws(inputs=2))

    def value(a):
        lift = lambda u: jnp.concatenate([u, jnp.ones_like(u[..., :1])], -1)  # noqa: E731
        unit = lambda u: lift(u) / jnp.linalg.norm(lift(u), axis=-1, keepdims=True)  # noqa: E731
        base = unit(g)
        h = jnp.median(jnp.square(base[:, None] - base[None]).sum(-1), axis=0) / jnp.log(4) + 1e-12
        d2 = jnp.square(unit(a)[:, None] - base[None]).sum(-1)
        return jnp.log(jnp.exp(-d2 / h[None]).sum((1, 2)) / 3).sum() / 3

    cotangent = gradient_repulsion(g, None, GradientKernel(embedding="graph")).cotangent
    np.testing.assert_allclose(cotangent, jax.grad(value)(g), atol=1e-12)


@pytest.mark.parametrize("bandwidth", BANDWIDTHS)
def test_a_dead_member_leaves_the_others_as_if_it_were_not_there(float64, bandwidth):
    g = draws(members=5)
    g[3] = np.nan
    alive = np.array([True, True, True, False, True])
    kernel = GradientKernel(bandwidth)
    result = gradient_repulsion(g, None, kernel, jnp.asarray(alive))
    smaller = gradient_repulsion(g[alive], None, kernel)
    np.testing.assert_allclose(np.asarray(result.cotangent)[alive], smaller.cotangent, atol=1e-12)
    np.testing.assert_allclose(result.repulsion, smaller.repulsion, rtol=1e-12)
    assert not np.asarray(result.cotangent)[3].any()


def test_lit_is_automatic_differentiation(float64):
    g = jnp.asarray(draws())

    def value(a):
        inner = jnp.einsum("ibd,jbd->ijb", a, a)
        own = jnp.einsum("iib->ib", inner)
        each = jnp.square(inner) / (own[:, None] * own[None] + 1e-6)
        return jnp.sum(jnp.triu(each.transpose(2, 0, 1), k=1))

    cotangent, penalty = cosine_penalty(g)
    np.testing.assert_allclose(penalty, value(g), rtol=1e-12)
    np.testing.assert_allclose(cotangent, jax.grad(value)(g), atol=1e-12)
