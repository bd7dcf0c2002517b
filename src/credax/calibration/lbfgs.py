"""L-BFGS for smooth functions of a few thousand numbers, on the host in float64.

scipy's L-BFGS-B calls threaded linear algebra on tiny matrices, which on a busy machine makes it
ten times slower than the likelihoods it minimises here; this one has only inner products.
"""

from collections import deque
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

_MEMORY = 20
_ITERATIONS = 5000
_SUFFICIENT = 1e-4
_ROUNDING = 1e-14


def lbfgs(
    objective: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: Float[np.ndarray, " parameters"],
    tolerance: float = 1e-8,
) -> tuple[Float[np.ndarray, " parameters"], float]:
    """A minimum near ``start`` and the value there.

    ``objective`` returns value and gradient. Steps are halved until they lower the value enough
    (Armijo); the search ends when no entry of the gradient exceeds ``tolerance``, or when no step
    lowers the value any more. Reference: J. Nocedal, Mathematics of Computation 35, 1980.

    >>> x, _ = lbfgs(lambda x: (float(np.sum((x - 3) ** 2)), 2 * (x - 3)), np.zeros(2))
    >>> x.round(6).tolist()
    [3.0, 3.0]
    """
    x, (value, slope) = start, objective(start)
    pairs: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=_MEMORY)
    for _ in range(_ITERATIONS):
        if np.max(np.abs(slope)) <= tolerance:
            break
        direction = -_times_inverse(slope, pairs)
        rate, length = slope @ direction, 1.0
        while True:
            after, after_slope = objective(x + length * direction)
            slack = _ROUNDING * max(1.0, abs(value))
            if after <= value + _SUFFICIENT * length * rate + slack:
                break
            length /= 2
            if length < _ROUNDING:
                return x, value
        step, change = length * direction, after_slope - slope
        if step @ change > _ROUNDING * (change @ change):
            pairs.append((step, change))
        x, value, slope = x + step, after, after_slope
    return x, value


def _times_inverse(slope: np.ndarray, pairs: deque[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The inverse curvature that the last steps imply, times ``slope`` (the two-loop recursion)."""
    if not pairs:
        return slope / max(1.0, float(np.linalg.norm(slope)))
    result, shares = slope.copy(), []
    for step, change in reversed(pairs):
        shares.append((step @ result) / (step @ change))
        result -= shares[-1] * change
    step, change = pairs[-1]
    result *= (step @ change) / (change @ change)
    for (step, change), share in zip(pairs, reversed(shares), strict=True):
        result += (share - (change @ result) / (step @ change)) * step
    return result
