"""Mixtures of unequal weights: a weight of k/n is a member that stands there k times of n."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.active import acquisition
from credax.calibration import QuantileRecalibration, Temperature, VarianceScaling, Vector
from credax.calibration.sets import normalised
from credax.design.posteriors import posterior_model
from credax.distributions import PoissonDistribution
from credax.errors import DamagedFile, InputError
from credax.files import save_tree
from credax.metrics.checks import without_broken_members
from credax.mixing import weighted
from credax.mixture_prediction import MixturePrediction, QuantilePrediction
from credax.posterior import combine, describe_population, population
from credax.prediction import ClassPrediction, GaussianPrediction

COUNTS = np.array([3, 1, 2])
RNG = np.random.default_rng(0)
REPEATED = np.repeat(np.arange(3), COUNTS)


def classes():
    logits = np.random.default_rng(1).normal(size=(3, 8, 4)).astype(np.float32)
    return ClassPrediction.from_logits(logits), np.arange(8) % 4


def numbers():
    rng = np.random.default_rng(2)
    means, variances = rng.normal(size=(3, 8, 1)), rng.uniform(0.2, 2.0, size=(3, 8, 1))
    y = rng.normal(size=8).astype(np.float32)
    return GaussianPrediction(jnp.asarray(means, "float32"), jnp.asarray(variances, "float32")), y


def counts():
    rates = np.random.default_rng(3).uniform(0.5, 6.0, size=(3, 8, 1))
    return MixturePrediction(PoissonDistribution(jnp.asarray(rates, "float32"))), np.arange(8.0)


def quantiles():
    values = np.sort(np.random.default_rng(4).normal(size=(3, 8, 1, 3)), axis=-1)
    levels = (0.05, 0.5, 0.95)
    return QuantilePrediction(jnp.asarray(values, "float32"), levels), np.linspace(-1, 1, 8)


def both(prediction):
    """By weights, and by members that repeat."""
    repeated = jax.tree.map(lambda leaf: jnp.asarray(leaf)[REPEATED], prediction)
    return weighted(prediction, COUNTS), repeated


CLOSE = {"rtol": 2e-5, "atol": 2e-6}
QUANTITIES = ("mean", "var", "total", "aleatoric", "epistemic")


@pytest.mark.parametrize("make", [classes, numbers, counts, quantiles])
def test_a_weight_is_a_member_that_repeats(make):
    prediction, y = make()
    by_weight, by_repeats = both(prediction)
    assert by_weight.weights == (0.5, 1 / 6, 1 / 3)
    for name in QUANTITIES:
        np.testing.assert_allclose(getattr(by_weight, name), getattr(by_repeats, name), **CLOSE)
    if make is classes:
        np.testing.assert_allclose(by_weight.log_mean, by_repeats.log_mean, **CLOSE)
    else:
        np.testing.assert_allclose(by_weight.cdf(y), by_repeats.cdf(y), **CLOSE)
        for level in (0.1, 0.5, 0.9):
            found, expected = by_weight.quantile(level), by_repeats.quantile(level)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    if make is not quantiles:
        np.testing.assert_allclose(by_weight.log_prob(y), by_repeats.log_prob(y), **CLOSE)
    if make is numbers:
        moments = [p.log_prob(y, moment_matched=True) for p in (by_weight, by_repeats)]
        np.testing.assert_allclose(*moments, **CLOSE)
    part = by_weight.select(slice(2, 5))
    assert part.weights == by_weight.weights
    np.testing.assert_allclose(part.mean, by_weight.mean[2:5], rtol=1e-6)
    for name, value in by_weight.summary().items():
        if name != "members":
            np.testing.assert_allclose(value, by_repeats.summary()[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [classes, numbers, counts])
def test_draws_choose_members_by_weight(make):
    """Means over 4000 draws of every row, to five standard errors."""
    prediction, _ = make()
    by_weight = weighted(prediction, [0.0, 0.9, 0.1])
    drawn = np.asarray(by_weight.sample(jax.random.key(0), 4000), np.float64)
    if make is classes:
        drawn = drawn[..., None] == np.arange(4)
    error = drawn.std(0) / np.sqrt(len(drawn)) + 1e-9
    assert np.all(np.abs(drawn.mean(0) - by_weight.mean) < 5 * error)


@pytest.mark.parametrize("make", [classes, numbers])
def test_every_metric_uses_weights(make):
    """All but `disagreement`, whose pairs are of different members."""
    prediction, y = make()
    by_weight, by_repeats = (cx.evaluate(p, y, "all") for p in both(prediction))
    assert len(by_weight) > 15
    for name, value in by_weight.items():
        if not name.startswith("disagreement"):
            np.testing.assert_allclose(value, by_repeats[name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_a_large_prediction_is_scored_as_a_small_one():
    """Members of large predictions are visited in a scan."""
    logits = np.random.default_rng(5).normal(size=(3, 3000, 10))
    whole, y = ClassPrediction.from_logits(logits, COUNTS), np.arange(3000) % 10
    names = ["nll", "entropy", "mutual_information", "variation_ratio"]
    large = cx.evaluate(whole, y, names)
    parts = [
        cx.evaluate(whole.select(slice(i, i + 1000)), y[:1000], names) for i in (0, 1000, 2000)
    ]
    for name in names:
        np.testing.assert_allclose(large[name], np.mean([p[name] for p in parts]), rtol=1e-4)


def test_disagreement_is_between_different_members():
    """Two members of weights 3/4 and 1/4 that always differ disagree in every pair."""
    p = ClassPrediction.from_probs([[[1.0, 0.0]], [[0.0, 1.0]]], weights=[3, 1])
    assert cx.metrics.disagreement(p, np.array([0])) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0, 2.0], r"weights has shape \(2,\) and there are 3 members"),
        ([1.0, -1.0, 1.0], "weights holds -1.0; give finite numbers that are not negative"),
        ([1.0, float("nan"), 1.0], "weights holds nan"),
        ([1.0, float("inf"), 1.0], "weights holds inf"),
        ([0.0, 0.0, 0.0], "weights are all zero"),
        ([2.0, 2.0], "one weight per member"),
    ],
)
def test_bad_weights_are_refused(weights, words):
    with pytest.raises(InputError, match=words):
        weighted(classes()[0], weights)
    with pytest.raises(InputError, match=words):
        trained().with_weights(weights)


@pytest.mark.parametrize("make", [classes, numbers, counts])
def test_equal_weights_are_no_weights(make):
    prediction, y = make()
    equal = weighted(prediction, [0.2, 0.2, 0.2])
    assert equal.weights is None
    np.testing.assert_array_equal(equal.log_prob(y), prediction.log_prob(y))


def trained(likelihood=None):
    problem = cx.Problem(cx.networks.MLP((4,), outputs=2), likelihood or cx.Categorical())
    x = np.zeros((1, 3), np.float32)
    keys = jax.random.split(jax.random.key(0), 3)
    return population(problem, jax.vmap(lambda key: problem.init(key, x))(keys), x)


def test_a_population_predicts_draws_and_is_kept_by_its_weights(tmp_path):
    plain = trained()
    members = plain.with_weights(COUNTS)
    x = RNG.normal(size=(5, 3)).astype(np.float32)
    expected = np.tensordot(COUNTS / 6, np.asarray(plain.predict(x).members), 1)
    np.testing.assert_allclose(members.predict(x).probs, expected, rtol=1e-6)
    np.testing.assert_allclose(members.predict_fn()(x).probs, expected, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(members.predict)(x).probs, expected, rtol=1e-6)
    assert members.take([0, 2]).weights == pytest.approx((0.6, 0.4))
    assert members.member(1).weights is None
    drawn = members.sample(jax.random.key(1), 6000)
    first = np.asarray(members.variables.params["0_dense"]["kernel"])[:, 0, 0]
    shares = (np.asarray(drawn.params["0_dense"]["kernel"])[:, None, 0, 0] == first).mean(0)
    np.testing.assert_allclose(shares, COUNTS / 6, atol=0.03)
    members.save(tmp_path / "m.safetensors")
    loaded = cx.Population.load(tmp_path / "m.safetensors", plain.problem)
    assert loaded.weights == members.weights
    np.testing.assert_array_equal(loaded.predict(x).probs, members.predict(x).probs)
    # A file of equal members says nothing of weights.
    plain.save(tmp_path / "p.safetensors")
    assert b"weights" not in (tmp_path / "p.safetensors").read_bytes()
    for wrong in ([1.0, -1.0, 1.0], [1.0, 2.0], [0.0, 0.0, 0.0]):
        metadata = describe_population(plain, "population") | {"weights": wrong}
        save_tree(tmp_path / "m.safetensors", plain.variables, metadata)
        with pytest.raises(DamagedFile, match="weights"):
            cx.Population.load(tmp_path / "m.safetensors", plain.problem)


def test_populations_are_combined_by_their_numbers_of_members():
    first, second = trained().with_weights(COUNTS), trained()
    second = cx.Population(second.problem, second.variables, (3, 4, 5), second.input_shape)
    weights = combine([first, second]).weights
    np.testing.assert_allclose(weights, [1 / 4, 1 / 12, 1 / 6, 1 / 6, 1 / 6, 1 / 6])
    assert combine([second, trained()]).weights is None


def test_members_left_out_leave_their_weight_to_the_others():
    prediction, _ = classes()
    broken = prediction.log_probs.at[1, 0, 0].set(jnp.nan)
    kept = without_broken_members(ClassPrediction(broken, weights=COUNTS))
    assert kept.weights == pytest.approx((0.6, 0.4))
    with pytest.raises(InputError, match="weights of zero"):
        without_broken_members(ClassPrediction(broken, weights=[0, 1, 0]))


def test_calibrators_are_fitted_on_the_weighted_mixture():
    rng = np.random.default_rng(6)
    y = rng.integers(0, 3, 60)
    sharp = ClassPrediction.from_logits(6 * (np.eye(3)[y] + rng.normal(size=(3, 60, 3))))
    for calibrator in (Temperature(), Temperature(apply_to="mixture"), Vector()):
        by_weight, by_repeats = (calibrator.fit(p, y)(p) for p in both(sharp))
        assert by_weight.weights == ((0.5, 1 / 6, 1 / 3) if by_weight.num_members > 1 else None)
        np.testing.assert_allclose(by_weight.probs, by_repeats.probs, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(*(normalised(p) for p in both(sharp)), rtol=1e-6)
    with pytest.raises(InputError, match=r"unequal weights.*apply_to='mixture'"):
        cx.calibration.Dirichlet().fit(both(sharp)[0], y)
    prediction, y = numbers()
    for calibrator in (VarianceScaling(), QuantileRecalibration()):
        by_weight, by_repeats = (calibrator.fit(p, y)(p) for p in both(prediction))
        for name in ("mean", "var", "epistemic"):
            pair = getattr(by_weight, name), getattr(by_repeats, name)
            np.testing.assert_allclose(*pair, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(
            by_weight.quantile(0.3), by_repeats.quantile(0.3), rtol=1e-4, atol=1e-5
        )


def test_acquisitions_use_weights():
    prediction, _ = classes()
    by_weight, by_repeats = both(prediction)
    scores = ("bald", "mean_std", "variation_ratio", "vote_entropy", "predictive_variance")
    for name in scores:
        function = getattr(acquisition, name)
        np.testing.assert_allclose(function(by_weight), function(by_repeats), **CLOSE)
    pairs = acquisition.epig(by_weight, by_weight), acquisition.epig(by_repeats, by_repeats)
    np.testing.assert_allclose(*pairs, **CLOSE)
    by_weight, by_repeats = both(numbers()[0])
    for options in ({}, {"quadrature": True}):
        pair = (acquisition.bald(p, **options) for p in (by_weight, by_repeats))
        np.testing.assert_allclose(*pair, rtol=1e-3, atol=1e-5)
    pairs = acquisition.epig(by_weight, by_weight), acquisition.epig(by_repeats, by_repeats)
    np.testing.assert_allclose(*pairs, rtol=1e-3, atol=1e-5)


def test_members_are_as_likely_parameters_as_their_weights_say():
    model = posterior_model(trained().with_weights(COUNTS))
    nodes, weights = model.nodes()
    np.testing.assert_allclose(weights, COUNTS / 6, rtol=1e-6)
    np.testing.assert_allclose(
        [model.prior_log_prob(n) for n in nodes], np.log(COUNTS / 6), rtol=1e-5
    )
