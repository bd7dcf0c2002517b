"""BatchBALD against enumeration, recorded picks, and what joint information must satisfy."""

import itertools

import jax
import numpy as np
import pytest
from pools import of_logs, table
from test_acquisition import CASES, golden, random_prediction

import credax as cx
from credax.active import batch_bald, joint, joint_information
from credax.active.batch_bald import BatchBALD
from credax.prediction import ClassPrediction, GaussianPrediction

SPLIT = np.array([[0.9, 0.1], [0.1, 0.9]])
A = SPLIT[:, None]
FIRST = SPLIT[[0, 0, 1, 1], None]  # four members, halves {1, 2 | 3, 4}
SECOND = SPLIT[[0, 1, 0, 1], None]  # and {1, 3 | 2, 4}


def copies(*rows):
    return ClassPrediction.from_probs(np.concatenate(rows, axis=1))


def enumerated(p):
    """Mutual information of the member and all labels together, by summing over all of them."""
    members = np.asarray(p.members, np.float64)
    rows, classes = members.shape[1:]
    total = 0.0
    for labels in itertools.product(range(classes), repeat=rows):
        q = np.prod([members[:, i, y] for i, y in enumerate(labels)], axis=0)
        total -= q.mean() * np.log(q.mean())
    own = -(members * np.log(members)).sum(-1).mean(0)
    return total - own.sum()


def test_information_by_hand(float64):
    """Copies of a row that splits two members: from 0.368 towards log 2 and never beyond."""
    found = joint_information(copies(*[A] * 10))
    expected = [0.368064207, 0.514374721, 0.597782418, 0.639039182]
    np.testing.assert_allclose(found[:4], expected, atol=1e-9)
    assert found[9] == pytest.approx(0.691280681, abs=1e-9)
    assert found[9] < np.log(2)
    independent = joint_information(copies(FIRST, SECOND))
    assert independent[1] == pytest.approx(0.736128414, abs=1e-9)
    assert independent[1] == pytest.approx(2 * independent[0], abs=1e-12)
    three = joint_information(copies(FIRST, FIRST, SECOND))
    np.testing.assert_allclose(three[1:], [0.514374721, 0.882438928], atol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_recorded_picks_of_batchbald_redux(case, float64):
    recorded = golden(case)
    count = len(recorded["batchbald_indices"])
    pool = of_logs(np.swapaxes(recorded["log_probs"], 0, 1))
    choice = BatchBALD().choose(pool, count, key=jax.random.key(0))
    assert choice.indices.tolist() == recorded["batchbald_indices"].tolist()
    np.testing.assert_allclose(choice.scores, recorded["batchbald_scores"], rtol=1e-9)
    np.testing.assert_allclose(choice.all_scores, recorded["bald"], rtol=1e-9, atol=1e-12)
    assert choice.ceiling == pytest.approx(np.log(len(pool.posterior.log_probs)))
    # The score of every candidate at every step, without the bounds that spare most of them.
    for step, scores in enumerate(recorded["batchbald_step_scores"]):
        before = choice.indices[:step]
        for row in np.flatnonzero(scores > -1e299):
            log_probs = pool.posterior.log_probs[:, [*before, row]]
            found = joint_information(ClassPrediction(log_probs))[-1]
            assert found == pytest.approx(scores[row], rel=1e-9, abs=1e-12)


def test_scores_of_a_set_are_its_joint_information(float64):
    """By enumeration: without the mean entropies of all chosen rows the numbers are larger."""
    p = random_prediction(members=5, rows=12, classes=3)
    choice = BatchBALD().choose(of_logs(p.log_probs), 4, key=jax.random.key(0))
    for count in range(1, 5):
        chosen = p.select(choice.indices[:count])
        assert choice.scores[count - 1] == pytest.approx(enumerated(chosen), abs=1e-9)


def test_one_row_is_bald():
    p = random_prediction(rows=30)
    choice = BatchBALD().choose(of_logs(p.log_probs), 1, key=jax.random.key(0))
    scores = np.asarray(cx.active.bald(p))
    assert choice.indices[0] == scores.argmax()
    assert choice.scores[0] == pytest.approx(scores.max(), abs=1e-6)


def test_information_is_monotone_and_submodular(float64):
    """On all triples: a row adds something, and less after another row than before it."""
    p = random_prediction(members=4, rows=5, classes=3)
    for a, b, c in itertools.permutations(range(5), 3):
        one, two, _ = joint_information(p.select(np.array([a, b, c])))
        other = joint_information(p.select(np.array([a, c])))[1]
        both = joint_information(p.select(np.array([b, a, c])))[2]
        assert one < two < both
        assert both - two <= other - one + 1e-12


def test_order_of_a_set_does_not_matter(float64):
    p = random_prediction(members=4, rows=4, classes=3)
    totals = [joint_information(p.select(np.array(o)))[-1] for o in ([0, 1, 2, 3], [3, 1, 0, 2])]
    assert totals[0] == pytest.approx(totals[1], abs=1e-12)


def test_drawn_configurations_agree_with_all_of_them(float64):
    """30 estimates of 60 configurations each: their mean is within 4 standard errors of the truth.

    Weights without the posterior over members, or labels of one member for all, are far off.
    """
    p = random_prediction(members=5, rows=5, classes=3, scale=1.0)
    keys = jax.random.split(jax.random.key(0), 30)
    each = np.array([joint_information(p, configurations=60, key=key)[-1] for key in keys])
    error = each.std(ddof=1) / np.sqrt(len(each))
    assert 0 < error < 0.02
    assert abs(each.mean() - joint_information(p)[-1]) < 4 * error


def test_the_estimate_is_that_of_the_published_formula(float64):
    """With the same draws ``-(1/M) Σ_m Σ_c (q/q̂) log q - Σ mean H`` has the same expectation.

    Ours measures what is left unknown of the member, so its variance is smaller; both agree within
    4 standard errors.
    """
    p = random_prediction(members=5, rows=5, classes=3, scale=1.0)
    probs = np.transpose(np.asarray(p.members), (1, 2, 0))
    own = -(probs * np.log(probs)).sum(1).mean(-1).sum()
    published, ours = [], []
    for seed in range(30):
        state = joint.sampled(probs[:4], 60, np.random.default_rng(seed))
        product = np.exp(state.log_joint)
        q = np.einsum("ms,cs->mc", product, probs[4]) / 5
        estimate = -((q / product.mean(1, keepdims=True)) * np.log(q)).sum(1).mean()
        published.append(estimate - own)
        ours.append(joint_information(p, configurations=60, key=jax.random.key(seed))[-1])
    error = np.hypot(np.std(published, ddof=1), np.std(ours, ddof=1)) / np.sqrt(30)
    assert abs(np.mean(published) - np.mean(ours)) < 4 * error
    assert np.std(ours) < np.std(published)


def test_copies_are_bought_by_bald_and_not_by_batchbald():
    """Three copies of one row, and a row that is independent of it and has a lower score."""
    weaker = np.array([[0.88, 0.12], [0.12, 0.88]])[[0, 1, 0, 1], None]
    pool = table(np.concatenate([FIRST, FIRST, FIRST, weaker], axis=1))
    copies_first = set()
    for seed in range(20):
        key = jax.random.key(seed)
        first, second = BatchBALD().choose(pool, 2, key=key).indices
        assert first != 3
        assert second == 3
        assert 3 not in cx.active.BALD().choose(pool, 2, key=key).indices
        copies_first.add(int(first))
    # Equal rows are chosen at random: 20 draws leave one of three out with probability 0.001.
    assert copies_first == {0, 1, 2}


def test_forty_confident_rows_in_single_precision():
    """Products of 40 probabilities near 1e-6 are 0 in float32, and 0 log 0 is NaN."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, (3, 40))
    probs = np.full((3, 40, 4), 1e-6)
    np.put_along_axis(probs, labels[..., None], 1 - 3e-6, axis=-1)
    probs[:, 20:] = np.eye(4)[labels[:, 20:]]  # and certain ones
    probs[:, ::5] = probs[:1, ::5]  # members agree on some, so that doubts remain for long
    single = joint_information(ClassPrediction.from_probs(probs.astype(np.float32)))
    with jax.enable_x64(True):
        double = joint_information(ClassPrediction.from_probs(probs))
    assert np.isfinite(single).all()
    np.testing.assert_allclose(single, double, atol=1e-3)
    pool = table(probs.astype(np.float32))
    choice = BatchBALD(configurations=100).choose(pool, 40, key=jax.random.key(0))
    assert sorted(choice.indices) == list(range(40))
    assert choice.scores[-1] == pytest.approx(np.log(3), abs=1e-3)


def test_sixty_rows_of_ten_classes_in_single_precision():
    """Products of 60 probabilities near 0.1 are 0 in float32 for all members alike.

    What was known of the member is then lost, and each further row counts as if it were the first;
    ours tells three members apart, and no draws give more than log 3.
    """
    logits = 0.6 * np.random.default_rng(0).standard_normal((3, 60, 10))
    p = ClassPrediction.from_logits(logits.astype(np.float32))
    found = joint_information(p, configurations=300)
    assert cx.active.bald(p).sum() > 2 * np.log(3)
    assert 0.99 * np.log(3) < found[-1] <= np.log(3) + 1e-6


def test_the_ceiling_is_not_passed_and_said():
    """Twelve rows of four members: log 4 is reached, passed by none of ten draws, and said."""
    p = random_prediction(members=4, rows=30, classes=4, scale=4.0)
    last = []
    for seed in range(10):
        rule = BatchBALD(configurations=64)
        choice = rule.choose(of_logs(p.log_probs), 12, key=jax.random.key(seed))
        last.append(choice.scores[-1])
    assert choice.ceiling == pytest.approx(np.log(4))
    assert max(last) <= np.log(4) + 1e-6
    assert np.mean(last) > 0.95 * np.log(4)
    assert "ceiling" in choice.warnings[0]
    assert "more members" in choice.warnings[0]
    few = BatchBALD().choose(of_logs(p.log_probs), 1, key=jax.random.key(0))
    assert few.warnings == ()


def test_bounds_do_not_change_what_is_chosen(monkeypatch):
    """Rows that bounds exclude are not looked at, and the choice is that of looking at all."""
    logits = np.random.default_rng(0).standard_normal((40, 600, 4))
    p = ClassPrediction.from_logits(logits * np.random.default_rng(1).gamma(1, 1, (600, 1)))
    looked = []
    own = joint.information

    def counted(pool, rows, given, block):
        for part in own(pool, rows, given, block):
            looked.append(len(part[0]))
            yield part

    monkeypatch.setattr(joint, "information", counted)
    monkeypatch.setattr(batch_bald, "BLOCK", 32)
    rule, pool = BatchBALD(configurations=2000), of_logs(p.log_probs)
    spared = rule.choose(pool, 7, key=jax.random.key(0))
    few = sum(looked)
    looked.clear()
    monkeypatch.setattr(
        batch_bald, "_look", lambda pool, rows, upper, given, errors: _all(own, pool, rows, given)
    )
    every = rule.choose(pool, 7, key=jax.random.key(0))
    assert spared.indices.tolist() == every.indices.tolist()
    np.testing.assert_allclose(spared.scores, every.scores, atol=1e-6)
    assert few < 0.5 * 6 * 600


def _all(information, pool, rows, given):
    return rows, np.concatenate([mean for _, mean, _ in information(pool.probs, rows, given, 32)])


def test_exactly_as_many_rows_as_asked_for():
    """Also where nothing is left to learn: no threshold ends a batch early."""
    same = np.full((3, 9, 2), 0.5)
    choice = BatchBALD().choose(table(same), 9, key=jax.random.key(0))
    assert sorted(choice.indices) == list(range(9))
    assert choice.scores[-1] == pytest.approx(0, abs=1e-6)


def test_logits_and_probabilities_agree():
    logits = np.random.default_rng(0).standard_normal((4, 20, 3))
    keys = {"key": jax.random.key(0)}
    from_logits = BatchBALD().choose(
        of_logs(ClassPrediction.from_logits(logits).log_probs), 3, **keys
    )
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    from_probs = BatchBALD().choose(table(probs), 3, **keys)
    assert from_logits.indices.tolist() == from_probs.indices.tolist()
    np.testing.assert_allclose(from_logits.scores, from_probs.scores, atol=1e-6)


def test_bad_input(refused):
    rule, key = BatchBALD(), jax.random.key(0)
    pool = table(np.full((1, 3, 2), 0.5))
    refused(lambda: rule.choose(pool, 2, key=key), "1 member and batchbald.*at least 2 members")
    refused(lambda: BatchBALD(configurations=1), "configurations is 1")
    numbers = GaussianPrediction(np.zeros((2, 3, 1)), np.ones((2, 3, 1)))
    refused(lambda: joint_information(numbers), "batchbald is for classes")
    evidence = ClassPrediction(np.log(np.full((2, 3, 2), 0.5)), np.ones((2, 3, 1)))
    refused(lambda: joint_information(evidence), "Dirichlet")
