"""Rank-1 Bayesian networks: closed forms, a grid, and BatchEnsemble as their limit."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from modulated_cases import TRAINING, batch_of, classification, jitted, start

import credax as cx
from credax.data.dataset import Split
from credax.methods.ensembles.rank_one_bnn import (
    Rank1BNN,
    annealed,
    cauchy_kl,
    inverse_softplus,
    normal_kl,
)
from credax.network import FunctionNetwork
from credax.structure.factored import Factors, factored

ONE = FunctionNetwork(lambda key, x: {"w": jnp.ones((1, 1))}, lambda p, x: x @ p["w"])
INITIAL = math.sqrt(1e-3 / (1 - 1e-3))


def one_weight(**options):
    """``y = r s x`` with one observation, and a component that starts at +1."""
    problem = cx.Problem(ONE, cx.Gaussian(0.5))
    data = Split(np.ones((1, 1), np.float32), np.array([1.2], np.float32))
    training = TRAINING.replace(batch_size=1)
    dynamics, state = start(problem, Rank1BNN(members=1, annealing=0, **options), data, 0, training)
    members = {**state.trained.members}
    members["mean"] = jax.tree.map(jnp.ones_like, members["mean"])
    state = state._replace(trained=state.trained._replace(members=members))
    return problem, data, dynamics, state


def test_divergence_at_the_start():
    assert pytest.approx(0.031638600, abs=1e-9) == INITIAL == Rank1BNN().initial_std
    assert float(normal_kl(1.0, INITIAL, 1.0, 0.1)) == pytest.approx(0.700842346, abs=1e-6)
    assert float(normal_kl(-1.0, INITIAL, 1.0, 0.1)) == pytest.approx(200.700842346, rel=1e-6)


def test_the_bound_of_one_weight_lies_below_the_evidence(float64):
    """Evidence by a grid over both factors; the bound's likelihood by draws, its KL exactly."""
    problem, data, dynamics, state = one_weight()
    grid = np.linspace(0.2, 1.8, 1601)
    prior = np.exp(-0.5 * ((grid - 1) / 0.1) ** 2) / (0.1 * math.sqrt(2 * math.pi))
    error = 1.2 - grid[:, None] * grid
    density = np.exp(-0.5 * error**2 / 0.25) / math.sqrt(2 * math.pi * 0.25)
    evidence = math.log((density * prior[:, None] * prior).sum() * (grid[1] - grid[0]) ** 2)
    assert evidence == pytest.approx(-0.339257656, abs=1e-8)
    batch = batch_of(problem, data)

    def nll(key):
        info = jitted(dynamics.loss)(state.trained, (), state.carried, 0, key, batch)[1][1]
        return info["nll"][0], info["loss"][0]

    nlls, losses = jax.vmap(nll)(jax.random.split(jax.random.key(2), 20_000))
    error = float(nlls.std()) / math.sqrt(20_000)
    assert abs(-float(nlls.mean()) + 0.309797361) < 4 * error
    kl = float((losses - nlls).mean())
    assert kl == pytest.approx(2 * 0.700842346, abs=1e-6)
    bound = -0.309797361 - kl
    assert bound == pytest.approx(-1.711482053, abs=1e-6)
    assert bound < evidence


@pytest.mark.parametrize(("mean", "std"), [(1.3, 0.2), (-1.0, 0.05)])
def test_divergences_are_what_draws_say(mean, std):
    rng, count = np.random.default_rng(0), 200_000
    noise = rng.standard_normal(count)
    drawn = mean + std * noise
    log_q = -0.5 * noise**2 - math.log(std)
    ratio = log_q + 0.5 * ((drawn - 1) / 0.5) ** 2 + math.log(0.5)
    error = ratio.std() / math.sqrt(count)
    assert abs(ratio.mean() - float(normal_kl(mean, std, 1.0, 0.5))) < 4 * error
    noise = rng.standard_cauchy(count)
    drawn = mean + std * noise
    log_q = -np.log1p(noise**2) - math.log(std)
    ratio = log_q + np.log1p(((drawn - 1) / 0.5) ** 2) + math.log(0.5)
    error = ratio.std() / math.sqrt(count)
    assert abs(ratio.mean() - float(cauchy_kl(mean, std, 1.0, 0.5))) < 4 * error
    assert float(cauchy_kl(1.0, 0.5, 1.0, 0.5)) == 0


def test_equal_components_have_the_divergence_of_one():
    """The mean over components is a bound of the mixture's KL; a sum is not."""
    problem, data = classification(cx.networks.MLP((4,), outputs=2))
    found = {}
    for reduction in ("mean", "sum"):
        method = Rank1BNN(members=3, kl_reduction=reduction, annealing=0)
        dynamics, state = start(problem, method, data)
        same = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf[:1], leaf.shape), state.trained.members
        )
        parts = dynamics.modulator.init(jax.random.key(0))._replace(members=same)
        each = dynamics.modulator.divergence(same)
        found[reduction] = float(dynamics.modulator.penalty({}, parts, None, 0))
        np.testing.assert_allclose(found["mean"] * len(data), each[0], rtol=1e-5)
    assert found["sum"] == pytest.approx(3 * found["mean"], rel=1e-5)


def test_without_noise_it_is_batch_ensemble():
    """The same factors and rows: the same loss, when the KL has no weight yet."""
    problem, data = classification(cx.networks.MLP((4,), outputs=2))
    random, state = start(problem, Rank1BNN(members=2, annealing=1.0), data)
    narrow = jax.tree.map(lambda leaf: jnp.full_like(leaf, -80.0), state.trained.members["rho"])
    members = state.trained.members | {"rho": narrow}
    plain, other = start(problem, cx.BatchEnsemble(members=2, own="none"), data)
    trained = other.trained._replace(members=members["mean"])
    key, batch = jax.random.key(3), batch_of(problem, data)
    first, _ = jitted(random.loss)(state.trained._replace(members=members), (), {}, 0, key, batch)
    second, _ = jitted(plain.loss)(trained, (), {}, 0, key, batch)
    np.testing.assert_allclose(first, second, rtol=1e-5)


def test_outputs_are_linear_in_the_output_factor():
    problem, _, dynamics, _ = one_weight()
    structure = dynamics.modulator.structure
    run = factored(structure, lambda p, x: problem.outputs(cx.Variables(p, {}), x)[0])
    params, x = {"w": jnp.ones((1, 1))}, jnp.array([[0.7]])

    def outputs(s):
        return run(params, Factors({"params/w": jnp.array([[1.5]])}, {"params/w": s}), x)[0, 0]

    one, two = outputs(jnp.array([[1.0]])), outputs(jnp.array([[2.0]]))
    assert float(two) == pytest.approx(2 * float(one))
    assert float(one) == pytest.approx(1.05, rel=1e-5)


def test_the_weight_of_the_divergence_rises_in_a_line():
    found = [float(annealed(jnp.float32(step), 4.0)) for step in range(6)]
    np.testing.assert_allclose(found, [0, 0.25, 0.5, 0.75, 1, 1])
    assert float(annealed(jnp.float32(0), 0.0)) == 1
    _, _, dynamics, _ = one_weight()
    assert dynamics.modulator.annealing == 0
    problem, data = classification(cx.networks.MLP((4,), outputs=2))
    dynamics = Rank1BNN(annealing=0.5).dynamics(problem, data, TRAINING)
    assert dynamics.modulator.annealing == 1.0  # two epochs of one step


def test_the_mixture_has_the_smaller_loss():
    """``-log (1/K) Σ p_k <= -(1/K) Σ log p_k`` (Jensen), for the same draws."""
    problem, data = classification(cx.networks.MLP((4,), outputs=2))
    losses = {}
    for likelihood in ("mean", "mixture"):
        method = Rank1BNN(members=3, batch="tile", log_likelihood=likelihood)
        dynamics, state = start(problem, method, data)
        batch, key = batch_of(problem, data), jax.random.key(1)
        losses[likelihood] = float(jitted(dynamics.loss)(state.trained, (), {}, 0, key, batch)[0])
    assert losses["mixture"] < losses["mean"] - 1e-3


def test_a_draw_for_every_row():
    """Rows have factors of their own: equal rows get different outputs; per step they do not."""
    problem, _ = classification(cx.networks.MLP((4,), outputs=2))
    data = Split(np.ones((8, 3), np.float32), np.zeros(8, int))
    found = {}
    for per_example in (False, True):
        method = Rank1BNN(members=1, per_example=per_example, initial_std=0.5)
        dynamics, state = start(problem, method, data)
        batch = batch_of(problem, data)

        def one(weight, dynamics=dynamics, state=state, batch=batch):
            here = batch._replace(weight=weight)
            return jitted(dynamics.loss)(state.trained, (), {}, 0, jax.random.key(1), here)[1][1][
                "nll"
            ][0]

        found[per_example] = jax.vmap(one)(jnp.eye(8))
    assert float(jnp.ptp(found[False])) < 1e-6
    assert float(jnp.ptp(found[True])) > 1e-2


def test_draws_are_cut_off():
    _, _, dynamics, state = one_weight(distribution="cauchy")
    wide = {**state.trained.members}
    wide["rho"] = jax.tree.map(lambda leaf: jnp.full_like(leaf, 50.0), wide["rho"])
    one = jax.tree.map(lambda leaf: leaf[0], wide)
    draw = lambda key: dynamics.modulator.factors((), one, (), key).inputs["params/w"]  # noqa: E731
    drawn = jax.vmap(draw)(jax.random.split(jax.random.key(0), 100))
    assert float(jnp.abs(drawn).max()) == 10
    assert inverse_softplus(0.3) == pytest.approx(math.log(math.expm1(0.3)))


def test_bad_input(refused):
    refused(lambda: Rank1BNN(log_likelihood="mixture"), "batch='tile'")
    refused(lambda: Rank1BNN(annealing=2.0), "annealing is 2.0")
    refused(lambda: Rank1BNN(samples=0), "samples is 0")
    refused(lambda: Rank1BNN(prior_scale=0.0), "prior_scale is 0.0")
    problem, data = classification(cx.networks.MLP((4,), outputs=2, norm="batch"))
    method = Rank1BNN(per_example=True)
    refused(lambda: method.dynamics(problem, data, TRAINING), "per_example is set")
