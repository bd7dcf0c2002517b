"""Diagnostics of chains against ArviZ, and what weights cannot tell."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import lfilter

import credax as cx
from credax.data import Split
from credax.errors import InputError
from credax.methods.sampling.chains import diagnose
from credax.methods.sampling.rank_statistics import bulk_size, rank_rhat, tail_size
from credax.posterior import population
from credax.quality.chains import mixing

# rhat, ess(method="bulk") and ess(method="tail") of ArviZ 0.23.4 for the chains below.
ARVIZ = {
    "ar": (1.0201533301111398, 181.83286952348044, 421.07490234379),
    "shifted": (1.0858628027252766, 54.98157798970127, 346.0802722461583),
    "heavy": (1.0006826893753298, 1209.703317659823, 1233.6092013074717),
    "scaled": (1.1859579331446535, 191.9698665946481, 49.6310916857963),
}


def chains():
    rng = np.random.default_rng(7)
    x = lfilter([1], [1, -0.7], rng.normal(size=(4, 300)), axis=1)
    return {
        "ar": x,
        "shifted": x + np.arange(4)[:, None] * 0.3,
        "heavy": np.tan(np.pi * (rng.random((4, 300)) - 0.5)),
        "scaled": x * np.array([1, 1, 1, 3.0])[:, None],
    }


@pytest.mark.parametrize("name", ARVIZ)
def test_they_are_those_of_arviz(name):
    """R-hat to rounding; sizes within 2 %, for the last pair of lags is counted otherwise."""
    samples = chains()[name][..., None]
    r_hat, bulk, tail = ARVIZ[name]
    np.testing.assert_allclose(rank_rhat(samples), r_hat, rtol=1e-12)
    np.testing.assert_allclose(bulk_size(samples), bulk, rtol=0.02)
    np.testing.assert_allclose(tail_size(samples), tail, rtol=0.02)


@pytest.fixture(scope="module")
def exchanged():
    """Two chains around one network, the second with its hidden units in another order."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2)).astype(np.float32)
    problem = cx.Problem(cx.networks.MLP((4,), outputs=1), cx.Gaussian(0.5), weight_decay=1e-2)
    params = problem.init(jax.random.key(0), x).params
    draws = jax.tree.map(
        lambda p: jnp.asarray(p + 0.1 * rng.normal(size=(2, 200, *p.shape)), jnp.float32), params
    )
    order = np.array([2, 3, 0, 1])
    first, last = sorted(draws)
    kernel, bias = draws[first]["kernel"], draws[first]["bias"]
    draws[first] = {
        "kernel": kernel.at[1].set(kernel[1][..., order]),
        "bias": bias.at[1].set(bias[1][..., order]),
    }
    out = draws[last]["kernel"]
    draws[last] = {**draws[last], "kernel": out.at[1].set(out[1][..., order, :])}
    flat = jax.tree.map(lambda p: p.reshape(-1, *p.shape[2:]), draws)
    found = population(
        problem, cx.Variables(flat, {}), x, tuple(range(400)), {"draws": 200, **diagnose(draws)}
    )
    return found, Split(x, np.asarray(x[:, 0]))


def test_exchanged_units_are_seen_in_weights_and_not_in_predictions(exchanged):
    posterior, data = exchanged
    found = mixing(posterior, data)
    assert posterior.diagnostics["r_hat"] > 1.5
    assert found.predictions.r_hat < 1.05
    assert found.log_joint.r_hat < 1.05
    assert found.predictions.bulk > 100
    assert list(found.modes) == [0, 1]
    assert all(one.r_hat < 1.1 for pair in found.modes.values() for one in pair)


def test_what_no_sampler_made_is_refused(exchanged, refused):
    posterior, data = exchanged
    refused(lambda: mixing(posterior.take(range(7)), data), "whole chains")
    plain = population(posterior.problem, posterior.variables, data.x, posterior.indices, {})
    with pytest.raises(InputError, match="no sampler"):
        mixing(plain, data)
