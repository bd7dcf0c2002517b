"""A posterior of networks as a model of experiments: which input to label next?"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import entr

from credax.design.model import DesignModel
from credax.errors import InputError
from credax.mixing import Weights, host_weights, pick_members, weighted
from credax.posterior import Posterior
from credax.prediction import ClassPrediction


def posterior_model(posterior: Posterior, inputs: Any = None) -> DesignModel:
    """Members as parameters, inputs as designs, labels as outcomes.

    ``θ`` is the number of a member, as likely as its weight says; ``ξ`` is one input. The
    expected information gain is then the mutual information of the label and the member: BALD.

    Args:
        posterior: what `credax.fit` returned; a posterior that draws its members keeps one set of
            draws.
        inputs: rows ``[rows, ...]`` to choose from, as designs of the model.
    """
    if posterior.num_members < 2:
        raise InputError(
            "posterior has 1 member, so that nothing can be learned about which; fit more members"
        )
    predict, shape = posterior.predict_fn(), posterior.input_shape
    example = jnp.zeros((1, *shape), posterior.input_dtype)
    struct = jax.eval_shape(predict, example)
    classes = isinstance(struct, ClassPrediction)
    if not classes and struct.density == "none":
        raise InputError(
            "posterior predicts quantiles, which have no density; use another likelihood"
        )
    members = _check_members(struct, posterior)
    weights = host_weights(struct.weights, members)

    def member(theta, xi):
        every = predict(jnp.asarray(xi)[None])
        return jax.tree.map(lambda leaf: leaf[theta][None], weighted(every, None))

    def sample(key, theta, xi):
        drawn = member(theta, xi).sample(key)[0, 0]
        return drawn.astype(jnp.int32) if classes else drawn

    def log_prob(y, theta, xi):
        return member(theta, xi).log_prob(jnp.asarray(y)[None])[0]

    outcomes = np.arange(struct.log_probs.shape[-1], dtype=np.int32) if classes else None
    return DesignModel(
        prior_sample=lambda key: pick_members(key, (), members, struct.weights),
        prior_log_prob=_log_prior(struct.weights, members),
        outcome_sample=sample,
        outcome_log_prob=log_prob,
        outcomes=outcomes,
        nodes=lambda: (jnp.arange(members), jnp.asarray(weights)),
        designs=None if inputs is None else _check_inputs(inputs, shape),
        prior_entropy=float(np.sum(entr(weights))) if struct.weights else float(np.log(members)),
        name="posterior",
        title="Which input to label",
    )


def _log_prior(weights: Weights, members: int) -> Callable[[Any], Any]:
    if weights is None:
        return lambda theta: -jnp.log(float(members))
    return lambda theta: jnp.log(jnp.asarray(weights))[theta]


def _check_members(struct: Any, posterior: Posterior) -> int:
    found = jax.tree.leaves(struct)[0].shape[0]
    if found < 2:
        raise InputError(
            f"posterior predicts by {found} member where it says {posterior.num_members}; it has "
            "no members to tell apart: draw some and use a credax.Population of them"
        )
    return found


def _check_inputs(inputs: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = np.asarray(inputs)
    if array.shape[1:] != tuple(shape) or not len(array):
        raise InputError(
            f"inputs has shape {array.shape}; rows of the posterior have shape {shape}"
        )
    return array
