"""The HTML page: well formed, self-contained, complete, and safe with hostile names."""

import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from report_cases import bare, class_result, history, number_result

from credax.prediction import ClassPrediction
from credax.report import Comparison, Result, page, summarise, write_html
from credax.report.numbers import fixed

HOSTILE = "<script>alert('x')</script>\"&"
VOID = {"br", "hr", "img", "meta"}


class Outline(HTMLParser):
    """Fails on tags that do not balance; keeps elements, their text and all attributes."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.stack, self.tags, self.attributes, self.text = [], [], [], []
        self.cells, self.ids = [], []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.stack.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if "style" not in self.stack:
            self.text.append(data)
        if self.stack and self.stack[-1] in ("td", "th", "b", "span") and self.cells:
            self.cells[-1] += data


def check(text):
    outline = Outline(text)
    assert "script" not in outline.tags
    assert "link" not in outline.tags
    assert not re.search(r"https?://|//[a-z]+\.", text)
    assert "url(" not in text
    assert not any(name.startswith("on") for name, _ in outline.attributes)
    for name, value in outline.attributes:
        if name in ("src", "href"):
            assert value.startswith("data:image/png;base64,")
    assert len(set(outline.ids)) == len(outline.ids)
    drawings = [v for k, v in outline.attributes if k in ("d", "x", "y")]
    assert not any(bad in drawing for drawing in drawings for bad in ("nan", "inf", "None"))
    return outline


def classification(**fields):
    cost = {"parameters": 1234, "training_seconds": 75.0, "peak_memory_bytes": 2.5e6}
    cost |= {"host": "x", "compile_seconds": None}
    results = [
        class_result(
            method,
            seed,
            members,
            history=history(members=members),
            cost=cost,
            config={"method": method, "seed": seed, "rate": 0.125, "command": f"fit {seed}"},
            notes=("member 3 was excluded",) if seed == 1 else (),
        )
        for method, members in (("single", 1), ("deep-ensemble", 3))
        for seed in range(2)
    ]
    return Comparison("Two methods", "toy", "classification", results, **fields)


def test_classification_page(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (40, 5, 4, 3), np.uint8)
    comparison = classification(class_names=("cat", "dog", HOSTILE), inputs=images)
    write_html(comparison, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    outline = check(text)
    for part in ("results", "cost", "reliability", "risk-coverage", "epistemic", "training"):
        assert part in outline.ids
    assert {"pictures", "configuration"} <= set(outline.ids)
    assert outline.tags.count("img") == 16
    words = " ".join(outline.text)
    for phrase in ("single", "deep-ensemble", "1 min 15 s", "2.5 MB", "member 3 was excluded"):
        assert phrase in words
    assert '"rate": 0.125' in words
    assert "compile time" not in words
    assert "one member has no epistemic part" in words
    # Every figure's numbers follow in a table that opens on demand.
    for part in ("reliability", "risk-coverage", "epistemic", "training", "pictures"):
        section = text[text.index(f'<section id="{part}"') :].partition("</section>")[0]
        last_figure = max(section.rfind("<svg"), section.rfind("<img"))
        assert 0 < last_figure < section.index("<details")
        assert "<table>" in section[section.index("<details") :]


def test_numbers_on_the_page_are_the_tables():
    comparison = classification()
    table = summarise(comparison)
    cells = Outline(page(comparison)).cells
    for row in range(len(table.methods)):
        for column in range(len(table.columns)):
            mean, error = table.text(row, column)
            assert f"{mean} ± {error}" in cells


def test_bold_only_where_the_difference_is_clear():
    clear = page(bare({"a": [1.0, 1.01], "b": [2.0, 2.01]}))
    assert re.findall(r"<b>([^<]*)</b>", clear) == ["1.0050"]
    assert "<b>" not in page(bare({"a": [1.0, 2.0], "b": [1.1, 2.1]}))
    alone = page(bare({"a": [1.0], "b": [2.0]}))
    assert "<b>" not in alone
    assert "standard error is not defined" in alone
    assert "±" not in alone


@pytest.mark.parametrize("targets", [1, 2])
def test_regression_page(targets):
    results = [
        number_result(m, seed, targets=targets, history=history()) for m in "ab" for seed in (0, 1)
    ]
    x = np.linspace(-1, 1, 40)[:, None]
    text = page(Comparison("Line", "toy", "regression", results, inputs=x))
    outline = check(text)
    assert {"scatter", "coverage", "spread", "function", "training"} <= set(outline.ids)
    assert ("first of 2 targets" in text) == (targets == 2)
    assert "→ 0.9" in text


def test_inputs_that_cannot_be_drawn_are_left_out():
    flat = page(classification(inputs=np.zeros((40, 64))))
    assert 'id="images"' not in flat
    other_length = page(classification(inputs=np.zeros((39, 5, 5, 1))))
    assert 'id="images"' not in other_length
    wide = Comparison("t", "d", "regression", [number_result("a", 0)], inputs=np.zeros((40, 3)))
    assert 'id="function"' not in check(page(wide)).ids


def test_hostile_names_are_only_text():
    results = [
        class_result(
            HOSTILE,
            0,
            cost={HOSTILE: HOSTILE},
            config={HOSTILE: HOSTILE},
            notes=(HOSTILE,),
            metrics={HOSTILE: 0.5},
            history=history(),
        )
    ]
    images = np.zeros((40, 4, 4, 1), np.float32)
    names = (HOSTILE, HOSTILE + "1", HOSTILE + "2")
    text = page(Comparison(HOSTILE, HOSTILE, "classification", results, names, images))
    outline = check(text)
    assert "<script" not in text
    assert " ".join(outline.text).count(HOSTILE) > 10


def test_numbers_that_are_not_finite():
    broken = ClassPrediction.from_probs(np.full((2, 6, 2), np.nan))
    diverged = [
        {"epoch": 1, "loss": 2.0},
        {"epoch": 2, "loss": math.nan, "member_loss": [math.inf]},
    ]
    results = [
        Result("a", 0, {"nll": math.nan}, broken, np.zeros(6, int), diverged),
        Result("b", 0, {"nll": 1.0}, history=[{"epoch": 1, "loss": math.inf}]),
    ]
    text = page(Comparison("t", "d", "classification", results))
    check(text)
    assert "not finite: nll" in text
    assert fixed(math.nan) in text


def test_infinite_gaussians():
    result = number_result("a", 0)
    wrong = result.prediction.means * np.nan
    prediction = type(result.prediction)(wrong, result.prediction.variances)
    inputs = np.zeros((40, 1))
    results = [Result("a", 0, {"rmse": math.inf}, prediction, result.y)]
    check(page(Comparison("t", "d", "regression", results, inputs=inputs)))


def test_results_without_anything_to_draw():
    text = page(Comparison("t", "d", "classification", [Result("a", 0, {})]))
    outline = check(text)
    assert "reliability" not in outline.ids
    empty = ClassPrediction.from_probs(np.ones((2, 0, 3)))
    nothing = Result("a", 0, {"nll": 1.0}, empty, np.zeros(0, int))
    check(page(Comparison("t", "d", "classification", [nothing])))


def test_clipped_labels_are_mentioned():
    certain = ClassPrediction.from_probs(np.array([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]))
    results = [Result("a", 4, {"nll": 3.0}, certain, np.array([0, 1, 1]))]
    text = page(Comparison("t", "d", "classification", results))
    assert "a, seed 4: the label of 1 of 3 rows" in text
    check(text)


def test_settings_are_listed_once_for_seeds_that_share_them():
    text = page(classification())
    section = text[text.index('<section id="configuration"') :]
    assert section.count("<details>") == 2
    assert "single, 2 seeds (0, 1)" in section
