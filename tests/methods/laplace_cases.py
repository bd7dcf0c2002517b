"""Shared by the tests of Laplace: networks with given weights, and posteriors around them."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np

import credax as cx
from credax.methods.modes import Kept


def surround(problem, networks, data, record, seed=0):
    """What a record makes of networks trained already, without the training loop."""
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *networks)
    modes = tuple(range(len(networks)))
    keys = jax.random.split(jax.random.key(seed), len(modes))
    inner = SimpleNamespace(variables=stacked)
    states = SimpleNamespace(inner=inner, seed=jax.random.key_data(keys))
    return record.result(problem, None, Kept(modes, states), data)


X = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
Y = np.array([-0.9, -0.2, 0.1, 0.8, 1.1])
NOISE = 0.2


def dense_line():
    """``f(x) = w x + b`` as a dense layer: kernel and bias."""
    return cx.networks.MLP((), outputs=1)


def line_problem(precision=1.0, noise=NOISE):
    return cx.Problem(dense_line(), cx.Gaussian(noise), prior=cx.GaussianPrior(precision=precision))


def exact_line(shift, precision=1.0, noise_variance=NOISE**2):
    """Mean, covariance and log evidence of the conjugate posterior; features ``(1, x + shift)``."""
    phi = np.stack([np.ones(5), X + shift], axis=1)
    whole = precision * np.eye(2) + phi.T @ phi / noise_variance
    mean = np.linalg.solve(whole, phi.T @ Y / noise_variance)
    marginal = noise_variance * np.eye(5) + phi @ phi.T / precision
    log_evidence = -0.5 * (
        Y @ np.linalg.solve(marginal, Y) + np.linalg.slogdet(2 * np.pi * marginal)[1]
    )
    return mean, np.linalg.inv(whole), log_evidence


def line_network(mean):
    """Variables of `dense_line` with bias ``mean[0]`` and slope ``mean[1]``."""
    return cx.Variables(
        {"0_dense": {"bias": jnp.asarray(mean[:1]), "kernel": jnp.asarray(mean[1:])[:, None]}}, {}
    )


def line_data(shift):
    return cx.Split((X + shift)[:, None], Y[:, None])


def weights_covariance(posterior, mode=0):
    """The dense covariance over ``(bias, kernel)`` of a line, from the factors of its blocks."""
    roots = []
    for piece, factor in zip(posterior.plan.pieces, posterior.factors[mode], strict=True):
        identity = jnp.eye(piece.size)
        roots.append(np.asarray(jax.vmap(factor.draw)(identity)).T)
    size = sum(len(root) for root in roots)
    covariance, names, start = np.zeros((size, size)), [], 0
    for piece, root in zip(posterior.plan.pieces, roots, strict=True):
        covariance[start : start + len(root), start : start + len(root)] = root @ root.T
        # A Kronecker block has its kernel first and then its bias.
        names += list(piece.names)
        start += len(root)
    order = [names.index("0_dense/bias"), names.index("0_dense/kernel")]
    return covariance[np.ix_(order, order)]
