"""Numbers for the calibration tests: by integer arithmetic, or from known distributions."""

import numpy as np

from credax.prediction import ClassPrediction, GaussianPrediction


def mixed(*shape, seed):
    """Numbers in [0, 1) from a mixing of integers: the same on every platform and version."""
    with np.errstate(over="ignore"):
        word = np.arange(1, np.prod(shape) + 1, dtype=np.uint64) * np.uint64(2654435761)
        word = (word + np.uint64(seed * 40503)) % np.uint64(2**32)
        for shift, factor in ((16, 2246822519), (13, 3266489917), (16, 1)):
            word = ((word ^ (word >> np.uint64(shift))) * np.uint64(factor)) % np.uint64(2**32)
    return (word / 2.0**32).reshape(shape)


def simplex(rows, classes, seed):
    """Rows of probabilities, some nearly certain."""
    raw = mixed(rows, classes, seed=seed) ** 3 + 0.02
    return raw / raw.sum(axis=1, keepdims=True)


def labels_of(probs, uniform):
    """Labels drawn from the rows' own probabilities: a perfectly calibrated prediction."""
    return (np.cumsum(probs, axis=1) > uniform[:, None]).argmax(axis=1)


def softmax(logits):
    logits = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return logits / logits.sum(axis=-1, keepdims=True)


def calibrated(rows, classes, seed, scale=2.0):
    """Logits ``[rows, classes]`` and labels drawn from their softmax."""
    rng = np.random.default_rng(seed)
    logits = scale * rng.standard_normal((rows, classes))
    return logits, labels_of(softmax(logits), rng.random(rows))


def overconfident(rows=300, classes=3, members=1, seed=0, factor=2.0):
    """A population whose members are sharper than the truth and disagree a little."""
    logits, y = calibrated(rows, classes, seed)
    noise = np.random.default_rng(seed + 1).standard_normal((members, rows, classes))
    logits = factor * logits + (0.7 * noise if members > 1 else 0.0 * noise)
    return ClassPrediction(np.log(softmax(logits)).astype(np.float32)), y


def regression(rows=300, members=1, targets=1, seed=0, true_scale=2.0):
    """Gaussian predictions whose stated deviations are too small by ``true_scale``."""
    rng = np.random.default_rng(seed)
    centre = rng.standard_normal((rows, targets))
    deviation = 0.5 + rng.random((rows, targets))
    shift = 0.5 * rng.standard_normal((members, rows, targets)) if members > 1 else 0.0
    means = np.broadcast_to(centre, (members, rows, targets)) + shift
    variances = np.broadcast_to(deviation**2, means.shape)
    y = centre + true_scale * deviation * rng.standard_normal((rows, targets))
    return GaussianPrediction(means, variances), y[:, 0] if targets == 1 else y
