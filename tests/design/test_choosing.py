"""Choosing designs: lists, gradients, several at once, and plans of several rounds."""

import jax
import numpy as np
import pytest
from design_models import linear

from credax import design
from credax.design.choosing import surrogate
from credax.design.plans import best_static_plan, greedy_plan, optimal_plan, static_plan

MEMORY = design.working_memory()


def test_the_best_of_a_list():
    found = design.recommend(MEMORY)
    assert (found.design, found.position) == (7.0, 6)
    assert found.information.exact[6] == pytest.approx(0.231138302, abs=1e-9)


def test_costs_and_a_budget():
    """Seven digits say most; per unit of cost fewer are better, and a budget excludes them."""
    costs = MEMORY.designs**2
    assert design.recommend(MEMORY, costs=costs, budget=30.0).design == 5
    per_cost = design.recommend(MEMORY, costs=costs, per_cost=True)
    values = per_cost.information.exact / costs
    assert per_cost.position == np.argmax(values)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": 3.0}, "without costs"),
        ({"costs": [1.0]}, r"costs has shape \(1,\)"),
        ({"costs": np.full(15, 5.0), "budget": 2.0}, "cheapest design costs 5"),
    ],
)
def test_costs_that_do_not_fit(refused, options, words):
    refused(lambda: design.recommend(MEMORY, **options), words)


def test_gradients_find_the_top():
    """From both sides to seven digits; within a quarter of a digit the value is flat to 1e-3."""
    found = design.optimise(MEMORY, [2.0, 12.0], steps=400)
    np.testing.assert_allclose(found.ends, 7.0, atol=0.25)
    assert found.information.exact.min() > 0.2301


@pytest.mark.parametrize("outcomes", ["reparametrised", "score"])
def test_gradients_stop_at_the_bounds(outcomes):
    model = design.models.get("linear-regression")
    found = design.optimise(model, [1.0, -1.0], steps=300, outcomes=outcomes, learning_rate=0.1)
    np.testing.assert_allclose(np.abs(found.ends), 3.0, atol=0.1)


def test_the_gradient_is_that_of_the_bound():
    """Against differences with the same draws, in double precision."""
    with jax.enable_x64(True):

        def bound(xi):
            return surrogate(linear(), xi, jax.random.key(0), 20, 10, "reparametrised")[0]

        step = 1e-5
        numeric = (bound(1.5 + step) - bound(1.5 - step)) / (2 * step)
        assert float(jax.grad(bound)(1.5)) == pytest.approx(float(numeric), rel=1e-7)


@pytest.mark.parametrize(
    ("model", "outcomes"), [(MEMORY, "reparametrised"), (linear(), "listed"), (linear(), "what")]
)
def test_outcomes_that_cannot_be_treated_so(refused, model, outcomes):
    refused(lambda: design.optimise(model, [1.0], outcomes=outcomes), "outcomes is")


def test_two_experiments_at_once():
    both = design.several(MEMORY, 2)
    found = design.exact(both, [[7.0, 7.0], [6.0, 8.0]]).exact
    assert found[0] == pytest.approx(static_plan(MEMORY, [7.0, 7.0]), abs=1e-12)
    assert found[0] > found[1]


def test_fixed_plans_of_working_memory():
    for rounds, value in ((2, 0.382391517), (3, 0.495157721), (4, 0.585296169)):
        plan, found = best_static_plan(MEMORY, rounds)
        assert found == pytest.approx(value, abs=1e-8)
        assert (plan == 7).all()
    assert static_plan(MEMORY, [7.0] * 10) == pytest.approx(0.919628940, abs=1e-8)
    assert static_plan(MEMORY, np.arange(1.0, 11)) == pytest.approx(0.756806983, abs=1e-8)


def test_adaptive_plans_of_working_memory():
    """The greedy policy is the optimal one for two and three rounds."""
    known = {2: 0.405893465, 3: 0.545955780, 4: 0.660696033, 6: 0.840841682, 10: 1.089270932}
    for rounds, value in known.items():
        assert greedy_plan(MEMORY, rounds) == pytest.approx(value, abs=1e-8)
    for rounds in (2, 3):
        assert optimal_plan(MEMORY, rounds) == pytest.approx(known[rounds], abs=1e-8)


def test_plans_that_are_too_many(refused):
    refused(lambda: greedy_plan(linear(), 2, [1.0]), "continuous outcomes")
    refused(lambda: greedy_plan(MEMORY, 40), "rounds is 40")
    refused(lambda: optimal_plan(MEMORY, 9), "rounds is 9")
