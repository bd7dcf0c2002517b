"""Stochastic batches, CoreSet, BADGE and the greedy variation ratio against their definitions."""

import jax
import numpy as np
import pytest
from pools import table
from scipy import stats
from test_candidates import ensemble, network  # noqa: F401

import credax as cx
from credax.active import Candidates
from credax.active.badge import Embeddings, gradient_embeddings, k_means_plus_plus
from credax.active.core_set import k_centre
from credax.prediction import ClassPrediction


def pool_of(scores):
    """A pool of two members whose BALD is what the entries order; exact scores come beside it."""
    gaps = np.asarray(scores)[:, None] * [0.5, -0.5]
    pool = table(np.stack([0.5 + gaps, 0.5 - gaps]))
    return pool, cx.active.BALD().choose(pool, len(gaps), key=jax.random.key(0)).all_scores


@pytest.mark.parametrize("kind", ["power", "softmax", "softrank"])
def test_the_first_row_is_drawn_with_its_probability(kind):
    """2000 draws against a^β, exp(β a) or rank^-β: chi-squared p > 0.001; β is not 1."""
    pool, scores = pool_of([0.2, 0.5, 0.9, 0.7])
    rule = cx.active.PowerBALD(kind=kind, coldness=2.0)
    drawn = [rule.choose(pool, 1, key=jax.random.key(k)).indices[0] for k in range(2000)]
    ranks = stats.rankdata(-scores)
    weights = {"power": scores**2, "softmax": np.exp(2 * scores), "softrank": ranks**-2.0}[kind]
    expected = 2000 * weights / weights.sum()
    assert stats.chisquare(np.bincount(drawn, minlength=4), expected).pvalue > 1e-3


def test_no_coldness_is_random_and_much_is_the_largest():
    pool, scores = pool_of([0.2, 0.5, 0.9, 0.7])
    keys = jax.random.split(jax.random.key(0), 400)
    free = [cx.active.PowerBALD(coldness=0).choose(pool, 1, key=k).indices[0] for k in keys]
    assert stats.chisquare(np.bincount(free, minlength=4)).pvalue > 1e-3
    cold = cx.active.PowerBALD(coldness=1e4).choose(pool, 4, key=keys[0])
    assert cold.indices.tolist() == np.argsort(-scores).tolist()
    np.testing.assert_allclose(cold.scores, np.sort(scores)[::-1])


def test_stochastic_batches_are_of_any_score(refused):
    pool, _ = pool_of([0.2, 0.5, 0.9, 0.7])
    rule = cx.active.PowerBALD(of="entropy", kind="softmax")
    assert len({*rule.choose(pool, 3, key=jax.random.key(0)).indices.tolist()}) == 3
    margins = cx.active.PowerBALD(of="margin")
    skewed = table(np.tile([[[0.7, 0.3]]], (2, 4, 1)))
    refused(lambda: margins.choose(skewed, 1, key=jax.random.key(0)), "'margin'.*softrank")
    refused(lambda: cx.active.PowerBALD(of="batchbald"), "of is 'batchbald'")
    refused(lambda: cx.active.PowerBALD(coldness=-1), "coldness is -1")
    refused(lambda: cx.active.PowerBALD(kind="hard"), "kind is 'hard'")


def test_farthest_first_by_hand():
    """On a line with 0 known: 10 is farthest, then 5 (gap 5), then 7 or 3 (gap 2)."""
    x = np.array([[0.0], [3.0], [5.0], [7.0], [10.0]])
    choice = k_centre(x, 5, np.square(x[:, 0]), jax.random.key(0))
    assert choice.indices[:2].tolist() == [4, 2]
    assert sorted(choice.indices) == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(choice.scores[:4], [10, 5, 2, 2])
    np.testing.assert_allclose(choice.all_scores, x[:, 0])


def test_core_set_covers_within_twice_the_best(ensemble, blobs):  # noqa: F811
    """The radius of the greedy cover is at most twice that of any cover: tried on 300 others."""
    pool = Candidates(ensemble, blobs[0])
    features = pool.features(blobs[0])
    gaps = np.sqrt(np.square(features[:, None] - features[None]).sum(-1))
    choice = cx.active.CoreSet().choose(pool, 4, key=jax.random.key(0))
    assert choice.all_scores is None
    radius = gaps[:, choice.indices].min(1).max()
    rng = np.random.default_rng(0)
    others = [gaps[:, rng.choice(60, 4, replace=False)].min(1).max() for _ in range(300)]
    assert radius <= 2 * min(others)
    known = Candidates(ensemble, blobs[0], labelled_x=blobs[0][:3])
    found = cx.active.CoreSet().choose(known, 2, key=jax.random.key(0))
    np.testing.assert_allclose(found.all_scores, gaps[:, :3].min(1), atol=1e-2)
    assert found.indices[0] == found.all_scores.argmax()


def test_gradient_embeddings_are_gradients(ensemble, blobs):  # noqa: F811
    """(p - e_ŷ) hᵀ is the gradient of the last kernel, by automatic differentiation."""
    pool = Candidates(ensemble, blobs[0])
    found = gradient_embeddings(pool)
    labels = np.asarray(pool.prediction().mean).argmax(-1)
    problem = ensemble.problem

    def loss(params, row, label):
        outputs, _ = problem.outputs(cx.Variables(params, {}), row[None])
        return -jax.nn.log_softmax(outputs[0])[label]

    for member, row in [(0, 0), (3, 17)]:
        params = jax.tree.map(lambda leaf, m=member: leaf[m], ensemble.variables.params)
        gradient = jax.grad(loss)(params, blobs[0][row], labels[row])["1_dense"]["kernel"]
        outer = np.outer(found.hidden[row, member], found.errors[row, member])
        np.testing.assert_allclose(outer, gradient, atol=1e-6)


def test_embeddings_are_compared_without_being_formed():
    rng = np.random.default_rng(0)
    embeddings = Embeddings(rng.standard_normal((6, 2, 3)), rng.standard_normal((6, 2, 4)))
    full = np.einsum("rnc,rnf->rncf", *embeddings).reshape(6, -1) / np.sqrt(2)
    np.testing.assert_allclose(embeddings.squared_norms(), np.square(full).sum(1))
    np.testing.assert_allclose(embeddings.products(2), full @ full[2])


def test_k_means_plus_plus_draws_by_squared_distance():
    """From (3, 0) the others are at squared distances 10, 13 and 9: 2000 second draws."""
    points = np.array([[3.0, 0.0], [0.0, 1.0], [0.0, 2.0], [0.0, 0.0]])
    embeddings = Embeddings(points[:, None], np.ones((4, 1, 1)))
    drawn = [k_means_plus_plus(embeddings, 2, jax.random.key(k)).indices for k in range(2000)]
    assert {int(first) for first, _ in drawn} == {0}
    counts = np.bincount([second for _, second in drawn], minlength=4)[1:]
    assert stats.chisquare(counts, 2000 * np.array([10, 13, 9]) / 32).pvalue > 1e-3
    copies = Embeddings(np.ones((4, 1, 2)), np.ones((4, 1, 1)))
    assert sorted(k_means_plus_plus(copies, 4, jax.random.key(0)).indices) == [0, 1, 2, 3]


def test_badge_chooses_different_rows(ensemble, blobs):  # noqa: F811
    pool = Candidates(ensemble, blobs[0], chunk=25)
    choice = cx.active.BADGE().choose(pool, 8, key=jax.random.key(0))
    assert len({*choice.indices.tolist()}) == 8
    assert choice.indices[0] == choice.all_scores.argmax()


def test_features_need_networks(refused):
    """A posterior without networks has no last layer; numbers have no predicted class."""
    pool = table(np.full((2, 5, 3), 1 / 3))
    for name in ("core-set", "badge"):
        rule = cx.active.get(name)()
        refused(lambda r=rule: r.choose(pool, 2, key=jax.random.key(0)), "Table.*last layer.*bald")


def test_greedy_variation_ratio_by_enumeration(float64):
    """Variation ratio plus 0.02 times the least mean divergence over all pairs of members."""
    logits = np.random.default_rng(0).standard_normal((4, 9, 3))
    p = ClassPrediction.from_logits(logits)
    probs, ratio = np.asarray(p.members), np.asarray(cx.active.variation_ratio(p))
    pairs = probs[:, None, :, None] * np.log(probs[:, None, :, None] / probs[None, :, None, :])
    divergence = pairs.sum(-1).mean((0, 1))  # [chosen, candidate]
    choice = cx.active.VariationRatioGreedy().choose(table(probs), 4, key=jax.random.key(0))
    assert ratio[choice.indices[0]] == ratio.max()
    for count in range(1, 4):
        before, picked = choice.indices[:count], choice.indices[count]
        total = ratio + 0.02 * divergence[before].min(0)
        total[before] = -np.inf
        assert picked == total.argmax()
        assert choice.scores[count] == pytest.approx(total.max(), abs=1e-9)


def test_greedy_variation_ratio_of_certain_members():
    """A probability of zero counts as 1e-12: its logarithm is a number, and always the same one."""
    probs = np.eye(3)[np.array([[0, 1], [1, 1]])]
    choice = cx.active.VariationRatioGreedy().choose(table(probs), 2, key=jax.random.key(0))
    # Votes 0, 1 and then 1, 1: one of two members is infinitely far from both.
    expected = [0.5, -0.02 * np.log(1e-12) / 2]
    assert choice.indices.tolist() == [0, 1]
    np.testing.assert_allclose(choice.scores, expected, rtol=1e-5)
