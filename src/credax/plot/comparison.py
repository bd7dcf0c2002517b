"""The figures of a comparison, one file each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from credax.plot.axes import matplotlib
from credax.plot.calibration import interval_calibration, reliability
from credax.plot.detection import ood_roc
from credax.plot.primitives import series_style
from credax.plot.saving import check_format, save
from credax.plot.selective import risk_coverage
from credax.plot.training import learning_curves
from credax.report.colours import SERIES

_INSIDE = 4
"""With more names than this the legend stands beside the axes: inside it would cover the lines."""


def save_figures(comparison: Any, folder: str | Path, kind: str = "pdf") -> list[Path]:
    """Write the figures of a `credax.report.Comparison` as ``folder/NAME.kind``; returns the paths.

    Curves of one method and seed each, the first seed with predictions; learning curves of all
    methods; for other data an ROC curve per data set.
    """
    check_format(kind)
    shown = {m: own[0] for m in comparison.methods if (own := comparison.shown(m))}
    figures: dict[str, Callable[[Any], None]] = {}
    if shown:
        classes = comparison.task == "classification"
        draw = reliability if classes else interval_calibration
        figures[draw.__name__] = lambda ax: _each(shown, draw, ax)
        figures["risk_coverage"] = lambda ax: _each(shown, risk_coverage, ax)
    trained = {m: r.history for m in comparison.methods for r in comparison.of(m)[:1]}
    trained = {m: lines for m, lines in trained.items() if any("loss" in line for line in lines)}
    if trained:
        figures["learning_curves"] = lambda ax: _training(trained, ax)
    for other in dict.fromkeys(name for r in shown.values() for name in r.evaluation.ood):
        name = f"ood_roc_{other.replace('/', '-')}"
        figures[name] = lambda ax, other=other: _detection(shown, other, ax)
    return [_save(draw, Path(folder) / f"{name}.{kind}") for name, draw in figures.items()]


def _each(shown: dict[str, Any], draw: Any, ax: Any) -> None:
    for method, result in shown.items():
        draw(result.prediction, result.y, ax=ax, label=method)


def _training(trained: dict[str, Any], ax: Any) -> None:
    for method, lines in trained.items():
        learning_curves(lines, ax=ax, label=method)


def _detection(shown: dict[str, Any], other: str, ax: Any) -> None:
    for method, result in shown.items():
        if other in result.evaluation.ood:
            ood_roc(result.prediction, result.evaluation.ood[other], ax=ax, label=method)


def _save(draw: Callable[[Any], None], path: Path) -> Path:
    Figure = matplotlib().figure.Figure

    # Outside pyplot's state: no window opens, and none of the user's is drawn into.
    figure = Figure(figsize=(4.2, 3.6))
    ax = figure.add_subplot()
    ax.set_prop_cycle(color=list(SERIES))
    draw(ax)
    named = [line for line in ax.get_lines() if not str(line.get_label()).startswith("_")]
    for number, line in enumerate(named):
        # Colours repeat after eight; with the dash every line can be told apart.
        line.set_linestyle(series_style(number)["linestyle"])
    if named:
        beside = {"loc": "center left", "bbox_to_anchor": (1.02, 0.5), "handlelength": 3}
        ax.legend(fontsize="small", **(beside if len(named) > _INSIDE else {}))
    return save(figure, path)
