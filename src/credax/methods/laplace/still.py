"""Dynamics that stays where it began: for methods that look at networks already trained."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from credax.network import Variables
from credax.problem import Batch
from credax.training import Descent
from credax.training.dynamics import DescentState, Info


class Still(eqx.Module):
    """Descent that takes no steps; the loop runs it as it runs any other."""

    descent: Descent

    coupled = False
    shared_batches = True

    @property
    def replicas(self) -> int:
        """As descent has."""
        return self.descent.replicas

    @property
    def offset(self) -> int | np.int32:
        """As descent has."""
        return self.descent.offset

    @property
    def around(self) -> Variables | None:
        """The networks."""
        return self.descent.around

    def init(self, key, x) -> DescentState:
        """A fresh network."""
        return self.descent.init(key, x)

    def begin(self, key, variables: Variables) -> DescentState:
        """A given network."""
        return self.descent.begin(key, variables)

    def step(self, key, state: DescentState, batch: Batch) -> tuple[DescentState, Info]:
        """The same state."""
        loss: Any = jnp.zeros((), jax.tree.leaves(state.variables.params)[0].dtype)
        return state, {"loss": loss}

    def members(self, state: DescentState) -> Variables:
        """The network, with an axis of length one."""
        return self.descent.members(state)
