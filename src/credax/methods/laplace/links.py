"""From a Gaussian over outputs to a prediction: nodes, or closed forms for classes."""

from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float
from scipy.stats import norm, qmc


@lru_cache(maxsize=32)
def nodes(samples: int, outputs: int) -> Float[np.ndarray, "samples outputs"]:
    """Points with the mean and covariance of a standard Gaussian, exactly where there are enough.

    A scrambled Halton sequence through the normal quantile function, then whitened: with it the
    members of a prediction have exactly the linearised mean and covariance. Always the same points,
    so that predictions repeat. With fewer points than outputs only variances are matched.

    >>> points = nodes(50, 3)
    >>> bool(np.allclose(points.T @ points / 50, np.eye(3))), bool(np.allclose(points.mean(0), 0))
    (True, True)
    """
    if samples == 1:
        return np.zeros((1, outputs))
    if outputs == 1:
        uniform = ((np.arange(samples) + 0.5) / samples)[:, None]
    else:
        uniform = qmc.Halton(outputs, scramble=True, seed=0).random(samples)  # pyright: ignore[reportCallIssue]
    points = norm.ppf(np.clip(uniform, 1e-9, 1 - 1e-9))
    points = points - points.mean(0)
    if samples > outputs + 1:
        factor = np.linalg.cholesky(points.T @ points / samples)
        return np.linalg.solve(factor, points.T).T
    return points / points.std(0)


def symmetric_root(covariance: Float[Array, "... n n"]) -> Float[Array, "... n n"]:
    """The root that depends on the matrix continuously, unlike its eigenvectors."""
    if covariance.shape[-1] == 1:
        return jnp.sqrt(jnp.maximum(covariance, 0))
    values, vectors = jnp.linalg.eigh(covariance)
    return (vectors * jnp.sqrt(jnp.maximum(values, 0))[..., None, :]) @ jnp.swapaxes(
        vectors, -1, -2
    )


def spread_outputs(
    mean: Float[Array, "batch outputs"],
    covariance: Float[Array, "batch outputs outputs"],
    points: Float[Array, "samples outputs"],
) -> Float[Array, "samples batch outputs"]:
    """``mean + Σ^{1/2} z`` for each node, the same nodes for every row."""
    root = symmetric_root(covariance)
    return mean + jnp.einsum("bij,sj->sbi", root, jnp.asarray(points, mean.dtype))


def probit(
    mean: Float[Array, "batch classes"], covariance: Float[Array, "batch classes classes"]
) -> Float[Array, "batch classes"]:
    """Logits ``f / sqrt(1 + π v / 8)``, v the variances (MacKay 1992).

    >>> import jax
    >>> logit = probit(jnp.array([[2.0]]), jnp.array([[[4.0]]]))
    >>> round(float(jax.nn.sigmoid(logit)[0, 0]), 5)
    0.77684
    """
    variance = jnp.diagonal(covariance, axis1=-2, axis2=-1)
    return mean / jnp.sqrt(1 + jnp.pi / 8 * variance)


def bridge(
    mean: Float[Array, "batch classes"],
    covariance: Float[Array, "batch classes classes"],
    *,
    normalised: bool = False,
) -> Float[Array, "batch classes"]:
    """Logarithms of the Dirichlet parameters that the Laplace bridge finds (Hobbhahn et al. 2022).

    Mean and covariance are first conditioned on outputs that sum to zero; then ``α_c = (1 - 2/C +
    e^{m_c} Σ e^{-m_k} / C²) / S_cc``. ``normalised`` first divides by the mean variance over
    ``sqrt(C/2)``. Their softmax is the mean of the Dirichlet distribution.
    """
    classes = mean.shape[-1]
    column = jnp.sum(covariance, axis=-1)
    total = jnp.sum(column, axis=-1, keepdims=True)
    mean = mean - column * jnp.sum(mean, axis=-1, keepdims=True) / total
    variance = jnp.diagonal(covariance, axis1=-2, axis2=-1) - jnp.square(column) / total
    if normalised:
        size = jnp.mean(variance, axis=-1, keepdims=True) / jnp.sqrt(classes / 2)
        mean, variance = mean / jnp.sqrt(size), variance / size
    tail = mean + logsumexp(-mean, axis=-1, keepdims=True) - 2 * jnp.log(classes)
    first = jnp.log(1 - 2 / classes) if classes > 2 else -jnp.inf
    return jnp.logaddexp(tail, first) - jnp.log(variance)
