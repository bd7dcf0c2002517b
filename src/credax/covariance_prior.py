"""A prior from the inputs' covariance: the first layer's weights vary as the data do."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from credax.errors import InputError
from credax.prior import GaussianPrior

BLOCK = 1024


class InputCovariancePrior(eqx.Module):
    """``N(0, S / (N λ))`` on the columns of the first kernel, ``N(0, 1 / (N λ))`` on the rest.

    ``S`` is the inputs' second moment with a ridge, scaled to a mean diagonal of one: directions
    in which no input varies are held at zero, so that a shift along them changes nothing.
    ``precision`` is its inverse and ``log_determinant`` that of the inverse; ``kernel`` is the path
    of the first kernel. Make one with `input_covariance_prior`. Reference: Izmailov, Nicholson,
    Lotfi, Wilson 2021, Dangers of Bayesian model averaging under covariate shift (EmpCov).
    """

    weight_decay: float
    precision: Float[Array, "inputs inputs"]
    log_determinant: float
    kernel: tuple[str, ...] = eqx.field(static=True)

    def log_prob(self, params: PyTree, *, num_data: int) -> Float[Array, ""]:
        """Log-density, constants included."""
        rest, kernel = self._parts(params)
        decay = self.weight_decay * num_data
        plain = GaussianPrior(weight_decay=self.weight_decay)
        if decay == 0:
            return jnp.zeros(())
        columns = kernel.shape[1]
        constant = 0.5 * kernel.size * math.log(decay / (2 * math.pi))
        constant += 0.5 * columns * self.log_determinant
        own = constant - 0.5 * decay * self._square(kernel)
        return own + plain.log_prob(rest, num_data=num_data)

    def penalty(self, params: PyTree, *, num_data: int) -> Float[Array, ""]:
        """``λ/2 (Σ w^T S^-1 w + |rest|²)``, w the columns of the first kernel."""
        rest, kernel = self._parts(params)
        plain = GaussianPrior(weight_decay=self.weight_decay).penalty(rest, num_data=num_data)
        return plain + 0.5 * self.weight_decay * self._square(kernel)

    def _square(self, kernel):
        return jnp.sum(kernel * (self.precision.astype(kernel.dtype) @ kernel))

    def _parts(self, params: PyTree) -> tuple[PyTree, Array]:
        leaf = params
        for name in self.kernel:
            leaf = leaf[name]
        rest = eqx.tree_at(lambda tree: _at(tree, self.kernel), params, None)
        return rest, leaf.reshape(-1, leaf.shape[-1])


def input_covariance_prior(
    x: Any, params: PyTree, weight_decay: float, *, ridge: float = 1e-2, kernel: Any = None
) -> InputCovariancePrior:
    """The prior for inputs ``x`` as the first layer sees them, in standard units.

    A kernel ``[inputs, outputs]`` meets flattened rows of ``x``, one of ``[height, width, channels,
    outputs]`` the windows of that size. ``ridge`` is relative to the mean diagonal. ``kernel`` is
    the path of the first kernel in ``params``, by default the first that is called so, layers being
    named ``0_...``, ``1_...``. Cost: one pass over ``x``, memory ``inputs²`` in float64.

    >>> params = {"0_dense": {"kernel": jnp.ones((2, 3)), "bias": jnp.ones(3)}}
    >>> prior = input_covariance_prior(np.array([[3.0, 0.0], [0.0, 1.0]]), params, 0.1, ridge=0.0)
    >>> prior.precision.round().astype(int).tolist()  # of a covariance with mean diagonal one
    [[1, 0], [0, 5]]
    """
    path = _first_kernel(params) if kernel is None else tuple(kernel)
    shape = _at(params, path).shape
    moment = _second_moment(np.asarray(x), shape)
    scaled = moment / (np.trace(moment) / len(moment)) + ridge * np.eye(len(moment))
    scaled /= 1 + ridge
    values, vectors = np.linalg.eigh(scaled)
    if values[0] <= 1e-10:
        raise InputError(
            f"ridge is {ridge} and the inputs do not vary in some direction; give a positive ridge"
        )
    precision = (vectors / values) @ vectors.T
    return InputCovariancePrior(
        weight_decay, jnp.asarray(precision, jnp.float32), float(-np.log(values).sum()), path
    )


def _first_kernel(params: PyTree) -> tuple[str, ...]:
    def order(path):
        number = [int(name.split("_")[0]) if name[:1].isdigit() else -1 for name in path]
        return number, path

    found = [
        tuple(entry.key for entry in path)
        for path, _ in jax.tree_util.tree_leaves_with_path(params)
    ]
    kernels = [path for path in found if path[-1] == "kernel"]
    if not kernels:
        raise InputError("no parameter is called 'kernel'; give kernel=, the path of the first one")
    return min(kernels, key=order)


def _at(tree: PyTree, path: tuple[str, ...]) -> Any:
    for name in path:
        tree = tree[name]
    return tree


def _second_moment(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Mean of ``v v^T`` over rows, or over all windows of all images."""
    size = math.prod(shape[:-1])
    if len(shape) == 2:
        flat = x.reshape(len(x), -1)
        if flat.shape[1] != size:
            raise InputError(
                f"x has {flat.shape[1]} inputs per row and the first kernel takes {size}"
            )
    total, count = np.zeros((size, size)), 0
    for start in range(0, len(x), BLOCK):
        block = x[start : start + BLOCK].astype(np.float64)
        rows = block.reshape(len(block), -1) if len(shape) == 2 else _windows(block, shape)
        total += rows.T @ rows
        count += len(rows)
    return total / count


def _windows(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    height, width, channels = shape[:3]
    views = np.lib.stride_tricks.sliding_window_view(x, (height, width), axis=(1, 2))
    return views.transpose(0, 1, 2, 4, 5, 3).reshape(-1, height * width * channels)
