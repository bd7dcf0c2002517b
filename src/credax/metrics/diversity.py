"""How unsure the mixture is, and how much of that is the members' disagreement."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from credax.prediction import ClassPrediction


def entropy(prediction: ClassPrediction, y: Array | None = None) -> Float[Array, ""]:
    """Mean entropy of the mixture, ``mean H[p̄]`` in nats: the total uncertainty.

    ``y`` is not needed; it is there so that all metrics are called alike.

    >>> p = ClassPrediction.from_probs([[[0.5, 0.5]]])
    >>> round(float(entropy(p)), 4)
    0.6931
    """
    del y
    return jnp.mean(prediction.total)


def mutual_information(prediction: ClassPrediction, y: Array | None = None) -> Float[Array, ""]:
    """Mean ``H[p̄] - mean_m H[p_m]`` in nats: the epistemic uncertainty.

    It is the mean Kullback-Leibler divergence from member to mixture: zero when the members agree,
    at most ``log M`` for ``M`` members. ``y`` is not needed.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1]], [[0.1, 0.9]]])
    >>> round(float(mutual_information(p)), 6)
    0.368064
    """
    del y
    return jnp.mean(prediction.epistemic)
