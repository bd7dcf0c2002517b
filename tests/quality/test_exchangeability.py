"""Exchangeable units pass, sorted ones do not; Kendall's tau against SciPy; the observer of fit."""

import jax
import numpy as np
import pytest
from scipy import stats

import credax as cx
from credax.errors import InputError
from credax.quality import (
    KendallTracker,
    compare_units,
    effective_draws,
    holm,
    index_test,
    kendall_tau,
    maximum_mean_discrepancy,
    row_test,
    unit_ranks,
    unit_rows,
)

pytestmark = pytest.mark.slow


def weights(seed, members=60, units=6, inputs=4):
    return np.random.default_rng(seed).standard_normal((members, units, inputs))


def sort_units(rows):
    order = np.argsort(-rows.max(-1), axis=1)
    return np.take_along_axis(rows, order[:, :, None], axis=1)


def test_all_mass_on_one_index():
    rows = np.zeros((720, 16, 3))
    rows[:, 5, 1] = 1
    result = index_test(rows)
    assert result.statistic == pytest.approx(15 * 720)
    assert result.counts.tolist() == [0] * 5 + [720] + [0] * 10
    assert result.null == "chi-square"
    assert result.p_value < 1e-100


def test_few_networks_get_multinomial_draws_that_agree_with_the_exact_law():
    rows = np.zeros((6, 2, 1))
    rows[:5, 0] = 1
    rows[5, 1] = 1
    result = index_test(rows, draws=20000)
    assert result.null == "multinomial draws"
    exact = 2 * (1 + 6) / 2**6  # five or six heads of six, either side
    error = np.sqrt(exact * (1 - exact) / 20000)
    assert abs(result.p_value - exact) < 4 * error


def test_the_row_statistic_is_the_mean_of_discrepancies():
    rows = weights(0, members=12, units=3)
    _, units, inputs = rows.shape
    flat = rows.reshape(-1, inputs)
    from scipy.spatial.distance import pdist

    from credax.quality import bandwidth_grid

    values = []
    for kernel, metric in (("laplace", "cityblock"), ("gaussian", "euclidean")):
        grid = bandwidth_grid(pdist(flat, metric), 10)
        for unit in range(units):
            others = np.delete(rows, unit, axis=1).reshape(-1, inputs)
            one = maximum_mean_discrepancy(
                rows[:, unit],
                others,
                kernels=[kernel],
                bandwidths=grid,
                permutations=0,
                resamples=0,
                repeats=0,
            )
            values.append(one.unbiased)
    assert row_test(rows, permutations=9).statistic == pytest.approx(np.mean(values), abs=1e-13)


def test_independent_units_pass_and_p_values_are_uniform():
    """200 populations: Kolmogorov-Smirnov p > 1e-3 for both tests' p-values."""
    rng = np.random.default_rng(1)
    index, rows = [], []
    for seed in range(200):
        population = weights(seed, members=16, units=4, inputs=2)
        rows.append(row_test(population, permutations=49, seed=seed).p_value - rng.random() / 50)
        index.append(index_test(weights(seed, 40, 4, 2), seed=seed).p_value)
    assert stats.kstest(rows, "uniform").pvalue > 1e-3
    # The index test's p-values are discrete; they may not be small too often.
    assert np.mean(np.array(index) <= 0.05) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 200)


def test_sorted_units_fail_and_reshuffled_ones_pass():
    rows = sort_units(weights(2))
    assert row_test(rows, permutations=199).p_value == 1 / 200
    assert index_test(rows).p_value < 1e-10
    rng = np.random.default_rng(3)
    mixed = np.stack([one[rng.permutation(len(one))] for one in rows])
    assert row_test(mixed, permutations=199).p_value > 0.02
    assert index_test(mixed).p_value > 0.02


def test_a_chain_that_keeps_its_order_fails_by_draw_and_not_by_chain():
    """Three stuck chains: draw by draw they look unlike chance, chain by chain they may not."""
    rng = np.random.default_rng(4)
    starts = rng.standard_normal((3, 5, 4))
    rows = np.repeat(starts, 20, 0) + 0.01 * rng.standard_normal((60, 5, 4))
    chains = np.repeat(range(3), 20)
    assert index_test(rows).p_value < 1e-6
    assert row_test(rows, permutations=99).p_value == 0.01
    by_chain = row_test(rows, chains=chains, permutations=99)
    assert by_chain.p_value > 0.02
    assert by_chain.chains == 3
    relabelled = index_test(rows, chains=chains)
    assert relabelled.p_value > 0.02
    assert relabelled.null == "3 chains relabelled"


def test_members_are_taken_evenly_where_there_are_many():
    result = row_test(weights(5, members=100, units=4), most_rows=80, permutations=9)
    assert result.members == 20


def test_holm_equals_the_definition():
    p = np.array([0.001, 0.02, 0.03, 0.5])
    assert holm(p) == pytest.approx([0.004, 0.06, 0.06, 0.5])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_effective_draws_of_an_autoregression():
    """x_t = 0.8 x_{t-1} + e: N (1 - 0.8)/(1 + 0.8) draws in the limit."""
    rng = np.random.default_rng(6)
    noise = rng.standard_normal(40000)
    chain = np.zeros_like(noise)
    for t in range(1, len(chain)):
        chain[t] = 0.8 * chain[t - 1] + noise[t]
    assert effective_draws(chain) == pytest.approx(40000 / 9, rel=0.15)
    assert effective_draws(noise) > 20000
    assert effective_draws(np.ones(10)) == 1.0


def test_tau_equals_scipy_and_has_its_ends():
    rng = np.random.default_rng(7)
    for units in (5, 30, 150):
        first = np.argsort(rng.random((34, units)), axis=1)
        second = np.argsort(rng.random((34, units)), axis=1)
        expected = [stats.kendalltau(a, b).statistic for a, b in zip(first, second, strict=True)]
        np.testing.assert_allclose(kendall_tau(first, second), expected, atol=1e-12)
        np.testing.assert_allclose(kendall_tau(first, first), 1)
        np.testing.assert_allclose(kendall_tau(first, units - 1 - first), -1)


def test_tau_is_of_ranks_and_not_of_lists():
    orders = np.array([[3, 1, 2, 0, 4]]), np.array([[3, 1, 0, 2, 4]])
    assert kendall_tau(*(np.argsort(o, axis=1) for o in orders)) == pytest.approx(0.8)
    assert kendall_tau(*orders) == pytest.approx(0.4)


def test_the_tracker_watches_a_training_and_changes_nothing(blobs):
    x, y = blobs
    data = cx.data.Split(x, y)
    problem = cx.Problem(cx.networks.MLP((8, 5), outputs=3), cx.Categorical())
    training = cx.Training(epochs=8, batch_size=10, learning_rate=0.05)
    tracker = KendallTracker(every=7)
    seen = {}

    class Both:
        every = 7

        def __call__(self, step, members):
            seen[step] = jax.tree.map(np.asarray, members)
            tracker(step, members)

    options = {"key": 0, "training": training, "progress": False}
    watched = cx.fit(problem, cx.DeepEnsemble(members=4), data, observer=Both(), **options)
    plain = cx.fit(problem, cx.DeepEnsemble(members=4), data, **options)
    jax.tree.map(np.testing.assert_array_equal, watched.variables, plain.variables)
    assert sorted(seen) == list(range(0, 49, 7))
    steps, _ = tracker.mean("0_dense/kernel")
    assert steps == list(range(7, 49, 7))
    for record in tracker.history:
        assert set(record["tau"]) == {"0_dense/kernel", "1_dense/kernel"}
        before, after = (
            unit_rows(seen[s])["0_dense/kernel"] for s in (record["step"] - 7, record["step"])
        )
        for member in range(4):
            expected = stats.kendalltau(unit_ranks(before)[member], unit_ranks(after)[member])
            assert record["tau"]["0_dense/kernel"][member] == pytest.approx(expected.statistic)


def test_a_population_is_compared_layer_by_layer():
    population = {
        "a/kernel": weights(8).swapaxes(1, 2),
        "b/kernel": weights(9),
        "c/kernel": weights(1),
    }
    population["b/kernel"] = sort_units(population["b/kernel"].swapaxes(1, 2)).swapaxes(1, 2)
    result = compare_units(population, permutations=99)
    assert list(result.rows) == ["a/kernel", "b/kernel"]
    assert result.rejected == ("b/kernel",)
    assert result.adjusted["b/kernel"] == pytest.approx(0.02)


def test_bad_input_is_named():
    with pytest.raises(InputError, match="axes is empty"):
        unit_rows({"w": np.zeros((3, 2, 2))})
    with pytest.raises(InputError, match="rows has shape"):
        row_test(np.zeros((4, 1, 2)))
    with pytest.raises(InputError, match="chains has 2 entries"):
        index_test(np.zeros((4, 2, 2)), chains=[0, 1])
    with pytest.raises(InputError, match="every is 0"):
        KendallTracker(every=0)
    with pytest.raises(InputError, match="equal shapes"):
        kendall_tau(np.zeros((1, 3)), np.zeros((1, 4)))
