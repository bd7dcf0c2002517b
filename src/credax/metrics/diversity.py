"""Uncertainty of the mixture, and how much of it is the members' disagreement."""

from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from credax.errors import InputError
from credax.metrics.metric import NATS, metric, metrics, row
from credax.metrics.namespace import ratio
from credax.metrics.streaming import Streaming, mean_of, sums_of
from credax.metrics.view import ClassView
from credax.prediction import ClassPrediction as ClassPrediction


@metric(
    "Entropy",
    None,
    "of the mean probability, mean over rows",
    "total uncertainty",
    **NATS,
    headline=True,
)
def entropy() -> Streaming:
    """Mean entropy of the mixture, ``mean H[p̄]`` in nats: the total uncertainty.

    ``y`` is not needed; it is there so that all metrics have the same signature.

    >>> p = ClassPrediction.from_probs([[[0.5, 0.5]]])
    >>> round(float(entropy(p)), 4)
    0.6931
    """
    return mean_of(lambda view: view.entropy)


@metric(
    "Expected entropy",
    None,
    "mean over members, mean over rows",
    "aleatoric uncertainty: what the members agree is uncertain",
    **NATS,
)
def expected_entropy() -> Streaming:
    """Mean entropy of the members, ``mean_m H[p_m]`` in nats: the aleatoric uncertainty.

    `entropy` = `expected_entropy` + `mutual_information`. torch-uncertainty's "entropy" is this
    one. ``y`` is not needed.

    >>> p = ClassPrediction.from_probs([[[0.5, 0.5]], [[1.0, 0.0]]])
    >>> round(float(expected_entropy(p)), 4)
    0.3466
    """
    return mean_of(lambda view: view.expected_entropy)


@metric(
    "Mutual information",
    None,
    "entropy of the mixture minus the members' mean entropy, mean over rows",
    "epistemic uncertainty: how much the members disagree",
    **NATS,
    headline=True,
)
def mutual_information() -> Streaming:
    """Mean ``H[p̄] - mean_m H[p_m]`` in nats: the epistemic uncertainty.

    It is the mean Kullback-Leibler divergence from member to mixture: zero when the members agree,
    at most ``log M`` for ``M`` members. ``y`` is not needed.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1]], [[0.1, 0.9]]])
    >>> round(float(mutual_information(p)), 6)
    0.368064
    """
    return mean_of(lambda view: view.information)


@metric(
    "Epistemic share",
    None,
    "mutual information over entropy, or variance of means over variance, of all rows",
    "share of the uncertainty that is the members' disagreement",
    task=None,
    members=2,
)
def epistemic_share() -> Streaming:
    """Share of the uncertainty that is the members' disagreement, over all rows together.

    Mutual information over entropy for classes, variance of the means over variance for numbers;
    0 where there is no uncertainty at all. ``y`` is not needed.

    >>> p = ClassPrediction.from_probs([[[1.0, 0.0]], [[0.0, 1.0]]])
    >>> float(epistemic_share(p))
    1.0
    """
    return Streaming(sums_of(_two_parts), lambda sums: ratio(sums.total[0], sums.total[1]))


@metric(
    "Confidence",
    None,
    "largest mean probability, mean over rows",
    "probability of the most probable class",
)
def mean_confidence() -> Streaming:
    """Mean probability of the most probable class; above `accuracy` the mixture is overconfident.

    >>> p = ClassPrediction.from_probs([[[0.5, 0.5], [0.75, 0.25]]])
    >>> float(mean_confidence(p))
    0.625
    """
    return mean_of(lambda view: view.confidence)


@metric(
    "Disagreement",
    None,
    "pairs of members, mean over rows",
    "share of pairs of members that choose different classes",
    members=2,
)
def disagreement() -> Streaming:
    """Share of pairs of members whose most probable classes differ, ``1 - Σ_c C(n_c,2)/C(M,2)``.

    ``n_c`` is the number of members that vote for class ``c``. Needs two members. ``y`` is not
    needed.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1]], [[0.8, 0.2]], [[0.1, 0.9]]])
    >>> round(float(disagreement(p)), 6)
    0.666667
    """
    return mean_of(_disagreement)


@metrics(
    row(
        "Variation ratio",
        None,
        "votes against the modal class, mean over rows",
        "share of members that do not choose the most frequent class",
        members=2,
    ),
    row(
        "Variation ratio (mean class)",
        None,
        "votes against the mixture's most probable class, mean over rows",
        "share of members that do not choose the mixture's class",
        name="variation_ratio_mean_class",
        options={"of": "mean_class"},
        members=2,
    ),
)
def variation_ratio(
    *, of: Literal["modal_class", "mean_class", "probability"] = "modal_class"
) -> Streaming:
    """Share of members that do not vote for the modal class, ``1 - max_c n_c / M``.

    ``of="mean_class"`` counts votes against the most probable class of the mixture
    (torch-uncertainty's form), and ``"probability"`` is ``1 - max_c p̄_c``. ``y`` is not needed.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1]], [[0.4, 0.6]], [[0.4, 0.6]]])
    >>> [round(float(variation_ratio(p, of=o)), 3) for o in ("modal_class", "mean_class")]
    [0.333, 0.667]
    """
    if of not in VARIATION_RATIOS:
        raise InputError(f"of is {of!r}; choose from {', '.join(VARIATION_RATIOS)}")
    return mean_of(VARIATION_RATIOS[of])


@metrics(
    row(
        "One-hot variance",
        None,
        "trace of the one-hot label's covariance, mean over rows",
        "total uncertainty as a variance",
    ),
    row(
        "One-hot variance (epistemic)",
        None,
        "variance of the members' probabilities summed over classes, mean over rows",
        "epistemic uncertainty as a variance",
        name="one_hot_variance_epistemic",
        options={"part": "epistemic"},
        members=2,
    ),
)
def one_hot_variance(*, part: Literal["total", "aleatoric", "epistemic"] = "total") -> Streaming:
    """Trace of the covariance of the one-hot label, ``mean Σ_c p̄_c (1 - p̄_c)``, or a part of it.

    It splits like entropy: aleatoric ``mean_m Σ_c p_c (1 - p_c)`` + epistemic ``Σ_c Var_m p_c``.

    >>> p = ClassPrediction.from_probs([[[1.0, 0.0]], [[0.0, 1.0]]])
    >>> [float(one_hot_variance(p, part=s)) for s in ("total", "aleatoric", "epistemic")]
    [0.5, 0.0, 0.5]
    """
    parts = {
        "total": lambda view: jnp.sum(view.probs * (1 - view.probs), axis=-1),
        "aleatoric": lambda view: 1 - view.squares,
        "epistemic": lambda view: jnp.maximum(
            view.squares - jnp.sum(jnp.square(view.probs), axis=-1), 0
        ),
    }
    if part not in parts:
        raise InputError(f"part is {part!r}; choose from {', '.join(parts)}")
    return mean_of(parts[part])


def decomposition(prediction: ClassPrediction, *, mask: Any = None, weight: Any = None) -> dict:
    """Mean entropy in nats and its two parts: ``total = aleatoric + epistemic``.

    >>> p = ClassPrediction.from_probs([[[1.0, 0.0]], [[0.0, 1.0]]])
    >>> {part: round(float(value), 4) for part, value in decomposition(p).items()}
    {'total': 0.6931, 'aleatoric': 0.0, 'epistemic': 0.6931}
    """
    parts = {"total": entropy, "aleatoric": expected_entropy, "epistemic": mutual_information}
    return {name: part(prediction, mask=mask, weight=weight) for name, part in parts.items()}


def _two_parts(view: Any) -> Any:
    if isinstance(view, ClassView):
        return jnp.stack([view.information, view.entropy], axis=-1)
    return jnp.stack([view.epistemic, view.variance], axis=-1)


def _disagreement(view: ClassView) -> Any:
    members = view.log_probs.shape[0]
    if members < 2:
        raise InputError("disagreement is between pairs of members and the prediction has one")
    votes, weights = view.votes, view.prediction.weights
    if weights is not None:
        shares, own = votes / members, float(np.sum(np.square(weights)))
        return (1 - jnp.sum(jnp.square(shares), axis=-1)) / (1 - own)
    return 1 - jnp.sum(votes * (votes - 1), axis=-1) / (members * (members - 1))


def modal_ratio(view: ClassView) -> Any:
    """``1 - max_c n_c / M`` row by row."""
    return 1 - jnp.max(view.votes, axis=-1) / view.log_probs.shape[0]


def _mean_class_ratio(view: ClassView) -> Any:
    chosen = jnp.take_along_axis(view.votes, view.label[:, None], axis=-1)[:, 0]
    return 1 - chosen / view.log_probs.shape[0]


VARIATION_RATIOS = {
    "modal_class": modal_ratio,
    "mean_class": _mean_class_ratio,
    "probability": lambda view: 1 - view.confidence,
}
