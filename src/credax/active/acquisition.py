"""Scores of rows by what members predict for them: larger is queried first.

Pure functions of a `Prediction` (members on axis 0, rows on axis 1) that can be compiled. In what
follows ``P[s]`` are the probabilities of member ``s`` of ``S``, ``p̄`` their mean, ``H`` the entropy
in nats; ``0 log 0`` is 0.
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy
from jaxtyping import Array, Float

from credax.active.numbers import bald_of_numbers, epig_of_numbers
from credax.errors import InputError
from credax.mixing import member_mean, member_variance, spread
from credax.prediction import ClassPrediction, Prediction, RegressionPrediction

Part = Literal["total", "epistemic"]
ENTRIES = 2**22
"""Numbers of a joint distribution that are in memory at once."""


def predictive_variance(prediction: Prediction, part: Part = "total") -> Float[Array, " batch"]:
    """Variance of the label: of its one-hot vector (trace), or of the numbers (sum over targets).

    Classes: ``Σ_c p̄_c (1 - p̄_c) = mean_s Σ_c P_sc (1 - P_sc) + Σ_c Var_s P_sc``. Numbers:
    ``mean_s σ_s² + Var_s μ_s``. The first term is aleatoric, the second epistemic.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1]], [[0.1, 0.9]]])
    >>> [round(float(predictive_variance(p, part)[0]), 6) for part in ("total", "epistemic")]
    [0.5, 0.32]
    """
    if part not in ("total", "epistemic"):
        raise InputError(f"part is {part!r}; choose 'total' or 'epistemic'")
    if isinstance(prediction, RegressionPrediction):
        values = prediction.total if part == "total" else prediction.epistemic
        return values.reshape(len(values), -1).sum(axis=-1)
    if part == "epistemic":
        return jnp.sum(member_variance(prediction.members, prediction.weights), axis=-1)
    return jnp.sum(prediction.var, axis=-1)


def variation_ratio(prediction: Prediction) -> Float[Array, " batch"]:
    """Share of members that do not vote for the modal class, ``1 - max_c #{s: argmax P[s] = c}/S``.

    A member's vote is its most probable class, the first of equal ones. Reference: Freeman,
    Elementary applied statistics, 1965.

    >>> p = ClassPrediction.from_probs(jax.nn.one_hot(jnp.array([1, 2, 1, 1, 4]), 5)[:, None])
    >>> round(float(variation_ratio(p)[0]), 6)
    0.4
    """
    return 1 - jnp.max(_votes(_classes(prediction, "variation_ratio")), axis=-1)


def variation_ratio_soft(prediction: Prediction) -> Float[Array, " batch"]:
    """``1 - max_c p̄_c``, least confidence; what Gal et al. (2017) call variation ratio.

    >>> p = ClassPrediction.from_probs([[[0.7, 0.2, 0.1]], [[0.1, 0.8, 0.1]], [[0.2, 0.2, 0.6]]])
    >>> round(float(variation_ratio_soft(p)[0]), 6), round(float(variation_ratio(p)[0]), 6)
    (0.6, 0.666667)
    """
    return 1 - _classes(prediction, "variation_ratio_soft").confidence


def entropy(prediction: Prediction) -> Float[Array, " batch"]:
    """Entropy of the mixture, ``-Σ_c p̄_c log p̄_c``: maximum entropy sampling.

    >>> p = ClassPrediction.from_probs([[[1.0, 0.0]], [[0.0, 1.0]]])
    >>> round(float(entropy(p)[0]), 6)
    0.693147
    """
    return _classes(prediction, "entropy").total


def bald(prediction: Prediction, quadrature: bool = False) -> Float[Array, " batch"]:
    """Mutual information of label and member: Bayesian active learning by disagreement.

    Classes: ``H[p̄] - mean_s H[P[s]] = mean_s KL(P[s] || p̄)``, computed as the latter, which does
    not cancel; at most ``log S``. Gaussian numbers: ``½ log det(total) - ½ mean_s Σ log σ_s²``,
    exact if the mixture is Gaussian and else an upper bound; with ``quadrature`` (one target) the
    entropy of the mixture itself, at a cost of ``S²`` times 64 densities per row. Zero for a single
    member. Reference: Houlsby et al., Bayesian active learning for classification and preference
    learning, 2011.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1]], [[0.1, 0.9]]])
    >>> round(float(bald(p)[0]), 6)
    0.368064
    """
    if isinstance(prediction, RegressionPrediction):
        return bald_of_numbers(prediction, quadrature)
    if quadrature:
        raise InputError("quadrature is True and the prediction is of classes; leave it out")
    if prediction.strength is not None:
        return prediction.epistemic
    each = prediction.members * (_finite(prediction.log_probs) - _finite(prediction.log_mean))
    return jnp.maximum(jnp.sum(member_mean(each, prediction.weights), axis=-1), 0.0)


def mean_std(prediction: Prediction) -> Float[Array, " batch"]:
    """Standard deviation over members, mean over classes: ``mean_c sqrt(mean_s P_sc² - p̄_c²)``.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1]], [[0.1, 0.9]]])
    >>> round(float(mean_std(p)[0]), 6)
    0.4
    """
    members = _classes(prediction, "mean_std").members
    if prediction.weights is None:
        return jnp.mean(jnp.std(members, axis=0), axis=-1)
    return jnp.mean(jnp.sqrt(member_variance(members, prediction.weights)), axis=-1)


def margin(prediction: Prediction) -> Float[Array, " batch"]:
    """Minus the gap between the two largest mean probabilities, ``-(p̄_(1) - p̄_(2))``.

    >>> p = ClassPrediction.from_probs([[[0.7, 0.2, 0.1]]])
    >>> round(float(margin(p)[0]), 6)
    -0.5
    """
    top, _ = jax.lax.top_k(_classes(prediction, "margin").probs, 2)
    return top[..., 1] - top[..., 0]


def vote_entropy(prediction: Prediction) -> Float[Array, " batch"]:
    """Entropy of the shares of votes; a member votes for its most probable class.

    Reference: Dagan and Engelson, Committee-based sampling for training probabilistic classifiers,
    ICML 1995.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1]], [[0.1, 0.9]]])
    >>> round(float(vote_entropy(p)[0]), 6)
    0.693147
    """
    shares = _votes(_classes(prediction, "vote_entropy"))
    return -jnp.sum(xlogy(shares, shares), axis=-1)


def epig(prediction: Prediction, targets: Prediction) -> Float[Array, " batch"]:
    """Expected information about the labels of target rows: ``mean_x* MI(y; y*)``.

    The joint distribution of two labels is the mean of products of members, ``p(y, y*) = mean_s
    P[s](y) P*[s](y*)``; members of both predictions are the same. Gaussian numbers (one target):
    ``-½ log(1 - ρ²)`` with the correlation of both under the mixture. Costs ``rows * targets *
    classes²`` numbers, a bounded part of them at once. Reference: Bickford Smith et al.,
    Prediction-oriented Bayesian active learning, AISTATS 2023.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1]], [[0.1, 0.9]]])
    >>> round(float(epig(p, p)[0]), 6)
    0.221754
    """
    if prediction.num_members != targets.num_members:
        raise InputError(
            f"targets has {targets.num_members} members and the prediction "
            f"{prediction.num_members}; predict both with the same posterior and key"
        )
    if isinstance(prediction, RegressionPrediction) and isinstance(targets, RegressionPrediction):
        return epig_of_numbers(prediction, targets)
    here, there = _classes(prediction, "epig").members, _classes(targets, "epig").members
    members, _, classes = here.shape
    other = there.reshape(members, -1)
    weights = prediction.weights
    outside = member_mean(other, weights)

    def row(own: Float[Array, "members classes"]) -> Array:
        counted = own if weights is None else members * spread(weights, own) * own
        joint = counted.T @ other / members
        apart = member_mean(own, weights)[:, None] * outside
        return jnp.sum(xlogy(joint, joint) - xlogy(joint, jnp.where(joint > 0, apart, 1)))

    size = max(1, ENTRIES // (classes * other.shape[1]))
    total = jax.lax.map(row, jnp.swapaxes(here, 0, 1), batch_size=size)
    return jnp.maximum(total / there.shape[1], 0.0)


def _classes(prediction: Prediction, score: str) -> ClassPrediction:
    if not isinstance(prediction, ClassPrediction):
        raise InputError(
            f"{score} is a score of classes and the prediction is of numbers; use variance, bald "
            "or epig"
        )
    return prediction


def _votes(prediction: ClassPrediction) -> Float[Array, "batch classes"]:
    votes = jnp.argmax(prediction.log_probs, axis=-1)
    classes = prediction.log_probs.shape[-1]
    chosen = jax.nn.one_hot(votes, classes, dtype=prediction.log_probs.dtype)
    return member_mean(chosen, prediction.weights)


def _finite(log_probs: Array) -> Array:
    """Zero where a probability is zero: it is multiplied by that probability."""
    return jnp.where(log_probs > -jnp.inf, log_probs, 0.0)
