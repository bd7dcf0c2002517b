"""Scores against closed forms, identities and numbers recorded from other implementations."""

import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.active import acquisition
from credax.prediction import ClassPrediction, GaussianPrediction

GOLDEN = Path(__file__).parent.parent / "golden" / "active_learning.npz"
CASES = ["N12_S20_C3_b3", "N15_S6_C4_b4"]
ONE_HOT = np.eye(5)[[1, 2, 1, 1, 4], None, 1:]  # votes for classes 1, 2, 1, 1, 4 of 1 to 4
# Members; entropy, mean entropy, BALD, votes against the mode, soft, aleatoric and epistemic
# variance, mean deviation, gap of the two largest. All computed by hand from the definitions.
ROWS = [
    ([(1, 0), (0, 1)], [0.693147, 0, 0.693147, 0.5, 0.5, 0, 0.5, 0.5, 0]),
    ([(0.5, 0.5)] * 2, [0.693147, 0.693147, 0, 0, 0.5, 0.5, 0, 0, 0]),
    ([(0.9, 0.1), (0.1, 0.9)], [0.693147, 0.325083, 0.368064, 0.5, 0.5, 0.18, 0.32, 0.4, 0]),
    (
        [(0.7, 0.2, 0.1), (0.1, 0.8, 0.1), (0.2, 0.2, 0.6)],
        [1.085189, 0.797040, 0.288148, 2 / 3, 0.6, 0.453333, 0.204444, 0.260337, 0.066667],
    ),
    (ONE_HOT[:, 0], [0.950271, 0, 0.950271, 0.4, 0.4, 0, 0.56, 0.322474, 0.4]),
]


def golden(case):
    with np.load(GOLDEN) as arrays:
        return {k.split("/", 1)[1]: arrays[k] for k in arrays.files if k.startswith(case + "/")}


def random_prediction(seed=0, members=6, rows=8, classes=4, scale=2.0):
    rng = np.random.default_rng(seed)
    return ClassPrediction.from_logits(scale * rng.standard_normal((members, rows, classes)))


@pytest.mark.parametrize(("members", "expected"), ROWS)
def test_scores_by_hand(members, expected, float64):
    """Votes and the soft ratio differ in the fourth row: one in place of the other fails."""
    p = ClassPrediction.from_probs(np.array(members, float)[:, None])
    total = cx.active.predictive_variance(p)
    epistemic = cx.active.predictive_variance(p, part="epistemic")
    found = [
        cx.active.entropy(p),
        p.aleatoric,
        cx.active.bald(p),
        cx.active.variation_ratio(p),
        cx.active.variation_ratio_soft(p),
        total - epistemic,
        epistemic,
        cx.active.mean_std(p),
        -cx.active.margin(p),
    ]
    np.testing.assert_allclose(np.array(found)[:, 0], expected, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_recorded_scores_of_batchbald_redux_baal_and_modal(case, float64):
    recorded = golden(case)
    p = ClassPrediction(np.swapaxes(recorded["log_probs"], 0, 1))
    pairs = [
        (cx.active.entropy(p), "entropy"),
        (p.aleatoric, "conditional_entropy"),
        (cx.active.bald(p), "bald"),
        (cx.active.bald(p), "baal/bald"),
        (-cx.active.margin(p), "baal/margin"),
        (1 - cx.active.variation_ratio_soft(p), "baal/certainty"),
        (cx.active.vote_entropy(p), "modAL/vote_entropy"),
        (cx.active.entropy(p), "modAL/consensus_entropy"),
        (cx.active.variation_ratio_soft(p), "modAL/uncertainty"),
        (-cx.active.margin(p), "modAL/margin"),
    ]
    for found, name in pairs:
        np.testing.assert_allclose(found, recorded[name], rtol=1e-9, atol=1e-12, err_msg=name)
    variance = recorded["baal/variance_per_class"]
    epistemic = cx.active.predictive_variance(p, part="epistemic")
    np.testing.assert_allclose(epistemic, variance.sum(-1), rtol=1e-9)
    np.testing.assert_allclose(cx.active.mean_std(p), np.sqrt(variance).mean(-1), rtol=1e-9)


def test_identities_on_random_members(float64):
    p = random_prediction()
    members, mean = np.asarray(p.members), np.asarray(p.probs)
    divergence = (members * np.log(members / mean)).sum(-1).mean(0)
    found = np.asarray(cx.active.bald(p))
    assert (found > 0).all()
    np.testing.assert_allclose(found, divergence, atol=1e-12)
    np.testing.assert_allclose(found, cx.active.entropy(p) - p.aleatoric, atol=1e-12)
    aleatoric = (members * (1 - members)).sum(-1).mean(0)
    epistemic = cx.active.predictive_variance(p, part="epistemic")
    np.testing.assert_allclose(cx.active.predictive_variance(p), aleatoric + epistemic, atol=1e-12)


def test_equal_members_have_no_disagreement():
    one = random_prediction(members=1, rows=50).log_probs
    same = ClassPrediction(jnp.tile(one, (7, 1, 1)))
    np.testing.assert_allclose(cx.active.bald(same), 0, atol=1e-6)
    np.testing.assert_allclose(cx.active.mean_std(same), 0, atol=1e-6)
    np.testing.assert_allclose(cx.active.bald(ClassPrediction(one)), 0, atol=1e-6)


@pytest.mark.parametrize("name", ["entropy", "bald", "variation_ratio", "mean_std", "margin"])
def test_order_of_classes_and_members_does_not_matter(name):
    p, rng = random_prediction(), np.random.default_rng(1)
    log_probs = np.asarray(p.log_probs)
    moved = log_probs[rng.permutation(6)][:, :, rng.permutation(4)]
    score = getattr(acquisition, name)
    np.testing.assert_allclose(score(ClassPrediction(moved)), score(p), atol=1e-6)


def test_disjoint_members_reach_the_bound():
    """BALD is at most the log of the number of members; S members of different classes reach it."""
    p = ClassPrediction.from_probs(np.eye(5)[:, None, :])
    assert float(cx.active.bald(p)[0]) == pytest.approx(np.log(5), abs=1e-6)


def test_linear_regression_has_its_closed_form(float64):
    """½ log(1 + φᵀΣφ/σ²) = 0.510003801 at x = 2 of the conjugate model with noise variance 0.04.

    Posterior N((0.178571, 0.984252), diag(1/126, 1/63.5)), φ = (1, 2). 20 000 members: the
    relative error of a variance is √(2/n), so that of the score is below half of it, 0.005.
    """
    rng, count = np.random.default_rng(0), 20_000
    weights = rng.standard_normal((count, 2)) / np.sqrt([126, 63.5])
    means = (weights @ [1.0, 2.0] + 2.147075366)[:, None, None]
    p = GaussianPrediction(means, np.full_like(means, 0.04))
    error = 0.5 * np.sqrt(2 / count) * 0.070928634 / 0.110928634
    assert float(cx.active.bald(p)[0]) == pytest.approx(0.510003801, abs=4 * error)
    few = p.select(slice(None))
    few = GaussianPrediction(few.means[:400], few.variances[:400])
    by_quadrature = float(cx.active.bald(few, quadrature=True)[0])
    assert by_quadrature == pytest.approx(float(cx.active.bald(few)[0]), abs=0.01)


def test_quadrature_of_separated_members_is_the_log_of_their_number(float64):
    """Where members do not overlap one number tells the member: log 2. Moments give 1/2 log 26."""
    p = GaussianPrediction(np.array([[[-5.0]], [[5.0]]]), np.ones((2, 1, 1)))
    assert float(cx.active.bald(p, quadrature=True)[0]) == pytest.approx(np.log(2), abs=1e-5)
    assert float(cx.active.bald(p)[0]) == pytest.approx(0.5 * np.log(26), abs=1e-12)


def test_several_targets_are_joint(float64):
    """Two targets that always move together say no more than one seen with half the noise."""
    means = np.random.default_rng(0).standard_normal((9, 3, 1))
    twice = GaussianPrediction(np.tile(means, 2), np.ones((9, 3, 2)))
    once = GaussianPrediction(means, np.full((9, 3, 1), 0.5))
    np.testing.assert_allclose(cx.active.bald(twice), cx.active.bald(once), atol=1e-12)


def test_information_about_targets_by_hand(float64):
    """Two members that disagree about both rows: 0.221753694. Independent halves of four: 0."""
    first = ClassPrediction.from_probs(np.array([[[0.9, 0.1]], [[0.1, 0.9]]]))
    assert float(cx.active.epig(first, first)[0]) == pytest.approx(0.221753694, abs=1e-9)
    split = np.array([[0.9, 0.1], [0.1, 0.9]])
    one = ClassPrediction.from_probs(split[[0, 0, 1, 1], None])
    two = ClassPrediction.from_probs(split[[0, 1, 0, 1], None])
    assert float(cx.active.epig(one, two)[0]) == pytest.approx(0, abs=1e-12)


def test_information_about_targets_by_enumeration(float64):
    """Against sums over all pairs of labels, with several rows, targets and classes."""
    p, targets = random_prediction(rows=5), random_prediction(seed=1, rows=3)
    a, b = np.asarray(p.members), np.asarray(targets.members)
    for row in range(5):
        total = 0.0
        for t, y, z in itertools.product(range(3), range(4), range(4)):
            joint = (a[:, row, y] * b[:, t, z]).mean()
            total += joint * np.log(joint / (a[:, row, y].mean() * b[:, t, z].mean()))
        assert float(cx.active.epig(p, targets)[row]) == pytest.approx(total / 3, abs=1e-12)


def test_information_between_numbers_is_that_of_a_gaussian(float64):
    means = np.random.default_rng(0).standard_normal((50, 2, 1))
    p = GaussianPrediction(means, np.full((50, 2, 1), 0.5))
    total = np.cov(means[..., 0].T, bias=True) + 0.5 * np.eye(2)
    expected = 0.5 * np.log(total[0, 0] * total[1, 1] / np.linalg.det(total))
    found = cx.active.epig(p.select(slice(0, 1)), p.select(slice(1, 2)))
    assert float(found[0]) == pytest.approx(expected, abs=1e-12)


SCORED = [n for n in cx.active.names() if issubclass(cx.active.get(n), cx.active.Scored)]


@pytest.mark.parametrize("name", SCORED)
def test_certain_members_give_numbers(name):
    """Probabilities of 0 and 1: p log p without 0 log 0 = 0 gives NaN here."""
    record = cx.active.get(name)()
    p = ClassPrediction.from_probs(np.array([[[1.0, 0.0, 0.0]] * 2, [[0.0, 1.0, 0.0]] * 2]))
    assert np.isfinite(jax.jit(record.score)(p)).all()


def test_transposed_members_and_rows_are_another_prediction(float64):
    """The layout is [members, rows, classes]: of its transpose the ratio is another number."""
    p = random_prediction(members=6, rows=8)
    assert cx.active.variation_ratio(p).shape == (8,)
    other = ClassPrediction(jnp.swapaxes(p.log_probs, 0, 1))
    assert cx.active.variation_ratio(other).shape == (6,)
    with pytest.raises(Exception, match=r"shape|dimension|axis|type"):
        ClassPrediction(p.log_probs[0])
    with pytest.raises(cx.InputError, match=r"\[members, batch, classes\]"):
        ClassPrediction.from_probs(p.probs)


def test_votes_are_of_members_and_not_of_their_mean():
    """Class 0 has 0.51, 0.51 and 0.01: the mean is for class 1, two of three members are not."""
    p = ClassPrediction.from_probs(np.array([[[0.51, 0.49]], [[0.51, 0.49]], [[0.01, 0.99]]]))
    assert float(cx.active.variation_ratio(p)[0]) == pytest.approx(1 / 3)
    assert int(p.label[0]) == 1


@pytest.mark.parametrize(
    "score", ["entropy", "variation_ratio", "variation_ratio_soft", "mean_std", "margin"]
)
def test_scores_of_classes_refuse_numbers(score, refused):
    p = GaussianPrediction(np.zeros((2, 3, 1)), np.ones((2, 3, 1)))
    refused(lambda: getattr(acquisition, score)(p), f"{score} is a score of classes.*use variance")


def test_bad_arguments(refused):
    p = random_prediction()
    numbers = GaussianPrediction(np.zeros((2, 3, 2)), np.ones((2, 3, 2)))
    refused(lambda: cx.active.predictive_variance(p, part="aleatoric"), "part is 'aleatoric'")
    refused(lambda: cx.active.PredictiveVariance(part="all"), "part is 'all'")
    refused(lambda: cx.active.bald(p, quadrature=True), "quadrature is True")
    refused(lambda: cx.active.bald(numbers, quadrature=True), "one target.*has 2")
    refused(lambda: cx.active.epig(p, random_prediction(members=3)), "targets has 3 members")
    refused(lambda: cx.active.get("batch-bald"), "did you mean 'batchbald'")
