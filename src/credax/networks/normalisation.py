"""Normalisation: by the batch, by groups of channels, by the response of each filter."""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp

from credax.errors import InputError
from credax.network import Variables
from credax.networks.initialisers import float_dtype
from credax.train_mode import use_batch_statistics


@jax.tree_util.register_static
@dataclass(frozen=True)
class BatchNorm:
    """Each channel standardised over the batch, then scaled and shifted.

    ``y = scale (x - mean) / sqrt(variance + eps) + shift``, mean and population (biased) variance
    over every axis but the last. In training they are the batch's, and the state moves towards
    them; outside training they are the state's. The state is the bias-corrected exponential
    average: ``weight`` is ``1 - decay^t`` after t steps, and the average is the plain one of the
    first batch after one step. Before any step it is mean 0, variance 1.

    Reference: Ioffe and Szegedy 2015.
    """

    decay: float = 0.9
    eps: float = 1e-5
    kind: ClassVar[str] = "batch_norm"

    def init(self, key, x) -> Variables:
        """``scale`` one, ``shift`` zero; ``mean`` 0, ``variance`` 1, ``weight`` 0."""
        ones = jnp.ones(x.shape[-1:], float_dtype(x))
        zeros = jnp.zeros_like(ones)
        state = {"mean": zeros, "variance": ones, "weight": jnp.zeros((), x.dtype)}
        return Variables({"scale": ones, "shift": zeros}, state)

    def apply(self, variables, x, *, key=None, train=False):
        """The normalised batch and, in training, the moved averages."""
        params, state = variables
        if not use_batch_statistics(train):
            return self._standardise(params, x, state["mean"], state["variance"]), state
        outputs, mean, variance = _batch_normalised(x, params["scale"], params["shift"], self.eps)
        weight = self.decay * state["weight"] + (1 - self.decay)
        rate = (1 - self.decay) / weight
        new = {
            "mean": state["mean"] + rate * (mean - state["mean"]),
            "variance": state["variance"] + rate * (variance - state["variance"]),
            "weight": weight,
        }
        return outputs, new

    def _standardise(self, params, x, mean, variance):
        return (x - mean) * (params["scale"] * jax.lax.rsqrt(variance + self.eps)) + params["shift"]


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def _batch_normalised(x, scale, shift, eps):
    axes = tuple(range(x.ndim - 1))
    mean = x.mean(axes)
    variance = jnp.square(x - mean).mean(axes)
    return (x - mean) * (scale * jax.lax.rsqrt(variance + eps)) + shift, mean, variance


# The rule is what autodiff would give, ordered so that its transpose sums over the batch only
# twice: the sums for the input's gradient are those for the gradients of shift and scale.
@_batch_normalised.defjvp
def _batch_normalised_jvp(eps, primals, tangents):
    (x, scale, shift), (dx, dscale, dshift) = primals, tangents
    outputs, mean, variance = _batch_normalised(x, scale, shift, eps)
    axes = tuple(range(x.ndim - 1))
    inverse = jax.lax.rsqrt(variance + eps)
    standard = (x - mean) * inverse
    dmean = dx.mean(axes)
    along = (standard * dx).mean(axes)
    factor = scale * inverse
    doutputs = factor * dx + (dshift - factor * dmean) + standard * (dscale - factor * along)
    return (outputs, mean, variance), (doutputs, dmean, 2 * along / inverse)


@jax.tree_util.register_static
@dataclass(frozen=True)
class FilterResponseNorm:
    """Each channel of each image divided by its root mean square, with a learned threshold.

    ``y = max(scale x / sqrt(mean(x^2) + eps) + shift, threshold)``: the last part is the
    thresholded linear unit, so no activation follows. Rows never see each other.

    Reference: Singh and Krishnan 2020.
    """

    eps: float = 1e-6
    kind: ClassVar[str] = "filter_response_norm"

    def init(self, key, x) -> Variables:
        """``scale`` one, ``shift`` and ``threshold`` zero."""
        ones = jnp.ones(x.shape[-1:], float_dtype(x))
        zeros = jnp.zeros_like(ones)
        return Variables({"scale": ones, "shift": zeros, "threshold": zeros}, {})

    def apply(self, variables, x, *, key=None, train=False):
        """The normalised, thresholded images ``[batch, ..., channels]``."""
        params = variables.params
        power = jnp.square(x).mean(tuple(range(1, x.ndim - 1)), keepdims=True)
        scaled = x * (params["scale"] * jax.lax.rsqrt(power + self.eps)) + params["shift"]
        return jnp.maximum(scaled, params["threshold"]), variables.state


@jax.tree_util.register_static
@dataclass(frozen=True)
class GroupNorm:
    """Each row standardised over its positions and over groups of neighbouring channels.

    ``groups`` is the most groups to make; the number used is the largest that divides the
    channels. ``groups=1`` is layer normalisation. Reference: Wu and He 2018.
    """

    groups: int = 32
    eps: float = 1e-5
    kind: ClassVar[str] = "group_norm"

    def __post_init__(self):
        if self.groups < 1:
            raise InputError(f"groups is {self.groups}; give at least one group of channels")

    def init(self, key, x) -> Variables:
        """``scale`` one, ``shift`` zero."""
        ones = jnp.ones(x.shape[-1:], float_dtype(x))
        return Variables({"scale": ones, "shift": jnp.zeros_like(ones)}, {})

    def apply(self, variables, x, *, key=None, train=False):
        """The normalised rows ``[batch, ..., channels]``."""
        channels = x.shape[-1]
        groups = max(n for n in range(1, min(self.groups, channels) + 1) if channels % n == 0)
        grouped = x.reshape(x.shape[0], math.prod(x.shape[1:-1]), groups, channels // groups)
        centred = grouped - grouped.mean((1, 3), keepdims=True)
        variance = jnp.square(centred).mean((1, 3), keepdims=True)
        normal = (centred * jax.lax.rsqrt(variance + self.eps)).reshape(x.shape)
        return normal * variables.params["scale"] + variables.params["shift"], variables.state
