"""The numbers behind the figures, and the small SVG writer."""

import re

import jax
import numpy as np
import pytest
from report_cases import class_result, history, number_result

from credax import metrics
from credax.report import Comparison, Result, classification, curves, regression
from credax.report.chains import chains_section
from credax.report.markup import Markup, element
from credax.report.rows import class_rows
from credax.report.sparsification import mean_curve, sparsification_section
from credax.report.svg import COLOURS, DASHES, Axis, Frame, dash, marks


def test_pooled_reliability_is_that_of_all_rows():
    results = [class_result("a", seed) for seed in range(3)]
    pooled = classification.pooled_reliability(results)
    confidence = np.concatenate([np.asarray(r.prediction.confidence) for r in results])
    right = np.concatenate([np.asarray(r.prediction.label) == r.y for r in results])
    together = jax.jit(metrics.reliability_of)(confidence, right)
    np.testing.assert_array_equal(pooled.counts, together.counts)
    np.testing.assert_allclose(pooled.accuracy, together.accuracy, rtol=1e-5)
    np.testing.assert_allclose(pooled.confidence, together.confidence, rtol=1e-5)


def test_mean_risk_ends_at_the_error_rate():
    results = [class_result("a", seed) for seed in range(2)]
    risk = classification.mean_risk(results, np.array([0.5, 1.0]))
    errors, halves = [], []
    for result in results:
        wrong = np.asarray(result.prediction.label) != result.y
        errors.append(wrong.mean())
        halves.append(wrong[np.argsort(-np.asarray(result.prediction.confidence))][:20].mean())
    np.testing.assert_allclose(risk, [np.mean(halves), np.mean(errors)], rtol=1e-6)


def test_disagreement_splits_right_from_wrong():
    result = class_result("a", 0)
    (rows,) = class_rows([result])
    group = classification.disagreement([result, class_result("a", 1, members=5)])
    assert group.members == 5
    assert len(group.right) + len(group.wrong) == 80
    np.testing.assert_allclose(rows.epistemic, result.prediction.epistemic, rtol=1e-5)
    assert set(rows.epistemic[~rows.right]) <= set(group.wrong)


def test_coverage_and_spread():
    result = number_result("a", 0)
    levels = regression.mean_coverage([result, number_result("a", 1)])
    assert len(levels) == len(regression.LEVELS)
    assert np.all(np.diff(levels) >= 0)
    curve = regression.error_by_deviation([result])
    assert curve.counts.tolist() == [4] * 10
    assert np.all(np.diff(curve.predicted) >= 0)
    total = np.mean(np.square(np.asarray(result.prediction.mean) - result.y))
    assert np.mean(np.square(curve.error)) == pytest.approx(total, rel=1e-5)


def test_curve_averages_seeds_and_spans_members():
    results = [
        Result("a", 0, {}, history=history(3, 2.0)),
        Result("a", 1, {}, history=history(2, 4.0)),
    ]
    found = curves.curve(results, "loss", "member_loss")
    assert found.epochs.tolist() == [1, 2, 3]
    halves = Result("a", 0, {}, history=[{"epoch": e / 2, "loss": 1.0} for e in range(4)])
    assert curves.curve([halves], "loss").epochs.tolist() == [0, 0.5, 1, 1.5]
    np.testing.assert_allclose(found.mean, [3.0, 1.5, 2 / 3])
    np.testing.assert_allclose(found.low, [2.0, 1.0, 2 / 3])
    np.testing.assert_allclose(found.high, [4.8, 2.4, 0.8])
    assert curves.curve(results, "learning_rate") is None


def test_axis_holds_its_values():
    axis = Axis.around([3.0, np.nan, 5.0, np.inf])
    assert axis.low < 3.0 < 5.0 < axis.high
    assert Axis.around([2.0, 4.0], zero=True).low == 0.0
    assert Axis.around([-2.0, -4.0], zero=True).high == 0.0
    assert Axis.around([], log=True).low > 0
    assert Axis.around([7.0]).low < 7.0 < Axis.around([7.0]).high
    assert Axis.around([-1.0, 0.0, 1.0, 100.0], log=True).low > 0
    np.testing.assert_allclose(Axis(1.0, 100.0, log=True).place([1, 10, 100]), [0, 0.5, 1])
    assert Axis(0.0, 1.0).place([-3.0, 0.25, 9.0]).tolist() == [0.0, 0.25, 1.0]
    assert np.isnan(Axis(0.0, 1.0).place(np.nan))


def path_of(layer, class_):
    return re.search(rf'class="{class_}[^"]*" d="([^"]*)"', layer).group(1)


def test_lines_break_where_a_value_is_missing():
    frame = Frame(Axis(0, 4), Axis(0, 1), left=0, right=40, top=0, bottom=10)
    layer = frame.line([0, 1, 2, 3, 4], [0, 1, np.nan, 0.5, 1])
    assert path_of(layer, "line") == "M0 10L10 0M30 5L40 0"
    assert path_of(layer, "marker").count("M") == 4


def test_empty_and_missing_data_draw_nothing():
    frame = Frame(Axis(0, 1), Axis(0, 1))
    nothing = [np.nan, np.nan]
    assert path_of(frame.line(nothing, nothing), "line") == ""
    assert path_of(frame.band([], [], [], "s0"), "band") == ""
    assert path_of(frame.whiskers(nothing, nothing, nothing, "whisker"), "whisker") == ""
    assert path_of(frame.points(nothing, nothing, "dot"), "dot") == ""
    assert path_of(frame.bars([0, 0.5, 1], [0, np.nan], "bar"), "bar") == ""


def test_bars_and_steps_stand_on_zero():
    frame = Frame(Axis(0, 2), Axis(0, 4), left=0, right=20, top=0, bottom=40)
    assert path_of(frame.bars([0, 1, 2], [1, 4], "bar"), "bar") == (
        "M0.5 40V30H9.5V40ZM10.5 40V0H19.5V40Z"
    )
    assert path_of(frame.steps([0, 1, 2], [1, 4], "outline"), "outline") == (
        "M0 40L0 30L10 30L10 0L20 0L20 40"
    )


def test_series_differ_without_colour():
    looks = {(dash(i), marks([0], [0], i).split(" d=")[1]) for i in range(COLOURS)}
    assert len(looks) == COLOURS
    with_colour = {(i % COLOURS, dash(i)) for i in range(COLOURS * len(DASHES))}
    assert len(with_colour) == COLOURS * len(DASHES)


def test_text_is_escaped_and_markup_is_not():
    assert (
        element("p", "<b>", ["&", None], title='"x"')
        == '<p title="&quot;x&quot;">&lt;b&gt;&amp;</p>'
    )
    assert element("p", Markup("<b></b>"), hidden=True) == "<p hidden><b></b></p>"
    assert element("img", src="a&b", alt=None) == '<img src="a&amp;b">'


def test_chains_are_drawn_with_their_diagnostics():
    generator = np.random.default_rng(0)
    worst = {"r_hat": 1.25, "bulk": 31.0, "tail": 40.0}
    own = {"predictions": worst, "log_joint": {**worst, "r_hat": 1.0625}}
    diagnostics = {
        **own,
        "by_mode": {"0": own, "3": {**own, "predictions": {**worst, "r_hat": 1.5}}},
        "traces": generator.normal(size=(2, 40)).tolist(),
        "draws": 40,
        "divergences": 7,
        "e_bfmi": [0.75, None],
    }
    results = [
        number_result("HMC", 0, diagnostics=diagnostics),
        number_result("Single", 0),
    ]
    page = chains_section(Comparison("t", "d", "regression", results))
    assert page is not None
    for text in ("HMC: trace", "HMC: ranks", "1.250", "31.00", "1.062", "1.500", ">7", "0.7500"):
        assert text in page
    assert "HMC, 3" in page
    assert "Single" not in page
    assert chains_section(Comparison("t", "d", "regression", results[1:])) is None


def test_sparsification_leaves_out_the_least_certain_first():
    """Against the definition, row by row; a variance that is the error gives the best order."""
    result = number_result("a", 0)
    mean, y = np.asarray(result.prediction.mean).ravel(), np.ravel(result.y)
    error, variance = (mean - y) ** 2, np.asarray(result.prediction.total).ravel()
    curve = mean_curve([result])
    for share in (0.0, 0.25, 0.5, 0.9):
        kept = np.argsort(variance)[: round(40 * (1 - share))]
        expected = np.sqrt(error[kept].mean() / error.mean())
        np.testing.assert_allclose(curve[round(100 * share)], expected, rtol=1e-5)
    best = mean_curve([result], best=True)
    assert np.all(best <= curve + 1e-9)
    assert np.all(np.diff(best) <= 1e-9)
    page = sparsification_section(Comparison("t", "d", "regression", [result]))
    assert page is not None
    assert "Is the uncertainty largest where the error is?" in page
