"""MMD against recorded numbers, closed forms, other routes, and the distribution of its p-value."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

from credax.errors import InputError
from credax.quality import (
    KERNELS,
    as_blocks,
    bandwidth_grid,
    distances_by_array,
    maximum_mean_discrepancy,
)
from credax.quality.kernels import distance_for

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "mmd.npz")
CASES = sorted({name.split("/")[0] for name in GOLDEN.files})
PLAIN = {"permutations": 0, "resamples": 0, "repeats": 0}


@pytest.mark.parametrize("case", CASES)
def test_golden_values(case):
    x, y = GOLDEN[f"{case}/X"], GOLDEN[f"{case}/Y"]
    checked = 0
    for name in (n for n in GOLDEN.files if n.startswith(case) and n.endswith("bandwidths")):
        grid, kernel = name.split("/")[1:3]
        result = maximum_mean_discrepancy(
            x, y, kernels=[kernel], bandwidths=len(GOLDEN[name]), **PLAIN
        )
        np.testing.assert_allclose(result.bandwidths[kernel], GOLDEN[name], rtol=1e-10)
        expected = GOLDEN[f"{case}/{grid}/{kernel}/mmd2_unbiased"]
        np.testing.assert_allclose(result.values[kernel], expected, atol=1e-12, rtol=0)
        checked += 1
    assert checked == 14
    for kernel in ("gaussian", "laplace"):
        for h, unbiased, biased in zip(
            GOLDEN[f"{case}/grid_free"],
            GOLDEN[f"{case}/free/{kernel}/mmd2_unbiased"],
            GOLDEN[f"{case}/free/{kernel}/mmd2_biased"],
            strict=True,
        ):
            result = maximum_mean_discrepancy(x, y, kernels=[kernel], bandwidths=[h], **PLAIN)
            np.testing.assert_allclose(result.unbiased, unbiased, atol=1e-12, rtol=0)
            np.testing.assert_allclose(result.biased, biased, atol=1e-12, rtol=0)


def test_a_case_by_hand():
    x, y = np.array([[0.0], [1], [3]]), np.array([[2.0], [4]])
    for kernel, unbiased, biased in (
        ("gaussian", -0.15742629383907225, 0.35284738015246075),
        ("laplace", -0.08158609304918407, 0.43474749069481633),
    ):
        result = maximum_mean_discrepancy(x, y, kernels=[kernel], bandwidths=[2.0], **PLAIN)
        assert result.unbiased == pytest.approx(unbiased, abs=1e-15)
        assert result.biased == pytest.approx(biased, abs=1e-15)


def test_the_mean_is_the_populations_value():
    """E of the unbiased Gaussian MMD between N(0, I) and N((1,0), I) is 0.0725076988 at h = 1."""
    rng = np.random.default_rng(0)
    values = [
        maximum_mean_discrepancy(
            rng.standard_normal((60, 2)),
            rng.standard_normal((60, 2)) + np.array([1.0, 0.0]),
            kernels=["gaussian"],
            bandwidths=[1.0],
            **PLAIN,
        ).unbiased
        for _ in range(200)
    ]
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    assert error < 0.003
    assert abs(np.mean(values) - 0.0725076988) < 4 * error


@pytest.fixture(scope="module")
def populations():
    rng = np.random.default_rng(1)

    def arrays(members, shift):
        return {
            "a": rng.standard_normal((members, 3, 4)) + shift,
            "b": 10 * rng.standard_normal((members, 5)),
            "c": rng.standard_normal((members, 1)),
        }

    return arrays(17, 0.3), arrays(23, 0.0)


@pytest.mark.parametrize("block_entries", [1, 80, 123, 10**6])
def test_any_blocking_gives_the_dense_sums(populations, block_entries):
    x, y = populations
    dense = [np.concatenate([p[n].reshape(len(p[n]), -1) for n in p], 1) for p in (x, y)]
    rows = np.concatenate(dense)
    blocks = as_blocks(x), as_blocks(y)
    parts = dict(distances_by_array(*blocks, block_entries=block_entries))
    whole = sum(list(parts.values())[1:], start=parts["a"])
    np.testing.assert_allclose(whole.absolute, cdist(rows, rows, "cityblock"), rtol=1e-10)
    squared = cdist(rows, rows, "sqeuclidean")
    np.testing.assert_allclose(whole.squared, squared, rtol=1e-10, atol=1e-10)
    assert set(parts) == {"a", "b", "c"}
    result = maximum_mean_discrepancy(x, y, block_entries=block_entries, **PLAIN)
    joined = maximum_mean_discrepancy(*dense, **PLAIN)
    assert result.unbiased == pytest.approx(joined.unbiased, abs=1e-10)
    assert result.coordinates == 18
    alone = maximum_mean_discrepancy(x["b"], y["b"], **PLAIN)
    assert result.per_array["b"].unbiased == pytest.approx(alone.unbiased, abs=1e-12)


def test_order_of_members_does_not_matter(populations):
    x, y = populations
    rng = np.random.default_rng(2)
    orders = rng.permutation(17), rng.permutation(23)
    shuffled = [{n: a[o] for n, a in p.items()} for p, o in zip(populations, orders, strict=True)]
    first = maximum_mean_discrepancy(x, y, **PLAIN)
    assert maximum_mean_discrepancy(*shuffled, **PLAIN).unbiased == pytest.approx(
        first.unbiased, abs=1e-13
    )


def test_a_sample_of_coordinates_is_unbiased(populations):
    x, y = map(as_blocks, populations)
    whole = sum(d.absolute[0, 20] for _, d in distances_by_array(x, y))
    draws = [
        sum(d.absolute[0, 20] for _, d in distances_by_array(x, y, coordinates=9, seed=s))
        for s in range(400)
    ]
    error = np.std(draws, ddof=1) / 20
    assert 0 < error < 0.1 * whole
    assert abs(np.mean(draws) - whole) < 4 * error


def _simplex(members, first, dim=160):
    """Basis vectors: all distances equal."""
    return np.eye(dim)[first : first + members]


def test_a_tight_cloud_and_ten_clouds_have_the_values_of_the_specification():
    reference = _simplex(100, 0)
    cloud = np.repeat(_simplex(1, 120), 100, 0)
    one = maximum_mean_discrepancy(cloud, reference, **PLAIN)
    assert one.unbiased == pytest.approx(0.6266, abs=1e-3)
    assert np.mean(one.values["laplace"]) == pytest.approx(0.6312, abs=1e-3)
    assert np.mean(one.values["gaussian"]) == pytest.approx(0.6221, abs=1e-3)
    assert max(map(np.max, one.values.values())) == pytest.approx(0.9817, abs=1e-3)
    ten = np.repeat(_simplex(10, 120), 10, 0)
    multi = maximum_mean_discrepancy(ten, reference, runs=np.repeat(range(10), 10), repeats=0)
    assert multi.unbiased == pytest.approx(0.0570, abs=1e-3)
    # All runs are alike, so resampling runs and references changes nothing.
    assert multi.interval.low == pytest.approx(multi.unbiased, abs=1e-9)
    assert multi.interval.high == pytest.approx(multi.unbiased, abs=1e-9)
    assert multi.interval.runs == 10
    assert multi.p_value == 1 / 2001
    held = maximum_mean_discrepancy(_simplex(30, 120), reference, repeats=0)
    assert held.unbiased == pytest.approx(0, abs=1e-12)


def test_p_values_of_equal_distributions_are_uniform_and_a_shift_is_found():
    """500 equal pairs: Kolmogorov-Smirnov p > 1e-3; a shift of one deviation: power > 0.9."""
    rng = np.random.default_rng(3)
    options = {"permutations": 99, "resamples": 0, "repeats": 0}

    def p_value(shift, size):
        x, y = rng.standard_normal((size, 2)), rng.standard_normal((size, 2))
        return maximum_mean_discrepancy(x + np.array([shift, 0]), y, **options).p_value

    same = np.array([p_value(0.0, 20) for _ in range(500)])
    # p is one of k/100: spread it over its cell before comparing with the uniform distribution.
    spread = same - rng.random(500) / 100
    assert stats.kstest(spread, "uniform").pvalue > 1e-3
    power = np.mean([p_value(1.0, 100) <= 0.05 for _ in range(40)])
    assert power > 0.9


def test_the_p_value_is_the_share_of_relabellings():
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((3, 1)) + 1.5, rng.standard_normal((4, 1))
    many = maximum_mean_discrepancy(
        x, y, permutations=20000, resamples=0, repeats=0, kernels=["laplace"], bandwidths=[1.0]
    )
    from itertools import combinations

    rows = np.concatenate([x, y])
    values = {}
    for chosen in combinations(range(7), 3):
        others = [i for i in range(7) if i not in chosen]
        values[chosen] = maximum_mean_discrepancy(
            rows[list(chosen)], rows[others], kernels=["laplace"], bandwidths=[1.0], **PLAIN
        ).unbiased
    exact = np.mean([v >= values[(0, 1, 2)] - 1e-12 for v in values.values()])
    error = np.sqrt(exact * (1 - exact) / 20000)
    assert abs(many.p_value - exact) < 4 * error + 1 / 20001


def test_the_interval_covers_zero_for_networks_of_one_law():
    """Nominal 95 %: over 100 draws at least 85 intervals hold 0 (binomial error 2.2)."""
    rng = np.random.default_rng(5)
    inside = 0
    for seed in range(100):
        x, y = rng.standard_normal((30, 3)), rng.standard_normal((60, 3))
        result = maximum_mean_discrepancy(x, y, permutations=0, repeats=0, resamples=200, seed=seed)
        inside += result.interval.low <= 0 <= result.interval.high
    assert inside >= 85


def test_duplicates_do_not_push_the_bootstrap_up():
    rng = np.random.default_rng(6)
    x, y = rng.standard_normal((25, 40)), rng.standard_normal((40, 40)) + 0.5
    result = maximum_mean_discrepancy(x, y, permutations=0, repeats=0, resamples=3000)
    centre = (result.interval.low + result.interval.high) / 2
    assert abs(centre - result.unbiased) < 0.3 * result.interval.deviation


def test_equal_sizes_take_subsets_of_the_reference():
    rng = np.random.default_rng(7)
    x, y = rng.standard_normal((20, 4)), rng.standard_normal((200, 4))
    result = maximum_mean_discrepancy(x, y, permutations=0, resamples=0, repeats=400)
    assert result.equal_sizes.size == 20
    error = result.equal_sizes.deviation / 20
    assert abs(result.equal_sizes.mean - result.unbiased) < 4 * error


def test_kernels_are_one_at_zero_and_the_grid_has_its_ends():
    for name, kernel in KERNELS.items():
        assert kernel.profile(np.zeros(1))[0] == pytest.approx(1, abs=1e-15), name
    grid = bandwidth_grid(np.array([0.01, 5.0, 2.0]), 10)
    assert grid[0] == pytest.approx(0.05)
    assert grid[-1] == pytest.approx(10)
    assert (distance_for("gaussian", next(distances_by_array(as_blocks(np.eye(2))))[1])[0, 1]) ** 2


def test_what_cannot_be_compared_is_named(populations):
    x, y = populations
    with pytest.raises(InputError, match="array 'c' has 1 coordinates in x and no in y"):
        maximum_mean_discrepancy(x, {n: y[n] for n in "ab"})
    with pytest.raises(InputError, match="needs two of each"):
        maximum_mean_discrepancy(np.zeros((1, 2)), np.zeros((5, 2)))
    bad = np.zeros((5, 2))
    bad[3, 1] = np.nan
    with pytest.raises(InputError, match="member 3 of y is not finite in x"):
        maximum_mean_discrepancy(np.zeros((4, 2)), bad)
    with pytest.raises(InputError, match="kernel"):
        maximum_mean_discrepancy(np.eye(2), np.eye(2), kernels=["cauchy"])
    with pytest.raises(InputError, match="coordinates is 9"):
        maximum_mean_discrepancy(np.eye(2), np.eye(2), coordinates=9)
    with pytest.raises(InputError, match="runs has 3 entries"):
        maximum_mean_discrepancy(np.eye(2), np.eye(2), runs=[0, 1, 2])
