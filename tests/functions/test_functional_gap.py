"""Between the data: functional VI follows its prior on functions, a prior on weights does not."""

from typing import Any

import numpy as np
import pytest

import credax as cx
from credax.functions.kernels import RBF

NOISE = 0.3


@pytest.mark.slow
@pytest.mark.optimised
def test_in_a_gap_the_variance_is_the_priors_and_not_that_of_a_weight_prior():
    """Variance of a target over ``k(x, x) + s²`` in the middle of a gap of six length-scales.

    Within a quarter of one with a prior on functions, and far below with one on weights. Two hidden
    layers: with one, independent weights cannot be wide between rows that they fit.
    """
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-2, -1.5, 5), rng.uniform(1.5, 2, 5)])
    y = np.sin(3 * x) + NOISE * rng.standard_normal(10)
    data = cx.Split(x.astype(np.float32)[:, None], y.astype(np.float32))
    network = cx.networks.MLP((50, 50), outputs=1)
    problem = cx.Problem(network, cx.Gaussian(NOISE), prior=cx.GaussianPrior(precision=1.0))
    functional = cx.FunctionalVI(
        kernel=RBF(0.5),
        optimise=False,
        points=30,
        gamma=0.1,
        members=2,
        least_steps=2500,
        samples=60,
    )
    middle, ratios = np.array([[-0.25], [0.0], [0.25]], np.float32), {}
    for record, epochs in ((functional, 1), (cx.MeanFieldVI(samples=8), 1000)):
        training = cx.Training(epochs=epochs, batch_size=10, optimiser="adam", learning_rate=0.01)
        posterior: Any = cx.fit(problem, record, data, key=0, training=training, progress=False)
        drawn = posterior.functions(0, 1000, middle)[..., 0]
        ratios[record.name] = (drawn.var(0) + NOISE**2) / (1 + NOISE**2)
    assert (np.abs(ratios["functional-vi"] - 1) < 0.25).all(), ratios
    assert (ratios["mean-field-vi"] < 0.5).all(), ratios
