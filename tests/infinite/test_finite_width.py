"""Trained networks of finite width against the infinite ensemble: bias, spread, moves of weights.

With one hidden layer the outputs at initialisation have mean zero and covariance ``K`` exactly, at
every width. So ``g = f_0 + A_t (Y - f_0(X))``, with each network's own start and the infinite
kernel's ``A_t``, has exactly the infinite ensemble's mean and covariance, and ``f_t - g`` measures
what the width changes with an error that falls with the width too.
"""

from functools import lru_cache

import infinite_cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax import groups, infinite
from credax.network import Variables

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
X, Y, TEST = RNG.standard_normal((4, 2)), RNG.standard_normal(4), RNG.standard_normal((3, 2))
STEPS, RATE, WEIGHT, BIAS = 12, 0.1, 1.3, 0.3
WIDTHS = (32, 128)


def trained(net, members, x, y, points, steps=STEPS, rate=RATE, seed=0):
    """Start and end at training rows and points, ``[members, rows]``; squared norms and moves."""
    rows = jnp.asarray(np.concatenate([x, points]))
    y = jnp.asarray(y)

    def outputs(params, x):
        return net.apply(Variables(params, {}), x)[0][:, 0]

    def loss(params):
        return 0.5 * jnp.sum(jnp.square(outputs(params, rows[: len(y)]) - y))

    def step(params, _):
        slopes = jax.grad(loss)(params)
        return jax.tree.map(lambda p, s: p - rate * s, params, slopes), None

    def size(params):
        return sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(params))

    def member(key):
        start = net.init(key, rows).params
        end = jax.lax.scan(step, start, length=steps)[0]
        moved = size(jax.tree.map(jnp.subtract, end, start))
        return outputs(start, rows), outputs(end, rows), size(start), moved

    run = jax.jit(jax.vmap(member))
    return [np.asarray(part) for part in run(jax.random.split(jax.random.key(seed), members))]


def net(width):
    return infinite_cases.dense("erf", 1, WEIGHT, BIAS, width=width)


def infinite_ensemble():
    return infinite.EnsembleDynamics(net(1), X, Y, learning_rate=RATE, evolution="steps")


@lru_cache
def coupled(width, members=40_000, seeds=2):
    """Outputs of trained networks at the points, and of their infinite counterparts."""
    parts = [trained(net(width), members, X, Y, TEST, seed=seed)[:2] for seed in range(seeds)]
    start, end = (np.concatenate(part) for part in zip(*parts, strict=True))
    linear = infinite_ensemble().member(TEST, start[:, :4].T, start[:, 4:].T, STEPS).T
    return end[:, 4:], linear


def exponent(estimates):
    """The power of the width, along the direction of the narrow networks' bias, and its error.

    ``estimates`` are the biases that independent batches of members show, ``[batches, entries]``,
    for each of both widths.
    """
    direction = estimates[0].mean(0)
    along = [each @ direction for each in estimates]
    values = [each.mean() for each in along]
    errors = [each.std(ddof=1) / len(each) ** 0.5 for each in along]
    apart = np.log(WIDTHS[1] / WIDTHS[0])
    error = np.hypot(*(e / v for e, v in zip(errors, values, strict=True))) / apart
    return np.log(values[1] / values[0]) / apart, error


BATCHES = 40


def means(outputs):
    return outputs.reshape(BATCHES, -1, outputs.shape[1]).mean(1)


def covariances(outputs):
    parts = outputs.reshape(BATCHES, -1, outputs.shape[1])
    return np.stack([np.cov(part.T).ravel() for part in parts])


@pytest.mark.parametrize("moment", [means, covariances])
def test_moments_go_to_the_infinite_ones_as_one_over_the_width(moment, float64):
    """The exponent is -1, to 4 standard errors and the next order, 1/32: -1/2 cannot pass."""
    estimates = []
    for width in WIDTHS:
        found, linear = coupled(width)
        estimates.append(moment(found) - moment(linear))
    power, error = exponent(estimates)
    assert error < 0.11
    assert abs(power + 1) < 4 * error + 1 / WIDTHS[0]


def test_the_finite_ensemble_has_the_infinite_moments(float64):
    """Without the coupling: 4000 networks of width 256; 4.5 standard errors and 2/width."""
    members, width = 4000, 256
    end = trained(net(width), members, X, Y, TEST, seed=1)[1][:, 4:]
    mean, covariance = (
        infinite_ensemble().mean(TEST, STEPS)[:, 0],
        infinite_ensemble().covariance(TEST, t=STEPS),
    )
    deviation = np.sqrt(np.diag(covariance))
    slack = 2 / width * np.abs(mean).max()
    assert (np.abs(end.mean(0) - mean) < 4.5 * deviation / members**0.5 + slack).all()
    error = np.sqrt((covariance**2 + np.outer(deviation, deviation) ** 2) / members)
    slack = 2 / width * covariance.max()
    assert (np.abs(np.cov(end.T) - covariance) < 4.5 * error + slack).all()


def test_weights_move_less_the_wider_the_network(float64):
    """``E|θ_t - θ_0|² = tr(ψΘψ (YYᵀ + K))`` in the limit of width, with which |θ_0|² grows.

    2000 networks; 4.5 standard errors and 4/width.
    """
    dynamics, shares = infinite_ensemble(), []
    values, vectors = dynamics.spectrum.values, dynamics.spectrum.vectors
    start = vectors.T @ (np.outer(Y, Y) + dynamics.nngp) @ vectors
    limit = np.sum(dynamics._solver(STEPS) ** 2 * values * np.diag(start))
    for width in (64, 256):
        _, _, size, moved = trained(net(width), 2000, X, Y, TEST)
        error = moved.std() / 2000**0.5
        assert abs(moved.mean() - limit) < 4.5 * error + 4 / width * limit
        shares.append(np.sqrt(np.mean(moved / size)))
    # Relative movement as width^-1/2: 4 times as wide, half of it; relative error of a root.
    error = np.hypot(1, 1) * (moved / size).std() / (moved / size).mean() / 2 / 2000**0.5
    assert abs(shares[0] / shares[1] / 2 - 1) < 4.5 * error + 4 / 64


def spread(outputs, order):
    """Root mean square over members and points of the deviation over an orbit."""
    folded = outputs.reshape(len(outputs), -1, order)
    return np.sqrt(np.mean(np.var(folded, axis=2)))


def test_networks_that_start_at_zero_are_alone_nearly_invariant(float64):
    """Their deviation over an orbit falls as width^-1/2; that of others stays at the infinite one.

    1000 networks: the exponent's standard error is about 0.02, the next order 1/width.
    """
    turns = groups.plane_rotations(4)
    whole, orbits = groups.augment(X, Y, turns), groups.orbit(TEST, turns)
    options = {"x": whole.x, "y": whole.y, "points": orbits.flat, "rate": RATE / 4}
    dynamics = infinite.EnsembleDynamics(
        net(1), whole.x, whole.y, learning_rate=RATE / 4, evolution="steps"
    )
    line = dynamics.orbit_deviation(orbits.points, (1,), t=STEPS).root_expected_variance[0]
    zero, usual = [], []
    for width in (64, 256):
        for found, network in ((zero, infinite.zero_output(net(width))), (usual, net(width))):
            end = trained(network, 1000, **options)[1][:, len(whole.x) :]
            found.append(spread(end, 4))
    assert np.log(zero[1] / zero[0]) / np.log(4) == pytest.approx(-0.5, abs=0.1)
    assert zero[0] < 0.3 * usual[0]
    np.testing.assert_allclose(usual, line, rtol=0.08)
