"""What an experiment is: a prior over parameters, and outcomes given parameters and a design."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from credax.errors import InputError


@dataclass(frozen=True, eq=False)
class DesignModel:
    """A prior ``p(θ)`` and outcomes ``p(y | θ, ξ)``, as functions of one ``θ`` and one ``ξ``.

    All functions are pure and written for a single parameter and a single design: they are mapped
    and compiled here. ``θ`` is an array or a pytree of arrays. A continuous ``outcome_sample`` that
    is differentiable in ``θ`` and ``ξ`` (reparametrised) allows gradients by the design.

    >>> model = DesignModel(
    ...     prior_sample=lambda key: jax.random.normal(key),
    ...     prior_log_prob=lambda theta: jax.scipy.stats.norm.logpdf(theta),
    ...     outcome_sample=lambda key, theta, xi: xi * theta + jax.random.normal(key),
    ...     outcome_log_prob=lambda y, theta, xi: jax.scipy.stats.norm.logpdf(y, xi * theta),
    ... )
    >>> model.finite
    False
    """

    prior_sample: Callable[[Key[Array, ""]], PyTree]
    """``prior_sample(key) -> θ``."""
    prior_log_prob: Callable[[PyTree], Float[Array, ""]]
    """``prior_log_prob(θ)``, one number."""
    outcome_sample: Callable[[Key[Array, ""], PyTree, Array], Array]
    """``outcome_sample(key, θ, ξ) -> y``."""
    outcome_log_prob: Callable[[Array, PyTree, Array], Float[Array, ""]]
    """``outcome_log_prob(y, θ, ξ)``, one number."""
    outcomes: Any = None
    """All outcomes ``[outcomes, ...]`` where they are finitely many; None: continuous."""
    nodes: Callable[[], tuple[PyTree, Float[Array, " nodes"]]] | None = None
    """Nodes ``θ_k`` on a leading axis and their weights, which add up to 1: a quadrature rule of
    the prior, for exact values where ``θ`` has few dimensions."""
    designs: Any = None
    """Designs ``[designs, ...]`` that are usual to compare."""
    bounds: tuple[Any, Any] | None = None
    """Smallest and largest design, each a number or an array of the design's shape."""
    prior_entropy: float | None = None
    """``-E log p(θ)`` where it is known; None: estimates that need it draw from the prior."""
    name: str = "model"
    title: str = "Model"

    @property
    def finite(self) -> bool:
        """Whether all outcomes can be listed."""
        return self.outcomes is not None

    def log_probs(self, theta: PyTree, xi: Array) -> Float[Array, " outcomes"]:
        """Log-probabilities of all outcomes, where they are finitely many."""
        return jax.vmap(lambda y: self.outcome_log_prob(y, theta, xi))(jnp.asarray(self.outcomes))


def check_model(model: DesignModel, xi: Any) -> None:
    """Raise an error that names the function and the shape if a model's functions disagree."""
    theta = _call(model, "prior_sample", model.prior_sample, jax.random.key(0))
    for leaf in jax.tree.leaves(theta):
        if not np.isfinite(np.asarray(leaf)).all():
            raise InputError(
                f"prior_sample of {model.name} gave numbers that are not finite; return finite θ"
            )
    _scalar(model, "prior_log_prob", _call(model, "prior_log_prob", model.prior_log_prob, theta))
    xi = jnp.asarray(xi)
    sample = lambda theta: model.outcome_sample(jax.random.key(1), theta, xi)  # noqa: E731
    y = jnp.asarray(_call(model, "outcome_sample", sample, theta))
    if model.finite:
        _check_outcomes(model, y)
    given = lambda theta: model.outcome_log_prob(y, theta, xi)  # noqa: E731
    _scalar(model, "outcome_log_prob", _call(model, "outcome_log_prob", given, theta))
    if model.finite:
        total = float(jnp.sum(jnp.exp(model.log_probs(theta, xi))))
        if not abs(total - 1) < 1e-3:
            raise InputError(
                f"outcome_log_prob of {model.name} gives the outcomes a total probability of "
                f"{total:.4g}; list all outcomes, and return their log-probabilities"
            )


def check_designs(model: DesignModel, designs: Any) -> np.ndarray:
    """The designs as an array ``[designs, ...]``, all within the model's bounds."""
    array = np.asarray(designs)
    if array.ndim == 0 or len(array) == 0:
        raise InputError(
            f"designs has shape {array.shape}; give at least one design, on a leading axis"
        )
    if not np.isfinite(array.astype(float)).all():
        raise InputError("designs holds numbers that are not finite; give finite designs")
    if model.bounds is not None:
        low, high = (np.asarray(bound) for bound in model.bounds)
        outside = ((array < low) | (array > high)).reshape(len(array), -1).any(axis=1)
        if outside.any():
            place = int(np.argmax(outside))
            raise InputError(
                f"design {place} is {array[place].tolist()}, outside of the bounds of "
                f"{model.name}, {low.tolist()} to {high.tolist()}; choose one inside"
            )
    return array


def _check_outcomes(model: DesignModel, y: Array) -> None:
    listed = np.asarray(model.outcomes)
    if listed.ndim == 0 or listed.shape[1:] != y.shape:
        raise InputError(
            f"outcomes of {model.name} has shape {listed.shape} and outcome_sample returns shape "
            f"{y.shape}; list outcomes of that shape on a leading axis"
        )
    if not (listed == np.asarray(y)).reshape(len(listed), -1).all(axis=1).any():
        raise InputError(
            f"outcome_sample of {model.name} returned {np.asarray(y).tolist()}, which is not among "
            f"its outcomes {listed.tolist()}; list every outcome"
        )


def _call(model: DesignModel, name: str, function: Callable, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except (TypeError, ValueError, IndexError) as error:
        shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(arguments) if not _is_key(leaf)]
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{name} of {model.name} failed for parameters of shape "
            f"{', '.join(map(str, shapes)) or 'none'}: {reason}; write it for one θ and one design"
        ) from error


def _is_key(leaf: Any) -> bool:
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)


def _scalar(model: DesignModel, name: str, value: Any) -> None:
    if jnp.shape(value) != ():
        raise InputError(
            f"{name} of {model.name} returned shape {jnp.shape(value)} for one θ; return one "
            "number, such as the sum over independent parts"
        )
    if not bool(jnp.isfinite(value)):
        raise InputError(
            f"{name} of {model.name} returned {float(value)} at a draw from the prior; return a "
            "finite log-probability there"
        )
