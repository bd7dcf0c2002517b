from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from credax.errors import InputError
from credax.training import Training
from credax.training.schedule import cyclic_cosine, learning_rate_at, optimiser_for

GOLDEN = Path(__file__).parent.parent / "golden" / "forde_schedule.npz"


@pytest.mark.parametrize(("case", "epochs", "ratio"), [("cifar", 300, 0.01), ("tiny", 150, 0.001)])
def test_piecewise_linear_is_the_reference_schedule(float64, case, epochs, ratio):
    training = Training(
        epochs=epochs, batch_size=10, schedule="piecewise-linear", final_ratio=ratio
    )
    rate = learning_rate_at(training, 30)
    first_steps = np.array([float(rate(jnp.asarray(3 * e))) for e in range(epochs)])
    last_steps = np.array([float(rate(jnp.asarray(3 * e + 2))) for e in range(epochs)])
    golden = np.load(GOLDEN)[f"{case}/lr"]
    np.testing.assert_allclose(first_steps, golden, rtol=1e-12)
    np.testing.assert_array_equal(first_steps, last_steps)


def test_cyclic_cosine_by_hand(float64):
    """Rate .1, C = 5, k = 1..6."""
    factor = cyclic_cosine(10, cycles=2)
    rates = [0.1 * float(factor(jnp.asarray(k))) for k in range(6)]
    np.testing.assert_allclose(
        rates, [0.1, 0.09045085, 0.06545085, 0.03454915, 0.00954915, 0.1], atol=1e-8
    )


def test_cosine_ends_at_the_final_ratio(float64):
    training = Training(epochs=4, batch_size=5, learning_rate=0.2, final_ratio=0.1)
    rate = learning_rate_at(training, 10)
    np.testing.assert_allclose(float(rate(jnp.asarray(0))), 0.2)
    np.testing.assert_allclose(float(rate(jnp.asarray(4))), 0.2 * 0.55)
    np.testing.assert_allclose(float(rate(jnp.asarray(8))), 0.02)


def test_warm_up_rises_linearly_from_zero(float64):
    training = Training(epochs=10, batch_size=5, schedule="constant", warmup_epochs=2.0)
    rate = learning_rate_at(training, 10)
    rates = [float(rate(jnp.asarray(t))) for t in range(6)]
    np.testing.assert_allclose(rates, [0.025, 0.05, 0.075, 0.1, 0.1, 0.1])


def test_three_nesterov_steps_by_hand(float64):
    """u <- mu u + G; theta <- theta - lr (mu u + G), G = theta (a quadratic)."""
    training = Training(
        epochs=3, batch_size=1, schedule="constant", learning_rate=0.1, momentum=0.9
    )
    optimiser = optimiser_for(training, 1)
    theta = jnp.array(1.0)
    state = optimiser.init(theta)
    expected, velocity = 1.0, 0.0
    for _ in range(3):
        updates, state = optimiser.update(theta, state, theta)
        theta = theta + updates
        velocity = 0.9 * velocity + expected
        expected = expected - 0.1 * (0.9 * velocity + expected)
        np.testing.assert_allclose(theta, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "changes",
    [
        {"epochs": 0},
        {"batch_size": 0},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"momentum": 1.0},
        {"clip_norm": 0.0},
        {"schedule": "cosin"},
        {"optimiser": "sdg"},
        {"milestones": (0.9, 0.5)},
        {"final_ratio": 2.0},
        {"patience": 0},
    ],
)
def test_bad_settings_are_refused(changes):
    with pytest.raises(InputError):
        Training(**changes)


def test_an_unknown_schedule_names_the_nearest():
    with pytest.raises(InputError, match="did you mean 'cosine'"):
        Training(schedule="cosin")


def test_a_batch_larger_than_the_data_is_refused():
    with pytest.raises(InputError, match="at most 50"):
        Training(batch_size=51).steps_per_epoch(50)


def test_warm_up_longer_than_training_is_refused():
    with pytest.raises(InputError, match="warmup_epochs"):
        learning_rate_at(Training(epochs=2, batch_size=1, warmup_epochs=3.0), 5)
