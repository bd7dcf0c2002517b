"""Parameters that a likelihood learns beside the network: one number per target."""

import abc
from typing import Any, ClassVar, Literal, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from credax.errors import InputError
from credax.likelihoods.base import Likelihood
from credax.likelihoods.checks import check_targets
from credax.network import Network, Variables

VARIANCE_FLOOR = 1e-6


class LearnedNoise(eqx.Module):
    """A network and one learned raw variance per target, appended to its outputs."""

    network: Network
    initial: float = 1.0

    def init(self, key, x) -> Variables:
        """The network's variables under ``network`` and the raw variances under ``noise``."""
        variables = self.network.init(key, x)
        outputs = jax.eval_shape(lambda v, a: self.network.apply(v, a)[0], variables, x)
        raw = np.log(np.expm1(self.initial**2 - VARIANCE_FLOOR))
        noise = jnp.full(outputs.shape[-1:], raw, outputs.dtype)
        return Variables({"network": variables.params, "noise": noise}, variables.state)

    def apply(self, variables, x, *, key=None, train=False) -> tuple[Array, Any]:
        """The network's outputs followed by the raw variances."""
        inner = Variables(variables.params["network"], variables.state)
        outputs, state = self.network.apply(inner, x, key=key, train=train)
        noise = jnp.broadcast_to(variables.params["noise"], outputs.shape)
        return jnp.concatenate([outputs, noise], axis=-1), state


Level = float | Literal["learned"] | np.ndarray | Array
"""A number, an array of one (traced numbers too), or ``"learned"``."""


def is_learned(level: Level) -> bool:
    """Whether a level is learned with the network."""
    return isinstance(level, str) and level == "learned"


def check_level(name: str, level: Level, initial: float) -> None:
    """A positive number or ``"learned"``; traced numbers pass, for they have no value yet."""
    if isinstance(level, str):
        if level != "learned":
            raise InputError(f"{name} is {level!r}; give a positive number or 'learned'")
    elif not isinstance(level, Tracer) and not np.all(np.asarray(level) > 0):
        raise InputError(f"{name} is {level}; give a positive number or 'learned'")
    if not initial**2 > VARIANCE_FLOOR:
        raise InputError(f"initial is {initial}; give a positive standard deviation")


def split_variance(outputs: Array) -> tuple[Array, Array]:
    """Outputs as means and, of the second half, ``softplus(raw) + 1e-6``."""
    mean, raw = jnp.split(outputs, 2, axis=-1)
    return mean, jax.nn.softplus(raw) + VARIANCE_FLOOR


class OneLevel(Likelihood):
    """Abstract: regressions with one number per target beside the outputs, given or learned."""

    task: ClassVar[Literal["classification", "regression"]] = "regression"

    @abc.abstractmethod
    def level(self) -> tuple[Level, float]:
        """The number or ``"learned"``, and where a learned one starts."""

    def traced(self) -> Self:
        """With a (weakly typed) array in place of every Python float."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf) if type(leaf) is float else leaf, self)

    @property
    def learns(self) -> bool:
        """Whether the number is learned."""
        return is_learned(self.level()[0])

    def adapt(self, network: Network) -> Network:
        """With a learned number: the network and the number, learned together."""
        return LearnedNoise(network, self.level()[1]) if self.learns else network

    def check(self, y: np.ndarray, outputs: int) -> None:
        """A hook: by default one output per target, all targets finite."""
        check_targets(y, outputs // 2 if self.learns else outputs)
