"""Other aims than information: the expected utility of a design."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Float64

from credax.design.contrastive import draw_prior
from credax.design.model import DesignModel, check_designs, check_model
from credax.design.variational import BLOCK, joint_draws
from credax.errors import InputError
from credax.keys import as_key


class Utility(NamedTuple):
    """Expected utility per design, and its Monte Carlo error."""

    value: Float64[np.ndarray, " designs"]
    standard_error: Float64[np.ndarray, " designs"]

    def best(self) -> int:
        """The position of the design with the largest value."""
        return int(np.argmax(self.value))


def expected_utility(
    model: DesignModel,
    designs: Any,
    utility: Callable[..., Any],
    *,
    decisions: Any = None,
    outer: int = 10_000,
    inner: int = 1000,
    key: Any = 0,
) -> Utility:
    """``E_{p(θ) p(y|θ,ξ)}[u(θ, ξ, y)]``, or the value of the best decision after each outcome.

    Without ``decisions`` the utility is that of an experiment with a known parameter. With them it
    is ``utility(theta, xi, y, decision)``, and the value of an outcome is
    ``max_d E_{p(θ|y,ξ)} u(θ, ξ, y, d)``: the posterior is the prior's ``inner`` draws weighted by
    the likelihood (nested Monte Carlo), which makes the maximum slightly too large. All designs see
    the same draws.

    Args:
        model: prior and outcomes.
        designs: ``[designs, ...]``.
        utility: a function of one ``θ``, one design and one outcome (and one decision), a number.
        decisions: ``[decisions, ...]`` to choose from once the outcome is known.
        outer: draws of ``θ`` and ``y``.
        inner: draws that stand for the posterior.
        key: a seed or a typed key.

    >>> import credax as cx
    >>> memory = cx.design.working_memory()
    >>> remembered = expected_utility(memory, [3.0, 11.0], lambda theta, xi, y: y * xi, outer=4000)
    >>> remembered.best()
    0
    """
    array = check_designs(model, designs)
    if outer < 2 or inner < 1:
        raise InputError(f"outer is {outer} and inner is {inner}; use at least 2 and 1")
    check_model(model, array[0])
    choices = None if decisions is None else jnp.asarray(decisions)
    _check_utility(model, utility, jnp.asarray(array[0]), choices)
    found = _utilities(model, utility, jnp.asarray(array), as_key(key), choices, outer, inner)
    values = np.asarray(found, np.float64)
    if not np.isfinite(values).all():
        place = int(np.argmin(np.isfinite(values).all(axis=1)))
        raise InputError(
            f"utility is not finite at design {array[place].tolist()}; return finite numbers"
        )
    return Utility(values.mean(axis=1), values.std(axis=1, ddof=1) / math.sqrt(outer))


def _check_utility(model: DesignModel, utility: Callable, xi: Any, choices: Any) -> None:
    theta, y = joint_draws(model, jax.random.key(0), xi, 1)
    one = lambda leaf: leaf[0]  # noqa: E731
    more = () if choices is None else (choices[0],)
    try:
        value = utility(jax.tree.map(one, theta), xi, y[0], *more)
    except (TypeError, ValueError, IndexError) as error:
        words = "theta, xi, y" if choices is None else "theta, xi, y, decision"
        raise InputError(
            f"utility failed: {str(error).splitlines()[0]}; write it as utility({words}) for one "
            "parameter, one design and one outcome"
        ) from error
    if jnp.shape(value) != ():
        raise InputError(f"utility returned shape {jnp.shape(value)}; return one number")


@partial(jax.jit, static_argnums=(0, 1, 5, 6))
def _utilities(model, utility, designs, key, choices, outer: int, inner: int):
    first, second = jax.random.split(key)
    others = draw_prior(model, second, inner)

    def decided(y, xi):
        log_weights = jax.vmap(lambda t: model.outcome_log_prob(y, t, xi))(others)
        weights = jnp.exp(log_weights - logsumexp(log_weights))
        of = lambda d: weights @ jax.vmap(lambda t: utility(t, xi, y, d) * 1.0)(others)  # noqa: E731
        return jax.vmap(of)(choices).max()

    def at(xi):
        theta, y = joint_draws(model, first, xi, outer)
        if choices is None:
            return jax.vmap(lambda t, y: utility(t, xi, y) * 1.0)(theta, y)
        return jax.lax.map(lambda y: decided(y, xi), y, batch_size=BLOCK // 8)

    return jax.lax.map(at, designs)
