"""What holds for every calibrator: sums, finiteness, populations, files, bad input."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from calibration_cases import overconfident, regression

from credax import calibration, metrics
from credax.calibration import CalibrationWarning, Calibrator, Fitted, Intervals, load, save
from credax.errors import InputError
from credax.prediction import ClassPrediction, GaussianPrediction

pytestmark = pytest.mark.slow

BINARY = ("beta", "platt")
SETTINGS = {
    "dirichlet": {"off_diagonal": 0.1, "bias": 0.1},
    "mondrian": {"alpha": 0.2},
}
CLASSES = calibration.names("classification")
PREDICTIONS = [name for name in CLASSES if calibration.entry(name).gives == "prediction"]
NUMBERS = [n for n in calibration.names("regression") if n != "mondrian"]


def record(name):
    return calibration.get(name)(**SETTINGS.get(name, {}))


def case(name, members=1, rows=60):
    if calibration.entry(name).task == "regression":
        return regression(rows=rows, members=members)
    return overconfident(rows=rows, classes=2 if name in BINARY else 3, members=members)


def values(result):
    """Whatever a fitted calibrator returned, as plain arrays to compare."""
    if isinstance(result, ClassPrediction):
        return [result.log_probs]
    if isinstance(result, GaussianPrediction):
        return [result.means, result.variances]
    if isinstance(result, Intervals):
        return list(result)
    if isinstance(result, np.ndarray):
        return [result]
    return [result.quantile(0.3), result.cdf(np.zeros(result.base.means.shape[1]))]


@pytest.mark.parametrize("name", calibration.names())
def test_registry(name):
    assert isinstance(record(name), Calibrator)
    assert len(calibration.describe(name)) < 100
    assert calibration.entry(name).gives in ("prediction", "sets", "intervals")


def test_registry_speaks_before_jax():
    code = (
        "import sys, credax.calibration as c; c.names(); c.describe('aps'); "
        "assert 'jax' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_can_be_loaded():
    for name in calibration.__all__:
        assert getattr(calibration, name).__doc__


@pytest.mark.parametrize("name", CLASSES + NUMBERS)
@pytest.mark.parametrize("members", [1, 5])
def test_runs_on_populations_and_survives_a_file(name, members, tmp_path):
    p, y = case(name, members)
    fitted = record(name).fit(p, y, key=0)
    assert isinstance(fitted, Fitted)
    result = fitted(p)
    save(tmp_path / "fitted.safetensors", fitted)
    again = load(tmp_path / "fitted.safetensors")
    assert type(again) is type(fitted)
    for one, two in zip(values(result), values(again(p)), strict=True):
        np.testing.assert_array_equal(one, two)
    save(tmp_path / "again.safetensors", again)
    first, second = (tmp_path / f"{n}.safetensors" for n in ("fitted", "again"))
    assert first.read_bytes() == second.read_bytes()
    if isinstance(result, ClassPrediction):
        rows = np.asarray(result.members, np.float64).sum(axis=-1)
        np.testing.assert_allclose(rows, 1.0, atol=1e-5)


def test_infinite_thresholds_and_temperatures_before_survive_a_file(tmp_path):
    p, y = overconfident(rows=60)
    with pytest.warns(CalibrationWarning):
        fitted = calibration.conformalise(p, y, alpha=0.01, key=3, method="raps", temperature=True)
    save(tmp_path / "sets", fitted)
    again = load(tmp_path / "sets")
    assert np.isinf(again.quantiles).all()
    assert again.before.temperature == fitted.before.temperature
    np.testing.assert_array_equal(again.predict_set(p), fitted.predict_set(p))


def test_other_files_and_objects_are_refused(tmp_path):
    from credax.files import save_tree

    save_tree(tmp_path / "other", {"a": np.zeros(2)})
    with pytest.raises(InputError, match="holds no calibrator; give a file written by"):
        load(tmp_path / "other")
    save_tree(tmp_path / "alien", {}, {"calibrator": {"record": "os.system", "fields": {}}})
    with pytest.raises(InputError, match="which this version of credax does not know"):
        load(tmp_path / "alien")
    with pytest.raises(InputError, match="fitted is a object; give what a calibrator's fit"):
        save(tmp_path / "x", object())


@pytest.mark.parametrize("name", CLASSES)
def test_certain_rows_stay_finite(name):
    """One-hot rows, some of them wrong: zeros have no logarithm, results must have no NaN."""
    classes = 2 if name in BINARY else 3
    y = np.arange(60) % classes
    shown = np.where(np.arange(60) % 7 == 0, (y + 1) % classes, y)
    p = ClassPrediction.from_probs(np.eye(classes)[shown][None])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        result = record(name).fit(p, y, key=0)(p)
    if isinstance(result, ClassPrediction):
        probs = np.asarray(result.members)
        assert np.isfinite(probs).all()
        np.testing.assert_allclose(probs.sum(axis=-1), 1.0, atol=1e-5)
        truth = np.asarray(result.log_prob(y))
        assert np.mean(np.isfinite(truth)) > 0.8
    else:
        assert result[np.arange(60), y].mean() >= 0.8


@pytest.mark.parametrize("name", PREDICTIONS)
def test_never_worse_on_its_own_rows(name):
    """Own-row loss falls: NLL for the scalings, squared error for the binnings."""
    p, y = case(name)
    after = record(name).fit(p, y, key=0)(p)

    def losses(q):
        probs = np.asarray(q.probs, np.float64)
        truth = np.eye(probs.shape[1])[y]
        return -float(np.mean(np.asarray(q.log_prob(y)))), float(np.mean((probs - truth) ** 2))

    which = 1 if name in ("histogram", "isotonic", "bbq") else 0
    assert losses(after)[which] < losses(p)[which]


@pytest.mark.parametrize("name", CLASSES)
def test_bad_predictions_of_classes_are_one_sentence(name):
    p, y = case(name)
    probs = np.asarray(p.members)
    fit = record(name).fit
    cases = [
        (ClassPrediction.from_probs(1.2 * probs), y, "sum of one"),
        (ClassPrediction(np.where(np.arange(60)[:, None] == 3, np.nan, p.log_probs)), y, "NaN"),
        (p.select(slice(0, 0)), y[:0], "empty"),
        (p, y[:-1], "y has shape"),
        (p, y + 0.5, "y has shape"),
        (p, y + 7, "labels from 7"),
    ]
    for prediction, labels, message in cases:
        with pytest.raises(InputError, match=message) as error:
            fit(prediction, labels, key=0)
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match=r"GaussianPrediction; .* is for classification"):
        fit(regression(rows=60)[0], y, key=0, **({"groups": y} if name == "mondrian" else {}))


@pytest.mark.parametrize("name", NUMBERS)
def test_bad_predictions_of_numbers_are_one_sentence(name):
    p, y = case(name)
    fit = record(name).fit
    broken = np.where(np.arange(60)[:, None] == 3, np.nan, p.means)
    cases = [
        (GaussianPrediction(p.means, -p.variances), y, "variance of -"),
        (GaussianPrediction(broken, p.variances), y, "NaN"),
        (p.select(slice(0, 0)), y[:0], "empty"),
        (p, np.where(np.arange(60) == 5, np.nan, y), "y holds NaN"),
        (p, y[:-1], "y has shape"),
    ]
    for prediction, targets, message in cases:
        with pytest.raises(InputError, match=message) as error:
            fit(prediction, targets)
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match=r"ClassPrediction; .* is for regression"):
        fit(*overconfident(rows=60))


@pytest.mark.parametrize("name", [n for n in PREDICTIONS if n not in BINARY])
def test_another_number_of_classes_is_refused(name):
    fitted = record(name).fit(*case(name), key=0)
    with pytest.raises(InputError, match=r"has 4 classes; .* fitted on 3"):
        fitted(overconfident(rows=10, classes=4)[0])


@pytest.mark.parametrize("name", NUMBERS)
def test_another_number_of_targets_is_refused(name):
    fitted = record(name).fit(*case(name))
    with pytest.raises(InputError, match=r"has 2 target\(s\); .* fitted on 1"):
        fitted(regression(rows=10, targets=2)[0])


@pytest.mark.parametrize("name", ["temperature", "vector", "dirichlet", "histogram", "bbq"])
def test_certain_mixtures_stay_finite(name):
    y = np.arange(60) % 3
    shown = np.where(np.arange(60) % 7 == 0, (y + 1) % 3, y)
    p = ClassPrediction.from_probs(np.tile(np.eye(3)[shown], (2, 1, 1)))
    after = calibration.get(name)(apply_to="mixture", **SETTINGS.get(name, {})).fit(p, y)(p)
    assert after.num_members == 1
    assert np.isfinite(np.asarray(after.probs)).all()


@pytest.mark.parametrize(
    "name", ["temperature", "vector", "matrix", "isotonic", "histogram", "bbq"]
)
def test_members_classes_and_rows_have_no_order(name):
    """Permuted members, renamed classes, shuffled or doubled rows: the same probabilities."""
    p, y = overconfident(rows=60, members=3)
    logs, rng = np.asarray(p.log_probs), np.random.default_rng(0)
    probs = np.asarray(record(name).fit(p, y)(p).probs)

    def refitted(logs, y):
        other = ClassPrediction(np.ascontiguousarray(logs))
        return np.asarray(record(name).fit(other, y)(p).probs)

    np.testing.assert_allclose(refitted(logs[[2, 0, 1]], y), probs, atol=1e-5)
    order = rng.permutation(60)
    np.testing.assert_allclose(refitted(logs[:, order], y[order]), probs, atol=1e-5)
    if name != "bbq":  # whose prior weighs less against more rows
        doubled = refitted(np.concatenate([logs, logs], axis=1), np.append(y, y))
        np.testing.assert_allclose(doubled, probs, atol=1e-5)
    names = np.array([1, 2, 0])  # class k is called names[k]
    renamed = ClassPrediction(logs[..., np.argsort(names)])
    after = np.asarray(record(name).fit(renamed, names[y])(renamed).probs)
    np.testing.assert_allclose(after[:, names], probs, atol=1e-5)


def test_results_are_what_metrics_take():
    p, y = overconfident(rows=60)
    sets = calibration.conformalise(p, y, alpha=0.2).predict_set(p)
    assert float(metrics.set_coverage(sets, y)) == pytest.approx(sets[np.arange(60), y].mean())
    assert float(metrics.set_size(sets, y)) == pytest.approx(sets.sum(axis=1).mean())
    p, y = regression(rows=60)
    intervals = calibration.conformalise(p, y, method="normalised").predict_interval(p)
    assert float(metrics.coverage(intervals, y)) == pytest.approx(intervals.contains(y).mean())
    assert float(metrics.width(intervals, y)) == pytest.approx(intervals.width.mean(), rel=1e-5)
    after = calibration.QuantileRecalibration().fit(p, y)(p)
    assert float(metrics.crps(after.as_mixture(), y)) < float(metrics.crps(p, y))
    assert float(metrics.coverage_curve(after, y, levels=(0.5,))[0]) == pytest.approx(0.5, abs=0.05)
