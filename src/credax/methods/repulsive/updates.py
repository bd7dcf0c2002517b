"""Updates as the repulsive dynamics uses them: from an embedding of all members to a cotangent."""

import math
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from credax.methods.repulsive import kernels
from credax.methods.repulsive.embeddings import Embedding
from credax.methods.repulsive.function_prior import FunctionPrior
from credax.methods.repulsive.lengthscale import InputMetric
from credax.methods.repulsive.repulsive import StepContext, Update, only_alive


class GradientUpdate(eqx.Module):
    """FoRDE: unit input gradients in a metric, the kernel averaged over the batch."""

    metric: InputMetric
    kernel: kernels.GradientKernel

    measures: ClassVar[tuple[str, ...]] = ("gradient_cosine", "gradient_distance")

    def update(
        self, embedding: Embedding, alive: Bool[Array, " members"], context: StepContext
    ) -> Update:
        """The closed-form repulsion; the factor 1/B is that of the whole batch."""
        weight = context.batch.weight[: embedding.z.shape[1]]
        result = kernels.gradient_repulsion(embedding.z, self.metric, self.kernel, alive, weight)
        share = jnp.sum(weight) / jnp.sum(context.batch.weight)
        info = {"repulsion": result.repulsion, "floored": result.floored, "kernel": result.kernel}
        return Update(share.astype(result.cotangent.dtype) * result.cotangent, info)

    def measure(self, embedding: Embedding, alive: Bool[Array, " members"]) -> list[Array]:
        """How alike the members' gradients are, in the identity metric."""
        return list(kernels.gradient_diversity(embedding.z, alive))


class CosineUpdate(eqx.Module):
    """LIT: squared cosines of input gradients, summed or averaged over the batch."""

    metric: InputMetric
    eps: float
    reduction: Literal["sum", "mean"]

    measures: ClassVar[tuple[str, ...]] = ("gradient_cosine", "gradient_distance")

    def update(
        self, embedding: Embedding, alive: Bool[Array, " members"], context: StepContext
    ) -> Update:
        """The gradient of the penalty, both arguments live."""
        weight = context.batch.weight.astype(embedding.z.dtype)
        cotangent, penalty = kernels.cosine_penalty(
            embedding.z, self.metric, self.eps, alive, weight
        )
        factor = 1 / jnp.sum(weight) if self.reduction == "mean" else 1.0
        return Update(factor * cotangent, {"repulsion": factor * penalty})

    def measure(self, embedding: Embedding, alive: Bool[Array, " members"]) -> list[Array]:
        """How alike the members' gradients are, in the identity metric."""
        return list(kernels.gradient_diversity(embedding.z, alive))


class ScoreUpdate(eqx.Module):
    """Minus the score of the members' density, estimated from their kernel matrix.

    With a `FunctionPrior` the prior's score is added (descent sign: minus).
    """

    estimator: str = "kde"
    bandwidth: Any = "median_plus_one"
    ridge: float = 0.01
    keep: float | None = None
    prior: FunctionPrior | None = None
    floor: float = kernels.FLOOR

    measures: ClassVar[tuple[str, ...]] = ()

    def update(
        self, embedding: Embedding, alive: Bool[Array, " members"], context: StepContext
    ) -> Update:
        """``v = -C z``, C the estimator's mixing matrix."""
        z = only_alive(embedding.z, alive)
        d2 = kernels.distances_from_gram(kernels.gram_of(z))
        bandwidth = self.bandwidth
        if self.estimator == "ssge" and bandwidth in ("median", "median_plus_one"):
            bandwidth = kernels.spectral_bandwidth(d2, alive)
        kernel = kernels.kernel_of(d2, bandwidth, alive, _dimension(z), self.floor)
        options = {"sge": {"ridge": self.ridge}, "ssge": {"ridge": self.ridge, "keep": self.keep}}
        matrix = kernels.ESTIMATORS[self.estimator](kernel, **options.get(self.estimator, {}))
        matrix = jnp.where(jnp.sum(alive) > 1, matrix, 0.0)
        cotangent = jax.tree.map(jnp.negative, kernels.mix(matrix, z))
        if self.prior is not None:
            cotangent = cotangent - self.prior.score(z, context, alive)
        return Update(cotangent, _kernel_info(d2, kernel, alive))

    def measure(self, embedding: Embedding, alive: Bool[Array, " members"]) -> list[Array]:
        """Nothing more."""
        return []


class SteinUpdate(eqx.Module):
    """SVGD: scores of all members mixed by the kernel, and its gradient.

    ``with_blob`` gives the mean of this direction and of the blob method's.
    """

    kernel: Literal["rbf", "linear"] = "rbf"
    bandwidth: Any = "median_plus_one"
    scale: float = 1.0
    prior: FunctionPrior | None = None
    floor: float = kernels.FLOOR
    with_blob: bool = False

    measures: ClassVar[tuple[str, ...]] = ()

    def update(
        self, embedding: Embedding, alive: Bool[Array, " members"], context: StepContext
    ) -> Update:
        """``-φ`` in two parts: the mixing of scores, and the repulsion over N."""
        z = only_alive(embedding.z, alive)
        gram = kernels.gram_of(z)
        d2 = kernels.distances_from_gram(gram)
        kernel = kernels.kernel_of(d2, self.bandwidth, alive, _dimension(z), self.floor)
        if self.kernel == "linear":
            scores, matrix = kernels.stein_linear(gram, alive)
        else:
            scores, matrix = kernels.stein(kernel)
        if self.with_blob:
            scores = 0.5 * (scores + jnp.diag(alive.astype(scores.dtype)))
            matrix = 0.5 * (matrix + kernels.blob(kernel))
        factor = self.scale / context.num_data
        cotangent = jax.tree.map(lambda leaf: -factor * leaf, kernels.mix(matrix, z))
        if self.prior is not None:
            score = self.prior.score(z, context, alive)
            cotangent = cotangent - kernels.mix(scores, score) / context.num_data
        return Update(cotangent, _kernel_info(d2, kernel, alive), scores)

    def measure(self, embedding: Embedding, alive: Bool[Array, " members"]) -> list[Array]:
        """Nothing more."""
        return []


class ProjectedUpdate(eqx.Module):
    """KDE in few directions of the features, those of the members' likelihood gradients.

    Axes: eigenvectors of the members' Gram matrix of likelihood gradients in feature space, scaled
    to unit length. ``axes="trailing"`` takes the least eigenvalues, as the released code does;
    ``"leading"`` the greatest. Reference: Yashima et al. 2022.
    """

    dimensions: int = 5
    axes: Literal["trailing", "leading"] = "trailing"
    bandwidth: Literal["squared_median", "median"] = "squared_median"
    prior: FunctionPrior | None = None

    measures: ClassVar[tuple[str, ...]] = ()

    def update(
        self, embedding: Embedding, alive: Bool[Array, " members"], context: StepContext
    ) -> Update:
        """The repulsion along the axes, back in feature space, and the features' prior."""
        assert embedding.to_features is not None
        z = only_alive(embedding.z, alive)
        members = len(z)
        downhill = only_alive(embedding.to_features(context.towards), alive) * len(context.batch.y)
        flat, slopes = z.reshape(members, -1), downhill.reshape(members, -1)
        gram = slopes @ slopes.T
        # A diverged member is an axis of its own, of the eigenvalue that is taken last.
        last = 2 * jnp.trace(gram) + 1 if self.axes == "trailing" else -1.0
        values, vectors = jnp.linalg.eigh(gram + jnp.diag(jnp.where(alive, 0.0, last)))
        kept = (
            slice(0, self.dimensions) if self.axes == "trailing" else slice(-self.dimensions, None)
        )
        scale = jax.lax.rsqrt(jnp.maximum(values[kept], 1e-12))
        axes = (slopes.T @ vectors[:, kept]) * scale
        places = flat @ axes
        d2 = kernels.distances_from_gram(kernels.gram_of(places))
        cotangent = -_row_kde(d2, places, alive, self.bandwidth) @ axes.T
        cotangent = cotangent.reshape(z.shape)
        if self.prior is not None:
            cotangent = cotangent - self.prior.score(z, context, alive)
        kernel = kernels.kernel_of(d2, "median", alive)
        return Update(cotangent, _kernel_info(d2, kernel, alive))

    def measure(self, embedding: Embedding, alive: Bool[Array, " members"]) -> list[Array]:
        """Nothing more."""
        return []


def _row_kde(d2, places, alive, bandwidth):
    """KDE with a bandwidth for every row: ``exp(-d²_ij / h_i)``."""
    pairs = alive[:, None] & alive[None]
    median = kernels.masked_median(d2, pairs, axis=1)
    count = jnp.log(jnp.maximum(jnp.sum(alive), 2))
    h = (jnp.square(median) if bandwidth == "squared_median" else median) / count + kernels.FLOOR
    kernel = jnp.where(pairs, jnp.exp(-d2 / h[:, None]), 0.0)
    rows = jnp.where(alive, jnp.sum(kernel, 1), 1.0)
    away = places - (kernel @ places) / rows[:, None]
    several = jnp.sum(alive) > 1
    return jnp.where(several & alive[:, None], (2 / h)[:, None] * away, 0.0)


def _dimension(z) -> int:
    """Numbers in one member's vector."""
    return sum(math.prod(leaf.shape[1:]) for leaf in jax.tree.leaves(z))


def _kernel_info(d2, kernel: kernels.Kernel, alive) -> dict[str, Float[Array, "..."]]:
    pairs = jnp.triu(alive[:, None] & alive[None], k=1)
    mean = jnp.sum(jnp.where(pairs, d2, 0.0)) / jnp.maximum(jnp.sum(pairs), 1)
    return {"distance": mean, "bandwidth": kernel.bandwidth, "kernel": kernel.matrix}
