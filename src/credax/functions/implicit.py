"""Implicit processes: distributions of functions that are known by their draws alone."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from credax.errors import InputError
from credax.functions.draws import FEATURES, draw_keys, prior_functions
from credax.functions.gp import GaussianProcess
from credax.network import Network, Variables


class ImplicitProcess(eqx.Module):
    """Abstract: ``z ~ p(z)``, ``f(x) = g(x, z)`` at any points (Ma, Li and Hernandez-Lobato 2019).

    The same ``z`` holds at every input, so a draw is one function: values at a point do not depend
    on the other points, their order or the batch.
    """

    @abc.abstractmethod
    def at(
        self, key: Key[Array, ""], x: Float[Array, "points ..."]
    ) -> Float[Array, "points outputs"]:
        """The function of a key at points: pure, and the same function for the same key."""

    def functions(
        self, key: int | Key[Array, ""], n: int, x: Any
    ) -> Float[np.ndarray, "draws points outputs"]:
        """``n`` draws at points; draw ``i`` of ``n`` is draw ``i`` of more."""
        x = jnp.asarray(x)
        if x.ndim < 2 or not len(x):
            raise InputError(f"x has shape {x.shape}; give at least one row, [rows, columns]")
        found = np.asarray(_all(self, draw_keys(key, n), x))
        if found.ndim != 3 or found.shape[1] != len(x):
            raise InputError(
                f"a draw has shape {found.shape[1:]} at {len(x)} points; it must be "
                "[points, outputs]"
            )
        return found


@eqx.filter_jit
def _all(process: ImplicitProcess, keys: Array, x: Array) -> Array:
    return jax.lax.map(lambda key: process.at(key, x), keys)


class WeightProcess(ImplicitProcess):
    """A network whose weights are drawn from a Gaussian: a Bayesian network's prior.

    ``mean`` and ``std`` have the structure of the network's parameters; their leaves are arrays or
    single numbers. See `standard_weights`.
    """

    network: Network
    mean: PyTree
    std: PyTree
    shapes: PyTree = eqx.field(static=True)

    def at(self, key, x):
        """The network with the weights of the key."""
        leaves, structure = jax.tree.flatten(self.shapes)
        keys = jax.random.split(key, len(leaves))
        normal = [jax.random.normal(k, s, x.dtype) for k, s in zip(keys, leaves, strict=True)]
        noise = jax.tree.unflatten(structure, normal)
        params = jax.tree.map(lambda m, s, z: m + s * z, self.mean, self.std, noise)
        return self.network.apply(Variables(params, {}), x)[0]


class Shape(tuple):
    """A shape as a leaf of a pytree."""


def standard_weights(network: Network, x: Any) -> WeightProcess:
    """A prior of mean zero: kernels with variance one over their inputs, biases with variance one.

    >>> from credax.networks import MLP
    >>> process = standard_weights(MLP((10,), outputs=1, activation="tanh"), np.zeros((1, 2)))
    >>> process.functions(0, 3, np.zeros((5, 2), np.float32)).shape
    (3, 5, 1)
    """
    variables = jax.eval_shape(network.init, jax.random.key(0), jnp.asarray(x))
    if jax.tree.leaves(variables.state):
        raise InputError(
            "the network carries batch statistics, which no draw of weights has; use one without"
        )
    scale = jax.tree.map(lambda leaf: leaf_scale(leaf.shape), variables.params)
    shapes = jax.tree.map(lambda leaf: Shape(leaf.shape), variables.params)
    return WeightProcess(network, jax.tree.map(lambda _: 0.0, scale), scale, shapes)


def leaf_scale(shape: tuple[int, ...]) -> float:
    """One over the root of a kernel's inputs; one for a bias."""
    return float(np.prod(shape[:-1], dtype=float)) ** -0.5 if len(shape) > 1 else 1.0


class NeuralSampler(ImplicitProcess):
    """Noise in, a function out: a network of the input beside ``z ~ N(0, I)`` of some length."""

    network: Network
    variables: Variables
    noise: int = eqx.field(static=True)

    def at(self, key, x):
        """The network of ``[x, z]`` with one ``z`` for all points."""
        z = jax.random.normal(key, (self.noise,), x.dtype)
        rows = jnp.concatenate([x, jnp.broadcast_to(z, (len(x), self.noise))], axis=-1)
        return self.network.apply(self.variables, rows)[0]


class Simulator(ImplicitProcess):
    """Any pure function of a key and points, ``[points, columns] -> [points, outputs]``.

    >>> line = Simulator(lambda key, x: jax.random.normal(key) * x)
    >>> line.functions(0, 4, np.ones((2, 1))).shape
    (4, 2, 1)
    """

    function: Callable[[Any, Array], Array]

    def at(self, key, x):
        """What the function gives."""
        return self.function(key, x)


class ProcessDraws(ImplicitProcess):
    """The draws of a Gaussian process whose kernel has random features."""

    process: GaussianProcess
    outputs: int = eqx.field(default=1, static=True)
    features: int = eqx.field(default=FEATURES, static=True)

    def at(self, key, x):
        """A function of the prior."""
        kernel = self.process.kernel
        drawn = prior_functions(kernel, key[None], x, self.outputs, self.features)
        return self.process.mean + drawn[0]
