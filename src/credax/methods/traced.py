"""The structure of a problem's network, traced once per network and shape of inputs."""

from typing import Any

import jax

from credax.errors import InputError
from credax.problem import Problem
from credax.remembered import Remembered
from credax.structure import Structure, kernels, trace

_structures = Remembered()


def structure_of(problem: Problem, x: Any) -> Structure:
    """The traced structure for raw inputs shaped like ``x``; equal networks share one.

    So their programs are compiled once too.
    """
    struct = jax.eval_shape(problem.prepare_inputs, x)
    variables = jax.eval_shape(problem.network.init, jax.random.key(0), struct)

    def traced() -> Structure:
        return trace(problem.network, variables, struct, on_unknown="pin", verify=False)

    return _structures((problem.network, struct.shape[1:], str(struct.dtype)), traced)


def structure_with_kernels(problem: Problem, x: Any, purpose: str) -> Structure:
    """`structure_of`, or an error if no parameter is multiplied with activations."""
    structure = structure_of(problem, x)
    if not kernels(structure):
        raise InputError(
            f"the network multiplies no parameter with its activations: there is nothing to "
            f"{purpose}; use one with dense or convolution layers, or another method"
        )
    return structure
