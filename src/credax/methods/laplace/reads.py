"""The kernels that a problem's network reads, found once and laid open for one row."""

from typing import Any

import jax

from credax.methods.laplace.likelihood import row_outputs
from credax.methods.laplace.subset import with_weights
from credax.network import Variables
from credax.networks.convolution import using_implementation
from credax.problem import Problem
from credax.remembered import Remembered
from credax.structure.taps import Read, Tapping, tapping

_reads = Remembered()


def tapped(problem: Problem, variables: Variables, reads: dict[str, Read]) -> Tapping:
    """One row's outputs as a function of the weights, its kernels laid open."""

    def outputs(weights, row):
        # XLA's own convolution: others read a kernel as matrices of another shape.
        with using_implementation("native"):
            return row_outputs(problem, with_weights(problem, variables, weights), row)

    return Tapping(outputs, reads)


def find_reads(problem: Problem, variables: Variables, x: Any) -> dict[str, Read]:
    """The kernels that products and convolutions read; equal networks are traced once."""
    row = jax.eval_shape(lambda rows: problem.prepare_inputs(rows)[0], x)
    weights = problem.weights(variables.params)

    def traced() -> dict[str, Read]:
        return dict(tapping(tapped(problem, variables, {}).function, weights, row).reads)

    return _reads((problem.network, row.shape, str(row.dtype)), traced)
