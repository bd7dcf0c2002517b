"""One set of members for a whole pool: chunks, draws, ties, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pools import table
from scipy import stats

import credax as cx
from credax.active import Candidates
from credax.active.choice import largest
from credax.data import Split
from credax.network import Variables
from credax.networks.layers import Activation, Dense, Dropout
from credax.networks.sequential import Sequential
from credax.posterior import population
from credax.prediction import ClassPrediction

CHEAP = ["entropy", "bald", "variation-ratio", "variance", "margin", "epig"]


def network():
    return cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical())


@pytest.fixture(scope="module")
def ensemble(blobs):
    problem, (x, _) = network(), blobs
    variables = jax.vmap(lambda key: problem.init(key, x))(jax.random.split(jax.random.key(0), 5))
    return population(problem, variables, x)


@pytest.fixture(scope="module")
def dropout(blobs):
    """Draws of masks: other ones for every key."""
    method = cx.MCDropout(rate=0.5, samples=6)
    training = cx.Training(epochs=2, batch_size=30)
    return cx.fit(network(), method, Split(*blobs), key=0, training=training, progress=False)


@pytest.mark.parametrize("kind", ["ensemble", "dropout"])
def test_chunks_do_not_matter(kind, blobs, request):
    """Draws made anew in every chunk give other scores for every chunk size."""
    posterior, key = request.getfixturevalue(kind), jax.random.key(3)
    targets = blobs[0][:7]
    pools = [Candidates(posterior, blobs[0], key=key, chunk=n, target_x=targets) for n in (64, 7)]
    for name in CHEAP if kind == "ensemble" else ["bald"]:
        whole, parts = (cx.active.get(name)().choose(p, 5, key=key).all_scores for p in pools)
        np.testing.assert_allclose(parts, whole, atol=2e-6, err_msg=name)
    whole, parts = (pool.prediction().log_probs for pool in pools)
    np.testing.assert_allclose(parts, whole, atol=1e-5)
    np.testing.assert_allclose(whole, posterior.predict(blobs[0], key=key).log_probs, atol=1e-5)


def test_the_key_is_that_of_the_draws(dropout, blobs):
    """Other keys are other masks; without one the stored masks are used."""
    first, second = (
        Candidates(dropout, blobs[0], key=jax.random.key(n)).prediction().log_probs for n in (0, 1)
    )
    assert np.abs(first - second).max() > 0.01
    stored = Candidates(dropout, blobs[0]).prediction().log_probs
    np.testing.assert_allclose(stored, dropout.predict(blobs[0]).log_probs, atol=1e-5)


def test_masks_of_each_row_are_refused(blobs, refused):
    """Dropout whose members differ from row to row is no set of functions."""
    layers = (Dense(4), Activation("relu"), Dropout(0.5), Dense(3))
    problem = cx.Problem(Sequential(layers), cx.Categorical())
    training = cx.Training(epochs=1, batch_size=30)
    for consistent in (True, False):
        method = cx.MCDropout(rate=None, samples=4, consistent=consistent)
        posterior = cx.fit(problem, method, Split(*blobs), training=training, progress=False)
        pool = Candidates(posterior, blobs[0], key=jax.random.key(0))
        if consistent:
            assert pool.prediction().log_probs.shape == (4, 60, 3)
        else:
            refused(pool.prediction, r"change from row to row.*consistent=True")


def test_a_memory_map_is_read_in_chunks(ensemble, blobs, tmp_path):
    np.save(tmp_path / "pool.npy", blobs[0])
    mapped = np.load(tmp_path / "pool.npy", mmap_mode="r")
    pools = [Candidates(ensemble, x, chunk=16) for x in (mapped, blobs[0])]
    first, second = (cx.active.BALD().choose(p, 3, key=jax.random.key(0)) for p in pools)
    assert first.indices.tolist() == second.indices.tolist()
    assert [p.log_probs.shape[1] for p in pools[0].predictions()] == [16, 16, 16, 12]


def test_ties_are_broken_at_random():
    """1000 keys, four tied rows of five, two chosen: each equally often (chi-squared p > 0.001)."""
    scores = np.array([0.3, 0.7, 0.3, 0.3, 0.3])
    counts = np.zeros(5)
    for seed in range(1000):
        first, second = largest(scores, 2, jax.random.key(seed))
        assert first == 1
        counts[second] += 1
    assert counts[1] == 0
    assert stats.chisquare(counts[[0, 2, 3, 4]]).pvalue > 1e-3


def test_ties_of_votes_and_of_batches_are_broken_at_random():
    """Equal rows, so that any rule by position would always choose the same ones."""
    pool = table(np.tile(np.array([[[0.9, 0.1]], [[0.2, 0.8]]]), (1, 6, 1)))
    for name in ["variation-ratio", "bald", "batchbald", "variation-ratio-greedy", "random"]:
        rule = cx.active.get(name)()
        first = {int(rule.choose(pool, 2, key=jax.random.key(k)).indices[0]) for k in range(40)}
        # One of six is never drawn in 40 with probability 0.004.
        assert len(first) >= 5, name


def test_the_largest_scores_are_chosen_in_order():
    scores = np.random.default_rng(0).standard_normal(50)
    chosen = largest(scores, 7, jax.random.key(0))
    assert chosen.tolist() == np.argsort(-scores)[:7].tolist()
    assert sorted(largest(scores, 50, jax.random.key(0))) == list(range(50))


def test_random_takes_every_row_equally_often():
    """2000 draws of 2 of 10: chi-squared p > 0.001, and the same key gives the same rows."""
    pool, rule = table(np.full((1, 10, 2), 0.5)), cx.active.Random()
    drawn = [rule.choose(pool, 2, key=jax.random.key(seed)).indices for seed in range(2000)]
    assert stats.chisquare(np.bincount(np.concatenate(drawn), minlength=10)).pvalue > 1e-3
    assert all(a != b for a, b in drawn)
    again = rule.choose(pool, 2, key=jax.random.key(0)).indices
    assert again.tolist() == drawn[0].tolist()


def test_features_are_the_inputs_of_the_last_layer(ensemble, blobs):
    """By hand, member by member; squared distances are means over members."""
    x = blobs[0][:5]
    params = ensemble.variables.params
    dense = [np.asarray(params["0_dense"][name]) for name in ("kernel", "bias")]
    hidden = np.maximum(np.einsum("rf,mfh->rmh", x, dense[0]) + dense[1], 0)
    pool = Candidates(ensemble, blobs[0])
    found = pool.features(x)
    np.testing.assert_allclose(found, hidden.reshape(5, -1) / np.sqrt(5), atol=1e-5)
    gap = np.square(hidden[0] - hidden[1]).sum(-1).mean()
    assert np.square(found[0] - found[1]).sum() == pytest.approx(gap, rel=1e-4)


@pytest.mark.parametrize("method", [cx.SWAG(samples=2, start=0.0), cx.BatchEnsemble(members=2)])
def test_features_of_other_posteriors(method, blobs):
    training = cx.Training(epochs=2, batch_size=30)
    posterior = cx.fit(network(), method, Split(*blobs), training=training, progress=False)
    assert Candidates(posterior, blobs[0]).features(blobs[0][:5]).shape == (5, 8)


def test_sentences(ensemble, blobs, refused):
    key, bald = jax.random.key(0), cx.active.BALD()
    pool = Candidates(ensemble, blobs[0])
    refused(lambda: bald.choose(pool, 61, key=key), "count is 61 and there are 60 candidates")
    refused(lambda: bald.choose(pool, 0, key=key), "count is 0")
    refused(lambda: Candidates(ensemble, blobs[0][:0]), "x has no rows")
    refused(lambda: Candidates(ensemble, blobs[0], chunk=0), "chunk is 0")
    single = Candidates(ensemble.take([0]), blobs[0])
    refused(lambda: bald.choose(single, 1, key=key), "1 member and bald.*at least 2 members")
    broken = blobs[0].copy()
    broken[7] = np.nan
    refused(lambda: bald.choose(Candidates(ensemble, broken), 1, key=key), "x holds NaN.*row")
    empty = Candidates(ensemble, blobs[0], target_x=blobs[0][:0])
    refused(lambda: cx.active.EPIG().choose(empty, 1, key=key), "target_x has no rows")


def test_predictions_that_are_no_numbers_are_refused(ensemble, blobs, refused):
    """One member's weights overflow: the sentence says which member and which row."""
    params = jax.tree.map(lambda leaf: leaf.at[2].set(jnp.inf), ensemble.variables.params)
    broken = population(ensemble.problem, Variables(params, {}), blobs[0])
    pool = Candidates(broken, blobs[0])
    words = "candidate 0 by the member at position 2 is not finite; leave that member out"
    refused(lambda: cx.active.Entropy().choose(pool, 1, key=jax.random.key(0)), words)


def test_one_dirichlet_member_knows_its_own_doubt():
    """Evidential predictions have epistemic uncertainty without a second member."""
    strength = jnp.array([[[2.0], [200.0]]])
    p = ClassPrediction(jnp.log(jnp.full((1, 2, 2), 0.5)), strength)
    scores = cx.active.BALD().score(p)
    assert scores[0] > scores[1] > 0


def test_numbers_are_chosen_by_those_that_know_them(blobs, refused):
    """Variance, BALD, EPIG, PowerBALD and CoreSet choose; scores of classes say why not."""
    problem, x = cx.Problem(cx.networks.MLP((4,), outputs=1), cx.Gaussian(0.5)), blobs[0]
    variables = jax.vmap(lambda key: problem.init(key, x))(jax.random.split(jax.random.key(0), 5))
    pool, key = Candidates(population(problem, variables, x), x, chunk=25), jax.random.key(0)
    between = np.var(np.asarray(pool.posterior.predict(x).members), axis=0)
    by_variance = cx.active.PredictiveVariance(part="epistemic").choose(pool, 3, key=key)
    np.testing.assert_allclose(by_variance.all_scores, between, rtol=1e-4, atol=1e-6)
    bald = cx.active.BALD().choose(pool, 3, key=key)
    np.testing.assert_allclose(bald.all_scores, 0.5 * np.log1p(between / 0.25), atol=1e-5)
    for name in ("epig", "power-bald", "core-set"):
        assert len({*cx.active.get(name)().choose(pool, 3, key=key).indices.tolist()}) == 3
    for name in ("entropy", "batchbald", "badge", "variation-ratio-greedy"):
        refused(lambda n=name: cx.active.get(n)().choose(pool, 3, key=key), "of numbers; use")
