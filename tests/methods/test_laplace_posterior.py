"""Laplace as a posterior: members, files, modes, trained networks, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laplace_cases import surround

import credax as cx
from credax.methods.laplace.fit import NotConverged

pytestmark = pytest.mark.slow

X = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)
DATA = cx.Split(X, Y)
STRUCTURES = {
    "kfac": {},
    "full": {"structure": "full"},
    "diagonal": {"structure": "diagonal"},
    "low_rank": {"structure": "low_rank", "rank": 4},
    "largest": {"structure": "full", "subset": "largest", "size": 9},
    "leaves": {"subset": "last_layer", "leaves": ("0_dense",)},
    "sampled": {"predictive": "sampled"},
    "probit": {"link": "probit"},
    "bridge": {"link": "bridge"},
    "functional": {"structure": "functional"},
    "empirical_fisher": {"curvature": "empirical_fisher"},
    "hessian": {"structure": "full", "curvature": "hessian"},
    "weighted": {"weights": "evidence"},
}


def problem_of(**options):
    network = cx.networks.MLP((4,), outputs=3)
    return cx.Problem(network, cx.Categorical(), weight_decay=1e-2, **options)


def networks_of(problem, count):
    keys = jax.random.split(jax.random.key(0), count)
    return [problem.init(key, X) for key in keys]


def around(count=1, **options):
    problem = problem_of()
    options = {"subset": "all", "samples": 8, "prior_precision": 50.0} | options
    return surround(problem, networks_of(problem, count), DATA, cx.Laplace(**options))


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.filterwarnings("ignore::credax.methods.laplace.fit.NotConverged")
def test_members_files_and_batches(name, tmp_path):
    posterior = around(2, **STRUCTURES[name])
    members = 2 if name in ("probit", "bridge") else 16
    prediction = posterior.predict(X)
    assert prediction.log_probs.shape == (members, 24, 3) == (posterior.num_members, 24, 3)
    assert len(posterior.indices) == members
    np.testing.assert_allclose(prediction.probs.sum(-1), 1, rtol=1e-5)
    small = posterior.predict(X, batch_size=5)
    # Other shapes round otherwise, and the root of a covariance that is nearly singular, as of one
    # layer's weights, has an error of the root of float32's 1e-7.
    np.testing.assert_allclose(small.log_probs, prediction.log_probs, rtol=4e-4, atol=1e-5)
    posterior.save(tmp_path / "one.safetensors")
    loaded = cx.Laplace().load(tmp_path / "one.safetensors", problem_of())
    np.testing.assert_array_equal(loaded.predict(X).log_probs, prediction.log_probs)
    np.testing.assert_allclose(loaded.log_evidence, posterior.log_evidence, rtol=1e-12)
    loaded.save(tmp_path / "two.safetensors")
    first, second = (tmp_path / f"{n}.safetensors" for n in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.filterwarnings("ignore::credax.methods.laplace.fit.NotConverged")
def test_modes_are_weighted_by_their_evidence():
    """Also under another prior precision, which changes it."""
    plain, first = around(3), around(3, weights="evidence")
    for posterior in (first, first.with_prior_precision(60.0)):
        evidence = np.exp(posterior.log_evidence - posterior.log_evidence.max())
        expected = evidence / evidence.sum()
        np.testing.assert_allclose(posterior.weights, expected, rtol=1e-9)
        assert expected.max() - expected.min() > 0.01
        prediction = posterior.predict(X)
        each = np.asarray(prediction.members).reshape(3, 8, 24, 3).mean(1)
        np.testing.assert_allclose(prediction.probs, np.tensordot(expected, each, 1), rtol=1e-5)
        np.testing.assert_allclose(posterior.predict_fn()(X).probs, prediction.probs, rtol=1e-4)
    assert plain.weights is None
    assert around(1, weights="evidence").weights is None
    drawn = posterior.sample(jax.random.key(0), 900).params["0_dense"]["kernel"]
    modes = posterior.variables.params["0_dense"]["kernel"]
    away = np.square(np.asarray(drawn)[:, None] - np.asarray(modes)).sum((-1, -2))
    shares = np.bincount(away.argmin(1), minlength=3) / 900
    np.testing.assert_allclose(shares, posterior.weights, atol=0.06)


@pytest.mark.filterwarnings("ignore::credax.methods.laplace.fit.NotConverged")
def test_modes_do_not_depend_on_how_many_there_are():
    one, three = around(1), around(3)
    np.testing.assert_allclose(
        one.predict(X).log_probs, three.predict(X).log_probs[:8], rtol=1e-5, atol=1e-6
    )
    assert one.log_evidence[0] == pytest.approx(three.log_evidence[0], rel=1e-6)


@pytest.mark.filterwarnings("ignore::credax.methods.laplace.fit.NotConverged")
def test_only_the_chosen_weights_are_drawn():
    posterior = around(1, leaves=("1_dense/kernel",))
    draws, mode = posterior.sample(jax.random.key(0), 4), posterior.mode(0)
    for name in ("kernel", "bias"):
        np.testing.assert_array_equal(
            draws.params["0_dense"][name], np.stack([mode.params["0_dense"][name]] * 4)
        )
    np.testing.assert_array_equal(
        draws.params["1_dense"]["bias"], np.stack([mode.params["1_dense"]["bias"]] * 4)
    )
    kernels = np.asarray(draws.params["1_dense"]["kernel"])
    assert np.all(kernels.std(0) > 0)


@pytest.mark.filterwarnings("ignore::credax.methods.laplace.fit.NotConverged")
def test_the_largest_variances_are_chosen():
    diagonal = around(1, structure="diagonal")
    values = np.concatenate([block.values for block in diagonal.gaussians[0].blocks])
    largest = around(1, structure="full", subset="largest", size=9)
    chosen = np.asarray(largest.plan.entries)
    assert values[chosen].max() <= np.delete(values, chosen).min()


@pytest.mark.filterwarnings("ignore::credax.methods.laplace.fit.NotConverged")
def test_a_colder_temperature_narrows():
    warm, cold = around(1), around(1, temperature=0.1)
    wide, narrow = (np.trace(p.function_moments(X)[1], axis1=-2, axis2=-1) for p in (warm, cold))
    assert np.all(narrow < wide)


def test_around_trained_members_nothing_is_trained():
    problem, training = problem_of(), cx.Training(epochs=300, batch_size=24, learning_rate=0.3)
    ensemble = cx.fit(problem, cx.DeepEnsemble(members=2), DATA, training=training, progress=False)
    record = cx.Laplace(around=ensemble, samples=5)
    posterior = cx.fit(problem, record, DATA, training=training, progress=False)
    for a, b in zip(
        jax.tree.leaves(posterior.variables), jax.tree.leaves(ensemble.variables), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    assert posterior.num_modes == 2
    assert posterior.num_members == 10
    # Trained from scratch with the same key, modes are the same networks.
    own = cx.fit(problem, cx.Laplace(modes=2), DATA, training=training, progress=False)
    for a, b in zip(
        jax.tree.leaves(own.variables), jax.tree.leaves(ensemble.variables), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert max(own.diagnostics["distance_from_mode"]) < 1


@pytest.mark.filterwarnings("ignore::credax.methods.laplace.fit.NotConverged")
def test_validation_rows_choose_the_precision():
    """The chosen one is no worse on them than any of a finer grid, to the search's accuracy."""
    problem, training = problem_of(), cx.Training(epochs=60, batch_size=16, learning_rate=0.3)
    fitted = {
        choice: cx.fit(
            problem,
            cx.Laplace(prior_precision=choice, samples=20),
            DATA[slice(0, 16)],
            validation=DATA[slice(16, 24)],
            training=training,
            progress=False,
        )
        for choice in ("validation", "evidence")
    }

    def score(posterior):
        return -float(np.mean(posterior.predict(X[16:]).log_prob(Y[16:])))

    grid = [score(fitted["evidence"].with_prior_precision(p)) for p in np.geomspace(1e-2, 1e5, 40)]
    assert score(fitted["validation"]) <= min(grid) + 1e-3
    precision = fitted["validation"].diagnostics["prior_precision"][0][0]
    assert precision == fitted["validation"].gaussians[0].priors[0]
    with pytest.raises(cx.InputError, match="no validation rows"):
        cx.fit(problem, cx.Laplace(prior_precision="validation"), DATA, training=training)


def test_regression_keeps_units():
    """Means and variances in raw units: ten times the targets give ten times the deviations."""
    x = np.linspace(-1, 1, 20, dtype=np.float32)[:, None]
    y = np.sin(3 * x)
    found = []
    for factor in (1, 10):
        data = cx.Split(x, factor * y, cx.Standardise.of(x), cx.Standardise.of(factor * y))
        problem = cx.Problem(
            cx.networks.MLP((8,), outputs=1, activation="tanh"), cx.Gaussian(0.1), weight_decay=1e-3
        ).with_units(data.inputs, data.targets)
        network = problem.init(jax.random.key(0), x)
        record = cx.Laplace(prior_precision=1.0)
        with pytest.warns(NotConverged):
            posterior = surround(problem, [network], data, record)
        found.append(posterior.predict(x))
    np.testing.assert_allclose(found[1].epistemic, 100 * found[0].epistemic, rtol=1e-3)
    np.testing.assert_allclose(found[1].aleatoric, 100 * found[0].aleatoric, rtol=1e-4)


def test_a_network_far_from_its_mode_is_said_to_be():
    """Of 24 rows no network is far in deviations; of 2400 one that was never trained is."""
    problem, many = problem_of(), cx.Split(np.tile(X, (100, 1)), np.tile(Y, 100))
    with pytest.warns(NotConverged, match="not converged: Newton decrement.*train longer"):
        surround(problem, networks_of(problem, 1), many, cx.Laplace(prior_precision=1e-3))


def dynamics(problem=None, **options):
    record = cx.Laplace(**options)
    return record.dynamics(problem or problem_of(), DATA, cx.Training(batch_size=24))


def test_too_much_memory_is_refused_before_training():
    with pytest.raises(cx.InputError, match=r"bytes\) where memory allows 1e-06 GB"):
        dynamics(structure="full", subset="all", memory=1e-6)
    network = cx.networks.MLP((300, 200), outputs=10)
    problem = cx.Problem(network, cx.Categorical())
    data = cx.Split(np.zeros((9, 20), np.float32), np.zeros(9, int))
    record = cx.Laplace(structure="full", subset="all")
    # Three matrices of 68 510 by 68 510 doubles.
    with pytest.raises(cx.InputError, match=r"68510 parameters.*need 113 GB .*structure='kfac'"):
        record.dynamics(problem, data, cx.Training(batch_size=9))
    cx.Laplace(subset="all").dynamics(problem, data, cx.Training(batch_size=9))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"structure": "kfca"}, "unknown structure 'kfca'; did you mean 'kfac'"),
        ({"subset": "head"}, "unknown subset 'head'"),
        ({"samples": 0}, "samples is 0"),
        ({"temperature": 0.0}, "temperature is 0.0; give a positive number"),
        ({"prior_precision": -1.0}, "prior_precision is -1.0"),
        ({"subset": "largest"}, "use structure='full'"),
        ({"structure": "full", "prior_precision": "by_layer"}, "one block"),
        ({"leaves": ("9_dense",)}, "leaves has '9_dense'.*choose from 0_dense"),
        ({"noise": "evidence"}, "Categorical.*no noise level"),
        ({"structure": "full", "subset": "largest", "size": 999}, "size is 999"),
    ],
    ids=str,
)
def test_bad_options(options, sentence):
    with pytest.raises(cx.InputError, match=sentence):
        dynamics(**options)


def test_problems_that_do_not_fit():
    flat = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical())
    with pytest.raises(cx.InputError, match="its prior is flat"):
        dynamics(flat, prior_precision="problem")
    network = cx.networks.MLP((4,), outputs=3)
    mixture = cx.Problem(network, cx.Categorical(), prior=cx.ScaleMixturePrior())
    with pytest.raises(cx.InputError, match="prior is no Gaussian"):
        dynamics(mixture, prior_precision="problem")
    constant = cx.FunctionNetwork(
        lambda key, x: {"shift": jnp.zeros(3)}, lambda p, x: jnp.zeros((len(x), 3)) + p["shift"]
    )
    with pytest.raises(cx.InputError, match="no last layer; name its arrays with leaves"):
        dynamics(cx.Problem(constant, cx.Categorical()))
