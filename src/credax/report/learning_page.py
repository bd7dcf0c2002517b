"""The report page of a comparison of acquisitions."""

import json
from collections.abc import Sequence

import numpy as np

from credax.report.contact_sheet import STYLE, contact_list
from credax.report.learning import LEVELS, Learning, header, table
from credax.report.markup import Markup, element
from credax.report.numbers import short
from credax.report.page import document
from credax.report.parts import (
    charts,
    key_line,
    legend,
    numbers,
    panel,
    panels,
    plain_table,
    section,
)
from credax.report.svg import COLOURS, Axis, Frame, chart, chart_frame, drawing

_SMALL = """
#first .contact { gap: 0.6rem; }
#first .contact li { width: 5.2rem; }
#first .contact img { width: 4.6rem; height: 4.6rem; }
#first h3 { margin-bottom: 0.3rem; }
"""


def learning_page(learning: Learning) -> str:
    """The whole page as text."""
    body = element(
        "main",
        element("header", element("h1", learning.title), element("p", _lead(learning))),
        _results(learning),
        element(
            "div",
            [
                _curves(learning),
                _ceilings(learning),
                _classes(learning),
            ],
            class_="figures one",
        ),
        _first(learning),
        _warnings(learning),
        _configuration(learning),
        element("footer", "Written by credax. This file is complete: no network, no scripts."),
    )
    return document(learning.title, body, STYLE + _SMALL)


def _lead(learning: Learning) -> str:
    seeds = len({run.seed for run in learning.runs})
    first, last = learning.runs[0].labels[0], learning.runs[0].labels[-1]
    return (
        f"Labels of {learning.data} bought in the order in which each acquisition asks for them: "
        f"from {first} to {last} labels, {seeds} seeds."
    )


def _results(learning: Learning) -> Markup:
    return section(
        "results",
        "How many labels are needed?",
        "Medians over seeds, with the quartiles of the last round in brackets; duplicates are "
        "purchases that are copies of earlier ones; gradient steps count all networks of all "
        "rounds that asked. Seconds include compiling, which the first arm pays for those that "
        "train the same shapes after it.",
        plain_table(header(learning), table(learning), "results"),
    )


def _curves(learning: Learning) -> Markup:
    found = {arm: learning.quartiles(arm) for arm in learning.arms}
    labels = np.concatenate([each[0] for each in found.values()])
    values = np.concatenate([each[1].ravel() for each in found.values()])
    frame = chart_frame(
        Axis.around(labels, "labels", pad=0.02), Axis.around(values, learning.metric)
    )
    bands = [
        frame.band(x, quartiles[0], quartiles[2], f"s{i % COLOURS}")
        for i, (x, quartiles) in enumerate(found.values())
    ]
    lines = [frame.line(x, quartiles[1], i) for i, (x, quartiles) in enumerate(found.values())]
    levels = [
        element("path", class_="reference", d=_level(frame, level))
        for level in LEVELS
        if learning.metric == "accuracy" and frame.y.low < level < frame.y.high
    ]
    names = dict(enumerate(learning.arms))
    extra = [key_line("reference", "90 % and 95 %")] if levels else []
    description = f"{learning.metric} against labels, a line for each acquisition"
    return section(
        "curves",
        "What does a label buy?",
        f"Median {learning.metric} on the test rows against the number of labels; the band reaches "
        "from the lower to the upper quartile of the seeds.",
        charts([chart(description, frame.axes(), levels, bands, lines)], legend(names, *extra)),
        numbers(
            f"Numbers: median {learning.metric} per number of labels",
            ["labels", *found],
            _rows([x for x, _ in found.values()], [q[1] for _, q in found.values()]),
        ),
    )


def _level(frame: Frame, level: float) -> str:
    (left, right), (down, _) = frame.at([frame.x.low, frame.x.high], [level, level])
    return f"M{left:.1f} {down:.1f}H{right:.1f}"


def _rows(labels: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> list[list[str]]:
    every = np.unique(np.concatenate(labels))
    pairs = zip(labels, values, strict=True)
    maps = [dict(zip(x.tolist(), y.tolist(), strict=True)) for x, y in pairs]
    return [[f"{n}", *[short(each.get(n)) for each in maps]] for n in every.tolist()]


def _ceilings(learning: Learning) -> Markup | None:
    """Joint scores against the most that so many members can tell apart."""
    arms = [a for a in learning.arms if any(c for c in learning.of(a)[0].ceiling)]
    if not arms:
        return None
    lines, values, names = [], [], {}
    ceilings = [c for a in arms for c in learning.of(a)[0].ceiling if c]
    for arm in arms:
        runs = learning.of(arm)
        scores = np.median(np.array([run.scores for run in runs], float), axis=0)
        lines.append((np.asarray(runs[0].labels)[: len(scores)], scores))
        values += scores.tolist()
    everything = np.array([*values, *ceilings, 0.0])
    labels = np.concatenate([x for x, _ in lines])
    frame = chart_frame(
        Axis.around(labels, "labels", pad=0.02), Axis.around(everything, "nats", zero=True)
    )
    drawn = []
    for (x, scores), arm in zip(lines, arms, strict=True):
        number = learning.arms.index(arm)
        names[number] = arm
        drawn.append(frame.line(x, scores, number))
    tops = [
        element("path", class_="reference", d=_level(frame, top)) for top in sorted(set(ceilings))
    ]
    return section(
        "ceiling",
        "Is the batch larger than the members can tell apart?",
        "The joint score of each query, median over seeds, and its ceiling, the logarithm of the "
        "number of members. Near the ceiling the last rows of a query are nearly arbitrary: use "
        "more members, or ask for fewer rows at a time.",
        charts(
            [chart("joint score against labels, with its ceiling", frame.axes(), tops, drawn)],
            legend(names, key_line("reference", "ceiling: log members")),
        ),
    )


def _classes(learning: Learning) -> Markup | None:
    if learning.metric != "accuracy":
        return None
    shares = {}
    for arm in learning.arms:
        counts = np.sum([run.classes for run in learning.of(arm)], axis=0)
        shares[arm] = counts / max(1, counts.sum())
    high = max(float(each.max()) for each in shares.values())
    edges = np.arange(len(learning.class_names) + 1) - 0.5
    figures = []
    for arm, share in shares.items():
        frame = Frame(
            Axis(-0.5, len(share) - 0.5, "class"),
            Axis(0.0, high * 1.05, "share of purchases"),
            tick_counts=(min(len(share), 10), 4),
        )
        words = f"share of purchases per class by {arm}"
        figures.append(panel(arm, drawing(words, frame.axes(), frame.bars(edges, share, "bar"))))
    rows = [[arm, *[f"{value:.3f}" for value in share]] for arm, share in shares.items()]
    return section(
        "classes",
        "Which classes were bought?",
        "Share of the purchases after the initial ones, over all seeds; classes are numbered in "
        "the order of the table below.",
        panels(figures),
        numbers("Numbers: share of purchases per class", ["arm", *learning.class_names], rows),
    )


def _first(learning: Learning) -> Markup | None:
    shown = [(arm, learning.of(arm)[0]) for arm in learning.arms]
    shown = [(arm, run) for arm, run in shown if len(run.first)]
    if not shown:
        return None
    blocks = [
        element("div", element("h3", f"{arm}, seed {run.seed}"), contact_list(run.first))
        for arm, run in shown
    ]
    return section(
        "first",
        "What was bought first?",
        "The first purchases after the initial labels, in order, with their class and score.",
        blocks,
    )


def _warnings(learning: Learning) -> Markup | None:
    found = [
        (f"{run.arm}, seed {run.seed}", text) for run in learning.runs for text in run.warnings
    ]
    if not found:
        return None
    return section(
        "warnings",
        "What choices warned of",
        "Each as the acquisition said it, with its round.",
        numbers(f"{len(found)} warnings", ["arm", "warning"], found),
    )


def _configuration(learning: Learning) -> Markup:
    text = json.dumps(learning.config, indent=2, ensure_ascii=False, default=str)
    command = element("p", element("code", learning.command)) if learning.command else None
    return section(
        "configuration",
        "Configuration",
        "Every setting as it was used.",
        command,
        element("details", element("summary", "settings"), element("pre", element("code", text))),
    )
