"""One formula for two places: jax arrays inside a compiled program, numpy float64 on the host.

What is made of a metric's sums is written against the array standard (`namespace` returns
``jax.numpy`` or ``numpy``); the few operations that the two spell differently are here.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def namespace(tree: Any) -> Any:
    """The module whose functions apply to the arrays of a pytree.

    >>> namespace((np.zeros(2), np.ones(3))).__name__
    'numpy'
    """
    return np if isinstance(jax.tree.leaves(tree)[0], np.ndarray | np.generic) else jnp


def segment_sum(values: Any, index: Any, size: int) -> Any:
    """``out[j] = Σ_{i: index_i = j} values_i`` for ``j`` below ``size``.

    >>> segment_sum(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 2]), 3).tolist()
    [1.0, 0.0, 6.0]
    """
    if isinstance(values, np.ndarray):
        return np.bincount(index, weights=values, minlength=size)
    return jax.ops.segment_sum(values, index, size)


def bisect(rises_above: Callable[[Any], Any], low: Any, high: Any, steps: int) -> Any:
    """The point where a decreasing condition turns false, halving ``[low, high]`` so often.

    >>> round(float(bisect(lambda x: x * x < 2.0, np.asarray(0.0), np.asarray(2.0), 50)), 12)
    1.414213562373
    """
    xp = namespace((low, high))

    def halve(_, bounds):
        low, high = bounds
        middle = (low + high) / 2
        above = rises_above(middle)
        return xp.where(above, middle, low), xp.where(above, high, middle)

    if xp is np:
        bounds = low, high
        for step in range(steps):
            bounds = halve(step, bounds)
    else:
        bounds = jax.lax.fori_loop(0, steps, halve, (low, high))
    return (bounds[0] + bounds[1]) / 2


def ratio(numerator: Any, denominator: Any) -> Any:
    """``numerator / denominator`` where the denominator is positive, and 0 elsewhere."""
    xp = namespace((numerator, denominator))
    some = denominator > 0
    return xp.where(some, numerator / xp.where(some, denominator, 1), 0)
