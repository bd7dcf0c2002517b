"""Which predictions are trusted: the limits against their definition, and what is kept."""

import numpy as np
import pytest
from scipy import stats

import credax as cx
from credax.calibration.trust import (
    FEWEST,
    Evidence,
    coverage_limit,
    evidence,
    load_evidence,
    risk_limit,
    save_evidence,
    trust_rule,
    typical_rule,
    uncertainty,
)
from credax.errors import DamagedFile, InputError
from credax.files import save_tree
from credax.prediction import ClassPrediction, GaussianPrediction

RNG = np.random.default_rng(0)


def tenths(score):
    return [np.sort(score)[int(np.ceil(k * len(score) / 10)) - 1] for k in range(1, 11)]


@pytest.mark.parametrize("error", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("rows", [30, 100, 1000])
def test_a_limit_of_classes_is_the_largest_tenth_that_keeps_the_error(rows, error):
    score = RNG.random(rows)
    wrong = RNG.random(rows) < 0.6 * score**2
    kept = [
        limit
        for limit in tenths(score)
        if (wrong[score <= limit].sum() + 1) / ((score <= limit).sum() + 1) <= error
    ]
    assert risk_limit(score, wrong, error) == (max(kept) if kept else None)


def test_few_rows_cannot_show_a_small_error():
    """Without any error, ``1 / (rows + 1) <= error`` needs rows: 9 for a tenth, 19 for a 20th."""
    for error, needed in ((0.1, 9), (0.05, 19)):
        right = np.zeros(needed, bool)
        assert risk_limit(np.arange(needed) * 1.0, right, error) == needed - 1
        assert risk_limit(np.arange(needed - 1) * 1.0, right[1:], error) is None


def test_the_allowed_error_holds_on_new_rows():
    """Over many draws of validation rows, trusted new rows are wrong no more often than allowed."""
    shares = []
    for _ in range(300):
        score = RNG.random(120)
        limit = risk_limit(score, RNG.random(120) < 0.5 * score, 0.1)
        # Rows with a score below s are wrong with probability s/4 on average.
        shares.append(0.0 if limit is None else limit / 4)
    assert np.mean(shares) < 0.1


def test_a_limit_of_intervals_allows_what_chance_explains():
    score = np.arange(100) / 100.0
    wrong = np.zeros(100, bool)
    wrong[[3, 13, 23, 33, 43, 53, 63, 73, 83, 93]] = True
    assert coverage_limit(score, wrong, 0.1) == 0.99
    wrong[80:] = True
    limit = coverage_limit(score, wrong, 0.1)
    below = score <= limit
    assert stats.binom.sf(wrong[below].sum() - 1, below.sum(), 0.1) >= 0.1
    assert limit < 0.9
    assert coverage_limit(score[: FEWEST - 1], wrong[: FEWEST - 1], 0.1) is None


def test_the_uncertainty_that_trusts_more_is_used():
    sure = np.linspace(0, 1, 100)
    wrong = (np.arange(100) >= 80)[:, None]
    mixed = RNG.permutation(sure)
    one = trust_rule(
        Evidence("classification", {"epistemic": mixed[:, None], "total": sure[:, None]}, wrong)
    )
    two = trust_rule(
        Evidence("classification", {"epistemic": sure[:, None], "total": mixed[:, None]}, wrong)
    )
    assert (one.score, two.score) == ("total", "epistemic")
    assert one.limits == two.limits == (sure[79],)
    assert "of 100 validation rows 80 are below, and 0 of these are wrong" in one.text
    none = trust_rule(Evidence("classification", {"total": sure[:, None]}, wrong | True))
    assert none.limits is None
    assert "no limit keeps the error at most 0.1 on 100 rows" in none.text


def test_conformal_intervals_are_trusted_for_rows_like_those_they_were_fitted_on():
    scores = {"epistemic": RNG.random((200, 2)), "total": RNG.random((200, 2))}
    rule = typical_rule(Evidence("regression", scores, np.ones((200, 2), bool)), "cqr", 0.2)
    assert rule.score == "epistemic"
    inside = (scores["epistemic"] <= np.array(rule.limits)).mean(axis=0)
    np.testing.assert_allclose(inside, 0.8, atol=1 / 200)
    assert "80% of the validation rows, for which the interval of cqr holds" in rule.text


@pytest.mark.parametrize("error", [0, 1, -0.1, 2])
def test_an_error_outside_its_range_is_refused(error):
    with pytest.raises(InputError, match="error is"):
        trust_rule(
            Evidence("classification", {"total": np.ones((9, 1))}, np.zeros((9, 1), bool)), error
        )


def test_evidence_of_classes_and_numbers(tmp_path):
    probs = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.2, 0.8]]])
    found = evidence(ClassPrediction.from_probs(probs), np.array([0, 0]))
    assert found.wrong.tolist() == [[False], [True]]
    assert found.scores["epistemic"][1, 0] == pytest.approx(0, abs=1e-6)
    assert found.scores["epistemic"][0, 0] > 0.1
    assert list(uncertainty(ClassPrediction.from_probs(probs[:1]))) == ["total"]
    means = np.array([[[0.0, 1.0], [3.0, 1.0]], [[0.0, 3.0], [3.0, 3.0]]])
    prediction = GaussianPrediction(means, np.ones_like(means))
    found = evidence(prediction, np.array([[1.0, 2.0], [9.0, 2.0]]))
    assert found.wrong.tolist() == [[False, False], [True, False]]
    np.testing.assert_allclose(found.scores["epistemic"], [[0, 1], [0, 1]], atol=1e-6)
    np.testing.assert_allclose(found.scores["total"], [[1, 2**0.5]] * 2, rtol=1e-6)
    save_evidence(tmp_path / "trust.safetensors", found)
    again = load_evidence(tmp_path / "trust.safetensors")
    assert again.task == "regression"
    np.testing.assert_array_equal(again.wrong, found.wrong)
    for name, values in found.scores.items():
        np.testing.assert_array_equal(again.scores[name], values)
    assert load_evidence(tmp_path / "absent.safetensors") is None


def test_evidence_of_counts():
    """The 90 % interval of a Poisson of rate 4 is 1 to 8."""
    counts = cx.Poisson().predict(np.full((2, 5, 1), np.log(4.0)))
    found = evidence(counts, np.array([0, 1, 4, 8, 9]))
    assert found.wrong[:, 0].tolist() == [True, False, False, False, True]
    np.testing.assert_allclose(found.scores["total"], 2.0, rtol=1e-6)


def test_predictions_that_are_not_finite_are_wrong_and_most_uncertain(tmp_path):
    means = np.array([[[0.0], [np.nan]]])
    found = evidence(GaussianPrediction(means, np.ones_like(means)), np.zeros(2))
    assert found.wrong[:, 0].tolist() == [False, True]
    logs = np.array([[[0.0, -9.0], [np.nan, np.nan]]])
    found = evidence(ClassPrediction(logs), np.array([0, 0]))
    assert found.wrong[:, 0].tolist() == [False, True]
    assert np.isfinite(found.scores["total"]).all()
    assert found.scores["total"][1] > 1e300
    save_evidence(tmp_path / "t", found)
    assert load_evidence(tmp_path / "t").wrong.tolist() == found.wrong.tolist()
    assert evidence(object(), np.zeros(3)) is None


@pytest.mark.parametrize(
    "arrays",
    [
        {"wrong": np.zeros((3, 1), np.uint8)},
        {"total": np.zeros((3, 1))},
        {"wrong": np.zeros((3, 1), np.uint8), "total": np.zeros((4, 1))},
        {"wrong": np.zeros(3, np.uint8), "total": np.zeros(3)},
    ],
)
def test_other_files_are_refused(tmp_path, arrays):
    save_tree(tmp_path / "t", arrays, {"kind": "trust", "task": "classification"})
    with pytest.raises(DamagedFile, match="evidence of a run"):
        load_evidence(tmp_path / "t")
