"""Updates between members, as pure functions of arrays: distances, bandwidths, kernels, directions.

Canonical kernel: ``k(a, b) = exp(-|a - b|² / h)``. Members that are not ``alive`` leave every sum,
median and logarithm, and are not updated. References: `docs/methods/forde.md`.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from credax.methods.repulsive.lengthscale import Graph, Identity, InputMetric

FLOOR = 1e-12
HIGHEST = jax.lax.Precision.HIGHEST

RATIO, REACH = 1.1, 24

Bandwidth = Literal["per_reference", "per_sample", "median", "median_plus_one", "heat"] | float


def masked_median(values: Array, mask: Array, axis: int) -> Array:
    """Median over the masked entries of an axis; an even count averages the two middle ones."""
    ordered = jnp.sort(jnp.where(mask, values, jnp.inf), axis=axis)
    count = jnp.sum(mask, axis=axis, keepdims=True)
    pick = lambda index: jnp.take_along_axis(ordered, jnp.maximum(index, 0), axis)  # noqa: E731
    middle = 0.5 * (pick((count - 1) // 2) + pick(count // 2))
    return jnp.where(count > 0, middle, 0.0).squeeze(axis)


def distances_from_gram(gram: Float[Array, "members members *batch"]) -> Array:
    """``|a_i - a_j|² = G_ii + G_jj - 2 G_ij``, never negative, the diagonal exactly zero."""
    members = gram.shape[0]
    own = jnp.einsum("ii...->i...", gram)
    distance = jnp.maximum(own[:, None] + own[None] - 2 * gram, 0.0)
    eye = jnp.eye(members, dtype=bool).reshape(members, members, *(1,) * (gram.ndim - 2))
    return jnp.where(eye, 0.0, distance)


class GradientRepulsion(NamedTuple):
    """FoRDE's repulsion on a batch of input gradients."""

    cotangent: Float[Array, "members batch inputs"]
    repulsion: Float[Array, ""]
    kernel: Float[Array, "members members"]
    floored: Float[Array, ""]


class GradientKernel(NamedTuple):
    """Options of `gradient_repulsion`; the defaults are the released code's."""

    bandwidth: Any = "per_reference"
    pooling: str = "log_of_mean"
    estimator: str = "kde"
    eps: float = 1e-24
    relative_floor: float | None = None
    embedding: str = "sphere"
    include_diagonal: bool = True


DEFAULT_KERNEL = GradientKernel()


def gradient_repulsion(
    gradients: Float[Array, "members batch inputs"],
    metric: InputMetric | None = None,
    kernel: GradientKernel = DEFAULT_KERNEL,
    alive: Bool[Array, " members"] | None = None,
    weight: Float[Array, " batch"] | None = None,
) -> GradientRepulsion:
    """Repulsion ``R = (1/B) Σ_i log Σ_j k_ij`` and ``dR/dg`` through the first argument only.

    With ``s = g / n``, ``n = sqrt(|g|² + eps)``, coordinates ``q`` of ``s`` in the metric,
    ``A_ijb = exp(-|q_ib - q_jb|² / h_jb)``, ``k_ij = (1/B) Σ_b A_ijb``, ``Z_i = Σ_jb A_ijb``:

        dR/dq_ib = -(2/B) Σ_j (A_ijb / Z_i) (q_ib - q_jb) / h_jb
        dR/dg_ib = (1/n_ib) (I - s_ib s_ib^T) dR/ds_ib

    Rows of ``weight`` zero (padding) count for nothing, and ``B`` is the sum of the weights. Over
    the Gram matrix: memory ``[members, members, batch]`` and ``[members, batch, inputs]``.
    Reference: Trinh, Heinonen, Acerbi, Kaski, ICLR 2024.
    """
    metric = Identity() if metric is None else metric
    members, batch, inputs = gradients.shape
    alive = jnp.ones(members, bool) if alive is None else alive
    weight = jnp.ones(batch, gradients.dtype) if weight is None else weight.astype(gradients.dtype)
    rows = jnp.sum(weight)
    g = jnp.where(alive[:, None, None], gradients, 0.0)
    s, norm, floored = _unit(g, kernel, alive, weight)
    metric = Graph(metric) if kernel.embedding == "graph" else metric
    left, right = metric.project(s)
    gram = jnp.einsum("ibd,jbd->ijb", left, right, precision=HIGHEST)
    d2 = distances_from_gram(gram)
    h = _gradient_bandwidth(gram, d2, kernel, alive, left.shape[-1])
    pairs = alive[:, None, None] & alive[None, :, None]
    a = jnp.where(pairs, jnp.exp(-d2 / h), 0.0)
    share, repulsion = _shares(a, kernel, alive, weight, rows)
    share = share / h
    mixed = jnp.sum(share, axis=1)[..., None] * right - jnp.einsum(
        "ijb,jbd->ibd", share, right, precision=HIGHEST
    )
    pull = -(2 / rows) * metric.lift(mixed)
    tangent = pull - s * jnp.sum(s * pull, axis=-1, keepdims=True)
    # With eps = 0 a gradient that vanished has no direction.
    tangent = jnp.where(norm > 0, tangent / jnp.where(norm > 0, norm, 1.0), 0.0)
    several = jnp.sum(alive) > 1
    return GradientRepulsion(
        jnp.where(several & alive[:, None, None], tangent[..., :inputs], 0.0),
        jnp.where(several, repulsion, 0.0),
        jnp.sum(weight * a, axis=-1) / rows,
        floored,
    )


def _unit(g, kernel: GradientKernel, alive, weight):
    square = jnp.sum(jnp.square(g), axis=-1, keepdims=True)
    if kernel.embedding == "graph":
        # The graph of a linear function: (g, 1) on the sphere, so that magnitudes matter too.
        extended = jnp.concatenate([g, jnp.ones_like(square)], axis=-1)
        norm = jnp.sqrt(square + 1)
        return extended / norm, norm, jnp.zeros(())
    below = kernel.eps
    if kernel.relative_floor is not None:
        real = jnp.broadcast_to(weight > 0, square.shape[:2])
        typical = masked_median(jnp.sqrt(square[..., 0]), real, axis=1)[:, None, None]
        below = below + jax.lax.stop_gradient(jnp.square(kernel.relative_floor * typical))
    norm = jnp.sqrt(square + below)
    counted = alive[:, None, None] * weight[:, None]
    floored = jnp.sum(counted * (square < below)) / jnp.sum(counted)
    return g / jnp.where(norm > 0, norm, 1.0), norm, floored


def _gradient_bandwidth(gram, d2, kernel: GradientKernel, alive, dimension: int):
    if not isinstance(kernel.bandwidth, str):
        return jnp.asarray(kernel.bandwidth, d2.dtype)
    # Below the rounding of a squared distance there is nothing but noise to divide by.
    rounding = jnp.finfo(gram.dtype).eps * jnp.max(jnp.einsum("iib->ib", gram), axis=0)
    floor = jnp.maximum(rounding, FLOOR)
    if kernel.bandwidth == "heat":
        heat = lambda d2: heat_bandwidth(d2, alive, dimension)  # noqa: E731
        return jnp.maximum(jax.vmap(heat, in_axes=-1)(d2), floor)[None, None]
    count = jnp.log(jnp.maximum(jnp.sum(alive), 2)).astype(d2.dtype)
    pairs = (alive[:, None] & alive[None])[..., None]
    if not kernel.include_diagonal:
        pairs = pairs & ~jnp.eye(len(alive), dtype=bool)[..., None]
    pairs = jnp.broadcast_to(pairs, d2.shape)
    if kernel.bandwidth == "per_reference":
        return (masked_median(d2, pairs, axis=0) / count + floor)[None]
    flat = d2.reshape(-1, d2.shape[-1]), pairs.reshape(-1, d2.shape[-1])
    return (masked_median(*flat, axis=0) / count + floor)[None, None]


def _shares(a, kernel: GradientKernel, alive, weight, rows):
    """``A_ijb / Z_i`` in the form that pooling and estimator ask for, and the value of R."""
    if kernel.pooling == "mean_of_log":
        each = jnp.where(alive[:, None], jnp.sum(a, axis=1), 1.0)
        repulsion = jnp.sum(weight * jnp.log(each)) / jnp.square(rows)
        inverse = 1 / (rows * each)
    else:
        each = jnp.where(alive, jnp.sum(weight * a, axis=(1, 2)), rows)
        repulsion = jnp.sum(jnp.log(each / rows)) / rows
        inverse = 1 / each[:, None]
    if kernel.estimator == "blob":
        return weight * a * (inverse[:, None] + inverse[None]), repulsion
    return weight * a * inverse[:, None], repulsion


def gradient_diversity(
    gradients: Float[Array, "members batch inputs"], alive: Bool[Array, " members"]
) -> tuple[Float[Array, " members"], Float[Array, " members"]]:
    """Each member's mean cosine with the others' gradients, and mean over them of the median d².

    Unit gradients in the identity metric; the median is over the batch.
    """
    g = jnp.where(alive[:, None, None], gradients, 0.0)
    s = g / jnp.maximum(jnp.linalg.norm(g, axis=-1, keepdims=True), jnp.finfo(g.dtype).tiny)
    gram = jnp.einsum("ibd,jbd->ijb", s, s)
    pairs = alive[:, None] & alive[None] & ~jnp.eye(len(alive), dtype=bool)
    count = jnp.maximum(jnp.sum(pairs, axis=1), 1)
    cosine = jnp.sum(jnp.where(pairs, jnp.mean(gram, -1), 0.0), axis=1) / count
    median = jnp.median(distances_from_gram(gram), axis=-1)
    return cosine, jnp.sum(jnp.where(pairs, median, 0.0), axis=1) / count


def cosine_penalty(
    gradients: Float[Array, "members batch inputs"],
    metric: InputMetric | None = None,
    eps: float = 1e-6,
    alive: Bool[Array, " members"] | None = None,
    weight: Float[Array, " batch"] | None = None,
) -> tuple[Float[Array, "members batch inputs"], Float[Array, ""]]:
    """``Σ_{i<j} Σ_b a²/(n_i² n_j² + eps)`` with ``a = g_i . g_j``, and its gradient (LIT).

    Both arguments are live; rows of ``weight`` zero count for nothing. Reference: Ross, Pan, Celi,
    Doshi-Velez 2018/2020.
    """
    metric = Identity() if metric is None else metric
    members = len(gradients)
    alive = jnp.ones(members, bool) if alive is None else alive
    g = jnp.where(alive[:, None, None], gradients, 0.0)
    left, right = metric.project(g)
    a = jnp.einsum("ibd,jbd->ijb", left, right, precision=HIGHEST)
    own = jnp.einsum("iib->ib", a)
    below = own[:, None] * own[None] + eps
    off = (1 - jnp.eye(members, dtype=a.dtype))[..., None]
    off = off if weight is None else off * weight
    penalty = 0.5 * jnp.sum(off * jnp.square(a) / below)
    first = off * 2 * a / below
    second = off * 2 * jnp.square(a) * own[None] / jnp.square(below)
    mixed = jnp.einsum("ijb,jbd->ibd", first, right, precision=HIGHEST)
    mixed = mixed - jnp.sum(second, axis=1)[..., None] * right
    return metric.lift(mixed), penalty


# --- repulsion between whole vectors: weights, functions, features


def gram_of(tree: PyTree) -> Float[Array, "members members"]:
    """Inner products of members: the sum over leaves, nothing flattened together."""
    flat = [leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(tree)]
    return sum(jnp.matmul(leaf, leaf.T, precision=HIGHEST) for leaf in flat)  # pyright: ignore[reportReturnType]


def mix(matrix: Float[Array, "members members"], tree: PyTree) -> PyTree:
    """``Σ_j C_ij z_j`` for every leaf."""
    return jax.tree.map(
        lambda leaf: jnp.tensordot(matrix.astype(leaf.dtype), leaf, 1, precision=HIGHEST), tree
    )


def median_bandwidth(d2: Array, alive: Array, plus_one: bool) -> Array:
    """``median / ln M`` (Liu and Wang 2016) or ``median / ln(M + 1)``, zero diagonal included."""
    pairs = (alive[:, None] & alive[None]).reshape(-1)
    count = jnp.sum(alive) + (1 if plus_one else 0)
    return masked_median(d2.reshape(-1), pairs, 0) / jnp.log(jnp.maximum(count, 2)) + FLOOR


def heat_residual(d2: Array, h: Array, alive: Array, dimension: int) -> Array:
    """Residual of the heat equation for the kernel density at the members, ``h/2`` times.

    Members that follow ``-∇ log q`` should change their density ``q ∝ Σ_j K(., z_j)`` as heat does:
    ``Δq(z_i) + Σ_j ∇_{z_j} q(z_i) . ∇ log q(z_j) = 0`` (Liu et al. 2019). With
    ``2 (z_i - z_j) . (z_j - z_l) = d²_il - d²_ij - d²_jl`` distances are all it needs.
    """
    k = jnp.where(alive[:, None] & alive[None], jnp.exp(-d2 / h), 0.0)
    rows = jnp.sum(k, axis=1)
    spread = (k / jnp.where(alive, rows, 1.0)[:, None]) @ d2
    carried = jnp.sum(k * (1.5 * d2 + 0.5 * jnp.diag(spread) - 0.5 * spread.T), axis=1)
    return (2 / h) * carried - dimension * rows


def heat_bandwidth(d2: Array, alive: Array, dimension: int) -> Array:
    """The bandwidth at which the kernel density comes nearest to the heat equation.

    Best of a geometric grid of ratio 1.1 around the median rule, so that nothing is carried from
    step to step; `heat_residual` squared over ``(D Σ_j K_ij)²``, both summed over members, which is
    one at either end of the scale, in any number of dimensions.
    """
    grid = median_bandwidth(d2, alive, False) * RATIO ** jnp.arange(-REACH, REACH + 1.0)
    grid = grid.astype(d2.dtype)

    def unexplained(h):
        k = jnp.where(alive[:, None] & alive[None], jnp.exp(-d2 / h), 0.0)
        whole = dimension * jnp.sum(k, axis=1)
        residual = heat_residual(d2, h, alive, dimension)
        return jnp.sum(jnp.square(residual)) / jnp.sum(jnp.square(whole))

    return grid[jnp.argmin(jax.vmap(unexplained)(grid))]


class Kernel(NamedTuple):
    """The kernel matrix of whole vectors, diverged members' rows and columns zero."""

    matrix: Float[Array, "members members"]
    bandwidth: Float[Array, ""]
    alive: Bool[Array, " members"]


def kernel_of(
    d2: Array, bandwidth: Any, alive: Array, dimension: int = 1, floor: float = FLOOR
) -> Kernel:
    """``exp(-d² / h)``, ``h`` a number, ``"median"``, ``"median_plus_one"`` or ``"heat"``.

    ``dimension`` is that of the vectors (for heat); no named rule goes below ``floor``.
    """
    if not isinstance(bandwidth, str):
        h = jnp.asarray(bandwidth, d2.dtype)
    elif bandwidth == "heat":
        h = jnp.maximum(heat_bandwidth(d2, alive, dimension), floor)
    else:
        h = jnp.maximum(median_bandwidth(d2, alive, bandwidth == "median_plus_one"), floor)
    pairs = alive[:, None] & alive[None]
    return Kernel(jnp.where(pairs, jnp.exp(-d2 / h), 0.0), h, alive)


def kde(kernel: Kernel) -> Float[Array, "members members"]:
    """Minus the score of the kernel density at each member, as a mixing matrix.

    ``(2/h) (z_i - Σ_j K_ij z_j / Σ_j K_ij)`` (GFSD; Liu et al. 2019, D'Angelo and Fortuin 2021).
    """
    rows = jnp.where(kernel.alive, jnp.sum(kernel.matrix, 1), 1.0)
    return (2 / kernel.bandwidth) * (_eye(kernel) - kernel.matrix / rows[:, None])


def blob(kernel: Kernel) -> Float[Array, "members members"]:
    """KDE and its second half ``Σ_j ∇_i K_ij / Σ_l K_jl`` (Chen et al. 2018)."""
    rows = jnp.where(kernel.alive, jnp.sum(kernel.matrix, 1), 1.0)
    weight = kernel.matrix * (1 / rows[:, None] + 1 / rows[None])
    return (2 / kernel.bandwidth) * (jnp.diag(jnp.sum(weight, 1)) - weight)


def stein_gradient(kernel: Kernel, ridge: float = 0.01) -> Float[Array, "members members"]:
    """Minus the Stein gradient estimate ``(K + ηI)^-1 ∇K`` (SGE = GFSF; Li and Turner 2018)."""
    below = kernel.matrix + jnp.diag(
        jnp.where(kernel.alive, ridge, 1.0).astype(kernel.matrix.dtype)
    )
    laplacian = jnp.diag(jnp.sum(kernel.matrix, 1)) - kernel.matrix
    return (2 / kernel.bandwidth) * jnp.linalg.solve(below, laplacian)


def spectral_bandwidth(d2: Array, alive: Array) -> Array:
    """``2 s²``, s the median distance over pairs of distinct members."""
    pairs = alive[:, None] & alive[None] & ~jnp.eye(len(alive), dtype=bool)
    return 2 * jnp.square(masked_median(jnp.sqrt(d2).reshape(-1), pairs.reshape(-1), 0)) + FLOOR


def spectral_score(
    across: Float[Array, "points samples"],
    inner: Float[Array, "samples samples"],
    bandwidth: Array,
    ridge: float = 0.01,
    keep: float | None = None,
    alive: Bool[Array, " samples"] | None = None,
) -> Float[Array, "points samples"]:
    """The spectral Stein estimate of a score, as a matrix that acts on the samples.

    ``score(x) = Σ_j β_j ψ_j(x)``, ``ψ_j(x) = sqrt(M)/λ_j Σ_m u_jm k(x, x_m)``,
    ``β_j = -(1/M) Σ_m ∇ψ_j(x_m)``; ``across`` is the kernel between points and samples, ``inner``
    among the samples, ``keep`` the share of eigenvalue mass kept (None: all).
    Reference: Shi, Sun, Zhu 2018.
    """
    alive = jnp.ones(len(inner), bool) if alive is None else alive
    count = jnp.sum(alive)
    # Diverged samples become eigenvectors of their own with eigenvalue -1: they come last.
    shift = jnp.where(alive, ridge, -1.0).astype(inner.dtype)
    values, vectors = jnp.linalg.eigh(inner + jnp.diag(shift))
    values, vectors = values[::-1], vectors[:, ::-1]
    used = jnp.arange(len(values)) < count
    if keep is not None:
        mass = jnp.cumsum(jnp.where(used, values, 0.0)) / jnp.sum(jnp.where(used, values, 0.0))
        used = used & (jnp.concatenate([jnp.zeros(1, mass.dtype), mass[:-1]]) < keep)
    inverse = jnp.where(used, 1 / values, 0.0)
    psi = jnp.sqrt(count) * (across @ vectors) * inverse
    laplacian = jnp.diag(jnp.sum(inner, 1)) - inner
    slope = (2 / bandwidth) * jnp.sqrt(count) * inverse[:, None] * (vectors.T @ laplacian)
    return -psi @ slope / count


def spectral_stein(
    kernel: Kernel, ridge: float = 0.01, keep: float | None = None
) -> Float[Array, "members members"]:
    """Minus the members' own score by `spectral_score` (SSGE)."""
    score = spectral_score(
        kernel.matrix, kernel.matrix, kernel.bandwidth, ridge, keep, kernel.alive
    )
    return jnp.where(kernel.alive[:, None], -score, 0.0)


def stein(kernel: Kernel) -> tuple[Array, Array]:
    """SVGD as two mixing matrices: of the scores, and of the members (Liu and Wang 2016).

    ``φ_i = (1/M) Σ_j [K_ij score_j + (2/h) K_ij (z_i - z_j)]``.
    """
    count = jnp.maximum(jnp.sum(kernel.alive), 1)
    laplacian = jnp.diag(jnp.sum(kernel.matrix, 1)) - kernel.matrix
    return kernel.matrix / count, (2 / kernel.bandwidth) * laplacian / count


def stein_linear(gram: Array, alive: Array) -> tuple[Array, Array]:
    """SVGD with the kernel ``x.y + 1``: exact on Gaussians when M > d (Liu and Wang 2018)."""
    pairs = alive[:, None] & alive[None]
    count = jnp.maximum(jnp.sum(alive), 1)
    return jnp.where(pairs, gram + 1, 0.0) / count, jnp.diag(alive.astype(gram.dtype))


ESTIMATORS = {"kde": kde, "blob": blob, "sge": stein_gradient, "ssge": spectral_stein}


def _eye(kernel: Kernel):
    return jnp.diag(kernel.alive.astype(kernel.matrix.dtype))
