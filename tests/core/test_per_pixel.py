"""Likelihoods at every pixel: equal to the plain ones on a 1 x 1 grid, blind to ignored pixels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.likelihood import pixel_weights
from credax.networks import Activation, Dense, Sequential
from credax.runs import rebuild
from credax.training.describe import describe

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 2, 6)
NUMBERS = RNG.normal(size=6).astype(np.float32)
PLAIN = {
    "categorical": (cx.Categorical(), 3, LABELS),
    "bernoulli": (cx.Bernoulli(), 1, LABELS),
    "gaussian": (cx.Gaussian(0.5), 1, NUMBERS),
    "learned": (cx.Gaussian(), 2, NUMBERS),
    "heteroscedastic": (cx.HeteroscedasticGaussian(), 2, NUMBERS),
    "laplace-noise": (cx.LaplaceNoise(), 2, NUMBERS),
    "student": (cx.StudentT(), 2, NUMBERS),
    "focal": (cx.Focal(), 3, LABELS),
    "evidential": (cx.EvidentialDirichlet(), 3, LABELS),
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_grid_of_one_pixel_gives_the_bits_of_the_plain_likelihood(name):
    """A wrong scale, sum, axis or delegation changes a bit."""
    plain, width, y = PLAIN[name]
    outputs = RNG.normal(size=(2, 6, width)).astype(np.float32)
    grid, targets = outputs[:, :, None, None], y[:, None, None]
    pixels = cx.PerPixel(plain)
    np.testing.assert_array_equal(
        pixels.log_prob(jnp.asarray(grid[0]), jnp.asarray(targets)),
        plain.log_prob(jnp.asarray(outputs[0]), jnp.asarray(y)),
    )
    ours, theirs = pixels.predict(jnp.asarray(grid)), plain.predict(jnp.asarray(outputs))
    np.testing.assert_array_equal(ours.log_prob(targets)[:, 0, 0], theirs.log_prob(y))
    for part in ("mean", "total", "aleatoric", "epistemic"):
        a, b = np.asarray(getattr(ours, part)), np.asarray(getattr(theirs, part))
        np.testing.assert_array_equal(a.reshape(b.shape), b)
    drawn = ours.sample(jax.random.key(0), 3)
    np.testing.assert_array_equal(drawn[:, :, 0, 0], theirs.sample(jax.random.key(0), 3))
    if pixels.task == "regression":
        np.testing.assert_array_equal(ours.quantile(0.3)[:, 0, 0], theirs.quantile(0.3))


def test_training_on_a_grid_of_one_pixel_gives_the_bits_of_the_plain_problem():
    x = RNG.normal(size=(20, 5)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int32)
    network = Sequential((Dense(4), Activation("tanh"), Dense(2)))
    training = cx.Training(epochs=3, batch_size=5, learning_rate=0.1)
    found = []
    for likelihood, shape in ((cx.Categorical(), ()), (cx.PerPixel(cx.Categorical()), (1, 1))):
        split = cx.Split(x.reshape(20, *shape, 5), y.reshape(20, *shape))
        problem = cx.Problem(network, likelihood, weight_decay=1e-3)
        posterior = cx.fit(
            problem, cx.DeepEnsemble(members=2), split, training=training, progress=False
        )
        found.append(posterior.predict(split.x).probs.reshape(20, 2))
    np.testing.assert_array_equal(*found)


def test_the_value_is_the_mean_over_all_pixels_of_a_picture():
    """By hand, pixel after pixel in numpy."""
    logits = RNG.normal(size=(2, 3, 4, 3))
    y = RNG.integers(0, 3, (2, 3, 4))
    y[0, 1] = 255
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    each = np.take_along_axis(log_p, np.where(y == 255, 0, y)[..., None], -1)[..., 0]
    each = np.where(y == 255, 0, each)
    for observations, scale in ((1.0, 1 / 12), (None, 1.0), (6.0, 0.5)):
        pixels = cx.PerPixel(cx.Categorical(), ignore_label=255, observations=observations)
        found = pixels.log_prob(jnp.asarray(logits), jnp.asarray(y))
        np.testing.assert_allclose(found, scale * each.sum((1, 2)), rtol=1e-5)
    weight = RNG.uniform(size=y.shape).astype(np.float32)
    both = pixel_weights(np.where(y == 255, 0, y), np.where(y == 255, 0, weight))
    weighted = cx.PerPixel(cx.Categorical(), weighted=True).log_prob(jnp.asarray(logits), both)
    np.testing.assert_allclose(weighted, (each * weight).sum((1, 2)) / 12, rtol=1e-5)


@pytest.mark.parametrize("kind", ["label", "weight", "number", "weighted number"])
def test_poisoned_targets_of_ignored_pixels_change_no_bit(kind):
    """Values and gradients: a pixel left in by mistake would bring NaN or another number."""
    outputs = jnp.asarray(RNG.normal(size=(2, 2, 3, 2)), jnp.float32)
    numbers, labels = RNG.normal(size=(2, 2, 3)), RNG.integers(0, 2, (2, 2, 3))
    keep = RNG.random((2, 2, 3)) < 0.6
    if kind == "label":
        likelihood = cx.PerPixel(cx.Categorical(), ignore_label=255)
        pair = [np.where(keep, labels, 255)] * 2  # the label itself is the mark
        outputs_two = jnp.where(keep[..., None], outputs, 7.0)
    else:
        plain = cx.Categorical() if kind == "weight" else cx.HeteroscedasticGaussian()
        likelihood = cx.PerPixel(plain, weighted=kind != "number")
        y, outputs_two = (labels if kind == "weight" else numbers), outputs
        poisons = (0.0, 1e30 if kind == "weight" else np.nan)
        pair = [np.where(keep, y, poison) for poison in poisons]
        if kind == "number":
            pair = [np.where(keep, y, np.nan)] * 2
            outputs_two = jnp.where(keep[..., None], outputs, 7.0)
        else:
            pair = [np.concatenate([p[..., None], keep[..., None]], -1) for p in pair]
    value = jax.value_and_grad(lambda o, y: likelihood.log_prob(o, y).sum())
    (a, da), (b, db) = (
        value(o, jnp.asarray(p)) for o, p in zip((outputs, outputs_two), pair, strict=True)
    )
    assert np.isfinite(a)
    assert a == b
    np.testing.assert_array_equal(np.asarray(da)[keep], np.asarray(db)[keep])
    assert not np.asarray(da)[~keep].any()
    assert not np.asarray(db)[~keep].any()


def test_what_foRDE_and_function_space_methods_compare():
    likelihood = cx.PerPixel(cx.Categorical(), ignore_label=255)
    outputs = jnp.asarray(RNG.normal(size=(2, 2, 3, 4)), jnp.float32)
    y = RNG.integers(0, 4, (2, 2, 3))
    y[0, 0, 0] = 255
    own = np.take_along_axis(np.asarray(outputs), np.where(y == 255, 0, y)[..., None], -1)[..., 0]
    own[0, 0, 0] = 0
    centres = likelihood.centres(outputs, jnp.asarray(y))
    np.testing.assert_allclose(centres[:, 0], own.sum((1, 2)), rtol=1e-5)
    assert likelihood.compared(outputs, raw=True).shape == (2, 24)


def test_it_is_described_and_built_again():
    likelihood = cx.PerPixel(cx.Gaussian(0.3), observations=4.0)
    again = rebuild(describe(likelihood, "likelihood"))
    assert describe(again, "") == describe(likelihood, "")


def _problem(**options):
    network = Sequential((Dense(3),))
    return cx.Problem(network, cx.PerPixel(cx.Categorical(), **options))


X = np.zeros((2, 4, 4, 2), np.float32)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.zeros((2, 4, 5), np.int32), "y has shape .2, 4, 5. .* size of the pictures"),
        (np.full((2, 4, 4), 3, np.int32), "labels from 3 to 3; with 3 classes"),
        (np.full((2, 4, 4), 255, np.int32), "no pixel that counts: all 32 are ignored"),
        (np.zeros((2, 4, 4), np.float32), "labels are integers"),
    ],
)
def test_masks_that_do_not_fit_are_refused(y, words, refused):
    refused(lambda: _problem(ignore_label=255).check(X, y), words)


def test_wrong_networks_and_records_are_refused(refused):
    rows = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.PerPixel(cx.Categorical()))
    refused(lambda: rows.check(X, np.zeros((2, 4, 4), np.int32)), "use a network such as UNet")
    plain = cx.Problem(Sequential((Dense(3),)), cx.Categorical())
    refused(lambda: plain.check(X, np.zeros(2, np.int32)), "PerPixel")
    refused(lambda: cx.PerPixel(cx.PerPixel(cx.Categorical())), "likelihood is PerPixel")
    refused(lambda: cx.PerPixel(cx.Categorical(), observations=0.0), "observations is 0.0")
    refused(lambda: pixel_weights(np.zeros((1, 2, 2)), np.ones((1, 2, 3))), "weight has shape")
    refused(lambda: pixel_weights(np.zeros((1, 2, 2)), -np.ones((1, 2, 2))), "negative")
