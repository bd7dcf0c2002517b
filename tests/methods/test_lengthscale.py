"""Metrics of input directions: the two mixes, both ways to keep them, and what truncation costs."""

import jax.numpy as jnp
import numpy as np
import pytest

from credax.data import Split
from credax.data.pca import principal_components, second_moment
from credax.errors import InputError
from credax.methods.repulsive.kernels import distances_from_gram
from credax.methods.repulsive.lengthscale import (
    DenseMetric,
    Factored,
    Graph,
    Identity,
    _outside,
    check_share,
    dense_metric,
    metric_from,
    mix_spectrum,
)

INPUTS = 9


def truncation_error(components, share=1.0, mixing="inverse", residual="drop", unit_spectrum=False):
    """Bound on the change of a squared distance between unit vectors by the rank's cut."""
    if share == 0 or len(components.values) == components.dimension:
        return 0.0
    following, last = _outside(components, share, mixing, unit_spectrum)
    return float(2 * (following - last) if residual == "mean" else 4 * following)


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(0)
    x = (
        rng.normal(size=(50, INPUTS))
        * np.geomspace(3, 0.1, INPUTS)
        @ np.linalg.qr(rng.normal(size=(INPUTS, INPUTS)))[0]
    )
    return Split(x, np.zeros(50, int))


def matrix_of(metric, inputs=INPUTS):
    """The matrix behind a metric, from its two coordinates of the unit vectors."""
    left, right = metric.project(jnp.eye(inputs))
    return np.asarray(left @ right.T)


def lifted(metric, inputs=INPUTS):
    """The same matrix by the way back."""
    return np.asarray(metric.lift(metric.project(jnp.eye(inputs))[1]))


def distances(metric, a, b):
    difference = a - b
    return np.einsum("nd,de,ne->n", difference, matrix_of(metric), difference)


def test_shares_zero_and_one_are_identity_and_pca_in_both_mixes(float64, split):
    whole, moment = principal_components(split), second_moment(split)
    for mixing in ("inverse", "linear"):
        assert isinstance(metric_from(whole, 0.0, mixing), Identity)
        np.testing.assert_allclose(
            matrix_of(dense_metric(moment, 0.0, mixing)), np.eye(INPUTS), atol=1e-12
        )
        for metric in (metric_from(whole, 1.0, mixing), dense_metric(moment, 1.0, mixing)):
            np.testing.assert_allclose(matrix_of(metric), moment, atol=1e-12)


@pytest.mark.parametrize("mixing", ["inverse", "linear"])
def test_mixes_are_their_formulas(float64, split, mixing):
    """``Sigma = a Lambda^-1 + (1 - a) I`` inverted (the paper), or ``(1 - a) I + a Lambda``."""
    a, moment = 0.3, second_moment(split)
    if mixing == "inverse":
        exact = np.linalg.inv(a * np.linalg.inv(moment) + (1 - a) * np.eye(INPUTS))
    else:
        exact = (1 - a) * np.eye(INPUTS) + a * moment
    for metric in (
        metric_from(principal_components(split), a, mixing),
        dense_metric(moment, a, mixing),
    ):
        np.testing.assert_allclose(matrix_of(metric), exact, atol=1e-10)
        np.testing.assert_allclose(lifted(metric), exact, atol=1e-10)


def test_a_mix_is_finite_where_the_spectrum_vanishes():
    values = np.array([2.0, 0.0])
    assert mix_spectrum(values, 0.4, "inverse").tolist() == [2 / (0.4 + 1.2), 0.0]
    assert mix_spectrum(values, 0.4, "linear").tolist() == [0.6 + 0.8, 0.6]
    assert mix_spectrum(values, 0.0, "inverse").tolist() == [1.0, 1.0]


def test_unit_spectrum_measures_eigenvalues_by_their_mean(float64, split):
    whole = principal_components(split)
    scaled = metric_from(whole, 0.3, "inverse", unit_spectrum=True)
    bigger = Split(100 * split.x, split.y)
    same = metric_from(principal_components(bigger), 0.3, "inverse", unit_spectrum=True)
    np.testing.assert_allclose(matrix_of(scaled), matrix_of(same), atol=1e-10)
    plain = metric_from(whole, 0.3, "inverse")
    assert np.abs(matrix_of(plain) - matrix_of(scaled)).max() > 1e-2


@pytest.mark.parametrize("share", [1.0, 0.4])
@pytest.mark.parametrize("mixing", ["inverse", "linear"])
@pytest.mark.parametrize("residual", ["drop", "mean"])
def test_truncation_bounds_hold_and_are_tight(float64, split, share, mixing, residual):
    """|d2 - d2_r| <= 4 w_(r+1), or 2 (w_(r+1) - w_D) with the mean kept, on unit vectors."""
    whole = principal_components(split)
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 4000, INPUTS))
    # The worst case: opposite unit vectors along the first and the last direction left out.
    extreme = np.stack([whole.vectors[:, 4], whole.vectors[:, -1]])
    a, b = np.concatenate([a, extreme]), np.concatenate([b, -extreme])
    a, b = (u / np.linalg.norm(u, axis=1, keepdims=True) for u in (a, b))
    cut = whole.truncate(4)
    exact = distances(metric_from(whole, share, mixing), a, b)
    error = np.abs(exact - distances(metric_from(cut, share, mixing, residual), a, b))
    bound = truncation_error(cut, share, mixing, residual)
    assert error.max() <= bound * (1 + 1e-9)
    assert error.max() > 0.99 * bound
    assert truncation_error(whole, share, mixing, residual) == 0
    scaled = truncation_error(cut, 1.0, mixing, residual, unit_spectrum=True)
    np.testing.assert_allclose(
        scaled * whole.total / INPUTS, truncation_error(cut, 1.0, mixing, residual)
    )


def test_few_components_become_factors_and_most_a_matrix(float64, split):
    whole = principal_components(split)
    few, most = metric_from(whole.truncate(4)), metric_from(whole.truncate(6))
    assert isinstance(few, Factored)
    assert isinstance(most, DenseMetric)
    for rank, metric in ((4, few), (6, most)):
        vectors = whole.vectors[:, :rank]
        np.testing.assert_allclose(
            matrix_of(metric), (vectors * whole.values[:rank]) @ vectors.T, atol=1e-12
        )
        np.testing.assert_allclose(lifted(metric), matrix_of(metric), atol=1e-12)
        np.testing.assert_allclose(
            metric.mean_weight(INPUTS), np.trace(matrix_of(metric)) / INPUTS, rtol=1e-12
        )


def test_graph_adds_a_coordinate_of_the_mean_weight(float64, split):
    whole = principal_components(split)
    for residual in ("drop", "mean"):
        inner = metric_from(whole.truncate(4), residual=residual)
        graph = matrix_of(Graph(inner), INPUTS + 1)
        np.testing.assert_allclose(graph[:-1, :-1], matrix_of(inner), atol=1e-12)
        np.testing.assert_allclose(graph[-1, -1], np.trace(matrix_of(inner)) / INPUTS)
        assert not graph[-1, :-1].any()
        np.testing.assert_allclose(lifted(Graph(inner), INPUTS + 1), graph, atol=1e-12)


def test_gram_distances_against_differences_in_single_precision():
    """Absolute error at most 1e-5 of the greatest weight, never negative, zero to oneself."""
    rng = np.random.default_rng(2)
    members, batch, inputs = 6, 8, 300
    s = rng.normal(size=(members, batch, inputs))
    s /= np.linalg.norm(s, axis=-1, keepdims=True)
    s[1] = s[0] + 1e-4 * rng.normal(size=(batch, inputs))
    turn = np.linalg.qr(rng.normal(size=(inputs, inputs)))[0]
    weights = np.geomspace(846, 1e-3, inputs)
    q = s @ turn * np.sqrt(weights)
    exact = np.square(q[:, None] - q[None]).sum(-1)
    matrix = jnp.asarray((turn * weights) @ turn.T, jnp.float32)
    factors = Factored(jnp.asarray(turn, jnp.float32), jnp.asarray(weights, jnp.float32))
    for metric in (DenseMetric(matrix), factors):
        left, right = metric.project(jnp.asarray(s, jnp.float32))
        d2 = np.asarray(distances_from_gram(jnp.einsum("ibd,jbd->ijb", left, right)))
        assert np.abs(d2 - exact).max() < 1e-5 * weights.max()
        assert d2.min() >= 0
        assert not np.einsum("iib->ib", d2).any()


@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan")])
def test_a_share_lies_between_zero_and_one(value):
    with pytest.raises(InputError, match="lengthscale is"):
        check_share(value)
    assert check_share(1) == 1.0
