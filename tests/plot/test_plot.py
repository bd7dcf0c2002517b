"""Figures draw the numbers of the metrics, into the Axes they are given."""

import jax
import matplotlib as mpl
import numpy as np
import pytest
from sklearn.metrics import roc_curve

import credax as cx
from credax import metrics, plot
from credax.plot import comparison
from credax.posterior import population
from credax.report import Comparison, Result

mpl.use("Agg")


@pytest.fixture
def ax():
    from matplotlib.figure import Figure

    return Figure().add_subplot()


@pytest.fixture(scope="module")
def classes():
    generator = np.random.default_rng(0)
    probs = generator.dirichlet(np.ones(3), (2, 200))
    y = np.array([generator.choice(3, p=p) for p in probs.mean(0)])
    return cx.ClassPrediction.from_probs(probs), y


@pytest.fixture(scope="module")
def numbers():
    generator = np.random.default_rng(1)
    means = generator.normal(size=(3, 50, 1)).astype(np.float32)
    prediction = cx.GaussianPrediction(means, np.full_like(means, 0.5))
    return prediction, generator.normal(size=50).astype(np.float32)


def curve(ax, label):
    return next(line for line in ax.get_lines() if line.get_label() == label).get_xydata().T


def test_reliability_shows_the_filled_bins(ax, classes):
    found = metrics.reliability(*classes, bins=10)
    filled = np.asarray(found.counts) > 0
    assert plot.reliability(*classes, bins=10, ax=ax, label="a") is ax
    x, y = curve(ax, "a")
    np.testing.assert_allclose(x, np.asarray(found.confidence)[filled])
    np.testing.assert_allclose(y, np.asarray(found.accuracy)[filled])
    plot.reliability(*classes, ax=ax, label="b")
    assert sum(line.get_gid() == "diagonal" for line in ax.get_lines()) == 1


def test_intervals_and_risk(ax, classes, numbers):
    levels = (0.2, 0.5, 0.9)
    plot.interval_calibration(*numbers, levels=levels, ax=ax, label="a")
    prediction, y = numbers
    for level, observed in zip(*curve(ax, "a"), strict=True):
        low, high = prediction.interval(level)
        assert observed == pytest.approx(np.mean((low <= y) & (y <= high)))
    plot.risk_coverage(*classes, ax=ax, label="b")
    errors = np.asarray(classes[0].label) != classes[1]
    assert curve(ax, "b")[1][-1] == pytest.approx(errors.mean())
    plot.risk_coverage(*numbers, ax=ax, label="c")
    rmse = np.sqrt(np.mean(np.square(np.asarray(prediction.mean) - y)))
    assert curve(ax, "c")[1][-1] == pytest.approx(rmse, rel=1e-5)


def test_the_roc_curve_is_that_of_scikit_learn(ax):
    generator = np.random.default_rng(2)
    inside, outside = (
        np.round(generator.normal(size=80), 1),
        np.round(generator.normal(1, 1, 60), 1),
    )
    plot.ood_roc(inside, outside, ax=ax)
    x, y = ax.get_lines()[1].get_xydata().T
    labels = np.repeat([0, 1], [80, 60])
    expected = roc_curve(labels, np.concatenate([inside, outside]), drop_intermediate=False)
    np.testing.assert_allclose((x, y), expected[:2], atol=1e-12)
    assert plot.ood_histogram(inside, outside, ax=ax) is ax


def test_bands_and_maps(ax, numbers):
    prediction, y = numbers
    x = np.random.default_rng(3).uniform(size=(50, 1))
    plot.predictive_band(prediction, x, y, level=0.8, ax=ax, label="a")
    drawn_x, drawn = curve(ax, "a")
    assert (np.diff(drawn_x) > 0).all()
    np.testing.assert_allclose(drawn, np.asarray(prediction.mean)[np.argsort(x[:, 0])])
    problem = cx.Problem(cx.networks.MLP((3,), outputs=2), cx.Categorical())
    rows = np.array([[0.0, 0.0], [1.0, 2.0]], np.float32)
    keys = jax.random.split(jax.random.key(0), 2)
    variables = jax.vmap(lambda key: problem.init(key, rows))(keys)
    posterior = population(problem, variables, rows)
    plot.uncertainty_map(posterior, rows, np.array([0, 1]), points=5, margin=0.5, ax=ax)
    corner = posterior.predict(np.array([[-0.5, -1.0]], np.float32)).epistemic[0]
    np.testing.assert_allclose(ax.collections[-2].get_array().ravel()[0], corner, rtol=1e-4)
    with pytest.raises(cx.InputError, match="one number per row"):
        plot.uncertainty_map(posterior, rows, value="mean", points=3, ax=ax)


def test_curves_and_saliency(ax):
    history = [{"epoch": 1.0, "loss": 2.0, "member_loss": [1.0, 3.0]}, {"event": "finished"}]
    plot.learning_curves(history, ax=ax, label="a")
    assert curve(ax, "a")[1] == [2.0]
    assert len(ax.get_lines()) == 3
    with pytest.raises(cx.InputError, match=r"'accuracy'.*they have epoch, event, loss"):
        plot.learning_curves(history, value="accuracy", ax=ax)
    gradients = np.zeros((2, 1, 4))
    gradients[1, 0] = [4, -2, 0, 0]
    plot.member_saliency(gradients, np.ones((1, 2, 2, 1)), ax=ax)
    maps, pictures = ax.images
    np.testing.assert_allclose(maps.get_array()[:2, 3:5], [[1, -0.5], [0, 0]])
    # Images of 2 pixels and a gap of 1: the maps begin at 3, the second under the third name.
    assert (pictures.get_extent()[:2], maps.get_extent()[0]) == ([0, 2], 3)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["input", "0", "1"]
    assert ax.get_xticks().tolist() == [1, 4, 7]


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_the_images_beside_saliency_keep_their_colours(ax, channels):
    """Three channels in colour, any other number as their mean in grey; 0 is black, 1 white."""
    inputs = np.random.default_rng(0).uniform(size=(2, 3, 3, channels))
    plot.member_saliency(np.ones((1, 2, 9 * channels)), inputs, ax=ax)
    shown = np.asarray(ax.images[1].get_array())[:3, :, :3] / 255
    wanted = inputs[0] if channels == 3 else inputs[0].mean(-1, keepdims=True) * np.ones(3)
    np.testing.assert_allclose(shown, wanted, atol=1 / 255)
    other = type(ax.figure)().add_subplot()
    plot.member_saliency(np.ones((1, 2, 9 * channels)), inputs, show_inputs=False, ax=other)
    assert len(other.images) == 1
    with pytest.raises(cx.InputError, match="inputs has shape"):
        plot.member_saliency(np.ones((1, 2, 9)), inputs[..., 0], ax=ax)


def test_the_wrong_kind_of_prediction_is_refused(ax, classes, numbers):
    with pytest.raises(cx.InputError, match="is of classes"):
        plot.reliability(*numbers, ax=ax)
    with pytest.raises(cx.InputError, match="is of numbers"):
        plot.interval_calibration(*classes, ax=ax)
    with pytest.raises(cx.InputError, match="one input and one target"):
        plot.predictive_band(numbers[0], np.ones((50, 2)), ax=ax)


def test_the_figures_of_a_comparison(tmp_path, classes):
    lines = [{"epoch": 1.0, "loss": 1.0}, {"epoch": 2.0, "loss": 0.5}]
    results = [Result(m, 0, {}, *classes, history=lines) for m in ("one", "two")]
    paths = plot.save_figures(Comparison("t", "d", "classification", results), tmp_path, "svg")
    assert [p.name for p in paths] == [
        "reliability.svg",
        "risk_coverage.svg",
        "learning_curves.svg",
    ]
    assert all(p.read_bytes().startswith(b"<?xml") for p in paths)
    with pytest.raises(cx.InputError, match=r"unknown format of figures 'gif'"):
        plot.save_figures(Comparison("t", "d", "classification", results), tmp_path, "gif")


def test_every_method_of_a_comparison_can_be_told_apart(tmp_path, monkeypatch):
    """Twelve methods have eight colours: the dash tells the others; their names cover no line."""
    drawn = []
    monkeypatch.setattr(comparison, "save", lambda figure, path: drawn.append(figure) or path)
    lines = [{"epoch": 1.0, "loss": 1.0}, {"epoch": 2.0, "loss": 0.5}]
    results = [Result(f"method {i}", 0, {}, history=lines) for i in range(12)]
    plot.save_figures(Comparison("t", "d", "classification", results), tmp_path)
    (ax,) = drawn[0].axes
    # matplotlib has no public way back to the dashes that were set.
    looks = {(line.get_color(), str(line._dash_pattern)) for line in ax.get_lines()}
    assert len(looks) == 12
    drawn[0].draw_without_rendering()
    assert ax.get_legend().get_window_extent().x0 > ax.get_window_extent().x1
