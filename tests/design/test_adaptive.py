"""Adaptive design: the exact path of working memory, and four ways to believe."""

import jax
import numpy as np
import pytest
from design_models import linear

from credax import design
from credax.design.beliefs.belief import NONE

MEMORY = design.working_memory()
SEEN = design.Experiments(np.array([5.0, 7.0, 9.0]), np.array([1, 1, 0]))


def test_the_greedy_path_of_a_person_who_remembers_five():
    """Lengths, their expected information, and the posterior after each outcome."""
    found = design.adapt(MEMORY, lambda length: int(length < 6), 10)
    assert [int(each.design) for each in found] == [7, 6, 5, 6, 5, 6, 5, 6, 5, 6]
    gains = [each.recommendation.information.exact.max() for each in found]
    expected = [0.231138, 0.174755, 0.148229, 0.109264, 0.096046, 0.077829, 0.070029, 0.060002,
                0.054907, 0.048672]  # fmt: skip
    np.testing.assert_allclose(gains, expected, atol=1e-6)
    means = [5.7886, 4.9852, 5.6830, 5.2435, 5.6300, 5.3367, 5.5999, 5.3819, 5.5808, 5.4081]
    stds = [1.5914, 1.3919, 1.1298, 1.0276, 0.9070, 0.8444, 0.7750, 0.7322, 0.6864, 0.6551]
    np.testing.assert_allclose([float(each.belief.mean) for each in found], means, atol=6e-5)
    np.testing.assert_allclose([float(each.belief.std) for each in found], stds, atol=6e-5)


def test_particles_agree_with_the_grid():
    """Within 4 standard errors of as many independent draws as count."""
    exact = design.believe(MEMORY, SEEN)
    found = design.believe(MEMORY, SEEN, belief="particles", key=1)
    assert found.effective is not None
    error = float(exact.std) / np.sqrt(found.effective)
    assert abs(float(found.mean) - float(exact.mean)) < 4 * error
    assert abs(float(found.std) - float(exact.std)) < 4 * error
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=0.05)


def test_particles_are_resampled_when_few_count():
    """After 30 outcomes of y = 3 θ + ε the posterior is 16 times narrower than the prior."""
    y = np.full(30, 1.5)
    seen = design.Experiments(np.full(30, 3.0), y)
    found = design.believe(linear(), seen, belief="particles")
    precision = 1 + 30 * 9
    assert found.effective > 2000
    assert float(found.mean) == pytest.approx(3 * y.sum() / precision, abs=4 / 271**0.5 / 40)
    assert float(found.std) == pytest.approx(precision**-0.5, rel=0.1)


@pytest.mark.parametrize("kind", ["laplace", "variational"])
def test_gaussians_of_a_gaussian_are_exact(kind):
    seen = design.Experiments(np.array([3.0]), np.array([2.0]))
    found = design.believe(linear(), seen, belief=kind)
    assert float(found.mean) == pytest.approx(0.6, abs=0.01)
    assert float(found.std) == pytest.approx(0.1**0.5, abs=0.01)
    evidence = -0.5 * (np.log(2 * np.pi * 10) + 4 / 10)
    assert found.log_evidence == pytest.approx(evidence, abs=0.01)
    draws = jax.vmap(found.model.prior_sample)(jax.random.split(jax.random.key(0), 4000))
    assert float(draws.mean()) == pytest.approx(0.6, abs=0.02)


def test_bad_input(refused):
    refused(lambda: design.adapt(MEMORY, lambda length: 2, 1), "outcome is 2; those of working")
    refused(lambda: design.adapt(MEMORY, lambda length: [1, 0], 1), r"outcome has shape \(2,\)")
    refused(lambda: design.adapt(MEMORY, lambda length: 1, 0), "rounds is 0")
    refused(lambda: design.believe(MEMORY, NONE, belief="gird"), "did you mean 'grid'")
    refused(lambda: design.models.get("memory"), "unknown model")
