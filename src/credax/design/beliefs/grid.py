"""Exact beliefs on the nodes of a quadrature rule."""

import jax
import jax.numpy as jnp
import numpy as np

from credax.design.beliefs.belief import Belief, Experiments, draw_one, log_likelihood, with_prior
from credax.design.information import GridPosterior, prior_on_nodes, update_nodes
from credax.design.model import DesignModel


def grid_posterior(model: DesignModel, seen: Experiments) -> GridPosterior:
    """Bayes' rule on the model's nodes, outcome by outcome, in double precision."""
    with jax.enable_x64(True):
        found = prior_on_nodes(model)
        for design, outcome in zip(seen.designs, seen.outcomes, strict=True):
            found = update_nodes(model, found, design, outcome)
    return found


def grid_belief(model: DesignModel, seen: Experiments) -> Belief:
    """The posterior on the model's nodes: exact up to the rule's error."""
    found = grid_posterior(model, seen)
    nodes, log_weights = found.nodes, found.log_weights
    evidence = float(found.log_evidence)

    weights = np.exp(np.asarray(log_weights))
    cumulative = np.cumsum(weights)
    single = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), float), nodes)
    line = isinstance(single, jax.Array) and single.ndim == 1 and bool((np.diff(single) > 0).all())
    steps = jnp.asarray(cumulative, float)
    middles = jnp.asarray(cumulative - weights / 2, float)

    def sample(key):
        # Between the nodes of a line, so that draws are as smooth as the density.
        if line:
            return jnp.interp(jax.random.uniform(key), middles, single)
        return draw_one(key, single, steps)

    def log_prob(theta):
        return model.prior_log_prob(theta) + log_likelihood(model, theta, seen) - evidence

    changed = with_prior(
        model,
        prior_sample=sample,
        prior_log_prob=log_prob,
        nodes=lambda: (nodes, jnp.exp(log_weights)),
    )
    with jax.enable_x64(True):
        mean, std = found.mean, found.std
    return Belief(changed, mean, std, evidence)
