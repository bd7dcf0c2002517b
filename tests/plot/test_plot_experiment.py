"""Figures of experiments by matplotlib: the data, axes and names of the page's drawing."""

import builtins
import csv
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest

import credax as cx
from credax import plot
from credax.cli import main
from credax.experiments import equivariance_continuous
from credax.experiments.densities import bars_panel, histogram_panel, map_panel
from credax.plot.saving import save
from credax.report.colours import SERIES
from credax.report.figure import Drawing, Figure, Panel, Sheet
from credax.report.layers import (
    Band,
    Bars,
    HeatMap,
    Layer,
    Line,
    MemberLine,
    Points,
    Reference,
    Steps,
)
from credax.report.saliency_sheet import SaliencySheet
from credax.report.svg import Axis, Frame

mpl.use("Agg")

X = np.array([1.0, 2.0, 3.0])
Y = np.array([0.5, 2.5, 1.0])
EDGES = np.array([0.0, 1.0, 3.0])


def panel(*layers, x=(0, 4), y=(0, 3), **options):
    return Panel("title", Frame(Axis(*x, "input"), Axis(*y, "output", **options)), layers)


def drawn(*layers, **axes):
    figure = plot.experiment_figure(Sheet("s", "c", [panel(*layers, **axes)], 1))
    return figure.axes[0]


@pytest.mark.parametrize("layer", [Line(X, Y, 2), MemberLine(X, Y), Reference(X, Y), Points(X, Y)])
def test_lines_and_points_pass_through_the_data(layer):
    (line,) = drawn(layer).get_lines()
    np.testing.assert_array_equal(line.get_xydata(), np.stack([X, Y], axis=1))


def test_a_series_has_the_colour_dash_and_markers_of_the_page():
    many = np.linspace(0, 4, 40)
    ax = drawn(*(Line(many, many / 2, series) for series in range(9)), Line(X, Y, markers=False))
    lines = ax.get_lines()
    assert [line.get_color() for line in lines[:8]] == list(SERIES)
    assert lines[8].get_color() == SERIES[0]
    assert lines[0].get_linestyle() == "-"
    assert lines[1].get_linestyle() == "--"
    # The same colour again, told apart by the dash.
    assert lines[8].get_linestyle() != "-"
    assert len({line.get_marker() for line in lines[:8]}) == 8
    assert all(len(line.get_markevery()) == 8 for line in lines[:9])
    assert lines[9].get_marker() == ""


def test_a_band_lies_between_its_lines():
    (shape,) = drawn(Band(X, Y, Y + 0.25)).collections
    corners = {tuple(corner) for corner in shape.get_paths()[0].vertices.tolist()}
    assert corners == {*zip(X, Y, strict=True), *zip(X, Y + 0.25, strict=True)}


def test_histograms():
    ax = drawn(Bars(EDGES, [2.0, 1.0]), Steps(EDGES, [1.0, 0.5], 1))
    middles = [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in ax.containers[0]]
    np.testing.assert_allclose(middles, [(0.5, 2.0), (2.0, 1.0)])
    values, edges, _ = ax.patches[-1].get_data()
    assert (values.tolist(), edges.tolist()) == ([1.0, 0.5], EDGES.tolist())


def test_a_map_fills_the_axes_from_the_lowest_row():
    values = np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 9.0]])
    ax = drawn(HeatMap(values, 4.0, blank_zero=True, bar=True), Points(X, Y, light=True))
    (mesh,) = ax.collections
    assert mesh.get_clim() == (0, 4)
    np.testing.assert_array_equal(mesh.get_array().mask, values == 0)
    np.testing.assert_array_equal(mesh.get_array().filled(0), values)
    corners = mesh.get_coordinates()
    assert corners[0, 0].tolist() == [0, 0]
    assert corners[-1, -1].tolist() == [4, 3]
    (scale,) = ax.child_axes
    assert [text.get_text() for text in scale.get_yticklabels()] == ["0", "4"]


@pytest.mark.parametrize("log", [False, True])
def test_titles_labels_ticks_and_limits_are_those_of_the_svg(log, tmp_path):
    # A line that leaves the axes does not move them.
    sheet = Sheet("s", "c", [panel(Line(X, 100 * Y), y=(0.02, 30), log=log)], 1, series=("a", "b"))
    figure = plot.experiment_figure(sheet)
    ax = figure.axes[0]
    tree = ElementTree.parse(sheet.write(tmp_path))
    texts = [e.text or "" for e in tree.iter("{http://www.w3.org/2000/svg}text")]
    ours = [ax.get_title(loc="left")]
    ours += [text.get_text() for text in ax.get_yticklabels() + ax.get_xticklabels()]
    ours += [ax.get_ylabel(), ax.get_xlabel()]
    ours += [text.get_text() for text in figure.legends[0].get_texts()]
    assert ours == texts
    frame = sheet.panels[0].frame
    assert (ax.get_xlim(), ax.get_ylim()) == ((0, 4), (0.02, 30))
    assert ax.get_yticks().tolist() == list(frame.y.ticks())
    assert ax.get_yscale() == ("log" if log else "linear")
    assert len(ax.yaxis.get_minorticklocs()) == 0


def test_no_text_overlaps_and_none_is_cut():
    names = [f"a long name of a method, number {number}" for number in range(7)]
    maps = [map_panel("title of the map", np.eye(4), (0, 1, "x"), (0, 1, "y"))] * 2
    panels = [*maps, bars_panel("counts", [1, 2, 3], 2.0, "index of the unit", 4.0)]
    panels.append(panel(HeatMap(np.eye(3), 1.6, bar=True)))
    panels.append(histogram_panel("density", {"a": np.ones(4)}, np.linspace(0, 1, 5), "value"))
    assert_apart(plot.experiment_figure(Sheet("s", "c", panels, 3, series=names)))


def assert_apart(figure):
    """No text lies on another, none is beyond the page."""
    figure.draw_without_rendering()
    texts = [t for t in figure.findobj(mpl.text.Text) if t.get_text() and t.get_visible()]
    boxes = [t.get_window_extent() for t in texts]
    page = figure.bbox
    for number, (text, box) in enumerate(zip(texts, boxes, strict=True)):
        assert (page.x0 <= box.x0, box.x1 <= page.x1 + 1) == (True, True), text
        for other, second in zip(texts[:number], boxes[:number], strict=True):
            overlap = mpl.transforms.Bbox.intersection(box, second)
            assert overlap is None or min(overlap.width, overlap.height) < 1, (text, other)


def test_names_wider_than_their_saliency_are_apart():
    gradients = {f"a method of number {i}": np.ones((1, 2, 12)) for i in range(3)}
    assert_apart(plot.experiment_figure(SaliencySheet("s", "c", np.ones((2, 2, 2, 3)), gradients)))


def test_saliency_is_drawn_by_member_saliency():
    gradients = np.random.default_rng(0).normal(size=(3, 2, 4))
    inputs = np.linspace(0, 1, 8).reshape(2, 2, 2, 1)
    figure = plot.experiment_figure(
        SaliencySheet("s", "c", inputs, {"A": gradients, "B": gradients[:2]})
    )
    first, second = figure.axes
    assert [ax.get_title(loc="left") for ax in (first, second)] == ["A", "B"]
    assert [len(ax.images) for ax in (first, second)] == [2, 1]
    own = gradients[1, 0].reshape(2, 2)
    for ax in (first, second):
        np.testing.assert_allclose(ax.images[0].get_array()[:2, 3:5], own / np.abs(own).max())


def test_the_same_figure_is_the_same_bytes(tmp_path):
    figure = Sheet("s", "what it shows", [panel(Line(X, Y))], 1)
    for kind, start in (("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<?xml")):
        (path,) = plot.save_experiment_figures([figure], tmp_path, kind)
        content = path.read_bytes()
        assert path.name == f"s.{kind}"
        assert content.startswith(start)
        assert b"what it shows" in content
        plot.save_experiment_figures([figure], tmp_path, kind)
        assert path.read_bytes() == content


def test_bad_figures_and_formats_are_refused(tmp_path):
    class Other(Figure):
        def drawn(self) -> Drawing:
            raise AssertionError

    class Unknown(Layer):
        def svg(self, frame):
            raise AssertionError

    with pytest.raises(cx.InputError, match="figure is a Other; give a Sheet"):
        plot.experiment_figure(Other("o", "c"))
    with pytest.raises(cx.InputError, match="layer is a Unknown"):
        drawn(Unknown())
    with pytest.raises(cx.InputError, match=r"unknown format of figures 'gif'.*pdf, png, svg"):
        plot.save_experiment_figures([], tmp_path, "gif")
    with pytest.raises(cx.InputError, match="unknown format"):
        save(None, tmp_path / "a.jpeg")


@pytest.fixture
def without_matplotlib(monkeypatch):
    """A machine on which the package is not installed."""
    imported = builtins.__import__

    def refuse(name, *given, **options):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return imported(name, *given, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)


WORDS = ["reproduce", "equivariance-continuous", "--scale", "test", "--quiet", "--out", "out"]


@pytest.mark.usefixtures("without_matplotlib")
def test_a_missing_package_is_told_before_training(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def train(*given):
        raise AssertionError("training began")

    monkeypatch.setattr(equivariance_continuous, "run", train)
    assert main([*WORDS, "--figures", "pdf"]) == 2
    err = capsys.readouterr().err.strip()
    assert len(err.splitlines()) == 1
    assert "pip install 'credax[plot]'" in err
    assert not (tmp_path / "out").exists()
    # What draws nothing does not need it.
    assert main([*WORDS, "--figures", "pdf", "--dry-run"]) == 0


def test_an_unknown_format_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main([*WORDS, "--figures", "gif"])
    assert "invalid choice 'gif' for argument '--figures'" in capsys.readouterr().err


@pytest.mark.slow
def test_an_experiment_writes_its_figures(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(WORDS) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    capsys.readouterr()
    assert main([*WORDS, "--figures", "pdf"]) == 0
    assert "out/figures/angles.pdf" in capsys.readouterr().out
    names = sorted(path.name for path in (tmp_path / "out" / "figures").iterdir())
    assert names == ["angles.pdf", "angles.svg"]
    # The page stays its own: no matplotlib in it.
    assert (tmp_path / "out" / "report.html").read_text() == page
    assert list(csv.DictReader((tmp_path / "out" / "results.csv").read_text().splitlines()))
    assert b"matplotlib" not in (tmp_path / "out" / "figures" / "angles.svg").read_bytes()
    assert main([*WORDS, "--figures", "svg"]) == 0
    assert b"matplotlib" in (tmp_path / "out" / "figures" / "angles.svg").read_bytes()
