"""``credax reproduce`` and ``credax pca`` as a person types them."""

import csv
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from credax import experiments
from credax.cli import main
from credax.data import load
from credax.data.pca import Components

pytestmark = pytest.mark.slow

SMALL = {
    "forde-toy-1d": (),
    "forde-toy-2d": (),
    "forde-digits": ("single", "deep-ensemble", "function-rde", "forde-pca"),
}


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def command(name, root):
    arms = ["--arms", ",".join(SMALL[name])] if SMALL[name] else []
    return ["reproduce", name, "--scale", "test", "--out", str(root), *arms]


@pytest.fixture(scope="module", params=SMALL)
def finished(request, tmp_path_factory):
    root = tmp_path_factory.mktemp(request.param) / "out"
    assert main([*command(request.param, root), "--quiet"]) == 0
    return request.param, root


def test_an_experiment_leaves_tables_figures_and_a_page(finished):
    name, root = finished
    scale = experiments.get(name).scales["test"]
    labels = {arm.label for arm in scale.arms if not SMALL[name] or arm.name in SMALL[name]}
    rows = list(csv.DictReader((root / "results.csv").read_text().splitlines()))
    assert {row["method"] for row in rows} == labels
    assert all(math.isfinite(float(row["value"])) for row in rows)
    figures = sorted(path.name for path in (root / "figures").glob("*.svg"))
    expected = {
        "forde-toy-1d": ["functions.svg"],
        "forde-toy-2d": ["entropy.svg"],
        "forde-digits": ["saliency.svg", "severity.svg"],
    }
    assert figures == expected[name]
    page = (root / "report.html").read_text()
    assert page.count('class="sheet"') == len(figures)
    assert ("published.json" in os.listdir(root)) == (name == "forde-digits")


def test_the_same_command_reads_what_is_there(finished, capsys):
    name, root = finished
    members = sorted(root.glob("*/members.safetensors"))
    before = [path.stat().st_mtime_ns for path in members]
    old = json.loads((root / "results.json").read_text())
    code, out, _ = run(capsys, *command(name, root), "--json", "--figures", "pdf")
    assert code == 0
    assert json.loads(out) == old
    assert [path.stat().st_mtime_ns for path in members] == before
    # Drawn of what is stored: the experiment's own figures, and those of any comparison.
    drawn = {path.stem for path in (root / "figures").glob("*.pdf")}
    assert {path.stem for path in (root / "figures").glob("*.svg")} <= drawn
    assert "learning_curves" in drawn
    assert ("reliability" in drawn) == (name != "forde-toy-1d")


def test_another_scale_in_the_same_folder_is_refused(finished, capsys):
    name, root = finished
    other = ["--arms", "deep-ensemble", "--quiet"]
    code, _, err = run(capsys, "reproduce", name, "--out", root, *other)
    assert code == 2
    assert "other settings" in err


def test_corrupted_scores_are_measured_once(tmp_path, capsys, monkeypatch):
    from credax.experiments import shift

    calls = []
    measured = shift.measured
    monkeypatch.setattr(shift, "measured", lambda *given: calls.append(1) or measured(*given))
    words = ("reproduce", "forde-digits", "--scale", "test", "--arms", "deep-ensemble", "--json")
    code, first, _ = run(capsys, *words, "--out", tmp_path / "a")
    assert code == 0
    code, second, _ = run(capsys, *words, "--out", tmp_path / "a")
    assert len(calls) == 1
    assert first == second
    names = {metric["name"] for metric in json.loads(first)["metrics"]}
    assert {"corrupted_nll", "corrupted_ece", "corrupted_ece_cells", "gradient_cosine"} <= names


README = {
    "forde-cifar10": ("cifar10", 300, 0.01, 10, 50_000, 390, "block='basic'"),
    "forde-cifar100": ("cifar100", 300, 0.01, 100, 50_000, 390, "block='basic'"),
    "forde-tinyimagenet": ("tiny-imagenet", 150, 0.001, 200, 100_000, 781, "block='preactivated'"),
}


@pytest.mark.parametrize("name", README)
def test_the_paper_scale_has_the_settings_of_the_readme(name, capsys):
    data, epochs, ratio, classes, rows, per_epoch, block = README[name]
    code, out, _ = run(capsys, "reproduce", name, "--scale", "paper", "--dry-run", "--json")
    assert code == 0
    plan = json.loads(out)
    assert (plan["data"]["name"], plan["data"]["train_rows"]) == (data, rows)
    training = plan["training"]
    expected = {
        "epochs": epochs,
        "batch_size": 128,
        "optimiser": "sgd",
        "learning_rate": 0.1,
        "momentum": 0.9,
        "nesterov": True,
        "schedule": "piecewise-linear",
        "final_ratio": ratio,
        "milestones": [0.5, 0.9],
        "warmup_epochs": 0.0,
        "last_batch": "drop",
        "augment": ["flip", "crop"],
        "shared_augment": True,
        "clip_norm": None,
        "patience": None,
    }
    assert {key: training[key] for key in expected} == expected
    assert plan["weight_decay"] == 5e-4
    assert plan["steps"] == {"per epoch": per_epoch, "total": per_epoch * epochs}
    forde = plan["arms"]["forde-pca"]
    method = forde["method"]
    assert (method["members"], method["lengthscale"], method["eps"]) == (10, "pca", 1e-24)
    assert (method["rank"], method["repulsion_scale"], method["centre"]) == (None, "batch", False)
    assert block in forde["network"]
    assert "zero_head=True" in forde["network"]
    assert "widths=(64, 128, 256, 512), blocks=(2, 2, 2, 2), stem=64" in forde["network"]
    # 11.17 million numbers without the head, and 512 + 1 for every class.
    assert abs(forde["parameters"]["one network"] - 513 * classes - 11.167e6) < 1e4
    dimension = math.prod(plan["data"]["input_shape"])
    assert forde["memory (estimate)"]["metric"] == 4 * dimension**2
    assert len(plan["fits"]) == 5 * len(plan["arms"])


def test_the_plan_reads_for_people(capsys):
    code, out, _ = run(capsys, "reproduce", "forde-cifar10", "--scale", "paper", "--dry-run")
    assert code == 0
    assert "training.final_ratio" in out
    assert "45 fits" in out
    assert "GB" in out


def test_one_step_at_the_scales_settings(capsys):
    arms = ("--arms", "deep-ensemble,forde-pca", "--strategy", "vmap")
    code, out, _ = run(
        capsys, "reproduce", "forde-cifar100", "--scale", "test", "--one-step", "--json", *arms
    )
    assert code == 0
    steps = json.loads(out)
    assert [step["arm"] for step in steps] == ["deep-ensemble", "forde-pca"]
    for step in steps:
        assert step["finite"]
        assert len(step["nll"]) == 2
        assert step["greatest change"] > 0
    # One order of rows and the same first members: the loss before the first step is the same.
    assert steps[0]["nll"] == pytest.approx(steps[1]["nll"], rel=1e-5)


def test_one_step_without_the_data_says_so(tmp_path, capsys):
    words = ("reproduce", "forde-cifar100", "--one-step", "--arms", "single", "--json")
    code, out, err = run(capsys, *words, "--data-dir", tmp_path, "--no-download")
    assert code == 0
    assert "cifar100" in err
    assert "2048 generated images" in err
    (step,) = json.loads(out)
    # A head that starts at zero: every class is as likely as the others.
    assert step["nll"] == pytest.approx([math.log(100)], rel=1e-5)
    assert "generated" in step["data"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["forde-cifar"], "did you mean 'forde-cifar10'"),
        (["forde-digits", "--arms", "forde-pcs"], "did you mean 'forde-pca'"),
        (["forde-digits", "--seeds", "0"], "seeds is 0; give at least 1"),
        (["forde-digits", "--scale", "paper"], "choose test, cpu"),
        (["forde-cifar100", "--no-download", "--data-dir", "nowhere"], "'cifar100' was not found"),
    ],
)
def test_bad_input_is_one_sentence(arguments, words, capsys):
    code, out, err = run(capsys, "reproduce", *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("credax: error: ")
    assert len(err.strip().splitlines()) == 1
    assert words in err


def test_experiments_are_listed_before_jax_is_imported():
    program = (
        "import sys; from credax.cli import main; main(['reproduce'])\n"
        "sys.exit('jax' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert answer.returncode == 0
    assert "forde-tinyimagenet" in answer.stdout


def test_components_are_those_of_the_second_moment(work, capsys):
    code, out, _ = run(capsys, "pca", "digits", "d.npz", "--rank", "5", "--json")
    assert code == 0
    summary = json.loads(out)
    train = load("digits").train
    rows = ((train.x - train.inputs.mean) / train.inputs.scale).reshape(len(train), -1)
    values = np.linalg.svd(rows, compute_uv=False) ** 2 / (len(rows) - 1)
    assert summary["components"] == 5
    assert summary["explained"] == pytest.approx(values[:5].sum() / values.sum(), rel=1e-5)
    assert summary["next eigenvalue"] == pytest.approx(values[5], rel=1e-4)
    np.testing.assert_allclose(Components.load(work / "d.npz").values, values[:5], rtol=1e-4)
    flags = ["--data", "digits", "--pca", "d.npz", "--members", "2", "--epochs", "1"]
    code, out, _ = run(capsys, "fit", "forde", *flags, "--out", "run", "--json")
    assert code == 0
    assert json.loads((work / "run" / "config.json").read_text())["method"]["pca"] == "d.npz"


def test_shares_of_the_variance(work, capsys):
    code, out, _ = run(capsys, "pca", "digits", "d.npz", "--rank", "0.9", "--centre")
    assert code == 0
    kept = len(Components.load(work / "d.npz").values)
    assert f"{kept} of 64 components of 1200 rows" in out
    assert f"90%  with          {kept} components" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["digits", "d.csv"], "ends in .npz"),
        (["digits", "there.npz"], "which exists"),
        (["digits", "d.npz", "--rank", "65"], "rank is 65"),
        (["digitz", "d.npz"], "did you mean 'digits'"),
    ],
)
def test_bad_components_are_one_sentence(work, arguments, words, capsys):
    (work / "there.npz").write_bytes(b"kept")
    code, _, err = run(capsys, "pca", *arguments)
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert (work / "there.npz").read_bytes() == b"kept"
    assert not (work / "d.npz").exists()
