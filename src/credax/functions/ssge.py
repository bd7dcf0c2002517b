"""The score of a distribution that is known by draws: the spectral Stein gradient estimator."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from credax.errors import InputError

THRESHOLD = 0.99
"""Share of the eigenvalues that the leading eigenvectors must reach."""


class SpectralScore(NamedTuple):
    """Draws, their kernel's widths, and the eigenvectors of the kernel's matrix.

    All eigenvectors are kept, and ``inverse`` is zero for those beyond the threshold, so that
    shapes do not depend on the data and the program is compiled once. Their number is found anew
    for every set of draws.
    """

    draws: Float[Array, "draws dimensions"]
    widths: Float[Array, " dimensions"]
    values: Float[Array, " draws"]
    vectors: Float[Array, "draws draws"]
    """Columns, in the order of falling eigenvalues."""
    inverse: Float[Array, " draws"]
    """One over the eigenvalues that are kept, zero for the others."""
    slopes: Float[Array, "draws dimensions"]
    """``Σ_m ∇ k(x_m, x_i)``, the gradient in the first argument."""

    @property
    def kept(self) -> Int[Array, ""]:
        """How many eigenvectors are used."""
        return jnp.sum(self.inverse > 0)

    def at_draws(self) -> Float[Array, "draws dimensions"]:
        """The score at the draws themselves, where ``K u = λ u`` saves a product."""
        return -(self.vectors * self.inverse) @ (self.vectors.T @ self.slopes)

    def __call__(self, x: Float[Array, "points dimensions"]) -> Float[Array, "points dimensions"]:
        """``Σ_j β_j ψ_j(x)`` at any points."""
        features = kernel_matrix(x, self.draws, self.widths) @ self.vectors
        return -(features * self.inverse**2) @ (self.vectors.T @ self.slopes)


def spectral_score(
    draws: Float[Array, "draws dimensions"], threshold: float = THRESHOLD
) -> SpectralScore:
    """An estimate of ``∇ log p`` from draws of ``p``.

    With ``k`` an RBF kernel whose matrix at the draws has eigenvalues ``λ`` and vectors ``u``,

        ψ_j(x) = √n/λ_j Σ_m u_jm k(x, x_m),  β_j = -1/n Σ_m ∇ψ_j(x_m),  score(x) = Σ_j β_j ψ_j(x),

    over the leading ``j`` whose eigenvalues reach the share ``threshold`` of all. The width of the
    kernel in a dimension is the median distance of two different draws times the root of the number
    of dimensions. Reference: Shi, Sun and Zhu, A spectral approach to gradient estimation for
    implicit distributions, ICML 2018.

    >>> score = spectral_score(jnp.array([[-1.5], [-0.5], [0.0], [0.7], [1.6]]))
    >>> int(score.kept), round(float(score(jnp.array([[1.0]]))[0, 0]), 3)
    (3, -0.838)
    """
    count, dimensions = draws.shape
    if count < 2:
        raise InputError(f"there are {count} draws; a score needs at least 2")
    widths = median_distances(draws) * jnp.sqrt(jnp.asarray(dimensions, draws.dtype))
    matrix = kernel_matrix(draws, draws, widths)
    values, vectors = jnp.linalg.eigh(matrix)
    values, vectors = values[::-1], vectors[:, ::-1]
    positive = jnp.maximum(values, 0)
    shares = jnp.cumsum(positive) / jnp.sum(positive)
    # The eigenvalue that crosses the threshold is kept: those before it have not reached it.
    before = jnp.concatenate([jnp.zeros(1, shares.dtype), shares[:-1]])
    used = (before < threshold) & (values > 0)
    inverse = jnp.where(used, 1 / jnp.where(used, values, 1), 0)
    slopes = (jnp.sum(matrix, axis=0)[:, None] * draws - matrix @ draws) / widths**2
    return SpectralScore(draws, widths, values, vectors, inverse, slopes)


def kernel_matrix(
    x: Float[Array, "first dimensions"],
    y: Float[Array, "second dimensions"],
    widths: Float[Array, " dimensions"],
) -> Float[Array, "first second"]:
    """``exp(-Σ_d (x_d - y_d)² / 2 w_d²)``."""
    # Centred first: the square of a difference by its three terms cancels less near zero.
    centre = jnp.mean(y, axis=0)
    one, other = (x - centre) / widths, (y - centre) / widths
    squares = jnp.sum(one**2, 1)[:, None] + jnp.sum(other**2, 1) - 2 * one @ other.T
    return jnp.exp(-0.5 * jnp.maximum(squares, 0))


def median_distances(draws: Float[Array, "draws dimensions"]) -> Float[Array, " dimensions"]:
    """The median of ``|x_i - x_j|`` over pairs ``i < j``, in every dimension.

    By bisection on sorted draws, to rounding: sorting all pairs costs ten times as much.
    """
    count = len(draws)
    pairs = count * (count - 1) // 2
    middle = jnp.array([(pairs - 1) // 2, pairs // 2])
    digits = jnp.finfo(draws.dtype).nmant + 2

    def distance(rank: Array, ordered: Array) -> Array:
        """The pair's distance with so many smaller ones."""

        def half(_, ends):
            low, high = ends
            centre = (low + high) / 2
            reached = jnp.searchsorted(ordered, ordered + centre, side="right")
            enough = jnp.sum(reached - jnp.arange(count) - 1) > rank
            return jnp.where(enough, low, centre), jnp.where(enough, centre, high)

        widest = ordered[-1] - ordered[0]
        return jax.lax.fori_loop(0, digits, half, (jnp.zeros_like(widest), widest))[1]

    every = jax.vmap(lambda one: jnp.mean(jax.vmap(distance, (0, None))(middle, one)))
    tiny = jnp.finfo(draws.dtype).tiny ** 0.5
    return jnp.maximum(every(jnp.sort(draws, axis=0).T), tiny)
