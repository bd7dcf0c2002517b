"""Experiments without a data set: what they leave, what they refuse, and what they read again."""

import csv
import json
import math

import pytest

from credax import experiments
from credax.cli import main
from credax.experiments.design_estimators import verdicts
from credax.experiments.study import StudyArm, StudyTrial

ARMS = {
    "working-memory": "exact,normal,adaptive,fixed,greedy,static",
    "design-estimators": "pce",
    "dad-death-process": "random,static,dad",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ARMS))
def test_a_study_leaves_tables_figures_and_a_page(name, tmp_path, capsys):
    command = ["reproduce", name, "--scale", "test", "--out", str(tmp_path), "--arms", ARMS[name]]
    assert main([*command, "--quiet"]) == 0
    rows = list(csv.DictReader((tmp_path / "results.csv").read_text().splitlines()))
    labels = {arm.name: arm.label for arm in experiments.get(name).scales["test"].arms}
    assert {row["method"] for row in rows} == {labels[arm] for arm in ARMS[name].split(",")}
    assert all(math.isfinite(float(row["value"])) for row in rows)
    page = (tmp_path / "report.html").read_text()
    assert page.count('class="sheet"') == len(list((tmp_path / "figures").glob("*.svg"))) > 0
    # Read again, not measured again.
    before = [p.stat().st_mtime_ns for p in sorted(tmp_path.glob("*/measured.json"))]
    capsys.readouterr()
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]
    assert [p.stat().st_mtime_ns for p in sorted(tmp_path.glob("*/measured.json"))] == before


def test_the_exact_numbers_of_working_memory(tmp_path, capsys):
    out = ["--out", str(tmp_path), "--arms", "exact,fixed,greedy", "--scale", "test", "--json"]
    assert main(["reproduce", "working-memory", *out]) == 0
    capsys.readouterr()
    kept = {
        name: json.loads((tmp_path / f"{name}_0" / "measured.json").read_text())["measured"]
        for name in ("exact", "fixed", "greedy")
    }
    exact = kept["exact"]["metrics"]
    assert exact["information"] == pytest.approx(0.231138302, abs=1e-9)
    assert exact["posterior_sd"] == pytest.approx(1.229420209, abs=1e-6)
    assert kept["fixed"]["metrics"]["sd_after_ten"] == pytest.approx(0.9016, abs=5e-5)
    assert kept["greedy"]["metrics"]["information_2"] == pytest.approx(0.405893465, abs=1e-8)


@pytest.mark.parametrize("flags", [["--one-step"], ["--sets", "boston"], ["--data-dir", "x"]])
def test_flags_of_data_sets_are_refused(flags, capsys):
    assert main(["reproduce", "working-memory", "--scale", "test", *flags]) == 2
    assert "has no data set; leave it out" in capsys.readouterr().err


def test_a_plan_is_printed(capsys):
    assert main(["reproduce", "dad-location-finding", "--dry-run"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["settings"]["rounds"] == 10
    assert list(content["arms"]) == ["random", "static", "myopic", "dad"]


def test_a_bound_on_the_wrong_side_is_named(tmp_path):
    """A lower bound 4 errors above the exact value is wrong, one 2 errors above is not."""
    one = {"error": 0.1, "seconds": 0.0}
    values = {
        "side": "lower",
        "memory": one | {"bias": 0.4},
        "regression": one | {"bias": 0.2},
        "death": one | {"bias": -9.0},
    }
    trial = StudyTrial(StudyArm("pce", "Prior contrastive"), 0, tmp_path)
    (sentence,) = verdicts([(trial, values)])
    assert "1 of 3 bounds: Prior contrastive on Working memory, seed 0" in sentence
    nothing = values | {"memory": {"bias": math.nan, "error": math.nan, "seconds": 0.0}}
    assert "1 of 3" in verdicts([(trial, nothing)])[0]
    (sentence,) = verdicts([(trial, values | {"side": "upper"})])
    assert "Prior contrastive on Death process" in sentence
