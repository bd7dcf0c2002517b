"""Policies of whole sequences: invariances, bounds, and the best design of one round."""

import equinox as eqx
import jax
import numpy as np
import pytest

from credax import design
from credax.design.deep_adaptive import PolicyTraining, policy_information, train_policy
from credax.design.policies import adaptive_policy, random_policy, static_policy

MEMORY = design.working_memory()
LOCATION = design.models.get("location-finding", sources=1, dimensions=1)
QUICK = PolicyTraining(steps=300, batch=128, inner=64, learning_rate=0.05, final_rate=0.005)


def test_the_order_of_a_history_does_not_matter():
    policy = adaptive_policy(LOCATION, jax.random.key(0), hidden=8, encoding=4)
    history = [(np.array([0.3]), 1.0), (np.array([-1.0]), 0.2), (np.array([2.0]), -0.5)]

    def after(order):
        state = policy.start()
        for place in order:
            state = policy.update(state, *history[place])
        return policy.choose(state, 3, jax.random.key(0))

    np.testing.assert_allclose(after([0, 1, 2]), after([2, 0, 1]), rtol=1e-5)
    assert not np.allclose(after([0, 1]), after([0, 2]))


def test_designs_stay_within_their_bounds():
    policy = adaptive_policy(MEMORY, jax.random.key(1), hidden=8, encoding=4)
    wild = eqx.tree_at(lambda p: p.empty, policy, 1e4 * policy.empty)
    assert 1 <= float(wild.choose(wild.start(), 0, None)) <= 15


def test_one_round_finds_the_best_design():
    """Seven digits; half a digit beside it the information is 2 % less."""
    policy, values = train_policy(MEMORY, static_policy(MEMORY, 1, jax.random.key(3)), 1, QUICK)
    assert float(policy.choose(policy.start(), 0, None)) == pytest.approx(7, abs=0.5)
    assert len(values) == 300


def test_both_bounds_hold_the_exact_value_of_a_fixed_plan():
    """Seven digits twice: 0.382392, within 3 standard errors."""
    policy = static_policy(MEMORY, 2, jax.random.key(0))
    # 1 + 14 sigmoid(z) = 7.
    free = np.full((2, 1), np.log(6 / 8), np.float32)
    policy = eqx.tree_at(lambda p: p.free, policy, jax.numpy.asarray(free))
    found = policy_information(MEMORY, policy, 2, outer=4096, inner=2000)
    error = 3 * found.standard_error[0]
    assert found.lower[0] <= found.upper[0]
    assert found.lower[0] - error <= 0.382392 <= found.upper[0] + error


def test_chunks_do_not_change_what_is_estimated():
    """Other chunks have other draws: within 4 standard errors of the difference."""
    policy = random_policy(LOCATION)
    one, other = (
        policy_information(LOCATION, policy, 2, outer=512, inner=400, block=16, chunk=c)
        for c in (400, 100)
    )
    error = np.hypot(one.standard_error[0], other.standard_error[0])
    assert abs(one.lower[0] - other.lower[0]) < 4 * error
    assert one.lower[0] <= one.ceiling
    assert one.ceiling == other.ceiling


def test_bad_numbers(refused):
    refused(lambda: PolicyTraining(steps=0), "steps is 0")
    refused(lambda: train_policy(MEMORY, random_policy(MEMORY), 0), "rounds is 0")
