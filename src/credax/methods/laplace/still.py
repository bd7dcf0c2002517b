"""Dynamics without steps: for methods around networks already trained."""

from typing import Any

import jax
import jax.numpy as jnp

from credax.network import Variables
from credax.problem import Batch
from credax.training import Descent
from credax.training.dynamics import DescentState, Dynamics, Info, Replicas


class Still(Dynamics):
    """Descent that takes no steps; the loop runs it as it runs any other."""

    descent: Descent

    @property
    def replicas(self) -> Replicas:
        """As the wrapped dynamics has."""
        return self.descent.replicas

    def init(self, key, variables: Variables) -> DescentState:
        """As descent begins."""
        return self.descent.init(key, variables)

    def step(self, key, state: DescentState, batch: Batch) -> tuple[DescentState, Info]:
        """The same state."""
        loss: Any = jnp.zeros((), jax.tree.leaves(state.variables.params)[0].dtype)
        return state, {"loss": loss}

    def members(self, state: DescentState) -> Variables:
        """The network, with an axis of length one."""
        return self.descent.members(state)
