"""The inputs of a network's last linear layer: features of a row, for distances between rows."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from credax.errors import InputError
from credax.network import Variables
from credax.posterior import AroundPopulation, Population
from credax.prediction import Prediction
from credax.problem import Problem
from credax.structure.linear_layers import linear_layers


class LastLayer(NamedTuple):
    """What goes into each network's last linear layer, and what each network predicts."""

    hidden: Float[np.ndarray, "rows networks features"]
    prediction: Prediction

    def first(self, rows: int) -> "LastLayer":
        """The first rows only."""
        cut = jax.tree.map(lambda leaf: np.asarray(leaf)[:, :rows], self.prediction)
        return LastLayer(np.asarray(self.hidden)[:rows], cut)

    @staticmethod
    def concatenate(parts: "list[LastLayer]") -> "LastLayer":
        """Consecutive rows as one."""
        predictions = [part.prediction for part in parts]
        joined = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *predictions)
        return LastLayer(np.concatenate([part.hidden for part in parts]), joined)


def last_layer(posterior: Any, x: np.ndarray) -> LastLayer:
    """The last linear layer of every network that a posterior stores, at raw inputs ``x``.

    Of MC dropout these are the networks without masks, one per mode; of a posterior that draws
    weights the stored draws. The layer is found in the traced network, whatever library it is of.
    """
    if not isinstance(posterior, Population | AroundPopulation):
        posterior = _written_out(posterior)
    hidden, outputs = _last_layer(posterior.problem, posterior.variables, x)
    return LastLayer(np.swapaxes(np.asarray(hidden), 0, 1), posterior.problem.predict(outputs))


def _written_out(posterior: Any) -> Population:
    # Imported here: most posteriors are populations, and these compile what they do not need.
    from credax.methods.ensembles.modulated_posterior import ModulatedPosterior

    if isinstance(posterior, ModulatedPosterior):
        return posterior.members()
    raise InputError(
        f"the posterior is a {type(posterior).__name__}, which has no networks with a last layer; "
        "use an acquisition that needs predictions only, such as bald"
    )


@eqx.filter_jit
def _last_layer(problem: Problem, variables: Variables, x: Any) -> tuple[Array, Array]:
    """``[networks, rows, features]`` and ``[networks, rows, outputs]``."""
    prepared = problem.prepare_inputs(x)

    def one(own: Variables) -> tuple[Array, Array]:
        def function(params, row):
            return problem.outputs(Variables(params, own.state), row[None])[0][0]

        found = linear_layers(function, own.params, prepared[0])
        wide = [path for path, layer in found.layers.items() if layer.positions == 1]
        if not wide:
            raise InputError(
                "the network has no linear layer that is used once per row, so that its features "
                "are not known; use an acquisition that needs predictions only, such as bald"
            )

        def row_of(row):
            outputs, inputs = found(own.params, row, {})
            return inputs[wide[-1]][0].reshape(-1), outputs

        return jax.vmap(row_of)(prepared)

    return jax.vmap(one)(variables)
