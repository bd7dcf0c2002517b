"""Ensembles for the price of one network: plans, counts by hand, figures, whole commands."""

import csv
import importlib.util
import json
import math
from pathlib import Path
from xml.etree import ElementTree

import jax
import numpy as np
import pytest

import credax as cx
from credax import experiments
from credax.cli import main
from credax.experiments.cost_and_quality import cost_figure, findings, training_costs
from credax.experiments.efficient_paper import CIFAR10, CIFAR100, FASHION, recipe
from credax.experiments.storage import load_of
from credax.methods.ensembles.batch_ensemble import BatchEnsemble
from credax.methods.ensembles.mimo import MIMO
from credax.plot import experiment_figure
from credax.report import Result
from credax.report.named_points import NamedPoints
from credax.report.svg import Axis, Frame

NAMES = ("efficient-ensembles", "efficient-ensembles-cifar10", "efficient-ensembles-cifar100")
EIGHT = (
    "batch-ensemble", "rank1-bnn", "node-bnn", "lp-bnn", "masksembles", "packed-ensemble", "mimo",
    "mnf",
)  # fmt: skip
BASELINES = ("single", "deep-ensemble", "short-ensemble", "mc-dropout", "swag")
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "efficient_ensembles.py"


@pytest.fixture(scope="module")
def timing():
    spec = importlib.util.spec_from_file_location("efficient_benchmark", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("table", "label", "metric", "value"),
    [
        (CIFAR10, "BatchEnsemble", "nll", 0.136),
        (CIFAR10, "Rank-1 BNN, Cauchy", "corrupted_nll", 0.74),
        (CIFAR100, "MIMO", "accuracy", 82.0),
        (CIFAR100, "Deep ensemble", "ece", 0.021),
        (FASHION, "Deep ensemble", "nll", 0.200),
    ],
)
def test_tables_are_as_printed(table, label, metric, value):
    column = [measure.name for measure in table.measures].index(metric)
    assert table.rows[label][column].mean == pytest.approx(value)


def test_published_rows_have_the_labels_of_arms():
    """A row under another label would stand beside nothing."""
    for name, table in zip(NAMES, (FASHION, CIFAR10, CIFAR100), strict=True):
        labels = {arm.label for arm in experiments.get(name).scales["paper"].arms}
        assert {*table.rows} <= labels


@pytest.mark.parametrize("name", NAMES)
def test_every_scale_has_the_eight_and_what_they_are_compared_with(name):
    for scale in experiments.get(name).scales.values():
        arms = {arm.name: arm for arm in scale.arms}
        assert {*EIGHT, "single", "deep-ensemble", "short-ensemble", "mc-dropout", "swag"} <= {
            *arms
        }
        members = arms["deep-ensemble"].method.members
        for own in ("batch-ensemble", "rank1-bnn", "node-bnn", "lp-bnn", "masksembles"):
            # A member count given by position would be one of modes.
            assert (arms[own].method.members, arms[own].method.modes) == (members, 1)
        short = arms["short-ensemble"]
        epochs = scale.training_of(short).epochs
        # As many passes over the data as one network, to less than one per member.
        assert 0 <= scale.training.epochs - members * epochs < members
        assert short.method == arms["deep-ensemble"].method


def test_the_published_rate_drops_where_the_released_code_drops_it():
    assert recipe(250)["learning_rate"].epochs == (100, 200, 225)
    rate, per_epoch = recipe(200)["learning_rate"], 390
    at = lambda epoch: float(rate(np.int32(epoch * per_epoch)))  # noqa: E731
    assert [at(e) for e in (1, 79)] == pytest.approx([0.1, 0.1])
    assert [at(e) for e in (80, 160, 180)] == pytest.approx([0.02, 0.004, 0.0008])
    assert float(rate(np.int32(per_epoch // 2 - 1))) == pytest.approx(0.05)


def test_numbers_of_the_small_network_are_the_papers(timing):
    problem = cx.Problem(cx.networks.CNN(10), cx.Categorical())
    example = jax.ShapeDtypeStruct((1, 28, 28, 1), "float32")
    known = {n: timing.cnn_numbers(n) for n in timing.METHODS}
    assert sum(value is not None for value in known.values()) == 9
    for name, value in known.items():
        if value is not None:
            assert load_of(timing.METHODS[name], problem, example).stored == value, name


def test_stored_numbers_of_posteriors(timing):
    network = cx.networks.MLP((3,), outputs=2)
    problem = cx.Problem(network, cx.Categorical())
    data = cx.Split(np.ones((8, 4), np.float32), np.arange(8) % 2)
    training = cx.Training(epochs=1, batch_size=8)
    for method, numbers in ((cx.Single(), 23), (BatchEnsemble(members=2), 18 + 2 * (12 + 5))):
        posterior = cx.fit(problem, method, data, key=0, training=training, progress=False)
        assert timing.stored_numbers(posterior) == numbers


def test_ratios_are_medians_of_rounds(timing):
    times = {"a": {"step": [2.0, 9.0, 3.0]}, "b": {"step": [1.0, 3.0, 2.0]}}
    assert timing.ratio(times, "a", "b", "step") == 2.0


def test_rows_of_a_step():
    problem = cx.Problem(cx.networks.MLP((4,), outputs=2), cx.Categorical())
    example = jax.ShapeDtypeStruct((1, 3), "float32")
    passes = {
        1: BatchEnsemble(members=4),
        2: MIMO(batch_repetitions=2),
        3: cx.DeepEnsemble(3),
        8: BatchEnsemble(members=4, batch="tile", modes=2),
    }
    for count, method in passes.items():
        assert load_of(method, problem, example).passes == count


def results(values):
    costs = {"training_seconds": 2.0, "prediction_ms_per_row": 1.0}
    return [
        Result(label, seed, {"nll": nll, **costs})
        for label, each in values.items()
        for seed, nll in enumerate(each)
    ]


def test_findings_say_who_lies_between():
    found = results(
        {
            "Single network": [0.5, 0.7],
            "Deep ensemble": [0.3, 0.3],
            "BatchEnsemble": [0.3, 0.8],
            "MIMO": [0.9, 0.6],
            "SWAG": [0.2, 0.2],
        }
    )
    lines = findings(found)
    assert lines[0].startswith("NLL of the single network 0.600, of the deep ensemble 0.300")
    assert lines[1:] == (
        "Between them: BatchEnsemble 0.550 (1 of 2)",
        "Lower than both: SWAG 0.200 (2 of 2)",
        "Higher than both: MIMO 0.750 (1 of 2)",
    )
    assert findings(found[2:]) == ()


def test_the_figure_is_drawn_on_the_page_and_by_matplotlib(tmp_path):
    found = results({"Single network": [0.5], "Deep ensemble": [0.3], "A < B": [0.4]})
    figure = cost_figure(found)
    assert figure is not None
    tree = ElementTree.parse(figure.write(tmp_path))
    texts = [e.text for e in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("A < B") == 2
    drawn = experiment_figure(figure)
    assert [text.get_text() for text in drawn.axes[0].texts] == [r.method for r in found]
    assert cost_figure(found[1:]) is None


def test_names_cover_neither_points_nor_each_other():
    frame = Frame(Axis(0, 1), Axis(0, 1))
    x, y = [0.5, 0.5, 0.5, 0.98], [0.5, 0.53, 0.47, 0.5]
    layer = NamedPoints(x, y, ["first", "second", "third", "at the right edge"])
    across, down = frame.at(x, y)
    share = {"start": 0.0, "middle": 0.5, "end": 1.0}
    boxes = []
    for a, b, name, place in zip(across, down, layer.names, layer.places(frame), strict=True):
        left = a + place.across - share[place.anchor] * 6 * len(name)
        boxes.append((left, b + place.down - 9, left + 6 * len(name), b + place.down))
    apart = lambda p, q: p[2] <= q[0] or q[2] <= p[0] or p[3] <= q[1] or q[3] <= p[1]  # noqa: E731
    assert all(apart(p, q) for i, p in enumerate(boxes) for q in boxes[:i])
    discs = [(a - 3, b - 3, a + 3, b + 3) for a, b in zip(across, down, strict=True)]
    assert all(apart(box, disc) for box in boxes for disc in discs)
    assert max(box[2] for box in boxes) <= frame.right + 8


def test_compiling_is_no_training():
    cost = {"training_seconds": 5.0, "compile_seconds": 3.0, "peak_memory_bytes": 2_000_000}
    found = training_costs(Result("A", 0, {}, cost=cost))
    assert found == {"training_seconds": 2.0, "memory_megabytes": 2.0}
    cost["peak_memory_bytes"] = None
    assert training_costs(Result("A", 0, {}, cost=cost)) == {"training_seconds": 2.0}


@pytest.mark.slow
def test_a_whole_comparison(tmp_path, capsys):
    arms = "single,short-ensemble,deep-ensemble,batch-ensemble,mimo"
    words = ["reproduce", NAMES[0], "--scale", "test", "--arms", arms, "--out", tmp_path]
    code, out, _ = run(capsys, *words, "--quiet")
    assert code == 0
    assert "Beside Wide ResNet 28-10 on CIFAR-10" in out
    assert "NLL of the single network" in out
    rows = csv.DictReader((tmp_path / "results.csv").read_text().splitlines())
    found = {(row["method"], row["metric"]): float(row["value"]) for row in rows}
    assert all(map(math.isfinite, found.values()))
    columns = {metric for method, metric in found if method == "BatchEnsemble"}
    assert columns == {
        "accuracy", "nll", "ece", "disagreement", "auroc", "corrupted_nll", "stored_numbers",
        "prediction_ms_per_row", "training_seconds", "memory_megabytes",
    }  # fmt: skip
    assert ("Single network", "disagreement") not in found
    # MLP 64-16-10. MIMO reads three images and has three heads.
    stored = {
        "Single network": 1210,
        "Deep ensemble": 2 * 1210,
        "BatchEnsemble": 1184 + 2 * (106 + 26),
        "MIMO": 3 * 64 * 16 + 16 + 3 * 170,
    }
    assert {label: found[label, "stored_numbers"] for label in stored} == stored
    config = json.loads((tmp_path / "short-ensemble_0" / "config.json").read_text())
    assert config["training"]["epochs"] == 2
    assert (tmp_path / "figures" / "cost.svg").exists()
    before = (tmp_path / "results.json").read_text()
    code, out, _ = run(capsys, *words, "--json")
    assert (code, json.loads(out)) == (0, json.loads(before))


@pytest.mark.slow
def test_one_step_of_shared_and_of_narrow_members(capsys):
    arms = "rank1-bnn,packed-ensemble"
    words = ["reproduce", NAMES[2], "--scale", "test", "--one-step", "--arms", arms, "--json"]
    code, out, _ = run(capsys, *words)
    assert code == 0
    for step in json.loads(out):
        assert step["finite"]
        assert step["greatest change"] > 0


@pytest.mark.slow
def test_the_published_plan(capsys):
    arms = "single,short-ensemble,swag,batch-ensemble,packed-ensemble,mimo"
    words = ["reproduce", NAMES[2], "--scale", "paper", "--dry-run", "--json", "--arms", arms]
    code, out, _ = run(capsys, *words)
    assert code == 0
    plan = json.loads(out)
    assert (plan["training"]["epochs"], plan["training"]["batch_size"]) == (250, 128)
    assert plan["training"]["learning_rate"]["epochs"] == [100, 200, 225]
    arms = plan["arms"]
    assert arms["short-ensemble"]["training"]["epochs"] == 62
    assert arms["swag"]["training"] == {"epochs": 300, "learning_rate": 0.1}
    assert "training" not in arms["single"]
    # Published for 10 classes: 36.5 million numbers for one network, 36.6 for BatchEnsemble.
    one = arms["single"]["parameters"]["one network"]
    assert abs(one - 90 * 641 - 36.5e6) < 0.05e6
    more = {name: arm["parameters"]["all over one network"] for name, arm in arms.items()}
    assert 1.001 < more["batch-ensemble"] < 1.005
    assert 1 < more["mimo"] < 1.01
    assert 0.99 < more["packed-ensemble"] < 1.02
    assert more["short-ensemble"] == 4


def test_a_scale_that_is_not_there_is_one_sentence(capsys):
    code, _, err = run(capsys, "reproduce", "forde-digits", "--scale", "paper")
    assert code == 2
    assert "choose test, cpu" in err
    assert len(err.strip().splitlines()) == 1
