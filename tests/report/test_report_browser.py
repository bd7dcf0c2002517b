"""The page in a real browser: no scrolling sideways, no message, no request, no violation."""

import re
from importlib.resources import files

import numpy as np
import pytest
from browser import Browser, chromium
from report_cases import class_result, history, number_result

from credax.report import Comparison, Facts, write_html
from credax.report.result import EvaluationResult

WIDTHS = (390, 800, 1400)
axe_core = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed")
pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no Chromium on this machine: apt-get install chromium"
)
COST = {"training_seconds": 12.5, "compile_seconds": 2.5, "peak_memory_bytes": 2.5e8, "epochs": 60}
COST |= {"parameters": 123456, "network": "mlp"}
FACTS = Facts(
    date="2026-11-16T18:00+00:00",
    version="0.1.0",
    command=f"credax compare --data {'x' * 300}.csv --methods single,ensemble",
    rows={"train": 1000, "validation": 100, "test": 40},
    classes={"train": {"cat": 500, "dog": 500}, "test": {"cat": 20, "dog": 20}},
    feature_names=("age", "blood pressure", "body mass index", "cholesterol"),
)


def scores(value):
    return {"accuracy": value, "nll": 1 - value, "ece": value / 10}


def evaluated(method, seed):
    rng = np.random.default_rng(seed)
    evaluation = EvaluationResult(
        {"ood/noise/auroc/entropy_predictive": 0.7, "ood/noise/prevalence": 0.5},
        {"noise": class_result("other", seed + 10).prediction},
        {s: scores(0.9 - 0.1 * s - 0.01 * seed) for s in range(3)},
        {("fog", 1): scores(0.8), ("blur", 1): scores(0.7)},
        {"temperature": class_result("after", seed + 20).prediction},
        {"aps": rng.random((40, 3)) < 0.6},
        "two sets",
        levels={"aps": 0.9},
    )
    metrics = {
        **scores(0.8 + 0.01 * seed),
        **evaluation.values,
        "calibrated/aps/set_coverage": 0.91,
    }
    lines = [
        {**line, "gradient_cosine": 0.5, "force_ratio": 0.1, "kernel": np.eye(3).tolist()}
        for line in history()
    ]
    return class_result(
        method,
        seed,
        metrics=metrics,
        evaluation=evaluation,
        history=lines,
        cost=COST,
        config={"method": {"name": method}, "seed": seed, "network": "MLP(64, 64), " * 20},
        gradients=rng.normal(size=(3, 2, 5, 4, 3)),
        notes=("a note for the reader",),
    )


def images():
    inputs = np.random.default_rng(0).integers(0, 256, (40, 5, 4, 3), np.uint8)
    results = [evaluated(m, seed) for m in ("Single network", "Deep ensemble") for seed in (0, 1)]
    names = ("cat", "dog", "a very long name of a class")
    return Comparison("Images", "own", "classification", results, names, inputs, FACTS)


def table():
    inputs = np.random.default_rng(0).normal(size=(40, 4))
    results = [class_result("Deep ensemble", 0, cost=COST, history=history())]
    return Comparison("Table" * 40, "own.csv", "classification", results, (), inputs, FACTS)


def numbers():
    inputs = np.random.default_rng(0).normal(size=(40, 30))
    results = [
        number_result(f"SWAG (rank {rank})", seed, cost=COST, history=history(start=100.0 * rank))
        for rank in (10, 20, 30)
        for seed in range(2)
    ]
    return Comparison("Numbers", "own", "regression", results, (), inputs, FACTS)


def function():
    inputs = np.linspace(-1, 1, 40)[:, None]
    return Comparison("Function", "toy", "regression", [number_result("GP", 0)], (), inputs)


PAGES = {"images": images, "table": table, "numbers": numbers, "function": function}


@pytest.fixture(scope="module")
def browser():
    found = Browser(chromium())
    yield found
    found.close()


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name, make in PAGES.items():
        write_html(make(), folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in PAGES}


@pytest.fixture(scope="module")
def axe():
    return files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def messages(browser):
    """What the browser logged, and every address that it asked for."""
    kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
    logged = [e["params"] for e in browser.events if e.get("method") in kinds]
    asked = [
        e["params"]["request"]["url"]
        for e in browser.events
        if e.get("method") == "Network.requestWillBeSent"
    ]
    return logged, asked


UNFOLD = "document.querySelectorAll('details').forEach(d => { d.open = true })"
TOO_WIDE = """
[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, pre, svg'))
  .filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
  .map(e => e.outerHTML.slice(0, 120))
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_page_fits_is_silent_and_asks_for_nothing(browser, paths, name, width, dark):
    browser.show(paths[name], width, dark=dark)
    browser.run(UNFOLD)
    sizes = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    inner, outer = browser.run(sizes)
    assert inner <= outer
    assert browser.run(TOO_WIDE) == []
    logged, asked = messages(browser)
    assert logged == []
    assert [url for url in asked if not url.startswith("data:")] == [paths[name].as_uri()]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_no_violation(browser, paths, axe, name, dark):
    browser.show(paths[name], 800, dark=dark)
    browser.run(UNFOLD)
    browser.run(axe)
    found = browser.run("axe.run(document, {resultTypes: ['violations']}).then(r => r.violations)")
    assert [(v["id"], v["nodes"][0]["html"], v["nodes"][0]["failureSummary"]) for v in found] == []


# axe leaves open what it cannot decide: text in drawings, and in boxes with a shade at their edge.
CONTRAST = """
(() => {
  const channels = text => text.match(/[\\d.]+/g).map(Number);
  const light = c => c.slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const paper = e => {
    const found = channels(getComputedStyle(e).backgroundColor);
    return found.length == 3 || found[3] == 1 ? found : paper(e.parentElement);
  };
  const below = e => {
    const cell = e.classList.contains('count') && e.parentElement.querySelector('rect.cell');
    if (!cell) return paper(e);
    const style = getComputedStyle(cell), share = Number(style.fillOpacity);
    return channels(style.fill).map((v, i) => share * v + (1 - share) * paper(e)[i]);
  };
  const says = e => [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim());
  return [...document.querySelectorAll('body *')].filter(says).map(e => {
    const style = getComputedStyle(e), ink = e.closest('svg') ? style.fill : style.color;
    const pair = [light(channels(ink)), light(below(e))];
    return [(Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05), e.outerHTML.slice(0, 100)];
  });
})()
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_all_text_has_contrast(browser, paths, dark):
    for path in paths.values():
        browser.show(path, 800, dark=dark)
        browser.run(UNFOLD)
        found = browser.run(CONTRAST)
        assert len(found) > 100
        assert [words for ratio, words in found if ratio < 4.5] == []


STRENGTH = """
[...document.querySelectorAll('#confusion rect.cell')].map(cell => {
  const channels = text => text.match(/[\\d.]+/g).map(Number);
  const paper = channels(getComputedStyle(document.body).backgroundColor);
  const style = getComputedStyle(cell), share = Number(style.fillOpacity);
  const gap = channels(style.fill).map((v, i) => share * Math.abs(v - paper[i]));
  const count = Number(cell.parentElement.querySelector('text').textContent);
  return [cell.classList.contains('right'), count, gap[0] + gap[1] + gap[2]];
})
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_more_rows_are_further_from_the_paper_in_light_and_dark(browser, paths, dark):
    browser.show(paths["images"], 1400, dark=dark)
    cells = browser.run(STRENGTH)
    assert len({count for _, count, _ in cells}) > 1
    for side in (True, False):
        one = sorted((count, gap) for right, count, gap in cells if right == side)
        assert [gap for _, gap in one] == sorted(gap for _, gap in one)


def test_the_axes_of_the_confusion_matrix_are_named_beside_their_classes(browser, paths):
    browser.show(paths["images"], 1400)
    place = """
    (() => {
      const svg = document.querySelector('#confusion svg[role=img]');
      const at = test => [...svg.querySelectorAll('text')].filter(test)
        .map(e => e.getBoundingClientRect()).map(b => [b.x + b.width / 2, b.y + b.height / 2]);
      const box = svg.querySelector('path.grid').getBoundingClientRect();
      return {
        predicted: at(e => e.textContent == 'predicted class')[0],
        actual: at(e => e.textContent == 'true class')[0],
        cats: at(e => e.textContent == 'cat'), left: box.left, top: box.top,
      };
    })()
    """
    found = browser.run(place)
    beside, above = sorted(found["cats"])
    assert found["actual"][0] < beside[0] < found["left"]
    assert found["predicted"][1] < above[1] < found["top"]


def test_every_figure_has_a_text_alternative(browser, paths):
    bare = """
    [...document.querySelectorAll('svg, img')].filter(e => !e.closest('[aria-hidden=true]'))
      .filter(e => !(e.getAttribute('alt') || e.getAttribute('aria-label') || '').trim())
      .map(e => e.outerHTML.slice(0, 120))
    """
    for path in paths.values():
        browser.show(path, 800)
        assert browser.run("document.querySelectorAll('svg[role=img], img').length") > 0
        assert browser.run(bare) == []


def test_on_a_phone_tables_scroll_in_their_box_with_the_first_column_fixed(browser, paths):
    scrolled = """
    [...document.querySelectorAll('.scroll')].filter(b => b.scrollWidth > b.clientWidth)
      .map(box => {
        box.scrollLeft = 1e6;
        const first = [...box.querySelectorAll('tr > :first-child')];
        const left = box.getBoundingClientRect().left;
        const offset = Math.max(...first.map(c => Math.abs(c.getBoundingClientRect().left - left)));
        const background = new Set(first.map(c => getComputedStyle(c).backgroundColor));
        const share = first[0].getBoundingClientRect().width / box.clientWidth;
        return [box.scrollLeft, offset, [...background], share];
      })
    """
    for path in paths.values():
        browser.show(path, 390)
        browser.run(UNFOLD)
        found = browser.run(scrolled)
        assert browser.run("document.documentElement.scrollLeft") == 0
        for moved, offset, background, share in found:
            assert moved > 0
            assert offset < 1
            assert not any(re.search(r"rgba\(.*, 0\)", colour) for colour in background)
            assert share < 0.5
        if path == paths["images"]:
            assert len(found) > 3


def test_figures_of_one_method_share_the_width(browser, paths):
    browser.show(paths["table"], 1400)
    lefts = browser.run(
        "['reliability', 'risk-coverage'].map(id =>"
        " document.getElementById(id).getBoundingClientRect()).map(b => [b.left, b.top])"
    )
    (one, top), (other, same) = lefts
    assert other - one > 400
    assert abs(top - same) < 1
