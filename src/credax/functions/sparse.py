"""The bound of a sparse variational Gaussian process, and descent on it by minibatches."""

from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, PyTree

from credax.functions.hyperparameters import with_parameters
from credax.functions.kernels import Kernel
from credax.network import Variables
from credax.problem import Batch, Problem
from credax.training import Training
from credax.training.dynamics import Dynamics, Info, Replicas
from credax.training.schedule import optimiser_for

JITTER = 1e-4
"""On the diagonal of the inducing points' matrix, relative to its mean: what single precision
needs. It is part of the model, in training and in prediction."""


class Sparse(NamedTuple):
    """What is trained: inducing points, whitened means and roots, logarithms, likelihood."""

    points: Float[Array, "inducing columns"]
    mean: Float[Array, "inducing outputs"]
    root: Float[Array, "outputs inducing inducing"]
    """Lower triangles; the diagonal is a logarithm."""
    logs: Float[Array, " parameters"]
    own: PyTree
    """Parameters of the likelihood itself, such as a learned noise."""


class SparseState(NamedTuple):
    """What is trained, its optimiser, and the noise of the members."""

    trained: Sparse
    optimiser: PyTree
    noise: Float[Array, "members outputs"]


def lower_roots(raw: Float[Array, "outputs inducing inducing"]) -> Array:
    """Triangular roots of the covariances, with positive diagonals."""
    diagonal = jnp.exp(jnp.diagonal(raw, axis1=-2, axis2=-1))
    return jnp.tril(raw, -1) + jnp.eye(raw.shape[-1], dtype=raw.dtype) * diagonal[:, None]


def sparse_moments(
    kernel: Kernel, sparse: Sparse, x: Float[Array, "rows columns"], jitter: float
) -> tuple[Float[Array, "rows outputs"], Float[Array, "rows outputs"]]:
    """Mean and variance of ``q(f)``: with ``A = L⁻¹ k(Z, x)``, ``Aᵀm`` and ``k - AᵀA + AᵀSSᵀA``."""
    within = kernel(sparse.points, sparse.points)
    size = jitter * jnp.mean(jnp.diag(within))
    lower = jnp.linalg.cholesky(within + size * jnp.eye(len(within), dtype=within.dtype))
    reached = solve_triangular(lower, kernel(sparse.points, x), lower=True)
    spread = jnp.einsum("oij,ir->ojr", lower_roots(sparse.root), reached)
    own = kernel.diagonal(x) - jnp.sum(reached**2, axis=0)
    variance = jnp.maximum(own, 0.0)[:, None] + jnp.sum(spread**2, axis=1).T
    return reached.T @ sparse.mean, variance


def divergence(sparse: Sparse) -> Float[Array, ""]:
    """``KL(q(v) || N(0, I))`` of the whitened values, summed over outputs."""
    logs = jnp.diagonal(sparse.root, axis1=-2, axis2=-1)
    squares = jnp.sum(lower_roots(sparse.root) ** 2) + jnp.sum(sparse.mean**2)
    return 0.5 * (squares - logs.size) - jnp.sum(logs)


def expected_log_prob(
    problem: Problem, own: PyTree, mean: Array, variance: Array, y: Array, key: Any, draws: int
) -> Float[Array, " rows"]:
    """``E_q log p(y|f)`` of each row: in closed form for Gaussian noise, else by draws."""
    likelihood = problem.likelihood
    params = likelihood.join({}, own)
    if likelihood.has_one_noise:
        noise = likelihood.noise_variance(params, mean[0])
        squares = jnp.square(y.reshape(mean.shape) - mean) + variance
        return -0.5 * jnp.sum(jnp.log(2 * jnp.pi * noise) + squares / noise, axis=-1)

    def one(key):
        values = mean + jnp.sqrt(variance) * jax.random.normal(key, mean.shape, mean.dtype)
        return likelihood.log_prob(likelihood.all_outputs(params, values), y)

    return jnp.mean(jax.vmap(one)(jax.random.split(key, draws)), axis=0)


class SparseDescent(Dynamics):
    """Descent on ``-E_q log p(y|f)`` per row plus ``KL / N`` (Hensman et al. 2013)."""

    problem: Problem
    training: Training = eqx.field(static=True)
    num_data: int
    kernel: Kernel
    start: Float[Array, " parameters"]
    """Logarithms of the kernel's hyper-parameters at the start."""
    candidates: Float[Array, "candidates columns"]
    """Rows in standard units from which inducing points are chosen."""
    inducing: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    drawn: int = eqx.field(static=True)
    """Members of a prediction."""
    draws: int = eqx.field(static=True)
    replicas: Replicas = Replicas()  # pyright: ignore[reportIncompatibleMethodOverride]

    scored = False

    def init(self, key, variables: Variables) -> SparseState:
        """The prior at random rows."""
        which, noise = jax.random.split(key)
        rows = jax.random.choice(which, len(self.candidates), (self.inducing,), replace=False)
        points = self.candidates[rows]
        mean = jnp.zeros((self.inducing, self.outputs), points.dtype)
        root = jnp.zeros((self.outputs, self.inducing, self.inducing), points.dtype)
        own = self.problem.likelihood.own(variables.params)
        trained = Sparse(points, mean, root, self.start, own)
        keys = jax.vmap(lambda i: jax.random.fold_in(noise, i))(jnp.arange(self.drawn))
        normal = jax.vmap(lambda k: jax.random.normal(k, (self.outputs,)))(keys)
        return SparseState(trained, self._optimiser().init(trained), normal)

    def step(self, key, state: SparseState, batch: Batch) -> tuple[SparseState, Info]:
        """One step of the optimiser."""
        (loss, info), gradient = jax.value_and_grad(self.loss, has_aux=True)(
            state.trained, batch, key
        )
        updates, inner = self._optimiser().update(gradient, state.optimiser, state.trained)
        trained = cast(Sparse, optax.apply_updates(state.trained, updates))
        return SparseState(trained, inner, state.noise), {"loss": loss, **info}

    def loss(self, trained: Sparse, batch: Batch, key) -> tuple[Float[Array, ""], Info]:
        """The negative bound over ``N``, of a batch in standard units."""
        kernel = with_parameters(self.kernel, trained.logs)
        x = batch.x.reshape(len(batch.x), -1)
        mean, variance = sparse_moments(kernel, trained, x, JITTER)
        each = expected_log_prob(
            self.problem, trained.own, mean, variance, batch.y, key, self.draws
        )
        nll = -jnp.sum(batch.weight * each) / jnp.sum(batch.weight)
        kl = divergence(trained)
        return nll + kl / self.num_data, {"nll": nll, "kl": kl}

    def members(self, state: SparseState) -> Variables:
        """What is trained, with an axis of length one."""
        return Variables(jax.tree.map(lambda leaf: leaf[None], state.trained._asdict()), {})

    def _optimiser(self) -> optax.GradientTransformation:
        return optimiser_for(self.training, self.num_data)
