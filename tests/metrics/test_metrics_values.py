"""Values worked out by hand (the tables G1 to G5 and their kin) and the edges of definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from metrics_cases import G1, LABELS, gaussians

from credax import metrics
from credax.metrics import calibration
from credax.prediction import ClassPrediction, GaussianPrediction


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


HAND = {
    "accuracy": (metrics.accuracy, 0.75),
    "nll": (metrics.nll, 0.7358415886283122),
    "brier": (metrics.brier, 0.417075),
    "brier top": (metrics.brier.having(reduce="top"), 0.200175),
    "confidence": (metrics.mean_confidence, 0.69),
    "ece 5": (metrics.ece.having(bins=5), 0.135),
    "ece 15": (metrics.ece, 0.385),
    "mce 5": (metrics.mce.having(bins=5), 0.17666666666666664),
    "rmsce 5": (metrics.rmsce.having(bins=5), 0.13914171432991138),
    "debiased 5": (metrics.debiased_rmsce.having(bins=5), 0.0),
    "adaptive 2": (metrics.adaptive_ece.having(bins=2), 0.1025),
    "adaptive 4": (metrics.adaptive_ece.having(bins=4), 0.385),
    "ace 2": (metrics.ace.having(ranges=2), 0.14),
    "ace 4": (metrics.ace.having(ranges=4), 0.1725),
    "sce 5": (metrics.sce.having(bins=5), 0.15833333333333333),
    "sce 15": (metrics.sce, 0.215),
    "aurc": (metrics.aurc, 0.13363095238095238),
    "aurc trapezoid": (metrics.aurc.having(rule="trapezoid"), 0.13486394557823128),
    "e_aurc": (metrics.e_aurc, 0.08452380952380953),
    "augrc": (metrics.augrc, 0.109375),
    "augrc trapezoid": (metrics.augrc.having(rule="trapezoid"), 0.10714285714285714),
    "coverage 0.2": (metrics.coverage_at_risk.having(risk=0.2), 0.625),
    "coverage 0.1": (metrics.coverage_at_risk.having(risk=0.1), 0.5),
    "risk 0.8": (metrics.risk_at_coverage, 0.2857142857142857),
    "auroc": (metrics.auroc_correct, 0.6666666666666666),
    "mutual information": (metrics.mutual_information, 0.0),
}
SMOOTH = {
    "smooth 0.1": (metrics.smooth_ece.having(width=0.1), 0.19665962),
    "smooth 0.05": (metrics.smooth_ece.having(width=0.05), 0.32051230),
    "smooth": (metrics.smooth_ece, 0.13607820),
}


@pytest.mark.usefixtures("x64")
def test_eight_rows_by_hand():
    prediction = ClassPrediction.from_probs(G1[None])
    collection = metrics.Collection({n: m.stream() for n, (m, _) in (HAND | SMOOTH).items()})
    values = collection(prediction, LABELS)
    for name, (_, expected) in HAND.items():
        assert float(values[name]) == pytest.approx(expected, abs=1e-12), name
    for name, (_, expected) in SMOOTH.items():
        assert float(values[name]) == pytest.approx(expected, abs=1e-6), name


@pytest.mark.usefixtures("x64")
def test_the_members_of_a_vote():
    votes = np.eye(5)[[1, 2, 1, 1, 4]][:, None, :]
    prediction = ClassPrediction.from_probs(votes)
    assert float(metrics.variation_ratio(prediction)) == pytest.approx(0.4, abs=1e-12)
    assert float(metrics.disagreement(prediction)) == pytest.approx(0.7, abs=1e-12)
    pair = ClassPrediction.from_probs(np.array([[[0.9, 0.1]], [[0.1, 0.9]]]))
    value = float(metrics.mutual_information(pair))
    assert value == pytest.approx(0.3680642071684971, abs=1e-12)


@pytest.mark.usefixtures("x64")
def test_members_that_disagree():
    members = np.array([[[0.7, 0.2, 0.1]], [[0.1, 0.8, 0.1]], [[0.2, 0.2, 0.6]]])
    prediction = ClassPrediction.from_probs(members)
    mixture = members.mean(0)
    divergence = np.mean(np.sum(members * np.log(members / mixture), axis=-1))
    assert divergence == pytest.approx(0.2881482958254008, abs=1e-12)
    parts = {name: float(value) for name, value in metrics.decomposition(prediction).items()}
    assert parts["epistemic"] == pytest.approx(divergence, abs=1e-12)
    assert parts["total"] == pytest.approx(1.085189, abs=1e-6)
    assert parts["aleatoric"] == pytest.approx(0.797040, abs=1e-6)
    of = {p: float(metrics.one_hot_variance(prediction, part=p)) for p in parts}
    assert of["total"] == pytest.approx(np.sum(mixture * (1 - mixture)), abs=1e-12)
    assert of["epistemic"] == pytest.approx(np.sum(members.var(0)), abs=1e-12)
    assert of["total"] == pytest.approx(of["aleatoric"] + of["epistemic"], abs=1e-12)


@pytest.mark.usefixtures("x64")
def test_ood_rows_by_hand():
    score, out = metrics.id_and_ood([0.1, 0.2, 0.35, 0.4], [0.3, 0.5, 0.6, 0.9, 0.95])
    expected = {
        metrics.auroc: 0.9,
        metrics.aupr_out: 0.9428571428571428,
        metrics.aupr_in: 0.8875,
        metrics.prevalence: 5 / 9,
        metrics.fpr_at_ood_recall: 0.5,
        metrics.fpr_at_id_recall: 0.2,
    }
    collection = metrics.Collection({str(n): m.stream() for n, m in enumerate(expected)})
    for ours, value in zip(collection(score, out).values(), expected.values(), strict=True):
        assert float(ours) == pytest.approx(value, abs=1e-12)


def test_confidences_on_an_edge_fall_into_the_lower_bin_in_float32_too():
    prediction = ClassPrediction.from_probs(np.asarray(G1[None], np.float32))
    table = metrics.reliability(prediction, LABELS, bins=5)
    assert table.counts.tolist() == [0, 0, 3, 3, 2]
    np.testing.assert_allclose(table.accuracy[2:], [2 / 3, 2 / 3, 1], atol=1e-6)
    np.testing.assert_allclose(table.confidence[2:], [0.49, 2.3 / 3, 0.875], atol=1e-6)
    assert np.isnan(table.accuracy[:2]).all()
    assert np.isnan(table.confidence[:2]).all()


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("bins", [5, 10, 15, 20, 100])
def test_every_edge_survives_the_logarithm(bins):
    edges = np.arange(1, bins + 1) / bins
    stored = jnp.exp(jnp.log(jnp.asarray(edges)))
    index = calibration.bin_index(stored, np.arange(bins + 1) / bins)
    assert index.tolist() == list(range(bins))


def test_bin_index_is_not_the_rounded_product():
    assert np.ceil(np.float64(0.7) * 10 + 1e-15) == 8
    index = metrics.bin_index(jnp.array([0.0, 0.7, 0.70001, 1.0]), np.arange(11) / 10)
    assert index.tolist() == [0, 6, 7, 9]


def test_more_bins_than_rows():
    prediction = ClassPrediction.from_probs(G1[None, :2])
    assert float(metrics.ece(prediction, LABELS[:2], bins=1000)) == pytest.approx(0.15, abs=1e-6)
    adaptive = metrics.adaptive_ece(prediction, LABELS[:2], bins=15)
    assert float(adaptive) == pytest.approx(0.15, abs=1e-6)


def test_one_confidence_and_half_of_it_right():
    prediction = ClassPrediction.from_probs(np.tile([[[0.8, 0.2]]], (1, 100, 1)))
    y = np.arange(100) % 2
    for metric in (metrics.ece, metrics.adaptive_ece, metrics.smooth_ece):
        assert float(metric(prediction, y)) == pytest.approx(0.3, abs=1e-4)


def calibrated(rng, rows):
    probs = rng.dirichlet(np.ones(3), size=rows)
    y = (probs.cumsum(1) > rng.random((rows, 1))).argmax(1)
    return ClassPrediction.from_probs(probs[None]), y


def test_calibration_error_of_calibrated_draws_falls_like_one_over_root_n():
    rng = np.random.default_rng(0)
    collection = metrics.Collection(
        {"ece": metrics.ece.stream(), "smooth": metrics.smooth_ece.stream()}
    )
    rows = 2000
    means = []
    # The same program serves both sizes: sixteen times the rows are sixteen batches.
    for batches, repeats in ((1, 40), (16, 20)):
        values = []
        for _ in range(repeats):
            state = collection.init()
            for _ in range(batches):
                state = collection.update(state, *calibrated(rng, rows))
            values.append(collection.finish(state))
        means.append({n: np.mean([v[n] for v in values]) for n in collection.streams})
    small, large = means
    assert 3.2 < small["ece"] / large["ece"] < 4.8
    assert large["ece"] < 0.01
    assert 1.8 < small["smooth"] / large["smooth"] < 5


@pytest.mark.usefixtures("x64")
def test_the_debiased_error_of_calibrated_draws_is_zero_on_average():
    rng = np.random.default_rng(1)
    stream = metrics.debiased_rmsce.stream()
    squares = []
    for _ in range(40):
        state = stream.update(stream.init(), *calibrated(rng, 2000))
        bins = state.totals[0]
        gap, accuracy = bins.gap, bins.correct / np.maximum(bins.weight, 1)
        chance = accuracy * (1 - accuracy) / np.maximum(bins.count - 1, 1)
        squares.append(np.sum(bins.share * (gap**2 - chance)))
        assert stream.finish(state) == pytest.approx(np.sqrt(max(squares[-1], 0)), abs=1e-12)
    assert abs(np.mean(squares)) < 3 * np.std(squares) / np.sqrt(len(squares))


@pytest.mark.usefixtures("x64")
def test_risk_coverage_by_hand():
    coverage, risk = metrics.risk_coverage(ClassPrediction.from_probs(G1[None]), LABELS)
    np.testing.assert_allclose(coverage, np.arange(1, 9) / 8)
    # Two rows share the confidence 0.8 (both right); the errors come at ranks 5 and 6.
    np.testing.assert_allclose(risk, [0, 0, 0, 0, 1 / 5, 2 / 6, 2 / 7, 2 / 8], atol=1e-12)
    assert float(jnp.mean(risk)) == pytest.approx(0.13363095238095238, abs=1e-12)


def test_tied_confidences_share_their_errors():
    score = jnp.array([0.5, 0.9, 0.5, 0.5, 0.2])
    error = jnp.array([1, 0, 0, 1, 1])
    _, risk = metrics.risk_coverage_of(score, error)
    expected = np.cumsum([0, 2 / 3, 2 / 3, 2 / 3, 1]) / np.arange(1, 6)
    np.testing.assert_allclose(risk, expected, atol=1e-6)
    order = np.array([3, 2, 0, 1, 4])
    np.testing.assert_allclose(metrics.risk_coverage_of(score[order], error[order])[1], risk)


@pytest.mark.usefixtures("x64")
def test_areas_of_tied_blocks_equal_sums_over_rows():
    rng = np.random.default_rng(2)
    confidence = rng.choice([0.55, 0.7, 0.95], size=40)
    y = (rng.random(40) < 1.2 * (1 - confidence)).astype(int)
    prediction = ClassPrediction.from_probs(np.stack([confidence, 1 - confidence], -1)[None])
    risk = np.asarray(metrics.risk_coverage(prediction, y)[1])
    k = np.arange(1, 41)
    expected = {
        "mean": (risk.mean(), (risk * k / 40).mean()),
        "trapezoid": tuple(
            np.trapezoid(curve, k / 40) / (1 - 1 / 40) for curve in (risk, risk * k / 40)
        ),
    }
    collection = metrics.Collection(
        {
            f"{m.__name__} {r}": m.stream(rule=r)
            for m in (metrics.aurc, metrics.augrc)
            for r in expected
        }
    )
    values = collection(prediction, y)
    for rule, (plain, joint) in expected.items():
        assert float(values[f"aurc {rule}"]) == pytest.approx(plain, abs=1e-12)
        assert float(values[f"augrc {rule}"]) == pytest.approx(joint, abs=1e-12)
    limit = 0.13
    assert risk.min() < limit < risk[-1]
    largest = max(c for c, r in zip(k / 40, risk, strict=True) if r <= limit)
    assert float(metrics.coverage_at_risk(prediction, y, risk=limit)) == pytest.approx(largest)
    at = float(metrics.risk_at_coverage(prediction, y, coverage=0.33))
    assert at == pytest.approx(risk[int(np.ceil(0.33 * 40)) - 1], abs=1e-12)


def test_disjoint_certain_members_reach_the_bound():
    prediction = ClassPrediction.from_probs(np.eye(4)[:, None, :])
    assert float(metrics.mutual_information(prediction)) == pytest.approx(np.log(4), rel=1e-6)


def test_impossible_labels_are_clipped_and_counted():
    logits = np.array([[[1e3, -1e3], [0.0, 0.0]]])
    prediction = ClassPrediction.from_logits(logits)
    y = np.array([1, 0])
    smallest = np.log(np.finfo(np.float32).tiny)
    assert float(metrics.nll(prediction, y)) == pytest.approx(-(smallest - np.log(2)) / 2)
    assert float(metrics.member_nll(prediction, y)) == pytest.approx(-(smallest - np.log(2)) / 2)
    assert float(metrics.jensen_gap(prediction, y)) == 0
    assert int(metrics.clipped(prediction, y)) == 1
    assert int(metrics.clipped(prediction, np.array([0, 0]))) == 0


def test_classes_that_are_missing():
    prediction = ClassPrediction.from_probs(G1[None])
    y = np.array([0, 0, 1, 0, 1, 1, 1, 0])
    label = G1.argmax(1)
    recall = [np.mean(label[y == k] == k) for k in (0, 1)]
    assert float(metrics.balanced_accuracy(prediction, y)) == pytest.approx(np.mean(recall))
    union = [np.mean(label[(y == k) | (label == k)] == y[(y == k) | (label == k)]) for k in (0, 1)]
    # Class 2 is predicted but never true: its intersection is empty and counts.
    assert float(metrics.mean_iou(prediction, y)) == pytest.approx(np.mean([*union, 0.0]))


@pytest.mark.usefixtures("x64")
def test_smooth_error_against_direct_quadrature():
    rng = np.random.default_rng(3)
    confidence = rng.uniform(0.5, 1, 60)
    correct = rng.random(60) < confidence**2
    prediction = ClassPrediction.from_probs(np.stack([confidence, 1 - confidence], -1)[None])
    y = np.where(correct, 0, 1)
    residual = confidence - correct
    t = np.linspace(0, 1, 20001)
    for width in (0.01, 0.03, 0.2):
        kernel = sum(
            np.exp(-0.5 * ((t[:, None] - image) / width) ** 2)
            for k in range(-3, 4)
            for image in (confidence + 2 * k, -confidence + 2 * k)
        ) / (width * np.sqrt(2 * np.pi))
        direct = np.trapezoid(np.abs(kernel @ residual), t) / 60
        ours = float(metrics.smooth_ece(prediction, y, width=width))
        assert ours == pytest.approx(direct, abs=1e-5), width
        u = np.linspace(-30, 30, 40001)
        clipped = np.clip(confidence, 1e-3, 1 - 1e-3)
        place = np.log(clipped / (1 - clipped))
        z = (u[:, None] - place) / (4 * width)
        kernel = np.exp(-0.5 * z**2) / (4 * width * np.sqrt(2 * np.pi))
        direct = np.trapezoid(np.abs(kernel @ residual), u) / 60
        ours = float(metrics.smooth_ece(prediction, y, width=width, kernel="logit"))
        assert ours == pytest.approx(direct, abs=1e-5), width


@pytest.mark.parametrize("kernel", ["reflected", "logit"])
def test_the_smooth_curve_follows_a_known_accuracy(kernel):
    rng = np.random.default_rng(4)
    rows = 40_000
    confidence = rng.uniform(0.5, 1, rows)
    correct = rng.random(rows) < confidence - 0.04
    prediction = ClassPrediction.from_probs(np.stack([confidence, 1 - confidence], -1)[None])
    curve = metrics.smooth_reliability(prediction, np.where(correct, 0, 1), kernel=kernel)
    inner = (curve.confidence > 0.6) & (curve.confidence < 0.9)
    away = curve.accuracy[inner] - (curve.confidence[inner] - 0.04)
    assert np.abs(away).max() < 0.02
    assert np.isnan(curve.accuracy[curve.confidence < 0.3]).all()
    assert 0.03 < float(curve.width) < 0.05
    assert np.trapezoid(curve.density, curve.confidence) == pytest.approx(1, abs=0.1)
    # At 0.75 a kernel of standard deviation s averages over about 2 √π s · density · rows.
    middle = np.argmin(np.abs(curve.confidence - 0.75))
    deviation = curve.width * (4 * 0.75 * 0.25 if kernel == "logit" else 1)
    rows_reached = 2 * np.sqrt(np.pi) * deviation * 2 * rows
    expected = np.sqrt(0.71 * 0.29 / rows_reached)
    assert curve.standard_error[middle] == pytest.approx(expected, rel=0.1)


def test_prediction_sets_by_hand():
    sets = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 1, 0]], bool)
    y = np.array([0, 1, 2, 2, 0])
    assert float(metrics.set_coverage(sets, y)) == pytest.approx(3 / 5)
    assert float(metrics.set_coverage(sets, y, average="macro")) == pytest.approx(2 / 3)
    assert float(metrics.set_coverage(sets, y, average="worst")) == pytest.approx(1 / 2)
    np.testing.assert_allclose(metrics.coverage_by_class(sets, y), [0.5, 1, 0.5])
    assert float(metrics.set_size(sets, y)) == pytest.approx(7 / 5)
    assert float(metrics.singleton_share(sets, y)) == pytest.approx(2 / 5)
    assert float(metrics.empty_share(sets, y)) == pytest.approx(1 / 5)
    worst = metrics.size_stratified_coverage(sets, y, minimum=2)
    assert float(worst) == pytest.approx(1 / 2)
    with pytest.warns(metrics.UndefinedMetric, match="at least 50 rows"):
        assert np.isnan(metrics.size_stratified_coverage(sets, y))


@pytest.mark.usefixtures("x64")
def test_mixture_of_two_gaussians():
    prediction = gaussians([[1, 1], [3, 3]], [[0.5, 0.5], [1.5, 1.5]])
    y = np.array([2.0, 4.0])
    values = metrics.evaluate(prediction, y)
    assert values["nll"] == pytest.approx((1.5119639823949556 + 2.147853330621085) / 2, abs=1e-12)
    matched = (1.2655121234846454 + 2.265512123484645) / 2
    assert values["moment_matched_nll"] == pytest.approx(matched, abs=1e-12)
    crps = (0.370508264246156 + 1.3453826709336387) / 2
    assert values["crps"] == pytest.approx(crps, abs=1e-12)
    assert values["rmse"] == pytest.approx(np.sqrt(2), abs=1e-12)
    # The central 90 % interval of this mixture is (0.0597977765, 4.5695752640).
    inside = np.array([0.0598, 4.5695])
    assert metrics.evaluate(prediction, inside)["coverage_90"] == 1.0
    assert metrics.evaluate(prediction, np.array([0.0597, 4.5696]))["coverage_90"] == 0.0


@pytest.mark.usefixtures("x64")
def test_crps_of_one_gaussian_and_of_samples():
    for y, expected in ((0.0, 0.23369497725510902), (1.0, 0.6024413576276162)):
        value = float(metrics.crps(gaussians([[0.0]], [[1.0]]), np.array([y])))
        assert value == pytest.approx(expected, abs=1e-12)
    samples = np.array([1.0, 2.0, 4.0])
    assert float(metrics.crps_of_samples(samples, 3.0)) == pytest.approx(2 / 3, abs=1e-12)
    assert float(metrics.crps_of_samples(samples, 3.0, fair=True)) == pytest.approx(1 / 3)


@pytest.mark.usefixtures("x64")
def test_crps_against_quadrature():
    rng = np.random.default_rng(5)
    prediction = gaussians(rng.normal(size=(3, 5)), rng.uniform(0.3, 2, size=(3, 5)))
    y = rng.normal(size=5)
    t = np.linspace(-15, 15, 60001)
    means, deviations = (
        np.asarray(prediction.means)[..., 0],
        np.sqrt(np.asarray(prediction.variances)[..., 0]),
    )
    cdf = np.asarray(jax.scipy.special.ndtr((t - means[..., None]) / deviations[..., None])).mean(0)
    below = np.trapezoid(np.where(t < y[:, None], cdf**2, 0), t, axis=1)
    above = np.trapezoid(np.where(t >= y[:, None], (1 - cdf) ** 2, 0), t, axis=1)
    assert float(metrics.crps(prediction, y)) == pytest.approx((below + above).mean(), abs=5e-4)
    # The step at y is the only rough place: cell by cell the rest is exact.
    fine = [_integral(prediction, row, y[row]) for row in range(5)]
    assert float(metrics.crps(prediction, y)) == pytest.approx(np.mean(fine), abs=1e-8)


def _integral(prediction, row, y):
    from scipy.integrate import quad
    from scipy.stats import norm

    means = np.asarray(prediction.means)[:, row, 0]
    deviations = np.sqrt(np.asarray(prediction.variances)[:, row, 0])

    def cdf(t):
        return norm.cdf(t, means, deviations).mean()

    low = quad(lambda t: cdf(t) ** 2, -20, y, epsabs=1e-11)[0]
    return low + quad(lambda t: (1 - cdf(t)) ** 2, y, 20, epsabs=1e-11)[0]


@pytest.mark.usefixtures("x64")
def test_intervals_and_quantiles_by_hand():
    interval = np.array([1.0, 1.0]), np.array([3.0, 3.0])
    y = np.array([4.0, 2.0])
    assert float(metrics.interval_score(interval, y, level=0.9)) == pytest.approx((22 + 2) / 2)
    assert float(metrics.coverage(interval, y)) == 0.5
    assert float(metrics.width(interval, y)) == 2
    crossed = np.array([3.0, 1.0]), np.array([1.0, 3.0])
    assert float(metrics.width(crossed, y)) == 1
    assert float(metrics.coverage(crossed, np.array([2.0, 2.0]))) == 0.5
    everything = np.array([-np.inf, 1.0]), np.array([np.inf, 3.0])
    assert float(metrics.coverage(everything, y)) == 1
    assert np.isinf(metrics.width(everything, y))
    assert float(metrics.pinball(np.array([1.0]), np.array([3.0]), level=0.9)) == pytest.approx(1.8)
    assert float(metrics.pinball(np.array([3.0]), np.array([1.0]), level=0.9)) == pytest.approx(0.2)


@pytest.mark.usefixtures("x64")
def test_depths_by_hand():
    guess, y = np.array([1.0, 2.0, 4.0]), np.array([1.0, 1.0, 5.0])
    expected = {
        metrics.silog: 0.15220386263664373,
        metrics.silog.having(variance_share=0.85): 0.1558855861617131,
        metrics.log10_error: 0.13264666955734586,
        metrics.absolute_relative_error: 0.4,
        metrics.squared_relative_error: 0.4,
        metrics.squared_relative_error.having(root=True): np.sqrt(0.4),
        metrics.threshold_accuracy: 1 / 3,
        metrics.threshold_accuracy.having(power=2): 2 / 3,
        metrics.rmse_log: np.sqrt(np.mean(np.log(guess / y) ** 2)),
        metrics.inverse_mae: 1000 * np.mean(np.abs(1 / guess - 1 / y)),
        metrics.inverse_rmse: 1000 * np.sqrt(np.mean((1 / guess - 1 / y) ** 2)),
    }
    collection = metrics.Collection({str(n): m.stream() for n, m in enumerate(expected)})
    for ours, value in zip(collection(guess, y).values(), expected.values(), strict=True):
        assert float(ours) == pytest.approx(value, abs=1e-12)
    # Entries without a valid depth do not count, whatever is predicted there.
    padded = np.append(guess, -1.0), np.append(y, 0.0)
    assert float(metrics.absolute_relative_error(*padded)) == pytest.approx(0.4, abs=1e-12)
    mixture = gaussians([[1.0, 2.0, 4.0]], [[1.0, 1.0, 1.0]])
    assert float(metrics.absolute_relative_error(mixture, y)) == pytest.approx(0.4, abs=1e-12)


@pytest.mark.usefixtures("x64")
def test_sparsification_by_hand():
    prediction = gaussians([[0.0] * 4], [[1.0, 3.0, 2.0, 4.0]])
    errors = np.array([1.0, -2.0, 3.0, -4.0])
    assert float(metrics.ause(prediction, errors)) == pytest.approx(0.05, abs=1e-12)
    with pytest.warns(metrics.UndefinedMetric, match="all errors are zero"):
        assert np.isnan(metrics.ause(prediction, np.zeros(4)))
    # Two bins by rising variance: mean squares 2.5 and 12.5 against 1.5 and 3.5.
    squared = np.array([1.0, 4.0, 4.0, 21.0])
    ours = float(metrics.ence(prediction, np.sqrt(squared), bins=2))
    low, high = np.sqrt(2.5 / 1.5) - 1, np.sqrt(12.5 / 3.5) - 1
    assert ours == pytest.approx((low + high) / 2, abs=1e-12)


@pytest.mark.usefixtures("x64")
def test_coverage_equals_counting_between_quantiles():
    rng = np.random.default_rng(1)
    prediction = gaussians(rng.normal(size=(3, 200)), rng.uniform(0.2, 2, size=(3, 200)))
    y = rng.normal(size=200)
    for level in (0.5, 0.9):
        low, high = prediction.interval(level)
        counted = np.mean((y >= np.asarray(low)) & (y <= np.asarray(high)))
        ours = float(metrics.coverage(prediction, y, level=level))
        assert ours == pytest.approx(counted, abs=1e-12)
        pair = np.asarray(low), np.asarray(high)
        assert float(metrics.coverage(pair, y)) == pytest.approx(counted, abs=1e-12)
        same = float(metrics.interval_score(prediction, y, level=level))
        assert same == pytest.approx(float(metrics.interval_score(pair, y, level=level)))


@pytest.mark.usefixtures("x64")
def test_the_pit_of_the_true_model_is_uniform():
    from scipy.stats import kstwo

    rng = np.random.default_rng(6)
    rows = 4000
    means, variances = rng.normal(size=(3, rows)), rng.uniform(0.2, 2, size=(3, rows))
    pick = rng.integers(0, 3, rows), np.arange(rows)
    y = means[pick] + np.sqrt(variances[pick]) * rng.normal(size=rows)
    prediction = gaussians(means, variances)
    distance = float(metrics.pit_distance(prediction, y))
    assert kstwo.sf(distance, rows) > 1e-3
    assert float(metrics.quantile_calibration_error(prediction, y)) < 0.02
    assert kstwo.sf(float(metrics.pit_distance(prediction, 2 * y)), rows) < 1e-3
    histogram = metrics.pit_histogram(prediction, y, cells=10)
    assert histogram.share.sum() == pytest.approx(1)
    assert np.abs(histogram.share - 0.1).max() < 0.02


def test_several_targets_sum_in_the_likelihood_and_average_in_the_rest():
    rng = np.random.default_rng(2)
    means, variances = rng.normal(size=(2, 50, 3)), rng.uniform(0.5, 2, size=(2, 50, 3))
    y = rng.normal(size=(50, 3))
    together = metrics.evaluate(GaussianPrediction(jnp.array(means), jnp.array(variances)), y)
    apart = [
        metrics.evaluate(gaussians(means[..., t], variances[..., t]), y[:, t]) for t in range(3)
    ]
    summed = sum(a["moment_matched_nll"] for a in apart)
    assert together["moment_matched_nll"] == pytest.approx(summed, rel=1e-5)
    squares = np.mean([a["rmse"] ** 2 for a in apart])
    assert together["rmse"] ** 2 == pytest.approx(squares, rel=1e-5)
    for name in ("coverage_90", "crps"):
        assert together[name] == pytest.approx(np.mean([a[name] for a in apart]), rel=1e-5)


def test_a_single_target_may_keep_its_axis():
    prediction = gaussians([[0.0, 1.0, 5.0]], [[1.0, 1.0, 2.0]])
    y = np.array([0.5, 1.0, 4.0])
    assert metrics.evaluate(prediction, y) == metrics.evaluate(prediction, y[:, None])


def test_variance_that_rounding_would_swallow():
    # In float32 the squares of these targets are all the same number.
    y = 10_000 + np.arange(8, dtype=np.float32) / 8
    prediction = gaussians(y[None] + 0.125, np.ones((1, 8)))
    squares = np.sum((y - y.mean()) ** 2)
    expected = 1 - 8 * 0.125**2 / squares
    stream = metrics.r2.stream()
    state = stream.init()
    for part in (slice(0, 4), slice(4, 8)):
        state = stream.update(state, prediction.select(part), y[part])
    assert stream.finish(state) == pytest.approx(expected, rel=1e-6)
    assert float(metrics.r2(prediction, y)) == pytest.approx(expected, rel=1e-5)
    with pytest.warns(metrics.UndefinedMetric, match="no variance to explain"):
        assert np.isnan(metrics.r2(prediction, np.ones(8)))


def test_pixels_are_rows():
    rng = np.random.default_rng(7)
    probs = rng.dirichlet(np.ones(3), size=(2, 2, 5, 4))
    y = rng.integers(0, 3, (2, 5, 4))
    y[0, 0] = 255
    prediction, labels = metrics.pixels(np.log(probs), y, ignore_label=255)
    assert prediction.log_probs.shape == (2, 36, 3)
    label = probs.mean(0).argmax(-1)
    kept = y != 255
    counts = [
        np.sum((label == k) & (y == k)) / np.sum(((label == k) & kept) | (y == k)) for k in range(3)
    ]
    assert float(metrics.mean_iou(prediction, labels)) == pytest.approx(np.mean(counts))
    some, _ = metrics.pixels(np.log(probs), y, ignore_label=255, rate=0.5, key=0)
    again, _ = metrics.pixels(np.log(probs), y, ignore_label=255, rate=0.5, key=0)
    assert 0 < some.log_probs.shape[1] < 36
    np.testing.assert_array_equal(some.log_probs, again.log_probs)
