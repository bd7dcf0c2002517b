"""Where constant-rate descent settles: the covariance of its iterates on a quadratic."""

import numpy as np
import scipy.linalg
from jaxtyping import Float

from credax.errors import InputError


def stationary_covariance(
    curvature: Float[np.ndarray, "params params"],
    noise: np.ndarray,
    learning_rate: float,
) -> Float[np.ndarray, "params params"]:
    """Covariance of the iterates of ``θ' = θ - η (A θ + ε)``, ``ε ~ N(0, C)``.

    It solves ``Σ = (I - η A) Σ (I - η A)ᵀ + η² C``, exactly, where the loss is quadratic, the noise
    of the gradient the same everywhere and independent from step to step, there is no momentum, and
    the start is forgotten. For small rates ``A Σ + Σ A = η C``; in one dimension it is
    ``η C / (A (2 - η A))``. Costs the cube of the parameters' number. Reference: Mandt, Hoffman,
    Blei, Stochastic gradient descent as approximate Bayesian inference, JMLR 2017.

    >>> float(stationary_covariance(np.array([[2.0]]), np.array([[3.0]]), 0.1)[0, 0].round(9))
    0.083333333
    """
    curvature, noise = (np.atleast_2d(np.asarray(a, np.float64)) for a in (curvature, noise))
    if curvature.shape != noise.shape or curvature.shape[0] != curvature.shape[-1]:
        raise InputError(
            f"curvature has shape {curvature.shape} and noise {noise.shape}; give two square "
            "matrices of one size"
        )
    step = np.eye(len(curvature)) - learning_rate * curvature
    radius = float(np.max(np.abs(np.linalg.eigvals(step))))
    if not radius < 1:
        raise InputError(
            f"learning_rate is {learning_rate} and steps grow by {radius:.3g}: nothing is "
            "stationary; give a positive rate below 2 over the largest curvature"
        )
    found = scipy.linalg.solve_discrete_lyapunov(step, learning_rate**2 * noise)
    return 0.5 * (found + found.T)
