"""OOD scores: numbers per row that are larger where a row may be out of distribution."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from credax.errors import InputError, unknown
from credax.metrics.diversity import modal_ratio
from credax.metrics.metric import task_of
from credax.metrics.view import view_of
from credax.prediction import ClassPrediction as ClassPrediction
from credax.prediction import Prediction


@dataclass(frozen=True)
class Score:
    """One number per row, larger where the row looks more out of distribution.

    ``function`` takes the view of a prediction, or the mean logits where ``of_logits`` is set:
    a `ClassPrediction` holds normalised log-probabilities, from which logits cannot be had back.
    """

    name: str
    label: str
    function: Callable[[Any], Any]
    task: Literal["classification", "regression"]
    description: str
    of_logits: bool = False


def _targets(values: Array) -> Array:
    return jnp.sum(values, axis=-1)


_ALL = (
    Score(
        "entropy_predictive",
        "entropy",
        lambda view: view.entropy,
        "classification",
        "entropy of the mixture",
    ),
    Score(
        "entropy_expected",
        "expected entropy",
        lambda view: view.expected_entropy,
        "classification",
        "mean entropy of the members",
    ),
    Score(
        "mutual_information",
        "mutual information",
        lambda view: view.information,
        "classification",
        "entropy of the mixture minus the members' mean entropy",
    ),
    Score(
        "max_probability",
        "confidence",
        lambda view: -view.confidence,
        "classification",
        "largest probability of the mixture, negated",
    ),
    Score(
        "variation_ratio",
        "variation ratio",
        modal_ratio,
        "classification",
        "share of members that do not vote for the modal class",
    ),
    Score(
        "max_logit",
        "largest logit",
        lambda logits: -jnp.max(logits, axis=-1),
        "classification",
        "largest of the members' mean logits, negated",
        of_logits=True,
    ),
    Score(
        "energy",
        "energy",
        lambda logits: -logsumexp(logits, axis=-1),
        "classification",
        "log-sum-exp of the members' mean logits, negated",
        of_logits=True,
    ),
    Score(
        "total_variance",
        "variance",
        lambda view: _targets(view.variance),
        "regression",
        "variance of the mixture, summed over targets",
    ),
    Score(
        "epistemic_variance",
        "epistemic variance",
        lambda view: _targets(view.epistemic),
        "regression",
        "variance of the members' means, summed over targets",
    ),
    Score(
        "aleatoric_variance",
        "aleatoric variance",
        lambda view: _targets(view.aleatoric),
        "regression",
        "mean of the members' variances, summed over targets",
    ),
)

SCORES: Mapping[str, Score] = MappingProxyType({score.name: score for score in _ALL})


def score(
    name: str,
    prediction: Prediction,
    *,
    logits: Float[Array, "members batch classes"] | None = None,
) -> Float[Array, " batch"]:
    """The score of that name, row by row; ``max_logit`` and ``energy`` need the raw ``logits``.

    >>> p = ClassPrediction.from_probs([[[0.5, 0.5], [1.0, 0.0]]])
    >>> score("max_probability", p).tolist()
    [-0.5, -1.0]
    """
    return scores(prediction, [name], logits=logits)[name]


def scores(
    prediction: Prediction,
    names: Iterable[str] | None = None,
    *,
    logits: Float[Array, "members batch classes"] | None = None,
) -> dict[str, Float[Array, " batch"]]:
    """Several scores by name, or all that can be had from what is given."""
    wanted = applicable(prediction, logits is not None) if names is None else tuple(names)
    task = task_of(prediction)
    for name in wanted:
        if name not in SCORES:
            raise unknown("score", name, SCORES)
        if SCORES[name].task != task:
            fitting = ", ".join(applicable(prediction, True))
            raise InputError(f"score {name!r} is not for {task}; choose from {fitting}")
        if SCORES[name].of_logits and logits is None:
            raise InputError(
                f"score {name!r} needs the members' raw logits, and a prediction holds normalised "
                "log-probabilities only; pass logits=[members, batch, classes]"
            )
    shape = jax.tree.leaves(prediction)[0].shape
    if logits is not None and jnp.shape(logits) != shape:
        raise InputError(
            f"logits has shape {jnp.shape(logits)}; this prediction needs {shape}, "
            "[members, batch, classes]"
        )
    return dict(zip(wanted, _scores(wanted, prediction, logits), strict=True))


def applicable(prediction: Prediction, with_logits: bool = False) -> tuple[str, ...]:
    """Names of the scores that a prediction allows; those of members' disagreement need two."""
    task = task_of(prediction)
    of_members = {"mutual_information", "variation_ratio", "epistemic_variance"}
    return tuple(
        s.name
        for s in SCORES.values()
        if s.task == task
        and (with_logits or not s.of_logits)
        and (prediction.num_members > 1 or s.name not in of_members)
    )


def vacuity(concentrations: Float[Array, "batch classes"]) -> Float[Array, " batch"]:
    """Lack of evidence of a Dirichlet prediction, ``K / Σ_k α_k``; 1 where there is none.

    >>> vacuity(jnp.array([[1.0, 1.0], [7.0, 1.0]])).tolist()
    [1.0, 0.25]
    """
    return concentrations.shape[-1] / jnp.sum(concentrations, axis=-1)


@partial(jax.jit, static_argnums=0)
def _scores(names: tuple[str, ...], prediction, logits):
    view = view_of(prediction, None)
    mean = None if logits is None else jnp.mean(jnp.asarray(logits), axis=0)
    return [SCORES[n].function(mean if SCORES[n].of_logits else view) for n in names]
