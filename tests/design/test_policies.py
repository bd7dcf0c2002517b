"""Policies of whole sequences: invariances, bounds, and the best design of one round."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax import design
from credax.design.deep_adaptive import (
    PolicyTraining,
    _sequential,
    policy_information,
    train_policy,
)
from credax.design.histories import all_histories
from credax.design.policies import adaptive_policy, random_policy, static_policy
from credax.errors import DamagedFile

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
    policy = eqx.tree_at(lambda p: p.free, policy, sevens(2))
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


def sevens(rounds):
    """Unbounded numbers of seven digits: 1 + 14 sigmoid(z) = 7."""
    return jnp.full((rounds, 1), np.log(6 / 8))


def test_all_histories_of_known_plans():
    """Greedy and fixed plans by another program, and the policy of particles."""
    greedy = design.greedy_policy(MEMORY)
    found = [design.exact_policy_information(MEMORY, greedy, rounds) for rounds in (1, 3)]
    np.testing.assert_allclose(found, [0.231138302, 0.545955780], atol=1e-8)
    static = eqx.tree_at(lambda p: p.free, static_policy(MEMORY, 3, jax.random.key(0)), sevens(3))
    exact = design.exact_policy_information(MEMORY, static, 3)
    assert exact == pytest.approx(0.495157721, abs=1e-7)
    # 500 particles choose the best of fifteen lengths, whose gains differ by 7 %.
    myopic = design.myopic_policy(MEMORY, 2, particles=500)
    assert design.exact_policy_information(MEMORY, myopic, 2) == pytest.approx(0.405893, abs=1e-3)


def test_histories_that_are_mapped_one_by_one(monkeypatch):
    """A small limit of what is computed at once changes no number."""
    policy = static_policy(MEMORY, 3, jax.random.key(0))
    whole = design.exact_policy_information(MEMORY, policy, 3)
    # 401 nodes and two outcomes: all levels but the first are split.
    monkeypatch.setattr("credax.design.histories.TOGETHER", 1000)
    other = design.working_memory()
    assert design.exact_policy_information(other, policy, 3) == pytest.approx(whole, rel=1e-12)


def test_a_trained_policy_lies_between_the_static_and_the_optimal_plan():
    """Two rounds of working memory, designs between whole numbers too.

    The best plan of a grid with step 1/8 is at most 1/16 beside the best one, which costs up to
    0.03 / 2 / 256 nats per round, for the curve over designs has second derivative 0.03.
    """
    policy = adaptive_policy(MEMORY, jax.random.key(0), hidden=16, encoding=8)
    training = PolicyTraining(steps=300, learning_rate=5e-3, final_rate=1e-4)
    policy, values = train_policy(MEMORY, policy, 2, training)
    found = design.exact_policy_information(MEMORY, policy, 2)
    optimal = design.optimal_plan(MEMORY, 2, np.arange(1, 15.01, 0.125))
    assert 0.382392 < found <= optimal + 2 * 0.03 / 512
    assert found == pytest.approx(values[-1], abs=1e-4)
    # Of whole numbers the best value is known, and the nearest ones do not exceed it.
    listed = design.listed_policy(MEMORY, policy)
    assert 0.382392 < design.exact_policy_information(MEMORY, listed, 2) <= 0.405893466


@pytest.mark.slow
def test_six_rounds_are_near_the_greedy_plan():
    """Within 0.012 nats of 0.840841682, the greedy plan of whole numbers."""
    policy = adaptive_policy(MEMORY, jax.random.key(0), hidden=32, encoding=16)
    training = PolicyTraining(steps=300, learning_rate=5e-3, final_rate=1e-4)
    policy, _ = train_policy(MEMORY, policy, 6, training)
    assert design.exact_policy_information(MEMORY, policy, 6) > 0.840841682 - 0.012


def test_one_round_of_the_death_process():
    """The exact argmax is ξ = 1.2758, 1.355920 nats."""
    death = design.models.get("death-process")
    policy = static_policy(death, 1, jax.random.key(0))
    training = PolicyTraining(steps=80, learning_rate=0.2, final_rate=0.005)
    policy, values = train_policy(death, policy, 1, training)
    assert float(policy.choose(policy.start(), 0, None)) == pytest.approx(1.2758, abs=0.03)
    assert values[-1] == pytest.approx(1.355920, abs=1e-3)


def test_adapting_to_a_linear_gaussian_model_gains_nothing():
    """The posterior covariance does not depend on outcomes: the fixed plan {3, -3} is best.

    A policy whose designs begin alike stops at {3, 3}, ½ log 21 = 1.522 nats, more than one
    experiment's ½ log 11 = 1.199.
    """
    model = design.models.get("linear-regression")
    best = design.linear_gaussian([[1.0, 3.0], [1.0, -3.0]], np.eye(2), 1.0)
    policy = adaptive_policy(model, jax.random.key(0), hidden=16, encoding=8)
    training = PolicyTraining(1000, batch=64, inner=256, learning_rate=5e-3, final_rate=1e-4)
    policy, _ = train_policy(model, policy, 2, training)
    found = policy_information(model, policy, 2, outer=4096, inner=2000)
    assert found.lower[0] <= best + 3 * found.standard_error[0]
    assert found.upper[0] > 1.4


def test_the_score_function_has_the_gradient_of_all_histories():
    """Mean over keys, within 4 standard errors; 400 contrastive draws leave a bias near 2e-3."""
    policy = static_policy(MEMORY, 2, jax.random.key(4))
    prior = design.prior_on_nodes(MEMORY)
    with_free = lambda free: eqx.tree_at(lambda p: p.free, policy, free)  # noqa: E731
    key = jax.random.key(0)
    exact = jax.grad(lambda f: all_histories(MEMORY, with_free(f), 2, prior, key))(policy.free)
    training = PolicyTraining(batch=128, inner=400, outcomes="score")

    def value(free, key):
        return _sequential(MEMORY, with_free(free), 2, key, training, True)[0]

    keys = jax.random.split(jax.random.key(1), 100)
    each = jax.lax.map(lambda key: jax.grad(value)(policy.free, key), keys)
    error = each.std(axis=0) / np.sqrt(len(keys))
    assert (abs(each.mean(axis=0) - exact) < 4 * error + 2e-3).all()
    assert (abs(exact) > 5 * error).any()


@pytest.mark.parametrize("kind", ["adaptive", "static"])
def test_policies_on_disk(tmp_path, refused, kind):
    key, path = jax.random.key(3), tmp_path / "policy.safetensors"
    policy = (
        adaptive_policy(LOCATION, key, hidden=8, encoding=4)
        if kind == "adaptive"
        else static_policy(LOCATION, 3, key)
    )
    design.save_policy(path, policy, LOCATION, 3, {"noise": 0.5})
    found, rounds, about = design.load_policy(path, LOCATION)
    assert (rounds, about) == (3, {"noise": 0.5})
    arrays = lambda p: jax.tree.leaves(eqx.filter(p, eqx.is_array))  # noqa: E731
    for one, other in zip(arrays(policy), arrays(found), strict=True):
        np.testing.assert_array_equal(one, other)
    refused(lambda: design.load_policy(path, MEMORY), "was trained for location-finding")
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DamagedFile):
        design.load_policy(path, LOCATION)


def test_policies_that_cannot_be(refused, tmp_path):
    refused(lambda: design.greedy_policy(LOCATION), "no list of outcomes")
    refused(lambda: design.exact_policy_information(LOCATION, random_policy(LOCATION), 2), "nodes")
    refused(lambda: design.load_policy(tmp_path / "none", MEMORY), "there is no policy")
    random = random_policy(MEMORY)
    refused(lambda: design.save_policy(tmp_path / "p", random, MEMORY, 2), "nothing trained")
    refused(lambda: design.myopic_policy(MEMORY, 0), "rounds is 0")


def test_baselines_by_name():
    found = design.baseline_policies(MEMORY, 2, training=QUICK)
    assert list(found) == ["random", "static", "myopic", "greedy"]
    values = {
        name: design.evaluate_policy(MEMORY, found[name], 2, outer=512, inner=500).value[0]
        for name in ("random", "static", "greedy")
    }
    assert values["random"] < values["static"] < values["greedy"]


def test_bad_numbers(refused):
    refused(lambda: PolicyTraining(outcomes="all"), "outcomes is 'all'")  # pyright: ignore
    listed = PolicyTraining(outcomes="enumerated")
    refused(lambda: train_policy(LOCATION, random_policy(LOCATION), 2, listed), "enumerated")
    refused(lambda: policy_information(MEMORY, random_policy(MEMORY), 2, inner=0), "inner is 0")
    refused(lambda: PolicyTraining(steps=0), "steps is 0")
    refused(lambda: train_policy(MEMORY, random_policy(MEMORY), 0), "rounds is 0")
