"""Weight noise that differs from row to row: local reparametrisation and Flipout.

Both replace a product's draw of a kernel by noise on the product, row by row, with the same mean
and variance for each row; rows are less correlated than under one shared draw, so that gradients
are less noisy. Kernels are found in the traced computation (`credax.structure.linear_layers`).
"""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from credax.errors import InputError
from credax.gaussians import LowRankGaussian
from credax.methods.laplace.subset import named
from credax.network import Variables
from credax.networks.convolution import using_implementation
from credax.problem import Problem
from credax.structure.linear_layers import LinearLayer, LinearLayers

Estimator = Literal["shared", "local", "flipout"]


def signs(key: Key[Array, ""], size: int, dtype: Any) -> Array:
    """Independent signs, -1 or +1 with equal probability."""
    return jnp.where(jax.random.bernoulli(key, 0.5, (size,)), 1, -1).astype(dtype)


def flipout(layer: LinearLayer, noise: Array, key: Key[Array, ""]):
    """``((a ∘ r) ΔW) ∘ s`` with signs r and s of a row's own (Wen et al. 2018).

    ``noise`` is the batch's draw ``σ ε`` as a matrix ``[inputs, outputs]``.
    """
    first, second = jax.random.split(key)
    r, s = signs(first, layer.inputs, noise.dtype), signs(second, layer.outputs, noise.dtype)
    return lambda a: ((a * r) @ noise) * s


def local(layer: LinearLayer, std: Array, key: Key[Array, ""]):
    """``sqrt(a² σ²) ξ``: noise with the distribution of the product itself (Kingma et al. 2015)."""

    def perturb(a):
        # The root's slope is infinite at zero, where inputs are all zero.
        variance = jnp.maximum(jnp.square(a) @ jnp.square(std), 1e-30)
        return jnp.sqrt(variance) * jax.random.normal(key, variance.shape, variance.dtype)

    return perturb


def noisy_outputs(
    problem: Problem,
    gaussian: LowRankGaussian,
    join: Any,
    carried: PyTree,
    x: Array,
    key: Key[Array, ""],
    layers: dict[str, LinearLayer],
    estimator: Estimator,
) -> Array:
    """Outputs in training mode ``[rows, outputs]``, each row with noise of its own.

    ``join(weights)`` gives all parameters. Arrays that are not a kernel read once (biases, scales
    of norms) have one draw for all rows. A kernel at several positions has Flipout under "local"
    too: noise drawn position by position would have another joint Gaussian.
    """
    shared, own = jax.random.split(key)
    drawn, mean, std = (
        named(tree) for tree in (gaussian.draw(shared), gaussian.mean, gaussian.std)
    )
    start = {name: mean[name] if name in layers else drawn[name] for name in mean}
    weights = jax.tree.unflatten(jax.tree.structure(gaussian.mean), list(start.values()))

    def perturbations(key) -> dict[str, Any]:
        found = {}
        for number, (path, layer) in enumerate(layers.items()):
            here = jax.random.fold_in(key, number)
            if estimator == "local" and layer.positions == 1:
                found[path] = local(layer, layer.matrix(std[path]), here)
            else:
                found[path] = flipout(layer, layer.matrix(drawn[path] - mean[path]), here)
        return found

    def one(key, row):
        noise, inner = jax.random.split(key)

        def outputs(weights, row):
            with using_implementation("native"):
                variables = Variables(join(weights), carried)
                return problem.outputs(variables, row[None], key=inner, train=True)[0][0]

        return LinearLayers(outputs, layers)(weights, row, perturbations(noise))[0]

    return jax.vmap(one)(jax.random.split(own, len(x)), x)


def check_estimator(estimator: str, layers: dict[str, LinearLayer], statistics: bool) -> None:
    """Raise an error if rows cannot have noise of their own."""
    if statistics:
        raise InputError(
            f"estimator is {estimator!r} and the network's batch statistics join its rows; use "
            "estimator='shared', or filter response or group norm"
        )
    if not layers:
        raise InputError(
            f"estimator is {estimator!r} and no parameter of the network is multiplied with "
            "activations exactly once; use estimator='shared'"
        )
