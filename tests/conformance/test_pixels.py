"""Methods on a problem with an output at every pixel: they learn it, or say why not."""

import dataclasses

import numpy as np
import pytest

import credax as cx
from conformance.table import ROWS
from credax.networks import Activation, Conv, Dense, Sequential

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 5, 4, 2)).astype(np.float32)
Y = (X[..., 0] > 0).astype(np.int32)
Y[0, 0] = 255
LEARN = (
    *("batch-ensemble", "forde", "function-wgd", "laplace", "mc-dropout", "mimo", "sgld"),
    *("mean-field-vi",),
)
REFUSE = {
    "gp": "no posterior",
    "svgp": "one vector of outputs per row",
    "vip": "one vector of outputs per row",
    "functional-vi": "one vector of outputs per row",
    "ntk": "squared error",
    "nngp": "squared error",
    "cnp": "one vector of outputs per row",
    "feature-wgd": "last layer is not known",
}


def _fit(name):
    record, own = ROWS[name].record, {"epochs": 4, "batch_size": 4, **(ROWS[name].training or {})}
    if name == "laplace":
        record = dataclasses.replace(record, predictive="sampled")
    network = Sequential((Conv(4, 1), Activation("tanh"), Dense(2)))
    likelihood = cx.PerPixel(cx.Categorical(), ignore_label=255)
    problem = cx.Problem(network, likelihood, weight_decay=1e-2)
    return cx.fit(problem, record, cx.Split(X, Y), training=cx.Training(**own), progress=False)


@pytest.mark.parametrize("name", LEARN)
def test_pixels_are_learned(name):
    """The label is the sign of a channel: better than the entropy of a coin, at every size."""
    prediction = _fit(name).predict(X)
    assert prediction.log_probs.shape[1:] == (12, 5, 4, 2)
    assert cx.evaluate(prediction, Y, ["nll"], ignore_label=255)["nll"] < np.log(2)


@pytest.mark.parametrize("name", REFUSE)
def test_what_cannot_be_is_refused_in_one_sentence(name, refused):
    refused(lambda: _fit(name), REFUSE[name])


def test_linearised_laplace_is_refused(refused):
    network = Sequential((Dense(2),))
    problem = cx.Problem(network, cx.PerPixel(cx.Categorical(), ignore_label=255))
    split, training = cx.Split(X, Y), cx.Training(1, 4)
    refused(
        lambda: cx.fit(problem, cx.Laplace(), split, training=training, progress=False),
        "use predictive='sampled'",
    )
