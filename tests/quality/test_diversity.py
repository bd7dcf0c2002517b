"""Pairwise quantities against recorded numbers, `Prediction` and direct sums; pictures."""

import tracemalloc

import jax
import numpy as np
import pytest

import credax as cx
from credax.errors import InputError
from credax.quality import (
    PairMatrix,
    PredictionRecorder,
    association,
    pairwise_disagreement,
    pairwise_divergence,
    pairwise_kernel_alignment,
    pairwise_mutual_information,
    pairwise_weight_cosine,
    pairwise_weight_distance,
    picture,
    prediction_chunks,
)


@pytest.fixture(scope="module")
def probs():
    rng = np.random.default_rng(0)
    logits = 2 * rng.standard_normal((7, 50, 5))
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    probs[0, 0] = [1, 0, 0, 0, 0]
    return probs


def test_golden_values(float64):
    three = np.array([[[0.7, 0.2, 0.1]], [[0.1, 0.8, 0.1]], [[0.2, 0.2, 0.6]]])
    pairs = pairwise_mutual_information(three)
    expected = [0.2229231862, 0.1726092435, 0.2039281321]
    np.testing.assert_allclose(pairs.values, expected, atol=1e-7)
    two = pairwise_mutual_information(np.array([[[0.9, 0.1]], [[0.1, 0.9]]]))
    np.testing.assert_allclose(two.values, [0.3680642071684971], atol=1e-7)


def test_a_pair_is_a_prediction_of_two(probs):
    pairs = pairwise_mutual_information(probs)
    matrix = pairs.square()
    for i, j in ((0, 1), (2, 6), (4, 5)):
        both = cx.ClassPrediction.from_probs(probs[[i, j]])
        assert matrix[i, j] == pytest.approx(float(both.epistemic.mean()), abs=1e-6)
    np.testing.assert_array_equal(matrix, matrix.T)
    assert (np.diagonal(matrix) == 0).all()
    assert matrix.max() <= np.log(2)
    apart = np.stack([np.eye(2)[[0, 0]], np.eye(2)[[1, 1]]])
    assert pairwise_mutual_information(apart).values[0] == pytest.approx(np.log(2), rel=1e-6)


@pytest.mark.parametrize("chunk", [1, 7, 50])
def test_chunks_do_not_matter(probs, chunk):
    whole = pairwise_mutual_information(probs)
    parts = pairwise_mutual_information(probs, chunk=chunk)
    np.testing.assert_allclose(parts.values, whole.values, atol=1e-6)
    np.testing.assert_allclose(parts.standard_error, whole.standard_error, atol=1e-6)
    streamed = pairwise_mutual_information(probs[:, s : s + 20] for s in (0, 20, 40))
    np.testing.assert_allclose(streamed.values, whole.values, atol=1e-6)
    assert whole.inputs == parts.inputs == streamed.inputs == 50


def test_disagreement_and_divergence_are_the_direct_sums(probs):
    probs = np.maximum(probs, 1e-6)
    probs /= probs.sum(-1, keepdims=True)
    votes = probs.argmax(-1)
    disagreement = pairwise_disagreement(probs).square()
    divergence = pairwise_divergence(probs).square()
    error = pairwise_divergence(probs)
    for i, j in ((0, 3), (1, 2)):
        assert disagreement[i, j] == pytest.approx(np.mean(votes[i] != votes[j]), abs=1e-6)
        both = np.log(probs[i] / probs[j])
        each = (probs[i] * both).sum(-1) - (probs[j] * both).sum(-1)
        assert divergence[i, j] == pytest.approx(each.mean(), rel=1e-5)
    both = np.log(probs[0] / probs[1])
    each = ((probs[0] - probs[1]) * both).sum(-1)
    assert error.standard_error[0] == pytest.approx(each.std(ddof=1) / np.sqrt(50), rel=1e-4)


def test_a_stopped_stream_goes_on(probs, tmp_path):
    path = tmp_path / "pairs.safetensors"

    def chunks(stop):
        for number, start in enumerate(range(0, 50, 10)):
            if number == stop:
                raise KeyboardInterrupt
            yield probs[:, start : start + 10]

    with pytest.raises(KeyboardInterrupt):
        pairwise_mutual_information(chunks(3), checkpoint=path)
    resumed = pairwise_mutual_information(chunks(None), checkpoint=path)
    whole = pairwise_mutual_information(chunks(None))
    np.testing.assert_array_equal(resumed.values, whole.values)
    with pytest.raises(InputError, match="another quantity"):
        pairwise_disagreement(chunks(None), checkpoint=path)


def test_memory_is_that_of_chunks_and_not_of_the_inputs():
    """50 networks, 40 chunks of 1 MB each: the peak on the host stays below two chunks' worth."""
    rng = np.random.default_rng(1)
    size = 50 * 512 * 10 * 4

    def chunks(count):
        for _ in range(count):
            probs = rng.random((50, 512, 10), dtype=np.float32)
            probs /= probs.sum(-1, keepdims=True)
            yield np.log(probs, out=probs)

    pairwise_mutual_information(chunks(1))
    tracemalloc.start()
    pairs = pairwise_mutual_information(chunks(40))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert pairs.inputs == 40 * 512
    assert peak < 2.5 * size


def test_weight_distance_and_cosine():
    rng = np.random.default_rng(2)
    arrays = {"a": rng.standard_normal((6, 3, 2)), "b": rng.standard_normal((6, 4))}
    rows = np.concatenate([arrays["a"].reshape(6, -1), arrays["b"]], 1)
    near = pairwise_weight_distance(arrays, block_entries=7).square()
    assert near[1, 4] == pytest.approx(np.linalg.norm(rows[1] - rows[4]), rel=1e-6)
    taxi = pairwise_weight_distance(arrays, norm="l1").square()
    assert taxi[1, 4] == pytest.approx(np.abs(rows[1] - rows[4]).sum(), rel=1e-6)
    cosine = pairwise_weight_cosine(arrays, block_entries=7).square(1.0)
    np.testing.assert_allclose(cosine, _cosine(rows), atol=1e-6)


def _cosine(rows):
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit @ unit.T


def test_kernel_alignment_sees_rotations_as_equal():
    rng = np.random.default_rng(3)
    features = rng.standard_normal((30, 4))
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    other = rng.standard_normal((30, 4))
    stack = np.stack([features, 5 * features @ turn + 2, other])
    matrix = pairwise_kernel_alignment(stack).square()
    assert matrix[0, 1] == pytest.approx(1, abs=1e-6)
    k, m = (f - f.mean(0) for f in (features, other))
    k, m = k @ k.T, m @ m.T
    assert matrix[0, 2] == pytest.approx((k * m).sum() / np.linalg.norm(k) / np.linalg.norm(m))
    with pytest.raises(InputError, match="member 1 says the same"):
        pairwise_kernel_alignment(np.stack([features, np.ones((30, 4))]))


def test_association_is_the_correlation_of_pairs_with_an_interval_over_networks():
    """Pairs of one network effect: the interval holds the truth in at least 40 of 50 draws."""
    from scipy import stats

    rng = np.random.default_rng(4)
    i, j = np.triu_indices(20, 1)
    inside = 0
    for seed in range(50):
        a, b = rng.standard_normal((2, 20))
        noise = 0.3 * rng.standard_normal((2, len(i)))
        first = PairMatrix(20, (a[i] + a[j] + noise[0]).astype(np.float32))
        second = PairMatrix(20, (b[i] + b[j] + noise[1]).astype(np.float32))
        found = association(first, second, resamples=100, seed=seed)
        inside += found.pearson_interval[0] <= 0 <= found.pearson_interval[1]
    assert inside >= 40
    assert found.pearson == pytest.approx(np.corrcoef(first.values, second.values)[0, 1], rel=1e-5)
    expected = stats.spearmanr(first.values, second.values)[0]
    assert found.spearman == pytest.approx(expected, rel=1e-5)
    mean, low, high = first.mean_interval(200)
    assert low < mean < high


def test_principal_picture_keeps_distances_of_a_plane():
    rng = np.random.default_rng(5)
    plane = rng.standard_normal((9, 2)) @ rng.standard_normal((2, 12))
    found = picture(plane.reshape(3, 3, 4, 3))
    assert found.coordinates.shape == (3, 3, 2)
    assert sum(found.explained) == pytest.approx(1)
    flat = found.coordinates.reshape(9, 2)
    for a, b in ((0, 1), (3, 8)):
        expected = np.linalg.norm(plane[a] - plane[b])
        assert np.linalg.norm(flat[a] - flat[b]) == pytest.approx(expected)


def test_neighbours_picture_keeps_clusters_apart():
    rng = np.random.default_rng(6)
    centres = 10 * rng.standard_normal((2, 1, 6))
    points = np.repeat(centres, 10, 0) + 0.1 * rng.standard_normal((20, 1, 6))
    flat = picture(points, method="tsne").coordinates
    first, second = flat[:10], flat[10:]
    gap = np.linalg.norm(first.mean(0) - second.mean(0))
    assert gap > 2 * max(first.std(), second.std())


@pytest.mark.slow
def test_a_trajectory_is_recorded(blobs):
    x, y = blobs
    data = cx.data.Split(x, y)
    problem = cx.Problem(cx.networks.MLP((8,), outputs=3), cx.Categorical())
    recorder = PredictionRecorder(problem, x[:9], every=6)
    training = cx.Training(epochs=3, batch_size=10)
    posterior = cx.fit(
        problem,
        cx.DeepEnsemble(members=3),
        data,
        training=training,
        observer=recorder,
        progress=False,
    )
    assert recorder.steps == [0, 6, 12, 18]
    assert recorder.outputs.shape == (4, 3, 9, 3)
    expected = np.asarray(posterior.predict(x[:9]).members)
    np.testing.assert_allclose(recorder.outputs[-1], expected, atol=1e-6)
    assert picture(recorder.outputs).coordinates.shape == (4, 3, 2)
    pairs = pairwise_mutual_information(prediction_chunks(posterior, x, 25))
    whole = pairwise_mutual_information(posterior.predict(x))
    np.testing.assert_allclose(pairs.values, whole.values, atol=1e-6)


def test_bad_input_is_named():
    with pytest.raises(InputError, match="one member"):
        pairwise_mutual_information(np.full((1, 2, 2), 0.5))
    with pytest.raises(InputError, match="neither probabilities nor"):
        pairwise_mutual_information(np.ones((2, 2, 2)))
    with pytest.raises(InputError, match="no inputs"):
        pairwise_mutual_information(iter(()))
    with pytest.raises(InputError, match="at least three"):
        picture(np.zeros((2, 3, 3)))
    with pytest.raises(InputError, match="method"):
        picture(np.zeros((4, 3, 3)), method="umap")
    assert jax.config.jax_enable_x64 is False
