"""Descent on the bound of functional variational inference: likelihood, and a KL of functions."""

import math
from typing import Literal, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from credax.functions.function_divergence import (
    gaussian_divergence,
    linearised_moments,
    over_outputs,
    surrogate,
    with_noise,
)
from credax.functions.function_priors import FunctionPrior, GaussianFunctions, drawn_score
from credax.functions.measurement import Measurement
from credax.functions.vip_descent import function_values
from credax.likelihoods.learned import VARIANCE_FLOOR
from credax.methods.variational.families import LowRank
from credax.methods.variational.variational import VariationalState, join_params, split_params
from credax.network import Variables
from credax.problem import Batch
from credax.training import Descent
from credax.training.dynamics import Dynamics, Info, Replicas

Objective = Literal["ssge", "linearised"]


class FunctionalDescent(Dynamics):
    """Descent on ``mean NLL under draws + weight · KL(q(f) || p(f))`` at measurement points.

    The points of a step are rows of the batch and new ones from ``measurement``. With
    ``objective="ssge"`` the KL's gradient comes from scores, of the draws by the spectral estimator
    and of the prior as it gives them; with ``"linearised"`` the KL of two Gaussians is exact for
    the network linearised at the mean. ``weight`` is one over all rows, or over those of a batch.
    """

    descent: Descent
    family: LowRank
    prior: FunctionPrior
    measurement: Measurement
    gamma: Float[Array, ""]
    scale: float
    """Standard deviation of every weight at the start."""
    weight_std: Float[Array, ""] | None = None
    """Of the prior's weights, where the prior is the network's own and linearised too."""
    least_raw: Float[Array, ""] | None = None
    """The least raw noise variance of a learned noise level."""
    objective: Objective = eqx.field(default="ssge", static=True)
    data_points: int = eqx.field(default=20, static=True)
    points: int = eqx.field(default=20, static=True)
    samples: int = eqx.field(default=100, static=True)
    threshold: float = eqx.field(default=0.99, static=True)
    batch_weight: bool = eqx.field(default=False, static=True)

    @property
    def replicas(self) -> Replicas:
        """As the wrapped dynamics has."""
        return self.descent.replicas

    @property
    def passes(self) -> int:
        """Every draw sees every row."""
        return self.samples

    def init(self, key, variables: Variables) -> VariationalState:
        """A narrow Gaussian around a network; a learned noise begins at its floor."""
        weights, points = split_params(self.descent.problem, variables.params)
        if self.least_raw is not None:
            points = jnp.full_like(points, self.least_raw)
        free = self.family.start(jax.random.fold_in(key, 2**31 - 4), weights, self.scale)
        optimiser = self.descent.optimiser().init((free, points))
        seed = jax.random.key_data(jax.random.fold_in(key, 2**31 - 2))
        return VariationalState(free, points, variables.state, optimiser, jnp.int32(0), seed)

    def step(self, key, state: VariationalState, batch: Batch) -> tuple[VariationalState, Info]:
        """One step of the optimiser; a learned noise stays above its floor."""
        current = (state.free, state.points)
        (loss, info), gradient = jax.value_and_grad(self.loss, has_aux=True)(current, batch, key)
        updates, inner = self.descent.optimiser().update(gradient, state.optimiser, current)
        free, points = cast(tuple, optax.apply_updates(current, updates))
        if self.least_raw is not None:
            points = jnp.maximum(points, self.least_raw.astype(points.dtype))
        new = state._replace(free=free, points=points, optimiser=inner, steps=state.steps + 1)
        return new, {"loss": loss, **info}

    def members(self, state: VariationalState) -> Variables:
        """The network at the Gaussian's mean, with an axis of length one."""
        params = join_params(self.descent.problem, state.free["mean"], state.points)
        return jax.tree.map(lambda leaf: leaf[None], Variables(params, state.carried))

    def loss(self, current, batch: Batch, key):
        """The negative bound; the value of the part by scores is no KL, only its gradient is."""
        free, own = current
        gaussian = self.family.gaussian(free)
        where, draws, noise = jax.random.split(key, 3)
        x = self.measured(where, batch)
        weights = jax.vmap(gaussian.draw)(jax.random.split(draws, self.samples))
        rows = len(batch.x)
        both = batch.x if self.objective == "linearised" else jnp.concatenate([batch.x, x])
        values = function_values(self.descent.problem, weights, both)
        nll = self.expected(values[:, :rows], own, batch)
        if self.objective == "linearised":
            divergence = self.closed(gaussian, x)
            info = {"nll": nll, "kl": divergence}
        else:
            divergence = self.by_scores(noise, values[:, rows:], x)
            info = {"nll": nll}
        total = jnp.maximum(jnp.sum(batch.weight), 1) if self.batch_weight else None
        over = self.descent.num_data if total is None else total
        return nll + divergence / over, info

    def measured(self, key, batch: Batch) -> Float[Array, "points ..."]:
        """Rows of the batch, and new points; padding is replaced by new points too."""
        rows = min(self.data_points, len(batch.x))
        new = self.measurement.draw(key, rows + self.points).astype(batch.x.dtype)
        real = batch.weight[:rows] > 0
        real = real.reshape(-1, *[1] * (batch.x.ndim - 1))
        return jnp.concatenate([jnp.where(real, batch.x[:rows], new[:rows]), new[rows:]])

    def expected(self, values: Array, own: PyTree, batch: Batch) -> Float[Array, ""]:
        """The weighted mean of ``-log p(y)`` over rows and draws."""
        likelihood = self.descent.problem.likelihood
        params = likelihood.join({}, own)

        def one(outputs):
            return likelihood.log_prob(likelihood.all_outputs(params, outputs), batch.y)

        each = jnp.mean(jax.vmap(one)(values), axis=0)
        return -jnp.sum(batch.weight * each) / jnp.maximum(jnp.sum(batch.weight), 1)

    def by_scores(
        self, key, values: Float[Array, "draws points outputs"], x: Array
    ) -> Float[Array, ""]:
        """A number with the gradient of the KL."""
        own, other = jax.random.split(key)
        noisy = values + self.gamma * jax.random.normal(own, values.shape, values.dtype)
        fixed = jax.lax.stop_gradient(noisy)
        score = drawn_score(fixed, fixed, self.threshold)
        prior = self.prior.score(other, fixed, x, self.gamma, self.threshold)
        return surrogate(noisy, score, prior)

    def closed(self, gaussian, x: Array) -> Float[Array, ""]:
        """The KL of the linearised network's Gaussian from the prior's, in nats."""
        problem = self.descent.problem

        def function(weights):
            stacked = jax.tree.map(lambda leaf: leaf[None], weights)
            return function_values(problem, stacked, x)[0]

        value, jacobian, covariance = linearised_moments(function, gaussian)
        covariance = with_noise(covariance, self.gamma)
        if isinstance(self.prior, GaussianFunctions):
            own = self.prior.covariance(x, self.gamma)
            prior = over_outputs(own, len(value) // len(x))
            return gaussian_divergence(value, covariance, jnp.zeros_like(value), prior)
        mean = jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(gaussian.mean)])
        assert self.weight_std is not None
        spread = self.weight_std * jacobian
        prior = with_noise(spread @ spread.T, self.gamma)
        return gaussian_divergence(value, covariance, value - jacobian @ mean, prior)


def raw_variance(std: float) -> float:
    """The raw parameter of a learned noise of a standard deviation."""
    return math.log(math.expm1(std**2 - VARIANCE_FLOOR))
