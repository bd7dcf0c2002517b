"""What the repulsion of input gradients does to linear functions, and to padding and precision."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax.methods.repulsive.kernels import (
    GradientKernel,
    cosine_penalty,
    gradient_diversity,
    gradient_repulsion,
)
from credax.methods.repulsive.lengthscale import Factored

pytestmark = pytest.mark.slow


def draws(members=4, batch=3, inputs=5, seed=0):
    return np.random.default_rng(seed).normal(size=(members, batch, inputs))


@partial(jax.jit, static_argnames="bandwidth")
def repel(g, metric, bandwidth):
    """f = Wx repelled and nothing else: its input gradients follow the repulsion."""
    kernel = GradientKernel(bandwidth)
    move = lambda _, g: g - 0.02 * gradient_repulsion(g, metric, kernel).cotangent  # noqa: E731
    g = jax.lax.fori_loop(0, 4000, move, g)
    return g / jnp.linalg.norm(g, axis=-1, keepdims=True)


@pytest.mark.parametrize("bandwidth", ["per_reference", "per_sample"])
@pytest.mark.parametrize(
    ("members", "inputs", "cosine", "within"),
    [(2, 3, -1, 1e-3), (3, 2, -0.5, 0.02), (3, 3, -0.5, 0.02), (4, 3, -1 / 3, 0.03)],
)
def test_linear_functions_become_a_simplex(float64, members, inputs, cosine, within, bandwidth):
    s = np.asarray(repel(draws(members, 1, inputs), None, bandwidth))[:, 0]
    between = (s @ s.T)[~np.eye(members, dtype=bool)]
    assert np.abs(between - cosine).max() <= within


def test_two_members_part_along_the_weightiest_direction(float64):
    metric = Factored(jnp.eye(2), jnp.array([100.0, 1.0]))
    s = np.asarray(repel(draws(2, 1, 2), metric, "per_sample"))[:, 0]
    assert np.abs(s[:, 0]).min() >= 0.99
    assert s[0, 0] * s[1, 0] < 0


def test_one_step_repels_at_the_old_bandwidth(float64):
    """Lowers Σ log Σ k and raises the mean distance in nearly every start; no theorem."""

    @jax.jit
    def one(g):
        s = g / jnp.linalg.norm(g, axis=-1, keepdims=True)
        d2 = jnp.square(s[:, None] - s[None]).sum(-1)
        old = GradientKernel(bandwidth=(jnp.median(d2, 0) / jnp.log(len(g)))[None])
        before = gradient_repulsion(g, None, old)
        moved = g - 1e-3 * before.cotangent
        t = moved / jnp.linalg.norm(moved, axis=-1, keepdims=True)
        further = jnp.square(t[:, None] - t[None]).sum(-1).mean() - d2.mean()
        return gradient_repulsion(moved, None, old).repulsion - before.repulsion, further

    change, further = jax.vmap(one)(jnp.asarray(draws(20 * 5, 6, 4)).reshape(20, 5, 6, 4))
    assert ((np.asarray(change) < 0) & (np.asarray(further) > 0)).sum() >= 19


# Padding has weight zero and must not be felt; here it would be, for it is not like the others.
KERNELS = [
    GradientKernel(),
    GradientKernel("per_sample", "mean_of_log"),
    GradientKernel("per_sample", estimator="blob", relative_floor=0.1),
    GradientKernel("heat", embedding="graph"),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=["default", "mean_of_log", "blob", "heat"])
def test_padding_rows_are_not_there(float64, kernel):
    g = draws(batch=5)
    weight = jnp.array([1.0, 1.0, 0.0, 1.0, 0.0])
    real = np.asarray(weight) > 0
    cotangent = jax.jit(lambda g, w: gradient_repulsion(g, None, kernel, weight=w))
    padded, smaller = cotangent(g, weight), cotangent(g[:, real], jnp.ones(3))
    np.testing.assert_allclose(np.asarray(padded.cotangent)[:, real], smaller.cotangent, atol=1e-12)
    assert not np.asarray(padded.cotangent)[:, ~real].any()
    np.testing.assert_allclose(padded.repulsion, smaller.repulsion, rtol=1e-10)
    np.testing.assert_allclose(padded.kernel, smaller.kernel, atol=1e-12)
    repelled, penalty = cosine_penalty(g, weight=weight)
    fewer, less = cosine_penalty(g[:, real])
    np.testing.assert_allclose(np.asarray(repelled)[:, real], fewer, atol=1e-12)
    np.testing.assert_allclose(penalty, less, rtol=1e-12)
    assert not np.asarray(repelled)[:, ~real].any()


@pytest.mark.parametrize("pooling", ["mean_of_log", "log_of_mean"])
def test_only_mean_of_log_can_be_accumulated_over_micro_batches(float64, pooling):
    g, kernel = draws(batch=6), GradientKernel(pooling=pooling)
    cotangent = jax.jit(lambda g: gradient_repulsion(g, None, kernel).cotangent)
    whole = np.asarray(cotangent(g))
    # A factor 1/B and an average over rows: half of the batch counts a quarter.
    parts = np.concatenate([cotangent(g[:, :3]), cotangent(g[:, 3:])], axis=1) / 4
    error = np.abs(whole - parts).max() / np.abs(whole).max()
    assert error < 1e-10 if pooling == "mean_of_log" else error > 1e-3


def test_blob_with_mean_of_log_is_its_whole_gradient(float64):
    g = jnp.asarray(draws())
    kernel = GradientKernel("per_sample", "mean_of_log", "blob", eps=0.0)

    def value(a):
        s, base = (u / jnp.linalg.norm(u, axis=-1, keepdims=True) for u in (a, g))
        d2 = jnp.square(base[:, None] - base[None]).sum(-1).reshape(16, 3)
        h = jnp.median(d2, axis=0) / jnp.log(4) + 1e-12
        now = jnp.square(s[:, None] - s[None]).sum(-1)
        return jnp.log(jnp.exp(-now / h).sum(1)).mean(-1).sum() / 3

    result = jax.jit(lambda g: gradient_repulsion(g, None, kernel))(g)
    np.testing.assert_allclose(result.repulsion, value(g), rtol=1e-12)
    np.testing.assert_allclose(result.cotangent, jax.jit(jax.grad(value))(g), atol=1e-12)


def test_a_gradient_that_vanished_is_finite_without_any_eps(float64):
    g = draws()
    g[2, 1] = 0.0
    result = jax.jit(lambda g: gradient_repulsion(g, None, GradientKernel(eps=0.0)))(g)
    assert np.isfinite(result.cotangent).all()
    assert not np.asarray(result.cotangent)[2, 1].any()
    floored = gradient_repulsion(g, None, GradientKernel(eps=1e-24)).floored
    np.testing.assert_allclose(floored, 1 / 12)


def test_members_that_coincide_are_left_alone_in_single_precision():
    """Rounding over a vanishing bandwidth must not become a repulsion."""
    g = np.repeat(draws(1, 8, 50).astype(np.float32), 7, axis=0)
    result = jax.jit(lambda g: gradient_repulsion(g))(g)
    np.testing.assert_allclose(8 * result.repulsion, 7 * np.log(7), rtol=1e-5)
    assert np.abs(result.cotangent).max() < 1e-2


def test_diversity_is_per_member_and_over_the_living(float64):
    g = draws(batch=7)
    s = g / np.linalg.norm(g, axis=-1, keepdims=True)
    alive = np.array([True, True, False, True])
    g[2] = np.nan
    cosine, distance = gradient_diversity(jnp.asarray(g), jnp.asarray(alive))
    others = [1, 3]
    np.testing.assert_allclose(cosine[0], np.mean([(s[0] * s[j]).sum(-1) for j in others]))
    medians = [np.median(np.square(s[0] - s[j]).sum(-1)) for j in others]
    np.testing.assert_allclose(distance[0], np.mean(medians))
    assert cosine[2] == distance[2] == 0
