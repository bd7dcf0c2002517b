"""Layers without positions: each is a kernel rule and the matching finite layer in one record."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp

from credax.errors import InputError, unknown
from credax.infinite.duals import namespace
from credax.infinite.state import PairState, SelfPairs, equal_positions
from credax.network import Variables
from credax.networks.layers import Parameterless

Parameterisation = Literal["ntk", "standard"]
PARAMETERISATIONS = ("ntk", "standard")


def trained(state: PairState, mean: Any, layer: Any, fan_in: int) -> PairState:
    """The state after a Gaussian layer, from the mean over its taps of what came in.

    ``K' = w² K + b²`` and ``Θ' = K' + w² Θ`` where the scales stand outside the weights; with
    weights drawn at their scale ("standard") ``Θ' = fan_in K + 1 + w² Θ``, so that it grows with
    the width. ``mean`` is a `PairState` of means.
    """
    scale, bias = layer.weight_std**2, layer.bias_std**2
    covariance = scale * mean.covariance + bias
    own = [
        SelfPairs(scale * o.covariance + bias, scale * o.distance)
        for o in (mean.first, mean.second)
    ]
    if layer.parameterisation == "ntk":
        learned = covariance
    else:
        learned = fan_in * mean.covariance + (1.0 if layer.bias_std else 0.0)
    return mean.replace(
        covariance=covariance,
        tangent=learned + scale * mean.tangent,
        distance=scale * mean.distance,
        first=own[0],
        second=own[1],
        width=layer.features,
        gaussian=True,
    )


def draw(layer: Any, key, shape: tuple[int, ...], fan_in: int, dtype) -> Variables:
    """Standard normal weights, or weights at their scale; no bias where its scale is zero."""
    weight_key, bias_key = jax.random.split(key)
    standard = layer.parameterisation == "standard"
    scale = layer.weight_std / math.sqrt(fan_in) if standard else 1.0
    params = {"kernel": scale * jax.random.normal(weight_key, shape, dtype)}
    if layer.bias_std:
        bias = jax.random.normal(bias_key, shape[-1:], dtype)
        params["bias"] = (layer.bias_std if standard else 1.0) * bias
    return Variables(params, {})


def scaled(layer: Any, params: dict, outputs: Any, fan_in: int) -> Any:
    """The product with the weights, times its scale, plus the bias times its own."""
    outside = layer.parameterisation == "ntk"
    if outside:
        outputs = outputs * (layer.weight_std / math.sqrt(fan_in))
    if "bias" in params:
        outputs = outputs + (layer.bias_std if outside else 1.0) * params["bias"]
    return outputs


def check_scales(layer: Any) -> None:
    """Raise one sentence for scales or a parameterisation that cannot be."""
    if layer.parameterisation not in PARAMETERISATIONS:
        raise unknown("parameterisation", layer.parameterisation, PARAMETERISATIONS)
    for name in ("weight_std", "bias_std"):
        value = getattr(layer, name)
        if not (value >= 0 and math.isfinite(value)):
            raise InputError(f"{name} is {value}; give a number of at least 0")
    if layer.features < 1:
        raise InputError(f"features is {layer.features}; a layer has at least 1")


@dataclass(frozen=True)
class InfiniteDense:
    """``z = (weight_std / √fan_in) W h + bias_std b`` with standard normal ``W`` and ``b``.

    ``features`` is the width of the finite network; the kernel does not depend on it unless
    ``parameterisation="standard"``. At pictures it acts on the channels of every position.
    Reference: Jacot et al. 2018.
    """

    features: int
    weight_std: float = 1.0
    bias_std: float = 0.0
    parameterisation: Parameterisation = "ntk"
    kind: ClassVar[str] = "dense"

    def __post_init__(self):
        check_scales(self)

    def propagate(self, state: PairState) -> PairState:
        """The kernels after this layer."""
        return trained(state, state, self, state.width)

    def init(self, key, x) -> Variables:
        """A kernel ``[inputs, features]`` and a bias ``[features]``."""
        return draw(self, key, (x.shape[-1], self.features), x.shape[-1], float_of(x))

    def apply(self, variables, x, *, key=None, train=False):
        """The affine map of the last axis."""
        outputs = x @ variables.params["kernel"]
        return scaled(self, variables.params, outputs, x.shape[-1]), variables.state


@dataclass(frozen=True)
class Flatten(Parameterless):
    """All positions and channels as features: the mean over positions of the kernel there."""

    def propagate(self, state: PairState) -> PairState:
        """The kernels after this layer."""
        if not state.positions:
            return state
        xp, axes = namespace(state.covariance), (-2, -1)
        here = equal_positions if state.pairs else lambda array: array
        own = []
        for one in (state.first, state.second):
            variance = xp.mean(state.variance(one), axes)
            own.append(SelfPairs(variance, xp.zeros_like(variance)))
        return state.replace(
            covariance=xp.mean(here(state.covariance), axes),
            tangent=xp.mean(here(state.tangent), axes),
            distance=xp.mean(here(state.distance), axes),
            first=own[0],
            second=own[1],
            positions=(),
            pairs=False,
            width=state.width * math.prod(state.positions),
        )

    def apply(self, variables, x, *, key=None, train=False):
        """``[batch, ...]`` to ``[batch, features]``."""
        return x.reshape(x.shape[0], math.prod(x.shape[1:])), variables.state


@dataclass(frozen=True)
class LayerNorm(Parameterless):
    """Standardised over the channels of each position, or over channels and positions together.

    ``K / √((q1 + ε)(q2 + ε))``, the same for the NTK; without scale and shift. It must follow a
    Gaussian layer, whose channels have mean zero. Reference: Ba, Kiros and Hinton 2016.
    """

    epsilon: float = 1e-12
    over: Literal["channels", "all"] = "channels"

    def __post_init__(self):
        if self.over not in ("channels", "all"):
            raise unknown("over", self.over, ("channels", "all"))
        if not self.epsilon >= 0:
            raise InputError(f"epsilon is {self.epsilon}; give a number of at least 0")

    def propagate(self, state: PairState) -> PairState:
        """The kernels after this layer."""
        self._needs_gaussian(state)
        xp = namespace(state.covariance)
        average = self.over == "all" and state.positions

        def deviations(one, other):
            pair = []
            for q, axes in ((one, self._axes(state, 0)), (other, self._axes(state, 1))):
                level = xp.mean(q, axes, keepdims=True) if average else q
                pair.append(xp.sqrt(level + self.epsilon))
            return pair

        def normal(covariance, distance, q1, q2):
            a1, a2 = deviations(q1, q2)
            size = a1 * a2
            gap = (distance - (a1 - a2) * (q1 / a1 - q2 / a2)) / size
            return covariance / size, xp.maximum(gap, 0.0), size

        covariance, distance, size = normal(state.covariance, state.distance, *state.variances())
        own = [
            SelfPairs(*normal(*o, *state.own_variances(o))[:2]) for o in (state.first, state.second)
        ]
        return state.replace(
            covariance=covariance,
            tangent=state.tangent / size,
            distance=distance,
            first=own[0],
            second=own[1],
        )

    def _axes(self, state: PairState, which: int) -> tuple[int, int]:
        return (-4, -3) if state.pairs and which == 0 else (-2, -1)

    def _needs_gaussian(self, state: PairState) -> None:
        if not state.gaussian:
            raise InputError(
                "LayerNorm follows a layer whose channels do not have mean zero; put it right "
                "after an InfiniteDense or InfiniteConv layer"
            )

    def apply(self, variables, x, *, key=None, train=False):
        """The standardised numbers."""
        axes = -1 if self.over == "channels" else tuple(range(1, x.ndim))
        centred = x - jnp.mean(x, axes, keepdims=True)
        variance = jnp.mean(jnp.square(centred), axes, keepdims=True)
        return centred * jax.lax.rsqrt(variance + self.epsilon), variables.state


def float_of(x) -> Any:
    """The floating type of ``x``; single precision for integers."""
    return x.dtype if jnp.issubdtype(x.dtype, jnp.floating) else jnp.float32
