"""Orbits of C_n in place of SO(2): which angular modes are left, how large, and how fast they die.

On a circle of radius ``r`` the augmented mean is ``Σ_j Σ_h Θ(x(φ), R_h x_j) c_j``. Turning ``x_j``
by ``2πh/n`` shifts the angle, so mode ``m`` is ``n Σ_j T_j[m] c_j`` where ``n`` divides ``m`` and
zero elsewhere, with ``T_j`` the Fourier coefficients of ``Θ(x(φ), x_j)``. Hence the deviation over
angles is at most ``√2`` times the root of ``Σ_k (n Σ_j |T_j[kn] c_j|)²``; the phases of the ``T_j``
decide how much below it is, so that no factor holds at each doubling. What holds is the decay
of ``T_j``.
"""

import numpy as np
import pytest
from scipy.optimize import brentq

from credax import groups, infinite

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((6, 2)), RNG.standard_normal(6)
WEIGHT, BIAS, RADIUS, ANGLES = 1.5, 0.5, 1.3, 480
TURN = 2 * np.pi * np.arange(ANGLES) / ANGLES
CIRCLE = RADIUS * np.stack([np.cos(TURN), np.sin(TURN)], -1)
ACTIVATIONS = {"erf": infinite.Erf(), "relu": infinite.ReLU(), "gelu": infinite.GELU()}


def net(name):
    layer, activation = infinite.InfiniteDense(8, WEIGHT, BIAS), ACTIVATIONS[name]
    return infinite.serial(
        layer, activation, layer, activation, infinite.InfiniteDense(1, WEIGHT, BIAS)
    )


def fourier(values):
    """Coefficients of ``e^{imφ}`` for ``m`` from zero up."""
    return np.fft.rfft(values, axis=0) / ANGLES


def augmented(name, order):
    dynamics = infinite.EnsembleDynamics(
        groups.GroupAveraged(net(name), groups.plane_rotations(order)), X, Y
    )
    vectors = dynamics.spectrum.vectors
    weights = vectors @ (dynamics._solver(3.0) * (vectors.T @ Y))
    return dynamics.mean(CIRCLE, 3.0)[:, 0], weights


@pytest.mark.parametrize("order", [1, 4, 5, 8, 16])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_modes_that_are_left(name, order):
    mean, weights = augmented(name, order)
    modes, plain = fourier(mean), fourier(net(name).kernels(CIRCLE, X).ntk)
    multiples = np.arange(len(modes)) % order == 0
    size = order * np.abs(plain[0]) @ np.abs(weights)
    np.testing.assert_allclose(modes[~multiples], 0, atol=1e-13 * size)
    wanted = order * plain[multiples] @ weights
    np.testing.assert_allclose(modes[multiples], wanted, rtol=0, atol=1e-13 * size)
    # The Nyquist mode is counted once; everything but it twice.
    bound = order * np.abs(plain[multiples][1:]) @ np.abs(weights)
    assert mean.std() <= np.sqrt(2 * np.sum(bound**2)) + 1e-13 * size


def singularity(radius):
    """Where ``Θ(x(iη), x_j)`` of two erf layers stops being analytic: an arcsine of 1."""
    layer = lambda k: WEIGHT**2 * k + BIAS**2  # noqa: E731
    own = [layer(r**2 / 2) for r in (RADIUS, radius)]

    def sine(covariance, q):
        return 2 * covariance / np.sqrt((1 + 2 * q[0]) * (1 + 2 * q[1]))

    def first(height):
        return sine(layer(RADIUS * radius * np.cosh(height) / 2), own)

    next_own = [layer(2 / np.pi * np.arcsin(sine(q, (q, q)))) for q in own]

    def second(height):
        return sine(layer(2 / np.pi * np.arcsin(first(height))), next_own)

    edge = brentq(lambda height: first(height) - 1, 0, 20)
    if second(edge - 1e-12) < 1:
        return edge
    return brentq(lambda height: second(height) - 1, 0, edge - 1e-12)


def test_the_spectrum_of_erf_falls_geometrically_at_the_derived_rate():
    """``T_j[m] ~ m^{-1/2} e^{-ηm}`` at a root singularity of the derivative; its slope to 2 %."""
    plain = np.abs(fourier(net("erf").kernels(CIRCLE, X).ntk))
    for column, radius in zip(plain.T, np.linalg.norm(X, axis=1), strict=True):
        kept = np.flatnonzero(column > 1e-12 * column[0])
        modes = kept[(kept >= 8) & (kept == np.arange(len(kept)))]
        values = np.log(column[modes] * np.sqrt(modes))
        slope = np.polyfit(modes, values, 1)[0]
        assert slope == pytest.approx(-singularity(radius), rel=0.02)


def test_the_group_is_nowhere_further_than_its_covering_radius_allows():
    """``|f(x) - f(ρ(g) x)| ≤ κ |x| max |∇f|``: the nearest element of C_n has the same mean."""
    step = 1e-5
    for order in (4, 8, 16):
        dynamics = infinite.EnsembleDynamics(
            groups.GroupAveraged(net("erf"), groups.plane_rotations(order)), X, Y
        )
        mean = dynamics.mean(CIRCLE, 3.0)[:, 0]
        disc = np.concatenate([share * CIRCLE[::4] for share in np.linspace(0.5, 1, 11)])
        slopes = [
            (dynamics.mean(disc + move, 3.0) - dynamics.mean(disc - move, 3.0)) / (2 * step)
            for move in step * np.eye(2)
        ]
        steepest = np.linalg.norm(np.stack(slopes), axis=0).max()
        bound = groups.covering_radius(order) * RADIUS * steepest
        assert np.abs(mean - mean[0]).max() <= bound
