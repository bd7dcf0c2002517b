"""Standard errors: resampled rows against formulas, and seeds against Student's interval."""

import jax
import numpy as np
import pytest
from metrics_cases import class_case, number_case
from scipy.stats import t

from credax import metrics
from credax.errors import InputError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def test_the_error_of_a_mean_is_its_formula():
    prediction, y = class_case(np.random.default_rng(0), rows=200)
    found = metrics.bootstrap_all(prediction, y, ["accuracy", "nll"], key=0, replicates=1000)
    rows = {"accuracy": prediction.label == y, "nll": -prediction.log_prob(y)}
    for name, values in rows.items():
        values = np.asarray(values, float)
        interval = found[name]
        assert interval.value == pytest.approx(values.mean(), abs=1e-12)
        expected = values.std() / np.sqrt(len(values))
        # A thousand replicates know a standard error to about 2 %.
        assert interval.standard_error == pytest.approx(expected, rel=0.08)
        assert interval.low < interval.value < interval.high
        assert interval.high - interval.low == pytest.approx(2 * 1.96 * expected, rel=0.1)


def test_the_same_key_draws_the_same_rows():
    prediction, y = class_case(np.random.default_rng(1))
    ours = metrics.bootstrap("ece", prediction, y, key=3, replicates=20)
    assert metrics.bootstrap("ece", prediction, y, key=3, replicates=20) == ours
    typed = metrics.bootstrap("ece", prediction, y, key=jax.random.key(3), replicates=20)
    assert typed == ours
    other = metrics.bootstrap("ece", prediction, y, key=4, replicates=20)
    assert other.standard_error != ours.standard_error
    assert other.value == ours.value
    # Any metric and any function see the rows that the name would.
    stream = metrics.bootstrap(metrics.ece.stream(), prediction, y, key=3, replicates=20)
    assert stream == ours
    assert metrics.bootstrap(metrics.get("ece"), prediction, y, key=3, replicates=20) == ours
    plain = metrics.bootstrap(lambda p, y: metrics.ece(p, y), prediction, y, key=3, replicates=20)
    assert plain.standard_error == pytest.approx(ours.standard_error, rel=1e-9)


def test_metrics_that_sort_and_numbers():
    prediction, y = class_case(np.random.default_rng(2))
    found = metrics.bootstrap("aurc", prediction, y, key=0, replicates=50)
    assert 0 < found.standard_error < 0.3
    assert found.low <= found.value <= found.high
    numbers, targets = number_case(np.random.default_rng(3))
    found = metrics.bootstrap_all(numbers, targets, ["crps", "rmse"], key=0, replicates=50)
    assert list(found) == ["rmse", "crps"]
    assert all(interval.standard_error > 0 for interval in found.values())


def test_seeds():
    runs = [{"nll": 1.0, "ece": 0.1}, {"nll": 2.0, "ece": 0.1}, {"nll": 6.0}]
    found = metrics.over_seeds(runs, level=0.9)
    assert list(found) == ["nll"]
    error = np.std([1, 2, 6], ddof=1) / np.sqrt(3)
    reach = t.ppf(0.95, 2) * error
    expected = (3.0, error, 3 - reach, 3 + reach)
    assert found["nll"] == pytest.approx(expected)
    alone = metrics.over_seeds(runs[:1])["nll"]
    assert alone.value == 1.0
    assert np.isnan(alone.standard_error)


def test_arguments_that_do_not_fit():
    prediction, y = class_case(np.random.default_rng(4))
    with pytest.raises(InputError, match="replicates is 1"):
        metrics.bootstrap("nll", prediction, y, key=0, replicates=1)
    with pytest.raises(InputError, match="level is 1"):
        metrics.bootstrap("nll", prediction, y, key=0, level=1.0)
    with pytest.raises(InputError, match="not for classification"):
        metrics.bootstrap("rmse", prediction, y, key=0)
    with pytest.raises(InputError, match="runs is empty"):
        metrics.over_seeds([])
    with pytest.raises(InputError, match="labels from"):
        metrics.bootstrap("nll", prediction, y + 10, key=0)
