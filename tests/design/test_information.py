"""Expected information against closed forms: exact sums, bounds from prior draws."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from design_models import coin, linear, two_parameters

import credax as cx
from credax import design
from credax.design.information import CeilingReached

MEMORY = design.working_memory()
# Gauss-Hermite with 100 nodes, in double precision, by another program.
MEMORY_EIG = {
    1: 0.022195, 2: 0.044431, 3: 0.079645, 4: 0.126455, 5: 0.176600, 6: 0.216067, 7: 0.231138,
    8: 0.216067, 14: 0.010080, 15: 0.004242,
}  # fmt: skip


def test_a_coin_with_two_parameters():
    found = design.exact(coin(), [0.5]).exact
    np.testing.assert_allclose(found, 0.12580366909478014, rtol=1e-14)


def test_working_memory():
    found = design.exact(MEMORY, MEMORY.designs)
    for length, value in MEMORY_EIG.items():
        assert found.exact[length - 1] == pytest.approx(value, abs=5e-7)
    assert found.best() == 6
    np.testing.assert_allclose(found.exact[:13], found.exact[12::-1], rtol=1e-12)
    assert (found.lower == found.exact).all()
    assert (found.upper == found.exact).all()
    assert (found.standard_error == 0).all()


def test_linear_regression():
    """Three measurements of two coefficients, the second with a wider prior."""
    found = design.linear_gaussian([[1, 0], [0, 1], [0, 1]], np.diag([1, 1.5**2]), 1.0)
    assert found == pytest.approx(1.1989476363991853, rel=1e-14)


def test_information_of_one_outcome_is_not_its_divergence():
    """After five digits: the entropy falls by less, or more, than the posterior moved."""
    with jax.enable_x64(True):
        prior = design.prior_on_nodes(MEMORY)
        after = {y: design.update_nodes(MEMORY, prior, 5.0, y) for y in (1, 0)}
        reduction = {y: float(design.entropy_reduction(prior, p)) for y, p in after.items()}
        divergence = {y: float(design.kl_gain(prior, p)) for y, p in after.items()}
        chance = {y: math.exp(float(p.log_evidence)) for y, p in after.items()}
        moments = {y: (float(p.mean), float(p.std)) for y, p in after.items()}
    assert reduction[1] == pytest.approx(0.151443845, abs=1e-8)
    assert reduction[0] == pytest.approx(0.263347279, abs=1e-8)
    assert divergence[1] == pytest.approx(0.065631073, abs=1e-8)
    assert divergence[0] == pytest.approx(0.559264336, abs=1e-8)
    assert moments[1] == pytest.approx((7.579979, 1.725434), abs=1e-6)
    assert moments[0] == pytest.approx((5.0, 1.538615), abs=1e-6)
    expected = design.exact(MEMORY, [5.0]).exact[0]
    for gains in (reduction, divergence):
        assert sum(chance[y] * gains[y] for y in (0, 1)) == pytest.approx(expected, abs=1e-10)


def test_three_outcomes_of_working_memory():
    with jax.enable_x64(True):
        prior = belief = design.prior_on_nodes(MEMORY)
        for length, y in ((5.0, 1), (7.0, 1), (9.0, 0)):
            belief = design.update_nodes(MEMORY, belief, length, y)
        found = [
            belief.mean, belief.std, belief.log_evidence, design.kl_gain(prior, belief),
            design.entropy_reduction(prior, belief),
        ]  # fmt: skip
        found = [float(value) for value in found]
    expected = [7.744812878, 1.229420209, -1.271770834, 0.245565154, 0.487287620]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("length", [2.0, 5.0, 7.0])
def test_four_ways_to_write_it(length):
    """As fall of entropy, divergence, ratio of likelihoods, and entropies of outcomes."""
    with jax.enable_x64(True):
        prior = design.prior_on_nodes(MEMORY)
        weights = np.exp(prior.log_weights)
        probs = np.exp(jax.vmap(lambda t: MEMORY.log_probs(t, length))(prior.nodes))
        marginal = weights @ probs
        after = [design.update_nodes(MEMORY, prior, length, y) for y in (0, 1)]
        entropies = float(design.entropy_reduction(prior, after[0])) * marginal[0]
        entropies += float(design.entropy_reduction(prior, after[1])) * marginal[1]
        ways = [
            entropies,
            sum(
                marginal[y] * (np.exp(p.log_weights) * (p.log_weights - prior.log_weights)).sum()
                for y, p in enumerate(after)
            ),
            (weights[:, None] * probs * np.log(probs / marginal)).sum(),
            -(marginal * np.log(marginal)).sum() + (weights[:, None] * probs * np.log(probs)).sum(),
        ]
    np.testing.assert_allclose(ways, design.exact(MEMORY, [length]).exact[0], atol=1e-10)


# Expectations of both bounds for y = 3 θ + ε, and the error of these numbers themselves.
CONTRASTIVE = {
    10: (0.9735, 0.0003, 1.5762, 0.0009),
    100: (1.12746, 0.0002, 1.1839, 0.0003),
    1000: (1.14855, 0.0001, 1.15445, 0.0001),
}


@pytest.mark.parametrize("inner", list(CONTRASTIVE))
def test_bounds_of_linear_regression(inner):
    """Within 4 standard errors of what both bounds have as expectations."""
    lower, lower_error, upper, upper_error = CONTRASTIVE[inner]
    found = design.nested(linear(), [3.0], outer=20_000, inner=inner, key=1)
    error = found.standard_error[0]
    assert abs(found.lower[0] - lower) < 4 * math.hypot(error, lower_error)
    assert abs(found.upper[0] - upper) < 4 * math.hypot(error, upper_error)
    assert found.lower[0] <= math.log(inner + 1) == found.ceiling
    exact = 0.5 * math.log(10)
    assert found.lower[0] - 3 * error <= exact <= found.upper[0] + 3 * error


def test_bounds_at_one_contrastive_draw():
    """The upper bound has expectation 9 and the lower one 0.4284, below log 2."""
    found = design.nested(linear(), [3.0], outer=40_000, inner=1)
    assert abs(found.upper[0] - 9) < 4 * found.standard_error[0]
    assert found.lower[0] == pytest.approx(0.4284, abs=0.01)
    assert found.lower[0] < found.ceiling


def test_bounds_where_outcomes_are_listed():
    found = design.nested(MEMORY, MEMORY.designs, outer=20_000, inner=500)
    exact = design.exact(MEMORY, MEMORY.designs).exact
    assert (found.lower <= exact + 3 * found.standard_error).all()
    assert (exact <= found.upper + 3 * found.standard_error).all()
    assert (found.lower < found.upper).all()


def test_units_of_parameters_do_not_matter():
    """The same draws in another unit: the same bounds, to rounding."""
    one, other = (design.nested(linear(s), [1.0, 3.0], outer=500, inner=50) for s in (1.0, 4.0))
    np.testing.assert_allclose(one.lower, other.lower, rtol=1e-4)
    np.testing.assert_allclose(one.upper, other.upper, rtol=1e-4)


def test_units_of_outcomes_do_not_matter():
    """The exponential of the same outcomes, with the density that it has: the same bounds."""
    plain = linear()
    other = dataclasses.replace(
        plain,
        outcome_sample=lambda key, t, xi: jnp.exp(plain.outcome_sample(key, t, xi)),
        outcome_log_prob=lambda y, t, xi: plain.outcome_log_prob(jnp.log(y), t, xi) - jnp.log(y),
    )
    one, two = (design.nested(m, [1.0, 3.0], outer=500, inner=50) for m in (plain, other))
    np.testing.assert_allclose(one.lower, two.lower, atol=1e-4)
    np.testing.assert_allclose(one.upper, two.upper, atol=1e-3)


def test_independent_experiments_add():
    """Two parameters measured apart: twice the information, within 3 standard errors."""
    found = design.nested(two_parameters(), [[1.0, 1.0]], outer=20_000, inner=2000)
    exact = math.log(2)
    error = 3 * found.standard_error[0]
    assert found.lower[0] - error <= exact <= found.upper[0] + error
    assert found.upper[0] - found.lower[0] < 0.02


def test_a_lower_bound_near_its_ceiling_warns():
    with pytest.warns(CeilingReached, match="ceiling"):
        design.nested(linear(), [1000.0], outer=200, inner=3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prior_sample": lambda key: jnp.nan}, "prior_sample of broken gave numbers"),
        ({"prior_log_prob": lambda t: jnp.zeros(3)}, r"prior_log_prob .* shape \(3,\)"),
        ({"outcome_log_prob": lambda y, t, xi: jnp.zeros((2, 2))}, r"outcome_log_prob .*\(2, 2\)"),
        ({"outcome_log_prob": lambda y, t, xi: jnp.nan}, "outcome_log_prob .* nan"),
        ({"outcome_sample": lambda key, t, xi: jnp.ones(2) @ jnp.ones(3)}, "outcome_sample"),
        ({"outcomes": np.array([5])}, "not among"),
        ({"outcomes": np.ones((2, 2))}, r"outcomes .* \(2, 2\)"),
    ],
)
def test_models_whose_functions_disagree(refused, change, words):
    model = dataclasses.replace(coin(), name="broken", **change)
    refused(lambda: design.nested(model, [0.5]), words)


@pytest.mark.parametrize(
    ("designs", "words"),
    [([], "at least one design"), ([0.5], "outside of the bounds"), ([np.nan], "not finite")],
)
def test_designs_that_cannot_be(refused, designs, words):
    refused(lambda: design.exact(MEMORY, designs), words)


def test_what_has_no_exact_value(refused):
    refused(lambda: design.exact(linear(), [1.0]), "no list of outcomes")
    refused(lambda: cx.design.linear_gaussian([[1.0]], [[1.0]], 0.0), "noise_std is 0.0")
