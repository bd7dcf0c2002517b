"""Augmented infinite ensembles are equivariant at all times; what must fail without it does."""

import numpy as np
import pytest

from credax import groups, infinite
from credax.errors import InputError

RNG = np.random.default_rng(0)
TIMES = (0.0, 1e-6, 1.0, 1e3, np.inf)


def dense(activation=None, bias_std=0.1, weight_std=2**0.5):
    layer = lambda n: infinite.InfiniteDense(n, weight_std, bias_std)  # noqa: E731
    activation = activation or infinite.ReLU()
    return infinite.serial(layer(8), activation, layer(8), activation, layer(1))


def picture_net(*, head=None, padding="zero", window=(3, 3), stride=1, support=None):
    conv = lambda s: infinite.InfiniteConv(4, window, s, padding, 2**0.5, 0.1, support=support)  # noqa: E731
    relu, head = infinite.ReLU(), head or infinite.Flatten()
    return infinite.serial(
        conv(stride), relu, conv(1), relu, head, infinite.InfiniteDense(1, 2**0.5, 0.1)
    )


SPINS = RNG.choice([-1.0, 1.0], (6, 4, 4))
SPINS[0] = 1.0  # fixed by every turn: a singular Gram matrix
ENERGY = -np.sum(SPINS * (np.roll(SPINS, 1, 1) + np.roll(SPINS, 1, 2)), (1, 2)) / 16
TURNS = groups.quarter_turns(4)
AWAY = RNG.standard_normal((3, 4, 4))


def flat(x):
    return x.reshape(len(x), -1)


class OnFlatInputs:
    """A kernel of flattened lattices."""

    def __init__(self, net):
        self.net = net

    def kernels(self, x1, x2=None):
        return self.net.kernels(flat(x1), None if x2 is None else flat(x2))


def joint_defect(net, representation, x):
    plain = net.kernels(x).ntk
    worst = 0.0
    for g in range(representation.group.order):
        turned = representation.apply(g, x)
        worst = max(worst, np.abs(net.kernels(turned).ntk - plain).max() / np.abs(plain).max())
    return worst


PICTURES = RNG.standard_normal((3, 5, 5, 1))
FIVE = groups.quarter_turns(5, flips=True, channels=1)
SHIFTS = groups.shifts(5, 5, channels=1)


@pytest.mark.parametrize(
    ("net", "representation"),
    [
        (picture_net(), FIVE),
        (picture_net(padding="valid"), FIVE),
        (picture_net(padding="circular"), FIVE),
        (picture_net(padding="circular"), SHIFTS),
        (picture_net(head=infinite.GlobalAveragePool(), padding="circular"), SHIFTS),
        (picture_net(head=infinite.GlobalAveragePool()), FIVE),
        (picture_net(stride=2), FIVE),
        (infinite.serial(infinite.Flatten(), *dense().layers), FIVE),
    ],
)
def test_kernels_are_jointly_invariant(net, representation):
    assert joint_defect(net, representation, PICTURES) < 1e-13


@pytest.mark.parametrize(
    ("net", "representation"),
    [
        (picture_net(window=(2, 2)), FIVE),
        (picture_net(stride=2, padding="zero", window=(2, 2)), FIVE),
        (picture_net(support=((1, 1, 0), (1, 1, 0), (0, 0, 0))), FIVE),
        (picture_net(), SHIFTS),
        (picture_net(), groups.picture_rotations(5, 8)),
    ],
)
def test_what_breaks_the_joint_invariance_is_seen(net, representation):
    assert joint_defect(net, representation, PICTURES) > 1e-3


def test_rotations_of_space_leave_dense_kernels_alone():
    space = groups.conjugate(
        groups.vectors(groups.octahedral_matrices()), groups.random_rotations(RNG, 1)[0]
    )
    assert joint_defect(dense(), space, RNG.standard_normal((5, 3))) < 1e-13


def test_the_group_permutes_the_augmented_gram_matrix():
    whole = groups.augment(SPINS, ENERGY, TURNS)
    gram = dense().kernels(flat(whole.x)).ntk
    for moved in whole.permutation:
        gap = np.abs(gram[np.ix_(moved, moved)] - gram).max()
        assert gap < 1e-13 * np.abs(gram).max()


def spread(dynamics, representation, points, time):
    """The largest deviation over orbits of the mean, over the size of its terms."""
    found = groups.orbit(points, representation)
    mean = found.fold(dynamics.mean(found.flat, time))
    cross = np.abs(dynamics.kernel.kernels(points, dynamics.x).ntk)
    vectors, solver = dynamics.spectrum.vectors, dynamics._solver(time)
    weights = np.abs(vectors @ (solver[:, None] * (vectors.T @ dynamics.y)))
    return np.abs(mean - mean[:, :1]).max() / max((cross @ weights).max(), 1e-300)


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("evolution", ["flow", "steps"])
def test_the_mean_is_invariant_at_all_times_on_and_off_the_data(time, evolution):
    time = time if np.isinf(time) or evolution == "flow" else float(int(time))
    whole = groups.augment(SPINS, ENERGY, TURNS)
    dynamics = infinite.EnsembleDynamics(
        OnFlatInputs(dense()), whole.x, whole.y, learning_rate=0.01, evolution=evolution
    )
    bound = 1e-12 if not np.isinf(time) else max(1e-12, dynamics.condition * 1e-15)
    assert spread(dynamics, TURNS, SPINS, time) <= bound
    assert spread(dynamics, TURNS, AWAY, time) <= bound


@pytest.mark.parametrize("rows", ["none", "half"])
def test_without_the_whole_orbit_invariance_fails(rows):
    whole = groups.augment(SPINS, ENERGY, TURNS)
    kept = np.arange(len(whole.x)) % 4 < (1 if rows == "none" else 2)
    dynamics = infinite.EnsembleDynamics(
        OnFlatInputs(dense()), whole.x[kept], whole.y[kept], learning_rate=0.01
    )
    assert spread(dynamics, TURNS, AWAY, 1e3) > 1e-3


@pytest.mark.parametrize("evolution", ["flow", "steps"])
@pytest.mark.parametrize("loss", ["half_sum", "half_mean", "mean", "per_example"])
def test_orbit_reduction_equals_full_augmentation(evolution, loss):
    kernel = OnFlatInputs(dense())
    whole = groups.augment(SPINS, ENERGY, TURNS)
    options = {"learning_rate": 0.01, "evolution": evolution, "loss": loss}
    full = infinite.EnsembleDynamics(kernel, whole.x, whole.y, **options)
    reduced = infinite.EnsembleDynamics(
        groups.GroupAveraged(kernel, TURNS), SPINS, ENERGY, **options
    )
    for time in (0, 1, 1000):
        wanted = full.mean(AWAY, time)
        np.testing.assert_allclose(reduced.mean(AWAY, time), wanted, atol=1e-10)
    with pytest.raises(InputError, match="mean only"):
        reduced.covariance(AWAY, t=1.0)
    least = groups.GroupAveraged(kernel, TURNS, canonical=True)
    exact = infinite.EnsembleDynamics(least, SPINS, ENERGY, **options)
    orbits = groups.orbit(AWAY, TURNS)
    mean = orbits.fold(exact.mean(orbits.flat, 10))
    np.testing.assert_array_equal(mean, np.broadcast_to(mean[:, :1], mean.shape))
    np.testing.assert_allclose(exact.mean(AWAY, 10), full.mean(AWAY, 10), atol=1e-10)


@pytest.mark.parametrize("turned", [False, True])
def test_vectors_turn_with_their_inputs(turned):
    space = groups.vectors(groups.octahedral_matrices())
    if turned:
        space = groups.conjugate(space, groups.random_rotations(RNG, 1)[0])
    pair = groups.direct_sum(space, space)
    x = RNG.standard_normal((4, 6))
    y = np.cross(x[:, :3], x[:, 3:])
    whole = groups.augment(x, y, pair, space)
    points = RNG.standard_normal((2, 6))
    full = infinite.EnsembleDynamics(dense(), whole.x, whole.y, learning_rate=0.01)
    reduced = infinite.EnsembleDynamics(
        groups.GroupAveraged(dense(), pair, space), x, y, learning_rate=0.01
    )
    for time in (0.0, 1.0, 100.0):
        mean = full.mean(points, time)
        np.testing.assert_allclose(reduced.mean(points, time), mean, atol=1e-10)
        for g in (1, 7, 23):
            moved = full.mean(pair.apply(g, points), time)
            np.testing.assert_allclose(moved, space.apply(g, mean), atol=1e-11)
    plain = infinite.EnsembleDynamics(dense(), x, y, learning_rate=0.01)
    gap = plain.mean(pair.apply(7, points), 100.0) - space.apply(7, plain.mean(points, 100.0))
    assert np.abs(gap).max() > 1e-2


def test_the_law_of_the_orbit_spread():
    """Sampled ensembles: mean orbit variance tr(PC)/(|G|M) within 4.5 standard errors."""
    whole = groups.augment(SPINS, ENERGY, TURNS)
    dynamics = infinite.EnsembleDynamics(
        OnFlatInputs(dense()), whole.x, whole.y, learning_rate=0.01
    )
    orbits = groups.orbit(AWAY, TURNS)
    sizes = (1, 4, 16)
    curve = dynamics.orbit_deviation(orbits.points, sizes, t=5.0)
    for size, line, band in zip(sizes, curve.root_expected_variance, curve.quantiles, strict=True):
        ensembles = 4000 // size
        draws = dynamics.sample(size, orbits.flat, members=ensembles * size, t=5.0)
        fitted = draws.reshape(ensembles, size, -1, 1).mean(1)
        variance = orbits.fold(fitted)[..., 0].var(-1).mean(-1)
        error = variance.std() / ensembles**0.5
        assert abs(variance.mean() - line**2) < 4.5 * error
        inside = np.mean((variance > band[0] ** 2) & (variance < band[2] ** 2))
        assert abs(inside - 0.9) < 4.5 * (0.09 / ensembles) ** 0.5 + 0.01
    slope = np.polyfit(np.log(sizes), np.log(curve.root_expected_variance), 1)[0]
    assert slope == pytest.approx(-0.5, abs=1e-12)
