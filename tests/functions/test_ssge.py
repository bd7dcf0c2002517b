"""Scores from draws: recorded digits, a Gaussian whose score is known, eigenvectors that count."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax.functions import spectral_score
from credax.functions.ssge import kernel_matrix, median_distances

POINTS = np.array([-1.5, -0.5, 0.0, 0.7, 1.6])[:, None]
WHERE = np.array([-1.0, 0.0, 1.0])[:, None]
RECORDED = {
    0.6: (1, [0.00029585, 0.00035957, 0.00030816]),
    0.9: (2, [0.90458249, 0.06887693, -0.84345914]),
    0.99: (3, [0.91867431, 0.03896012, -0.83801331]),
}


@pytest.mark.parametrize("threshold", list(RECORDED))
def test_five_points_by_hand(threshold, float64):
    """A width that counts pairs of a point with itself would be 1.0, not 1.35."""
    count, values = RECORDED[threshold]
    score = spectral_score(jnp.asarray(POINTS), threshold)
    assert int(score.kept) == count
    assert float(score.widths[0]) == pytest.approx(1.35, abs=1e-12)
    eigenvalues = [3.37848474, 1.21273318, 0.36348626, 0.04400950, 0.00128632]
    np.testing.assert_allclose(score.values, eigenvalues, atol=5e-9)
    np.testing.assert_allclose(score(jnp.asarray(WHERE))[:, 0], values, atol=5e-9)
    np.testing.assert_allclose(score.at_draws(), score(score.draws), atol=1e-12)


def test_the_score_is_the_sum_over_eigenfunctions(float64):
    """``Σ β_j ψ_j`` with gradients by automatic differentiation, in three dimensions."""
    draws = jnp.asarray(np.random.default_rng(0).normal(size=(7, 3)))
    score = spectral_score(draws, 0.95)
    number = int(score.kept)

    def features(x):
        kernel = kernel_matrix(x[None], draws, score.widths)[0]
        return np.sqrt(7) * kernel @ score.vectors[:, :number] / score.values[:number]

    slopes = -jnp.mean(jax.vmap(jax.jacfwd(features))(draws), axis=0)
    expected = jnp.stack([features(x) @ slopes for x in draws])
    np.testing.assert_allclose(score(draws), expected, atol=1e-10)


def test_medians_are_those_of_all_pairs(float64):
    for count in (2, 5, 12):  # pairs: one, an even and an odd number with ties
        draws = np.random.default_rng(count).normal(size=(count, 3)).round(1)
        first, second = np.triu_indices(count, 1)
        exact = np.median(np.abs(draws[first] - draws[second]), axis=0)
        np.testing.assert_allclose(median_distances(jnp.asarray(draws)), exact, atol=1e-12)


def error(count, seed):
    covariance = np.array([[1.0, 0.5], [0.5, 1.0]])
    draws = np.random.default_rng(seed).multivariate_normal(np.zeros(2), covariance, count)
    exact = -np.linalg.solve(covariance, draws.T).T
    inside = np.einsum("nd,nd->n", draws, -exact) < 4
    found = np.asarray(spectral_score(jnp.asarray(draws, jnp.float32)).at_draws())
    gap = np.linalg.norm((found - exact)[inside], axis=1)
    return np.linalg.norm(gap) / np.linalg.norm(exact[inside])


def test_the_error_on_gaussian_draws_falls():
    """Relative error within two deviations; the estimator itself has .27 at 500 draws."""
    errors = {count: np.median([error(count, seed) for seed in range(4)]) for count in (100, 500)}
    errors[2000] = error(2000, 0)
    assert errors[500] < 0.4
    assert errors[2000] < 0.2
    assert errors[100] > errors[500] > errors[2000]


def test_the_number_of_eigenvectors_is_found_at_each_call():
    """In one compiled program: draws in a line need fewer than draws in a cloud."""
    count = jax.jit(lambda draws: spectral_score(draws).kept)
    cloud = jax.random.normal(jax.random.key(0), (30, 4))
    line = cloud[:, :1] * jnp.ones(4)
    found = [int(count(draws)) for draws in (line, cloud, line)]
    assert found[0] == found[2] < found[1]


def test_one_draw_is_refused(refused):
    refused(lambda: spectral_score(jnp.zeros((1, 2))), "there are 1 draws")
