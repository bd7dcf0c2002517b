"""Small predictions that many tests share: every new shape is a new compilation."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from credax import metrics
from credax.prediction import ClassPrediction, GaussianPrediction

MEMBERS, ROWS, CLASSES, TARGETS = 3, 24, 6, 2

# Eight rows whose metrics were worked out by hand.
G1 = np.array(
    [
        [0.90, 0.05, 0.05],
        [0.80, 0.10, 0.10],
        [0.60, 0.30, 0.10],
        [0.42, 0.33, 0.25],
        [0.10, 0.85, 0.05],
        [0.20, 0.70, 0.10],
        [0.05, 0.15, 0.80],
        [0.28, 0.27, 0.45],
    ]
)
LABELS = np.array([0, 0, 1, 0, 1, 2, 2, 2])


def class_arrays(rng, sharp=0.5, rows=ROWS):
    """Members' probabilities and labels; most labels are drawn from the mixture."""
    logits = rng.normal(size=(MEMBERS, rows, CLASSES)) / sharp
    probs = np.exp(logits - logits.max(-1, keepdims=True))
    probs /= probs.sum(-1, keepdims=True)
    y = (probs.mean(0).cumsum(-1) > rng.random((rows, 1))).argmax(-1)
    return probs, y


def number_arrays(rng, rows=ROWS):
    """Members' means and variances, and targets."""
    shape = (MEMBERS, rows, TARGETS)
    return rng.normal(size=shape), rng.uniform(0.1, 3, size=shape), rng.normal(size=shape[1:])


def class_case(rng, sharp=0.5, rows=ROWS):
    probs, y = class_arrays(rng, sharp, rows)
    return ClassPrediction.from_probs(probs), y


def number_case(rng, rows=ROWS):
    means, variances, y = number_arrays(rng, rows)
    return GaussianPrediction(jnp.array(means), jnp.array(variances)), y


def gaussians(means, variances):
    """One row per column of ``[members, rows]`` means and variances."""
    return GaussianPrediction(
        jnp.asarray(means, float)[..., None], jnp.asarray(variances, float)[..., None]
    )


def all_of(task):
    """Every metric of a task in one collection."""
    return metrics.collect("all", task, sketch=False)


def filled(y, mask=None, weight=None):
    """Masks and weights also where there are none: one compiled program then serves all tests."""
    rows = len(y)
    mask = np.ones(rows, bool) if mask is None else mask
    return {"mask": mask, "weight": np.ones(rows) if weight is None else weight}


@cache
def _program(task):
    collection = all_of(task)

    @jax.jit
    def program(prediction, y, mask, weight):
        return collection(prediction, y, mask=mask, weight=weight)

    return program


def on_device(task, prediction, y, mask=None, weight=None):
    """Every metric of a task inside one compiled program."""
    return _program(task)(prediction, y, **filled(y, mask, weight))


def one_batch(collection, prediction, y, mask=None, weight=None):
    return collection.update(collection.init(), prediction, y, **filled(y, mask, weight))
