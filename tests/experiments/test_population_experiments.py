"""Experiments on populations as a person types them, and their parts against closed forms."""

import csv
import json
import math
from functools import cache
from xml.etree import ElementTree

import jax
import numpy as np
import pytest

import credax as cx
from credax import experiments
from credax.cli import main
from credax.experiments import functional_collapse, mass_profiles, permutation_frequency
from credax.experiments.bench import remembered
from credax.experiments.densities import bars_panel, density, edges, histogram_panel, map_panel
from credax.experiments.experiment import Data
from credax.experiments.populations import Named, network_structure, spread
from credax.experiments.toy_posterior import NORM, checks, output_weights
from credax.posterior import population
from credax.report.figure import Sheet

pytestmark = pytest.mark.slow

FIGURES = {
    "toy-posterior": ["output-weights.svg"],
    "mass-profiles": ["balance.svg", "mass-profiles.svg"],
    "functional-collapse": ["pairs.svg"],
    "permutation-frequency": ["counts.svg", "orders.svg"],
    "marginals": ["first-layer.svg", "second-layer.svg"],
}
ARMS = {"mass-profiles": ["mlp", "deep-mlp"], "functional-collapse": ["mlp"]}


def command(name, root):
    arms = ["--arms", ",".join(ARMS[name])] if name in ARMS else []
    return ["reproduce", name, "--scale", "test", "--out", str(root), *arms]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of an experiment by its name, run once for all tests."""

    @cache
    def folder(name):
        root = tmp_path_factory.mktemp(name) / "out"
        assert main([*command(name, root), "--quiet"]) == 0
        return root

    return folder


@pytest.mark.parametrize("name", FIGURES)
def test_it_leaves_tables_figures_and_a_page(name, finished):
    root = finished(name)
    rows = list(csv.DictReader((root / "results.csv").read_text().splitlines()))
    assert all(math.isfinite(float(row["value"])) for row in rows)
    assert sorted(path.name for path in (root / "figures").iterdir()) == FIGURES[name]
    for path in (root / "figures").iterdir():
        ElementTree.parse(path)
    page = (root / "report.html").read_text()
    assert page.count('class="sheet"') == len(FIGURES[name])
    has_numbers = name in ("mass-profiles", "functional-collapse", "permutation-frequency")
    assert (root / "published.json").exists() == has_numbers


@pytest.mark.parametrize("name", FIGURES)
def test_the_same_command_reads_what_is_there(name, finished, capsys):
    root = finished(name)
    shards = sorted(root.glob("*/*.safetensors"))
    assert shards
    before = [path.stat().st_mtime_ns for path in shards]
    old = json.loads((root / "results.json").read_text())
    capsys.readouterr()
    assert main([*command(name, root), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == old
    assert [path.stat().st_mtime_ns for path in shards] == before


# The toy's scales differ in the number of networks alone: its zoo is extended.
@pytest.mark.parametrize("name", sorted(set(FIGURES) - {"toy-posterior"}))
def test_another_scale_in_the_same_folder_is_refused(name, finished, capsys):
    root = finished(name)
    assert main(["reproduce", name, "--out", str(root), "--quiet"]) == 2
    assert "settings; choose another folder" in capsys.readouterr().err


def test_the_toy_is_scaled_and_sorted(finished):
    rows = csv.DictReader((finished("toy-posterior") / "results.csv").read_text().splitlines())
    values = {row["metric"]: float(row["value"]) for row in rows}
    assert values["half_plane_share"] == 1
    assert values["norm_error"] < 1e-5  # float32 networks


@pytest.mark.parametrize("name", FIGURES)
def test_the_plan_of_every_scale(name, capsys):
    for scale in experiments.get(name).scales:
        assert main(["reproduce", name, "--scale", scale, "--dry-run", "--json"]) == 0
        plan = json.loads(capsys.readouterr().out)
        assert plan["scale"] == scale
        assert plan["fits"]


def toy_population(count=50):
    rng = np.random.default_rng(0)
    network = cx.networks.MLP((2,), outputs=1)
    x = np.zeros((1, 2), np.float32)
    variables = network.init(jax.random.key(0), x)
    many = jax.tree.map(
        lambda leaf: rng.standard_normal((count, *leaf.shape)).astype(np.float32), variables
    )
    return population(cx.Problem(network, cx.Bernoulli()), many, x)


def test_forms_of_the_toy_by_hand():
    posterior = toy_population()
    structure = network_structure(posterior.problem.network, (2,))
    forms = output_weights(structure, posterior)
    first = np.asarray(posterior.variables.params["0_dense"]["kernel"], float)
    second = np.asarray(posterior.variables.params["1_dense"]["kernel"], float)[..., 0]
    scaled = second * np.sqrt((first**2).sum(1)) / NORM
    np.testing.assert_allclose(forms["scaled"][0], scaled, rtol=1e-5)
    np.testing.assert_allclose(forms["scaled and sorted"][0], np.sort(scaled, 1), rtol=1e-5)
    found = checks(forms)
    assert found["half_plane_share"] == 1
    assert found["opposite_signs_share"] == np.mean(second[:, 0] * second[:, 1] < 0)


def test_imbalance_of_one_hidden_layer_by_hand():
    """Biases enter: in-mass is the column of the kernel and the bias, out-mass the row after."""
    posterior = toy_population(3)
    structure = network_structure(posterior.problem.network, (2,))
    recorder = mass_profiles.BalanceRecorder(structure, 1)
    recorder(0, posterior.variables)
    params = jax.tree.map(lambda leaf: np.asarray(leaf, float) ** 2, posterior.variables.params)
    entering = params["0_dense"]["kernel"].sum(1) + params["0_dense"]["bias"]
    leaving = params["1_dense"]["kernel"].sum(2)
    np.testing.assert_allclose(recorder.sums[0], np.abs(entering - leaving).sum(1), rtol=1e-6)


def test_the_mode_is_the_fullest_bin():
    values = np.concatenate([np.full(50, 0.3), np.linspace(0, 1, 41)])
    assert mass_profiles.mode(values) == pytest.approx(0.3, abs=0.025)


def test_classes_left_out_are_the_strange_ones():
    data = Data("digits", 964, 479, (8, 8, 1), classes=8, unseen=2)
    seen = data.load()
    whole = cx.data.load("digits")
    assert (len(seen.train), len(seen.test)) == (964, 479)
    assert seen.train.y.max() == 7
    assert seen.num_classes == 8
    ood = functional_collapse.ood_inputs(data, functional_collapse.UNSEEN)
    assert len(ood) == len(whole.test) - 479


def test_published_rows_meet_ours():
    labels = {
        "mass-profiles": mass_profiles.PUBLISHED,
        "functional-collapse": functional_collapse.PUBLISHED,
        "permutation-frequency": permutation_frequency.PUBLISHED,
    }
    for name, table in labels.items():
        ours = {arm.label for arm in experiments.get(name).scales["paper"].arms}
        assert set(table.rows) <= ours
        assert "Laurent" in table.source


def test_a_histogram_has_area_one_and_counts_what_is_outside():
    values = np.random.default_rng(0).normal(size=4000)
    bins = edges(values, bins=30)
    inside = np.mean((values >= bins[0]) & (values <= bins[-1]))
    assert (density(values, bins) * np.diff(bins)).sum() == pytest.approx(inside)
    assert inside >= 0.998


def test_panels_are_well_formed(tmp_path):
    bins = np.linspace(0, 1, 5)
    panels = [
        histogram_panel("a", {"x": np.ones(4), "y": np.zeros(4)}, bins, "x"),
        map_panel("b", np.eye(4), (0, 1, "x"), (0, 1, "y")),
        bars_panel("c", [1, 2, 3], 2.0, "i", 4.0),
    ]
    ElementTree.parse(Sheet("s", "c", panels, 3).write(tmp_path))


def test_what_was_measured_is_remembered_with_its_settings(tmp_path):
    calls = []
    measure = lambda: calls.append(1) or {"a": 1}  # noqa: E731
    for settings in ({"n": 1}, {"n": 1}, {"n": 2}):
        assert remembered(tmp_path / "m.json", settings, measure) == {"a": 1}
    assert len(calls) == 2


def test_a_spread_has_three_quantiles():
    found = spread(np.arange(1001.0), "x")
    assert found == {"x_low": 25.0, "x": 500.0, "x_high": 975.0}
    assert Named("mlp", {"hidden": (3,)})(2).hidden == (3,)
