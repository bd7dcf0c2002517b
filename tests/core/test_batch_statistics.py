"""Batch statistics recomputed exactly: by hand, any batching, other libraries, dropout off."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.adapters.flax_linen import from_linen
from credax.batch_statistics import Moments, merge, refresh
from credax.errors import InputError
from credax.networks import Activation, BatchNorm, Dense, Dropout, Sequential

ROWS = np.array([1.0, 2.0, 3.0, 7.0, 8.0])


def stacked(network, x, key=0):
    problem = cx.Problem(network, cx.Categorical())
    keys = jax.random.split(jax.random.key(key), 2)
    return problem, jax.vmap(lambda k: problem.init(k, x))(keys)


def whole(problem, variables, x, member):
    """The statistics of all rows as one batch, by the network's own training mode."""
    one = jax.tree.map(lambda leaf: leaf[member], variables)
    return problem.outputs(one, problem.prepare_inputs(x), train=True)[1]


def test_the_five_point_set():
    """Mean 4.2 and variance 7.76; neither 2.9 (variances averaged) nor 2.458 (equal weights)."""
    batches = [ROWS[:2], ROWS[2:]]
    total = None
    for rows in batches:
        total = merge(total, Moments(len(rows), rows.mean(), rows.var() * len(rows)))
    assert total.mean == pytest.approx(4.2, abs=1e-12)
    assert total.m2 / total.rows == pytest.approx(7.76, abs=1e-12)
    wrong = sum(len(rows) * rows.var() for rows in batches) / 5
    equal = np.mean([rows.var() for rows in batches])
    assert (wrong, equal) == (pytest.approx(2.9), pytest.approx(2.458333, abs=1e-6))


@pytest.mark.parametrize("size", [2, 3, 5])
def test_one_layer_is_exact_for_any_batching(float64, size):
    problem, variables = stacked(Sequential((BatchNorm(), Dense(2))), ROWS[:, None])
    state = refresh(problem, variables, ROWS[:, None], batch_size=size).state["0_batch_norm"]
    np.testing.assert_allclose(state["mean"][:, 0], 4.2, atol=1e-12)
    np.testing.assert_allclose(state["variance"][:, 0], 7.76, atol=1e-12)


DEEP = cx.networks.MLP((6, 5, 4), outputs=3, norm="batch")


@pytest.mark.parametrize("size", [4, 7, 100])
@pytest.mark.slow
def test_sequential_passes_equal_the_full_batch(float64, size):
    """Batch statistics do not depend on the batch size, with an incomplete last batch: 23 rows."""
    x = np.random.default_rng(0).normal(size=(23, 3))
    problem, variables = stacked(DEEP, x)
    fresh = refresh(problem, variables, x, batch_size=size, passes="sequential")
    for member in range(2):
        exact = whole(problem, variables, x, member)
        for name in exact:
            for part in ("mean", "variance"):
                np.testing.assert_allclose(
                    fresh.state[name][part][member], exact[name][part], rtol=1e-9, atol=1e-12
                )


def test_one_pass_depends_on_the_batching_behind_the_first_layer(float64):
    x = np.random.default_rng(0).normal(size=(23, 3))
    problem, variables = stacked(DEEP, x)
    fresh = refresh(problem, variables, x, batch_size=7)
    exact = whole(problem, variables, x, 0)
    first, deep = "1_batch_norm", "5_batch_norm"
    np.testing.assert_allclose(
        fresh.state[first]["variance"][0], exact[first]["variance"], rtol=1e-9
    )
    gap = np.abs(fresh.state[deep]["variance"][0] - exact[deep]["variance"]).max()
    assert gap > 1e-4


def test_dropout_is_off_and_the_state_of_the_network_is_not_needed(float64):
    x = np.random.default_rng(1).normal(size=(20, 3))
    layers = (Dense(4), Dropout(0.5), Activation("relu"), BatchNorm(), Dense(2))
    problem, variables = stacked(Sequential(layers), x)
    fresh = refresh(problem, variables, x, batch_size=6)
    other = jax.tree.map(lambda leaf: leaf + 3.0, variables.state)
    again = refresh(problem, variables._replace(state=other), x, batch_size=6)
    for a, b in zip(jax.tree.leaves(fresh.state), jax.tree.leaves(again.state), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    features = jax.nn.relu(x @ variables.params["0_dense"]["kernel"][0])
    np.testing.assert_allclose(fresh.state["1_batch_norm"]["mean"][0], features.mean(0), rtol=1e-9)


class Linen(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool = False):
        x = nn.Dense(4)(x)
        x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
        return nn.Dense(3)(nn.relu(x))


def test_an_exponential_average_of_another_library_is_solved_for_its_batch():
    x = np.random.default_rng(2).normal(size=(23, 3)).astype(np.float32)
    problem, variables = stacked(from_linen(Linen()), x)
    state = refresh(problem, variables, x, batch_size=6).state["batch_stats"]["BatchNorm_0"]
    kernel = np.asarray(variables.params["Dense_0"]["kernel"])
    for member in range(2):
        features = x @ kernel[member]
        np.testing.assert_allclose(state["mean"][member], features.mean(0), rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(state["var"][member], features.var(0), rtol=1e-3)
    with pytest.raises(InputError, match="sequential"):
        refresh(problem, variables, x, passes="sequential")


def test_a_state_that_is_no_statistics_is_refused():
    class Counting:
        def init(self, key, x):
            return cx.Variables({"w": jnp.ones((3, 2))}, {"calls": jnp.zeros(())})

        def apply(self, variables, x, *, key=None, train=False):
            return x @ variables.params["w"], {"calls": variables.state["calls"] + 1}

    problem, variables = stacked(Counting(), np.ones((4, 3), np.float32))
    with pytest.raises(InputError, match=r"calls.*not a mean and a variance"):
        refresh(problem, variables, np.ones((4, 3), np.float32))


def test_a_network_without_state_comes_back(blobs):
    problem, variables = stacked(cx.networks.MLP((4,), outputs=3), blobs[0])
    assert refresh(problem, variables, blobs[0]) is variables
