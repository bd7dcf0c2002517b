"""Gaussian process classification by the Laplace approximation, for two classes and for several.

Rasmussen and Williams, Gaussian processes for machine learning (2006), sections 3.4 and 3.5; of the
softmax the determinant is whole (the book's algorithm 3.3 leaves one factor out).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float, Key

from credax.functions.draws import FEATURES, draw_keys, normal_of
from credax.functions.gp import Joint, by_features, check_points, draw_at_points, draw_prior, gram
from credax.functions.gp import variances as kernel_variances
from credax.functions.hyperparameters import Optimised, maximise, with_parameters
from credax.functions.kernels import Kernel

JITTER = 1e-8
"""On the kernel's diagonal, relative to its mean: the mode is found by products, not solves."""
NEWTON_STEPS = 100
LENGTHS = (1.0, 0.5, 0.25, 0.125, 0.03)
"""Shares of a Newton step that are tried; the best is taken."""


class Mode(NamedTuple):
    """Latent values ``f = K a`` at the mode of the posterior, ``[rows, logits]``."""

    weights: Float[Array, "rows logits"]
    values: Float[Array, "rows logits"]


class Curvature(NamedTuple):
    """``(K + W⁻¹)⁻¹`` at some latent values, and ``log |I + K W| / 2``.

    It is ``E - E R (M Mᵀ)⁻¹ Rᵀ E`` with ``E`` one block per class and ``M Mᵀ = Σ_c E_c``; with one
    logit it is ``E`` alone.
    """

    blocks: Float[Array, "logits rows rows"]
    mixed: Float[Array, "rows rows"] | None
    half_log_determinant: Float[Array, ""]

    def times(self, v: Float[Array, "rows logits"]) -> Float[Array, "rows logits"]:
        """``(K + W⁻¹)⁻¹ v``."""
        own = jnp.einsum("cij,jc->ic", self.blocks, v)
        if self.mixed is None:
            return own
        shared = cho_solve((self.mixed, True), jnp.sum(own, axis=1))
        return own - jnp.einsum("cij,j->ic", self.blocks, shared)


def log_likelihood(values: Float[Array, "rows logits"], y: Float[Array, "rows logits"]) -> Array:
    """``Σ log p(y|f)``: one logit and labels 0 and 1, or logits of a softmax and one-hot labels."""
    if values.shape[1] == 1:
        return jnp.sum(y * values - jax.nn.softplus(values))
    return jnp.sum(y * values) - jnp.sum(jax.nn.logsumexp(values, axis=1))


def probabilities(values: Float[Array, "rows logits"]) -> Float[Array, "rows logits"]:
    """The expected label: a sigmoid, or a softmax."""
    return jax.nn.sigmoid(values) if values.shape[1] == 1 else jax.nn.softmax(values, axis=1)


def curvature_at(kernel: Float[Array, "rows rows"], values: Array) -> Curvature:
    """The curvature of ``-log p(y|f)`` at latent values, combined with the kernel."""
    mean = probabilities(values)
    diagonal = mean * (1 - mean) if values.shape[1] == 1 else mean
    eye = jnp.eye(len(kernel), dtype=kernel.dtype)

    def block(d):
        root = jnp.sqrt(d)
        lower = jnp.linalg.cholesky(eye + root[:, None] * kernel * root)
        half = solve_triangular(lower, jnp.diag(root), lower=True)
        return half.T @ half, jnp.sum(jnp.log(jnp.diag(lower)))

    blocks, halves = jax.lax.map(block, diagonal.T)
    if values.shape[1] == 1:
        return Curvature(blocks, None, jnp.sum(halves))
    mixed = jnp.linalg.cholesky(jnp.sum(blocks, axis=0))
    determinant = jnp.sum(halves) + jnp.sum(jnp.log(jnp.diag(mixed)))
    return Curvature(blocks, mixed, determinant)


def _weighted(values: Array, v: Array) -> Array:
    """``W v``."""
    mean = probabilities(values)
    if values.shape[1] == 1:
        return mean * (1 - mean) * v
    return mean * (v - jnp.sum(mean * v, axis=1, keepdims=True))


def _newton(kernel: Array, y: Array, values: Array) -> Array:
    """The weights ``a`` after a Newton step."""
    b = _weighted(values, values) + y - probabilities(values)
    return b - curvature_at(kernel, values).times(kernel @ b)


def find_mode(kernel: Float[Array, "rows rows"], y: Float[Array, "rows logits"]) -> Mode:
    """Newton's method with a search along each step."""

    def objective(weights):
        values = kernel @ weights
        return log_likelihood(values, y) - 0.5 * jnp.sum(weights * values)

    def advance(state):
        weights, value, _, number = state
        step = _newton(kernel, y, kernel @ weights) - weights
        tried = jnp.stack([weights + length * step for length in LENGTHS])
        scores = jnp.stack([objective(one) for one in tried])
        best = jnp.argmax(scores)
        better = scores[best] > value
        new = jnp.where(better, tried[best], weights)
        gain = jnp.where(better, scores[best] - value, 0.0)
        return new, jnp.maximum(scores[best], value), gain, number + 1

    def unfinished(state):
        _, value, gain, number = state
        return (gain > 1e-12 * (1 + jnp.abs(value))) & (number < NEWTON_STEPS)

    start = jnp.zeros_like(y)
    first = (start, objective(start), jnp.asarray(jnp.inf, y.dtype), 0)
    weights = jax.lax.while_loop(unfinished, advance, first)[0]
    return Mode(weights, kernel @ weights)


def laplace_evidence(kernel: Float[Array, "rows rows"], y: Float[Array, "rows logits"]) -> Array:
    """The Laplace approximation of the log evidence, differentiable in the kernel.

    The mode is found outside the derivative; one more Newton step, whose own derivative in the mode
    is zero there, carries it exactly.
    """
    found = find_mode(jax.lax.stop_gradient(kernel), y)
    weights = _newton(kernel, y, jax.lax.stop_gradient(found.values))
    values = kernel @ weights
    half = curvature_at(kernel, values).half_log_determinant
    return log_likelihood(values, y) - 0.5 * jnp.sum(weights * values) - half


def with_jitter(kernel: Kernel, x: Array) -> Array:
    """The Gram matrix with `JITTER`."""
    matrix = kernel(x, x)
    return matrix + JITTER * jnp.mean(jnp.diag(matrix)) * jnp.eye(len(x), dtype=matrix.dtype)


@eqx.filter_jit
def _evidence_and_gradient(model: Kernel, vector: Array, x: Array, y: Array):
    def value(v):
        return laplace_evidence(with_jitter(with_parameters(model, v), x), y)

    return jax.value_and_grad(value)(vector)


@eqx.filter_jit
def _solved(kernel: Kernel, x: Array, y: Array):
    matrix = with_jitter(kernel, x)
    found = find_mode(matrix, y)
    curvature = curvature_at(matrix, found.values)
    evidence = log_likelihood(found.values, y) - 0.5 * jnp.sum(found.weights * found.values)
    return found, curvature, evidence - curvature.half_log_determinant


def optimise_classification(
    kernel: Kernel, x: np.ndarray, y: np.ndarray, **options: int
) -> Optimised:
    """The kernel of the largest Laplace evidence; ``options`` are those of `maximise`."""
    with jax.enable_x64(True):
        template, points = jax.tree.map(np.asarray, kernel), jnp.asarray(x)
        labels = jnp.asarray(y)

        def evaluate(vector):
            value, gradient = _evidence_and_gradient(template, jnp.asarray(vector), points, labels)
            return float(value), np.asarray(gradient)

        return maximise(evaluate, kernel, **options)


@dataclass(frozen=True)
class LaplaceProcess:
    """A Gaussian around the mode of the latent functions' posterior, given labels.

    ``y`` has labels 0 and 1 ``[rows, 1]`` (sigmoid), or one-hot labels ``[rows, classes]``
    (softmax, one independent function per class).
    """

    kernel: Kernel
    x: Float[np.ndarray, "rows columns"]
    y: Float[np.ndarray, "rows logits"]
    mode: Mode
    curvature: Curvature
    log_evidence: float

    @classmethod
    def fit(cls, kernel: Kernel, x: np.ndarray, y: np.ndarray) -> "LaplaceProcess":
        """The approximation at the kernel's hyper-parameters as they are."""
        with jax.enable_x64(True):
            mode, curvature, evidence = _solved(kernel, jnp.asarray(x), jnp.asarray(y))
            return cls(kernel, x, y, mode, curvature, float(evidence))

    def moments(
        self, x: Any
    ) -> tuple[Float[np.ndarray, "points logits"], Float[np.ndarray, "points logits logits"]]:
        """Mean and covariance of the latent values at each point."""
        x = check_points(self.kernel, x, "x")
        cross = gram(self.kernel, x, self.x)
        blocks = np.asarray(self.curvature.blocks)
        own = kernel_variances(self.kernel, x)
        reached = np.einsum("cij,pj->cip", blocks, cross)
        left = own - np.einsum("pi,cip->cp", cross, reached)
        covariance = np.einsum("cp,cd->pcd", left, np.eye(len(blocks)))
        if self.curvature.mixed is not None:
            mixed = np.asarray(self.curvature.mixed)
            half = np.linalg.solve(mixed, reached.transpose(1, 0, 2).reshape(len(mixed), -1))
            half = half.reshape(len(mixed), len(blocks), len(x))
            covariance = covariance + np.einsum("icp,idp->pcd", half, half)
        return cross @ np.asarray(self.mode.weights), covariance

    def functions(
        self,
        key: int | Key[Array, ""],
        n: int,
        x: Any,
        *,
        joint: Joint = "auto",
        features: int = FEATURES,
    ) -> Float[np.ndarray, "draws points logits"]:
        """Draws of the latent functions at points, as `ConditionedProcess.functions`.

        ``f(x) + k(x, X) (a - Z f(X) - e)`` with a draw ``f`` of the prior, ``Z = (K + W⁻¹)⁻¹`` and
        ``e ~ N(0, Z W⁻¹ Z)``.
        """
        x = check_points(self.kernel, x, "x")
        keys, logits = draw_keys(key, n), self.y.shape[1]
        both = np.concatenate([self.x, x])
        if by_features(self.kernel, joint):
            prior = draw_prior(self.kernel, keys, both, logits, features)
        else:
            mean = np.zeros((len(both), logits))
            prior = draw_at_points(keys, mean, gram(self.kernel, both, both))
        known, wanted = prior[:, : len(self.x)], prior[:, len(self.x) :]
        noise = normal_of(keys, 1, known.shape[1:])
        with jax.enable_x64(True):
            points = jnp.asarray(self.x)
            change = np.asarray(
                _changes(self.kernel, points, self.mode, self.curvature, known, noise)
            )
        return wanted + np.einsum("px,nxc->npc", gram(self.kernel, x, self.x), change)


@eqx.filter_jit
def _changes(kernel: Kernel, x: Array, mode: Mode, curvature: Curvature, known, noise) -> Array:
    matrix = with_jitter(kernel, x)

    def one(values, normal):
        mean = probabilities(mode.values)
        root = jnp.sqrt(mean * (1 - mean) if mean.shape[1] == 1 else mean)
        drawn = root * normal
        if mean.shape[1] > 1:
            drawn = drawn - mean * jnp.sum(drawn, axis=1, keepdims=True)
        # S (I + Sᵀ K S)⁻¹ e = u - W K (u - Z K u) with u = S e and W = S Sᵀ.
        inner = drawn - curvature.times(matrix @ drawn)
        return (
            mode.weights - curvature.times(values) - drawn + _weighted(mode.values, matrix @ inner)
        )

    return jax.lax.map(lambda pair: one(*pair), (jnp.asarray(known), jnp.asarray(noise)))
