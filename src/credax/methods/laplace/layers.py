"""The kernels of a problem's network, found once, with their layer inputs and output gradients."""

from typing import Any

import jax

from credax.methods.laplace.likelihood import row_outputs
from credax.methods.laplace.subset import with_weights
from credax.network import Variables
from credax.networks.convolution import using_implementation
from credax.problem import Problem
from credax.remembered import Remembered
from credax.structure.linear_layers import LinearLayer, LinearLayers, linear_layers

_layers = Remembered()


def with_layers(
    problem: Problem, variables: Variables, layers: dict[str, LinearLayer]
) -> LinearLayers:
    """One row's outputs as a function of the weights, with inputs and gradients of each kernel."""

    def outputs(weights, row):
        # XLA's own convolution: others read a kernel as matrices of another shape.
        with using_implementation("native"):
            return row_outputs(problem, with_weights(problem, variables, weights), row)

    return LinearLayers(outputs, layers)


def find_layers(problem: Problem, variables: Variables, x: Any) -> dict[str, LinearLayer]:
    """The kernels that products and convolutions read; equal networks are traced once."""
    row = jax.eval_shape(lambda rows: problem.prepare_inputs(rows)[0], x)
    weights = problem.weights(variables.params)

    def traced() -> dict[str, LinearLayer]:
        return dict(
            linear_layers(with_layers(problem, variables, {}).function, weights, row).layers
        )

    return _layers((problem.network, row.shape, str(row.dtype)), traced)
