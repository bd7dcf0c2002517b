"""What can be known of a posterior before it is trained: its predictions' shapes."""

from typing import Any

import jax
import numpy as np

from credax.active.choice import Acquisition
from credax.problem import Problem
from credax.training.hooks import members_of


def check_ahead(acquisition: Any, method: Any, problem: Problem, x: np.ndarray) -> None:
    """Raise an error if the acquisition cannot choose by what the method will predict for ``x``.

    Only methods that know how many members they will have are asked
    (`credax.training.hooks.CountsMembers`); others are checked when they are trained.
    """
    count = members_of(method)
    if count is None or not isinstance(acquisition, Acquisition):
        return
    row = jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype)

    def predicted(row):
        variables = problem.init(jax.random.key(0), row)
        outputs, _ = problem.outputs(variables, problem.prepare_inputs(row))
        return problem.predict(jax.numpy.stack([outputs] * count))

    acquisition.check(jax.eval_shape(predicted, row))
