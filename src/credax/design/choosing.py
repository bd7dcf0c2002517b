"""Which design: the best of a list, or the top of a lower bound by gradients."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from credax.design.contrastive import draw_prior, log_sums, nested, sampled_outcomes
from credax.design.information import Information, exact
from credax.design.model import DesignModel, check_designs, check_model
from credax.design.utilities import expected_utility
from credax.errors import InputError
from credax.keys import as_key

Outcomes = Literal["auto", "reparametrised", "listed", "score"]


class Recommendation(NamedTuple):
    """The design to try next, its place in the list, and the information of all of them.

    With ``utility=`` the ``information`` is the expected `Utility`.
    """

    design: np.ndarray
    position: int
    information: Any
    designs: np.ndarray


def expected_information(model: DesignModel, designs: Any, **options: Any) -> Information:
    """The exact value where outcomes are listed and the prior has nodes, else `nested` bounds.

    A prior with nodes and continuous outcomes is estimated without bias: `sampled_outcomes`.
    """
    if model.nodes is None:
        return nested(model, designs, **options)
    if model.finite:
        return exact(model, designs)
    kept = {name: value for name, value in options.items() if name not in ("inner", "chunk")}
    return sampled_outcomes(model, designs, **kept)


def recommend(
    model: DesignModel,
    designs: Any = None,
    *,
    costs: Any = None,
    budget: float | None = None,
    per_cost: bool = False,
    utility: Callable[..., Any] | None = None,
    **options: Any,
) -> Recommendation:
    """The design with the most expected information, or with the most per unit of cost.

    Args:
        model: prior and outcomes; after outcomes were seen, that of the posterior.
        designs: what to choose from; by default the model's own list.
        costs: one positive number per design.
        budget: designs that cost more are left out.
        per_cost: compare information over cost.
        utility: another aim than information, ``utility(theta, xi, y)``: see `expected_utility`.
        **options: of `nested`, where the value is not exact: ``key``, ``outer``, ``inner``; with
            ``utility`` those of `expected_utility`.

    >>> import credax as cx
    >>> recommend(cx.design.working_memory()).design.item()
    7.0
    """
    if designs is None and model.designs is None:
        raise InputError(f"{model.name} has no list of designs; give designs=")
    array = check_designs(model, model.designs if designs is None else designs)
    prices = _costs(costs, len(array), budget, per_cost)
    if utility is None:
        found: Any = expected_information(model, array, **options)
    else:
        found = expected_utility(model, array, utility, **options)
    value = found.value / prices if per_cost else found.value.copy()
    if budget is not None:
        value[prices > budget] = -np.inf
    place = int(np.argmax(value))
    return Recommendation(array[place], place, found, array)


def _costs(costs: Any, count: int, budget: float | None, per_cost: bool) -> np.ndarray:
    if costs is None:
        if budget is not None or per_cost:
            raise InputError("budget or per_cost is given without costs; give one cost per design")
        return np.ones(count)
    prices = np.asarray(costs, float)
    if prices.shape != (count,) or not (prices > 0).all():
        raise InputError(
            f"costs has shape {prices.shape} for {count} designs; give one positive number each"
        )
    if budget is not None and (prices > budget).all():
        raise InputError(
            f"budget is {budget} and the cheapest design costs {prices.min():g}; raise the budget"
        )
    return prices


class Optimised(NamedTuple):
    """The best design found from several starts, its information, and the way of each start."""

    design: np.ndarray
    information: Information
    ends: Float[np.ndarray, "starts ..."]
    bound: Float[np.ndarray, "starts steps"]
    """The lower bound along the way, noisy."""


def optimise(
    model: DesignModel,
    start: Any,
    *,
    steps: int = 1000,
    learning_rate: float = 0.05,
    batch: int = 256,
    inner: int = 256,
    outcomes: Outcomes = "auto",
    key: Any = 0,
) -> Optimised:
    """Stochastic gradient ascent of the prior contrastive lower bound over the design.

    An upper bound is never ascended. Gradients pass through outcomes that are differentiable
    ("reparametrised"), sum over those that are listed ("listed"), or use the score function with a
    baseline ("score"); "auto" lists where it can. Designs are kept within the model's bounds.

    Args:
        model: prior and outcomes.
        start: designs ``[starts, ...]`` to begin from, side by side.
        steps: of Adam, with a rate that decays to a hundredth of ``learning_rate``; designs are
            measured in units of a tenth of their bounds where there are some.
        batch: outer draws per step.
        inner: contrastive draws per step.
        outcomes: how gradients treat outcomes.
        key: a seed or a typed key.
    """
    array = check_designs(model, start).astype(float)
    check_model(model, array[0])
    way = ("listed" if model.finite else "reparametrised") if outcomes == "auto" else outcomes
    if way not in ("listed", "reparametrised", "score"):
        raise InputError(
            f"outcomes is {outcomes!r}; give 'auto', 'listed', 'reparametrised' or 'score'"
        )
    if (way == "listed" and not model.finite) or (way == "reparametrised" and model.finite):
        raise InputError(
            f"outcomes is {way!r} and those of {model.name} are "
            f"{'' if model.finite else 'not '}listed; use 'score', or leave it to 'auto'"
        )
    ends, bounds = _ascend(
        model, jnp.asarray(array), as_key(key), steps, learning_rate, batch, inner, way
    )
    found = expected_information(model, np.asarray(ends), key=key)
    return Optimised(np.asarray(ends)[found.best()], found, np.asarray(ends), np.asarray(bounds))


@partial(jax.jit, static_argnums=(0, 3, 4, 5, 6, 7))
def _ascend(model, start, key, steps: int, rate: float, batch: int, inner: int, way: str):
    low, high = (-jnp.inf, jnp.inf) if model.bounds is None else map(jnp.asarray, model.bounds)
    unit = 1.0 if model.bounds is None else (high - low) / 10  # pyright: ignore[reportOperatorIssue]
    optimiser = optax.adam(optax.exponential_decay(rate, steps, 0.01))

    def one(xi):
        def step(carry, key):
            z, state = carry
            objective = lambda z: surrogate(model, z * unit, key, batch, inner, way)  # noqa: E731
            (_, bound), gradient = jax.value_and_grad(objective, has_aux=True)(z)
            updates, state = optimiser.update(-gradient, state)
            z = jnp.clip(optax.apply_updates(z, updates), low / unit, high / unit)  # pyright: ignore[reportArgumentType]
            return (z, state), bound

        z = xi / unit
        keys = jax.random.split(key, steps)
        (z, _), bounds = jax.lax.scan(step, (z, optimiser.init(z)), keys)
        return z * unit, bounds

    return jax.lax.map(one, start)


def surrogate(
    model: DesignModel, xi: Array, key: Any, batch: int, inner: int, way: str
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """A number whose gradient by ``xi`` is that of the lower bound, and the bound."""
    first, second, third = jax.random.split(key, 3)
    theta, others = draw_prior(model, first, batch), draw_prior(model, second, inner)
    if way == "listed":
        log_probs = lambda t: jax.vmap(lambda t: model.log_probs(t, xi))(t)  # noqa: E731
        own = log_probs(theta)
        each = jax.scipy.special.logsumexp(log_probs(others), axis=0)
        terms = own - jnp.logaddexp(own, each) + jnp.log(inner + 1)
        weights = jnp.exp(own)
        bound = jnp.where(weights > 0, weights * terms, 0.0).sum(1).mean()
        return bound, bound
    keys = jax.random.split(third, batch)
    y = jax.vmap(lambda k, t: model.outcome_sample(k, t, xi))(keys, theta)
    y = jax.lax.stop_gradient(y) if way == "score" else y
    own, each = log_sums(model, y, theta, others, xi)
    terms = own - jnp.logaddexp(own, each) + jnp.log(inner + 1)
    bound = terms.mean()
    if way == "score":
        gain = jax.lax.stop_gradient(terms - bound)
        return bound + (gain * own).mean(), bound
    return bound, bound
