"""Corrupted images, other data and calibrators as a person asks for them."""

import csv
import json
import shutil

import numpy as np
import pytest

from credax.cli import main

pytestmark = pytest.mark.slow

COMPARE = ["compare", "--data", "digits", "--epochs", "3", "--network-options", "hidden=(16,)"]
JUDGED = ["--shift", "--shift-rows", "60", "--corruptions", "digits/noise,digits/blur"]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """Two methods, evaluated on everything, in a folder."""
    folder = tmp_path_factory.mktemp("judged") / "compare"
    methods = ["--methods", "single,deep-ensemble", "--members", "2", "--seeds", "1"]
    asked = [*JUDGED, "--ood", "noise", "--validation", "0.2", "--calibrate"]
    code = main([*COMPARE, *methods, *asked, "temperature,aps", "--out", str(folder), "--quiet"])
    assert code == 0
    return folder


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_every_question_has_its_numbers_and_its_section(evaluated):
    rows = csv.DictReader((evaluated / "results.csv").read_text().splitlines())
    values = {(r["method"], r["metric"]): float(r["value"]) for r in rows}
    for method in ("Single network", "Deep ensemble"):
        clean, pooled = (values[method, key] for key in ("nll", "shift/pooled/nll"))
        assert clean < pooled
        assert 0.5 < values[method, "ood/noise/auroc/entropy_predictive"] <= 1
        assert values[method, "ood/noise/prevalence"] == 0.5
        assert 0.8 < values[method, "calibrated/aps/set_coverage"] <= 1
        assert values[method, "calibrated/temperature/accuracy"] > 0.5
    page = (evaluated / "report.html").read_text()
    for name in ("severity", "ood", "calibrated", "sets", "confusion"):
        assert f'<section id="{name}"' in page, name


def test_shifted_scores_are_kept_and_read_back(evaluated, capsys):
    folder = evaluated / "single_0"
    kept = folder / "shift.json"
    content = json.loads(kept.read_text())
    assert content["settings"]["rows"] == 60
    assert len(content["cells"]) == 10
    content["values"]["shift/pooled/nll"] = 123.0
    kept.write_text(json.dumps(content))
    code, out, _ = run(capsys, "evaluate", folder, *JUDGED, "--json")
    assert code == 0
    assert json.loads(out)["shift/pooled/nll"] == 123.0
    # Other settings are measured afresh.
    _, out, _ = run(capsys, "evaluate", folder, *JUDGED[:2], "40", *JUDGED[3:], "--json")
    assert json.loads(out)["shift/pooled/nll"] < 20


def test_shift_is_the_mean_of_its_severities(evaluated):
    content = json.loads((evaluated / "deep-ensemble_0" / "shift.json").read_text())
    by_severity = [content["severities"][str(s)]["accuracy"] for s in range(1, 6)]
    assert np.isclose(content["values"]["shift/pooled/accuracy"], np.mean(by_severity))
    cells = [scores["accuracy"] for _, _, scores in content["cells"]]
    assert np.isclose(np.mean(cells), np.mean(by_severity))  # equal sets: accuracy is linear


def test_calibrate_keeps_what_predict_and_report_use(evaluated, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = evaluated / "single_0"
    code, out, _ = run(capsys, "calibrate", folder, "--json")
    first = json.loads(out)
    assert code == 0
    assert first["calibrator"] == "temperature"
    assert first["after"]["accuracy"] == first["before"]["accuracy"]
    assert (folder / "calibration" / "temperature.safetensors").exists()
    code, out, _ = run(capsys, "calibrate", folder, "--method", "threshold", "--alpha", "0.2")
    assert code == 0
    assert "set_coverage" in out
    x = np.zeros((3, 8, 8, 1), np.float32)
    np.save("x.npy", x)
    flags = ["--calibration", "threshold", "--out", "sets.csv"]
    code, out, _ = run(capsys, "predict", folder, "x.npy", *flags)
    assert code == 0
    rows = list(csv.DictReader((tmp_path / "sets.csv").read_text().splitlines()))
    assert len(rows) == 3
    assert "threshold_set" in rows[0]
    code, _, _ = run(capsys, "report", folder, "--out", tmp_path / "report.html")
    assert code == 0
    assert "threshold" in (tmp_path / "report.html").read_text()
    # The same fit may be repeated; another one may not take its place.
    assert run(capsys, "calibrate", folder)[0] == 0
    code, _, error = run(capsys, "calibrate", folder, "--method", "vector", "--name", "temperature")
    assert code == 2
    assert "another --name" in error


BAD = {
    "unknown corruption": (["--shift", "--corruptions", "fgo"], "fog"),
    "unknown data": (["--ood", "mnits"], "mnist"),
    "other shape": (["--ood", "toy/two-moons"], "shape"),
    "unknown calibrator": (["--calibrate", "temprature"], "temperature"),
    "other task": (["--calibrate", "cqr", "--validation", "0.1"], "regression"),
    "no rows of its own": (["--calibrate", "temperature"], "--validation"),
    "negative rows": (["--shift", "--shift-rows", "-1"], "shift_rows"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_questions_are_refused_before_training(case, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags, word = BAD[case]
    code, _, error = run(capsys, *COMPARE, *flags)
    assert code == 2
    assert word in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_shift_needs_pictures(capsys):
    code, _, error = run(capsys, "compare", "--data", "toy/two-moons", "--shift")
    assert code == 2
    assert "images" in error


def test_calibrating_on_training_rows_is_refused(evaluated, capsys, tmp_path):
    from credax.data import load

    train = load("digits").with_validation(0.2).train
    file = tmp_path / "rows.npz"
    np.savez(
        file, x_train=train.x[:1], y_train=train.y[:1], x_test=train.x[:99], y_test=train.y[:99]
    )
    flags = ["--data", file, "--name", "own"]
    code, _, error = run(capsys, "calibrate", evaluated / "single_0", *flags)
    assert code == 2
    assert "training rows" in error
    assert run(capsys, "calibrate", evaluated / "single_0", *flags, "--allow-overlap")[0] == 0


def test_regression_is_calibrated_too(capsys, tmp_path):
    flags = ["--data", "toy/regression-1d", "--validation", "0.3", "--epochs", "5", "--quiet"]
    assert main(["fit", "single", *flags, "--out", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    for method, metric in (("variance-scaling", "nll"), ("quantile-recalibration", "coverage_90")):
        code, out, _ = run(capsys, "calibrate", tmp_path / "run", "--method", method, "--json")
        assert code == 0
        assert metric in json.loads(out)["after"]
    code, out, _ = run(capsys, "calibrate", tmp_path / "run", "--method", "cqr", "--json")
    assert code == 0
    assert "interval_coverage" in json.loads(out)["after"]
    code, _, _ = run(capsys, "report", tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    assert code == 0
    assert "cqr" in page
    assert "variance-scaling" in page


@pytest.mark.parametrize("what", ["corruptions", "calibrators"])
def test_lists(what, capsys):
    code, out, _ = run(capsys, "list", what, "--json")
    assert code == 0
    assert len(json.loads(out)) > 10


@pytest.mark.filterwarnings("default:the temperature:credax.calibration.CalibrationWarning")
def test_what_a_calibrator_warns_of_is_on_the_page(tmp_path, capsys):
    """Two clouds that nobody confuses: no temperature is low enough, and a warning says so."""
    y = np.arange(200) % 2
    x = np.random.default_rng(0).normal(size=(200, 2)) + 20 * y[:, None]
    lines = [f"{a},{b},{'odd' if c else 'even'}" for (a, b), c in zip(x, y, strict=True)]
    (tmp_path / "clouds.csv").write_text("\n".join(["a,b,kind", *lines]))
    where = ["--data", tmp_path / "clouds.csv", "--out", tmp_path / "runs", "--quiet"]
    options = ["--methods", "single", "--seeds", "1", "--epochs", "3", "--validation", "0.3"]
    code, _, err = run(capsys, "compare", *where, *options, "--calibrate", "temperature")
    assert code == 0
    assert "reached its bound 0.01" in err
    page = (tmp_path / "runs" / "report.html").read_text()
    assert "seed 0: the temperature reached its bound 0.01" in page


def test_weights_are_compared_with_a_zoo(evaluated, tmp_path, capsys):
    """MMD and NS as columns of evaluate and compare; a single network has no such distance."""
    zoo, runs = tmp_path / "zoo", tmp_path / "runs"
    shutil.copytree(evaluated, runs)
    task = [*COMPARE[1:], "--validation", "0.2", "--network", "mlp"]
    flags = ["--count", "8", "--seed", "7", "--out", zoo, "--quiet"]
    assert run(capsys, "zoo", "train", *task, *flags)[0] == 0
    asked = ["--reference", zoo]
    code, out, _ = run(capsys, "evaluate", runs / "deep-ensemble_0", *asked, "--json")
    assert code == 0
    values = json.loads(out)
    assert values["weights/reference_networks"] == 8
    for name in ("mmd", "ns", "ns_balanced"):
        assert values[f"weights/{name}_low"] <= values[f"weights/{name}_high"]
        assert np.isfinite(values[f"weights/{name}_tenths"])
    code, out, _ = run(capsys, "evaluate", runs / "single_0", *asked, "--json")
    assert code == 0
    assert not any(name.startswith("weights/") for name in json.loads(out))
    methods = ["--methods", "single,deep-ensemble", "--members", "2", "--seeds", "1"]
    words = [*COMPARE, *methods, "--validation", "0.2", *asked, "--out", runs]
    code, out, _ = run(capsys, *words)
    assert code == 0
    assert "weights against the reference" in out
    assert '<section id="distance"' in (runs / "report.html").read_text()


def test_a_reference_that_is_no_zoo_is_one_sentence(evaluated, tmp_path, capsys):
    code, _, err = run(capsys, "evaluate", evaluated / "deep-ensemble_0", "--reference", tmp_path)
    assert code == 2
    assert "is not a zoo" in err
