"""Priors that functional variational inference compares with, at points in standard units."""

import abc
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from credax.functions.function_divergence import gaussian_score, with_noise
from credax.functions.implicit import ImplicitProcess
from credax.functions.kernels import Kernel
from credax.functions.ssge import spectral_score
from credax.functions.vip_descent import function_values
from credax.problem import Problem


class FunctionPrior(eqx.Module):
    """Abstract: a distribution of functions, with noise of standard deviation ``γ`` on values."""

    @abc.abstractmethod
    def score(
        self,
        key: Key[Array, ""],
        values: Float[Array, "draws points outputs"],
        x: Float[Array, "points ..."],
        gamma: float | Array,
        threshold: float,
    ) -> Float[Array, "draws points outputs"]:
        """``∇ log p`` of noisy values at points."""


class GaussianFunctions(FunctionPrior):
    """A Gaussian process of mean zero on every output: its score is known."""

    kernel: Kernel
    by_draws: bool = eqx.field(default=False, static=True)
    """Whether the score is estimated from draws all the same."""

    def covariance(
        self, x: Float[Array, "points ..."], gamma: float | Array
    ) -> Float[Array, "points points"]:
        """``K + γ² I``."""
        rows = x.reshape(len(x), -1)
        return with_noise(self.kernel(rows, rows), gamma)

    def score(self, key, values, x, gamma, threshold):
        """``-(K + γ² I)⁻¹ f``."""
        covariance = self.covariance(x, gamma)
        if not self.by_draws:
            return gaussian_score(values, covariance)
        normal = jax.random.normal(key, values.shape, values.dtype)
        drawn = jnp.einsum("pq,sqo->spo", jnp.linalg.cholesky(covariance), normal)
        return drawn_score(values, drawn, threshold)


class DrawnFunctions(FunctionPrior):
    """An implicit process: its score is estimated from as many draws as there are values."""

    process: ImplicitProcess

    def score(self, key, values, x, gamma, threshold):
        """The spectral estimate."""
        functions, noise = jax.random.split(key)
        keys = jax.random.split(functions, len(values))
        drawn = jax.vmap(lambda k: self.process.at(k, x))(keys)
        drawn = drawn + gamma * jax.random.normal(noise, drawn.shape, drawn.dtype)
        return drawn_score(values, drawn, threshold)


class WeightFunctions(ImplicitProcess):
    """The functions of the problem's network with weights of ``N(0, std²)``."""

    problem: Problem
    std: Float[Array, ""]

    def at(self, key: Key[Array, ""], x: Array) -> Float[Array, "points outputs"]:
        """The outputs that depend on the input."""
        shapes = jax.eval_shape(self.problem.init, key, x[:1]).params
        leaves, structure = jax.tree.flatten(self.problem.weights(shapes))
        keys = jax.random.split(key, len(leaves))
        normal = [jax.random.normal(k, s.shape, s.dtype) for k, s in zip(keys, leaves, strict=True)]
        stacked = [self.std * one[None] for one in normal]
        return function_values(self.problem, jax.tree.unflatten(structure, stacked), x)[0]


def drawn_score(
    values: Float[Array, "draws points outputs"],
    drawn: Float[Array, "others points outputs"],
    threshold: float,
) -> Float[Array, "draws points outputs"]:
    """The spectral estimate from some draws at other values; all outputs are one vector."""
    estimate = spectral_score(drawn.reshape(len(drawn), -1), threshold)
    return estimate(values.reshape(len(values), -1)).reshape(values.shape)


PriorName = Literal["gp", "weights", "piecewise-constant", "piecewise-linear"]
