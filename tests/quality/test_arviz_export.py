"""Chains in the form of ArviZ, in plots and in diagnostics."""

import sys

import arviz
import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import pytest

import credax as cx
from credax.errors import InputError, MissingExtra
from credax.methods.sampling.hamiltonian_chain import Energies
from credax.report.chains import rank_counts

mpl.use("Agg")
X = np.linspace(-1, 1, 12, dtype=np.float32)[:, None]


@pytest.fixture(scope="module")
def posterior():
    problem = cx.Problem(
        cx.networks.MLP((2,), outputs=1), cx.Gaussian(0.3), prior=cx.GaussianPrior(precision=1.0)
    )
    method = cx.HMC(samples=12, warmup=20, modes=2, leapfrog_steps=3)
    return cx.fit(problem, method, cx.Split(X, X[:, 0]), key=0, progress=False)


def test_the_export_has_weights_predictions_and_log_joints(posterior):
    found = posterior.to_arviz(X[:3])
    assert found.posterior["prediction"].shape == (2, 12, 3)
    expected = np.asarray(posterior.predict(X[:3]).members).reshape(2, 12, 3)
    np.testing.assert_array_equal(found.posterior["prediction"], expected)
    kernel = np.asarray(posterior.variables.params["0_dense"]["kernel"])
    np.testing.assert_array_equal(found.posterior["0_dense/kernel"], kernel.reshape(2, 12, 1, 2))
    np.testing.assert_array_equal(found.sample_stats["lp"], posterior.diagnostics["traces"])


def test_diagnostics_are_those_of_arviz(posterior):
    """At all 12 rows and of the log joint, which every draw's own number shows in the trace."""
    found = posterior.to_arviz(X, weights=False)
    assert list(found.posterior.data_vars) == ["prediction"]
    own = posterior.diagnostics
    r_hat = float(arviz.rhat(found)["prediction"].max())
    assert own["predictions"]["r_hat"] == pytest.approx(r_hat, rel=1e-3)
    r_hat = float(arviz.rhat(np.asarray(own["traces"])))
    assert own["log_joint"]["r_hat"] == pytest.approx(r_hat, rel=1e-3)


def test_e_bfmi_is_that_of_arviz():
    energies = np.random.default_rng(0).normal(size=(2, 50)).cumsum(1).astype(np.float32)
    add = lambda state, energy: (state.add(energy), None)  # noqa: E731
    none = Energies.none(jnp.float32)
    chains = jax.vmap(lambda e: jax.lax.scan(add, none, e)[0])(jnp.asarray(energies))
    data = arviz.from_dict(
        posterior={"a": energies}, sample_stats={"energy": energies.astype(np.float64)}
    )
    np.testing.assert_allclose(chains.bfmi, arviz.bfmi(data), rtol=2e-4)


def test_what_is_no_chain_is_refused(posterior, monkeypatch):
    single = cx.fit(
        posterior.problem, cx.Single(), cx.Split(X, X[:, 0]), key=0, progress=False,
        training=cx.Training(epochs=1, batch_size=12),
    )  # fmt: skip
    with pytest.raises(InputError, match=r"no whole chains; give what cx[.]fit returned for mile"):
        single.to_arviz()
    with pytest.raises(InputError, match="no whole chains"):
        posterior.take([0, 1, 2]).to_arviz()
    with pytest.raises(InputError, match="weights is False and x is missing"):
        posterior.to_arviz(weights=False)
    with pytest.raises(InputError, match="without traces of chains"):
        cx.plot.trace(single)
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(MissingExtra, match=r"credax\[mcmc\]"):
        posterior.to_arviz()


def test_plots_draw_the_chains(posterior):
    from matplotlib.figure import Figure

    ax = cx.plot.trace(posterior, ax=Figure().add_subplot())
    for line, chain in zip(ax.get_lines(), posterior.diagnostics["traces"], strict=True):
        np.testing.assert_array_equal(line.get_ydata(), chain)
    ax = cx.plot.ranks(posterior, bins=4, ax=Figure().add_subplot())
    counts = rank_counts(np.asarray(posterior.diagnostics["traces"]), 4)
    for patch, row in zip(ax.patches, counts, strict=True):
        np.testing.assert_array_equal(patch.get_data().values, row)
    np.testing.assert_array_equal(counts.sum(1), [12, 12])
    np.testing.assert_array_equal(counts.sum(0), [6, 6, 6, 6])
    mixed = cx.quality.mixing(posterior, cx.Split(X, X[:, 0]))
    ax = cx.plot.trace(mixed, ax=Figure().add_subplot())
    np.testing.assert_allclose(
        [line.get_ydata() for line in ax.get_lines()], posterior.diagnostics["traces"], rtol=1e-6
    )
    with pytest.raises(InputError, match="bins is 0; it is at least 1"):
        cx.plot.ranks(posterior, bins=0, ax=ax)
