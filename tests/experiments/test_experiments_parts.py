"""The parts of experiments against closed forms and independent routes."""

import dataclasses
import json
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax import experiments
from credax.experiments.forde_ablation import Decay
from credax.experiments.pictures import generated_pictures
from credax.experiments.published import Measure, Published
from credax.experiments.saliency import (
    input_gradients,
    mean_cosine,
    median_distance,
    saliency_figure,
)
from credax.experiments.shift import paired, paired_findings
from credax.experiments.study import StudyScale
from credax.experiments.uniform import UniformStart
from credax.networks import MLP
from credax.posterior import population
from credax.report import Result
from credax.report.colours import rising_colours, signed_colours
from credax.report.figure import Panel, Sheet
from credax.report.svg import Axis, Frame
from credax.standardise import Standardise

pytestmark = pytest.mark.slow

ALL = experiments.names()


@pytest.mark.parametrize("name", ALL)
def test_an_experiment_is_complete(name):
    experiment = experiments.get(name)
    assert experiment.name == name
    assert {"test", "cpu"} <= set(experiment.scales) <= {"test", "cpu", "paper"}
    for scale in experiment.scales.values():
        labels = [arm.label for arm in scale.arms]
        names = [arm.name for arm in scale.arms]
        assert len(set(labels)) == len(labels)
        assert len(set(names)) == len(names)
        if isinstance(scale, StudyScale):
            json.dumps(scale.plan(name, "test", 1))
        else:
            json.dumps([dataclasses.asdict(arm.method) for arm in scale.arms])


def published_tables():
    from credax.experiments import (
        forde_cifar10,
        forde_cifar100,
        forde_covariance_prior,
        forde_ensemble_size,
        forde_lengthscale,
        forde_tinyimagenet,
    )

    return [
        (forde_cifar100.TABLE_1, 10, "FoRDE-PCA", "corrupted_accuracy", 56.1),
        (forde_cifar10.TABLE_2, 10, "Deep ensemble", "nll", 0.117),
        (forde_covariance_prior.TABLE_3, 3, "Deep ensemble, covariance", "corrupted_nll", 0.76),
        (forde_tinyimagenet.TABLE_4, 8, "SWAG", "ece", 0.020),
        (forde_lengthscale.FIGURE_11, 7, "PCA", "accuracy_hard", 44.71),
        (forde_ensemble_size.FIGURES_5_6, 4, "FoRDE-PCA, 30 members", "corrupted_nll", 0.66),
    ]


@pytest.mark.parametrize("case", published_tables(), ids=lambda case: case[0].title)
def test_published_tables_parse(case):
    table, rows, label, metric, value = case
    assert len(table.rows) == rows
    column = [measure.name for measure in table.measures].index(metric)
    assert table.rows[label][column].mean == pytest.approx(value)
    assert "Trinh" in table.source


def test_published_rows_are_rows_of_ours():
    """A label that differs by a letter would put ours and theirs on two lines."""
    for name in ("forde-cifar10", "forde-cifar100", "forde-tinyimagenet", "forde-lengthscale"):
        experiment = experiments.get(name)
        ours = {arm.label for arm in experiment.scales["paper"].arms}
        tables = {t.title: t for t, *_ in published_tables()}
        theirs = {
            "forde-cifar10": "table 2",
            "forde-cifar100": "table 1",
            "forde-tinyimagenet": "table 4",
            "forde-lengthscale": "figure 11",
        }[name]
        (table,) = [t for title, t in tables.items() if title.startswith(theirs)]
        assert set(table.rows) - ours <= {"node-BNN", "SWAG"}


def test_figure_11_agrees_with_table_1():
    """Mean accuracy over five severities, from three mild and two hard ones."""
    tables = {t.title.split(":")[0]: t for t, *_ in published_tables()}
    for row, other in (("PCA", "FoRDE-PCA"), ("inverse mix, a = 0.4", "FoRDE-Tuned")):
        _, mild, hard = tables["figure 11"].rows[row]
        mean = (3 * mild.mean + 2 * hard.mean) / 5
        assert mean == pytest.approx(tables["table 1"].rows[other][3].mean, abs=0.1)


def test_ours_and_theirs_are_in_one_unit():
    measure = Measure("accuracy", "acc %", 100, 2)
    table = Published("t", "s", (measure,), "A | 81.8 ± .2\nB | -")
    results = [Result("A", seed, {"accuracy": 0.8 + 0.02 * seed}) for seed in range(2)]
    results.append(Result("C", 0, {"nll": 1.0}))
    lines = table.lines(results)
    assert lines == [["A", "81.00 ± 1.41", "81.8 ± 0.2"], ["B", "–", "–"], ["C", "–", "–"]]
    assert table.header() == ["method", "acc %, ours", "acc %, published"]
    assert table.to_json()["rows"]["A"] == [{"mean": 81.8, "deviation": 0.2}]


@pytest.mark.parametrize("text", ["A | 1 | 2", "A | one", "A"])
def test_a_misprinted_table_is_refused(text):
    with pytest.raises(ValueError):
        Published("t", "s", (Measure("nll", "NLL"),), text)


def linear_population(units=None):
    """Three members f(x) = x W + b; the gradient of a logit is a column of W."""
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(3, 4, 5)).astype(np.float32)
    network = cx.networks.MLP((), outputs=5)
    problem = cx.Problem(network, cx.Categorical(), inputs=units)
    variables = cx.Variables({"0_dense": {"kernel": jnp.array(kernel), "bias": jnp.ones((3, 5))}})
    x = rng.normal(size=(6, 2, 2, 1)).astype(np.float32)
    return population(problem, variables, x), kernel, x, rng.integers(0, 5, 6)


@pytest.mark.parametrize("units", [None, Standardise(2.0, 3.0)])
def test_input_gradients_of_a_linear_network(units):
    posterior, kernel, x, y = linear_population(units)
    gradients = input_gradients(posterior, x, y, batch_size=4)
    expected = np.stack([[member[:, label] for label in y] for member in kernel])
    np.testing.assert_allclose(gradients, expected, rtol=1e-6)


def test_input_gradients_of_a_mean():
    network = cx.networks.MLP((), outputs=1)
    problem = cx.Problem(network, cx.Gaussian(1.0), targets=Standardise(1.0, 10.0))
    kernel = np.array([[[2.0], [3.0]], [[-1.0], [0.5]]], np.float32)
    variables = cx.Variables({"0_dense": {"kernel": jnp.array(kernel), "bias": jnp.zeros((2, 1))}})
    x = np.ones((3, 2), np.float32)
    gradients = input_gradients(population(problem, variables, x), x, np.zeros(3))
    np.testing.assert_allclose(gradients, np.repeat(kernel[:, None, :, 0], 3, axis=1), rtol=1e-6)


def test_diversity_of_gradients_pair_by_pair():
    rng = np.random.default_rng(1)
    gradients = rng.normal(size=(4, 7, 5))
    unit = gradients / np.linalg.norm(gradients, axis=-1, keepdims=True)
    pairs = [(unit[i], unit[j]) for i in range(4) for j in range(i)]
    cosine = np.mean([(a * b).sum(-1).mean() for a, b in pairs])
    distance = np.mean([np.median(((a - b) ** 2).sum(-1)) for a, b in pairs])
    assert mean_cosine(gradients) == pytest.approx(cosine, abs=1e-6)
    assert median_distance(gradients) == pytest.approx(distance, abs=1e-5)


def test_a_vanished_gradient_has_no_direction():
    gradients = np.array([[[0.0, 0.0]], [[1.0, 0.0]]])
    assert mean_cosine(gradients) == 0
    assert median_distance(gradients) == 1


def test_one_member_has_no_cosine():
    with pytest.raises(cx.InputError, match="one member"):
        mean_cosine(np.ones((1, 2, 3)))


def test_uniform_start():
    network = UniformStart(MLP((300,), outputs=200))
    params = network.init(jax.random.key(0), jnp.ones((1, 100))).params
    for layer, fan_in in (("0_dense", 100), ("1_dense", 300)):
        for part in ("kernel", "bias"):
            values = np.asarray(params[layer][part])
            assert np.abs(values).max() <= fan_in**-0.5
            # A uniform variable on ±b has variance b²/3; its estimate deviates by b² sqrt(4/45/n).
            slack = 5 * np.sqrt(4 / 45 / values.size)
            assert abs(values.var() * fan_in - 1 / 3) < slack
    again = network.init(jax.random.key(1), jnp.ones((1, 100))).params
    assert not np.array_equal(again["0_dense"]["bias"], params["0_dense"]["bias"])


def test_generated_pictures_can_be_learned_and_repeat():
    data = generated_pictures("p", (8, 8, 3), 5, 100, 50)
    again = generated_pictures("p", (8, 8, 3), 5, 100, 50)
    np.testing.assert_array_equal(data.train.x, again.train.x)
    assert np.bincount(data.train.y).tolist() == [20] * 5
    means = np.stack([data.train.x[data.train.y == k].mean(0) for k in range(5)])
    distance = np.square(data.test.x[:, None].astype(float) - means).sum((2, 3, 4))
    assert (distance.argmin(1) == data.test.y).mean() > 0.9


def test_a_decay_falls_on_a_line_and_stays():
    decay = Decay(100.0, 1.0, 80)
    assert [float(decay(s)) for s in (0, 40, 80, 1000)] == [100.0, 50.5, 1.0, 1.0]


def test_paired_differences_are_seed_by_seed():
    values = {("Deep ensemble", 0): 1.0, ("Deep ensemble", 1): 3.0, ("A", 0): 0.5, ("A", 1): 3.5}
    results = [Result(m, s, {"corrupted_nll": v}) for (m, s), v in values.items()]
    results.append(Result("A", 2, {"corrupted_nll": 9.0}))
    assert paired(results, "A", "corrupted_nll") == [-0.5, 0.5]
    assert paired_findings(results)[1] == "A: −0.5000  0.5000; mean 0.0000, below zero in 1 of 2"
    assert paired_findings(results[:2]) == ()


def test_figures_are_well_formed(tmp_path):
    frame = Frame(Axis(0, 1), Axis(0, 1), tick_counts=(1, 1))
    panels = [Panel(title, frame, []) for title in ("one", "two < three")]
    figure = Sheet("s", "c", panels, 2, series=("a", "b & c"))
    tree = ElementTree.parse(figure.write(tmp_path))
    named = list(tree.iter("{http://www.w3.org/2000/svg}text"))
    texts = [e.text for e in named if e.get("class") in (None, "title label")]
    assert texts == ["one", "two < three", "a", "b & c"]
    gradients = {"A": np.ones((6, 2, 12)), "B": np.ones((2, 2, 12))}
    figure = saliency_figure("saliency", np.zeros((2, 2, 2, 3)), gradients)
    tree = ElementTree.parse(figure.write(tmp_path))
    pictures = list(tree.iter("{http://www.w3.org/2000/svg}image"))
    assert len(pictures) == 2 * (1 + 5 + 2)


def test_colours_are_ordered():
    grey = rising_colours(np.linspace(0, 1, 9), 1.0) @ np.array([0.2126, 0.7152, 0.0722])
    assert (np.diff(grey) > 0).all()
    assert signed_colours(np.zeros(1), 1.0).tolist() == [[247, 247, 247]]
    red, blue = signed_colours(np.array([2.0, -2.0]), 1.0)
    assert red[0] > red[2]
    assert blue[2] > blue[0]
