"""Trained neural processes against the best predictor, on small budgets."""

import numpy as np
import pytest

import credax as cx
from credax.data import tasks_of
from credax.functions import measure

PROBLEM = cx.Problem(cx.networks.MLP((1,), outputs=2), cx.HeteroscedasticGaussian())
TRAINING = cx.Training(epochs=20, batch_size=16, optimiser="adam", learning_rate=3e-3)


def trained(record, name, training=TRAINING, **options):
    data = cx.data.load(f"tasks/{name}", test=256, **{"train": 1024, "points": 24} | options)
    return cx.fit(PROBLEM, record, data, key=0, training=training, progress=False), data


@pytest.mark.slow
def test_the_gap_shrinks_and_is_never_below_zero():
    """Straight lines: 1280 steps of a small network against 16; and no context at all."""
    record = cx.CNP(hidden=32, encoder_layers=3, least_steps=1, floor=0.05)
    short = TRAINING.replace(epochs=1, learning_rate=1e-3)
    first, _ = trained(record, "linear", short, train=256)
    later, data = trained(record, "linear")
    gaps = [measure(p, data.test, sizes=(1, 10)).scores for p in (first, later)]
    for found in gaps:
        assert found["oracle_gap"] >= -3 * found["oracle_gap_error"]
    assert gaps[1]["oracle_gap"] < 0.5 * gaps[0]["oracle_gap"]
    none = measure(later, data.test, sizes=(0, 0)).scores
    assert abs(none["oracle_gap"]) < 0.1


@pytest.mark.slow
def test_what_a_set_loses_without_its_size():
    """Constants with noise 1: the variance of a prediction is 1 + 1 / (1 + n).

    Trained on contexts of 0 to 15 points and asked for 1, 9 and 23, never seen.
    """
    errors = {}
    for how in ("mean", "mean_and_count", "sum"):
        record = cx.CNP(hidden=32, encoder_layers=2, aggregate=how, least_steps=1,
                        largest_context=15, floor=0.1)  # fmt: skip
        posterior, data = trained(record, "constant")
        tasks = tasks_of(data.test)
        found = []
        for n in (1, 9, 23):
            prediction = measure(posterior, data.test, sizes=(n, n)).prediction
            exact = 1 + 1 / (1 + n)
            found.append(float(np.asarray(prediction.total).mean()) / exact - 1)
        errors[how] = np.abs(found).max()
        assert len(tasks) == 256
    assert errors["mean"] > 2 * max(errors["mean_and_count"], errors["sum"]), errors
    assert max(errors["mean_and_count"], errors["sum"]) < 0.1, errors


@pytest.mark.slow
def test_convolutions_and_a_table():
    """A ConvCNP beats a CNP of the same steps; and a table of one function is learned."""
    gaps = []
    for record in (
        cx.CNP(hidden=32, encoder_layers=3),
        cx.ConvCNP(hidden=16, blocks=3, floor=0.05),
    ):
        posterior, data = trained(record, "gp-rbf", TRAINING.replace(epochs=10))
        gaps.append(measure(posterior, data.test, sizes=(3, 20)).scores)
    assert gaps[1]["oracle_gap"] < gaps[0]["oracle_gap"]
    assert all(g["oracle_gap"] >= -3 * g["oracle_gap_error"] for g in gaps)
    table = cx.data.load("toy/sinusoid-gap", train=100)
    record = cx.CNP(hidden=32, encoder_layers=2, least_steps=600)
    training = cx.Training(epochs=1, batch_size=50, optimiser="adam", learning_rate=3e-3)
    posterior = cx.fit(PROBLEM, record, table, training=training, progress=False)
    scores = cx.evaluate(posterior.predict(table.test.x), table.test.y, ["rmse", "nll"])
    assert scores["rmse"] < 0.7  # the targets' deviation is 1.4, the noise 0.2
    assert posterior.diagnostics["context"] == 49
