"""Rows of a table not to trust: where the prediction is least certain, and where most wrong."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from credax.prediction import ClassPrediction, RegressionPrediction
from credax.report.markup import Markup, element
from credax.report.numbers import compact, fixed, percent, short
from credax.report.parts import plain_table, section
from credax.report.regression import INTERVAL
from credax.report.result import Comparison, Result
from credax.report.rows import class_rows

SHOWN = 8
_MOST_FEATURES = 12
_FEW = 5
_FAR = 3.0


def doubtful_section(comparison: Comparison) -> Markup | None:
    """Test rows with their feature values, or nothing where the inputs are no table."""
    method = comparison.methods[-1]
    results = comparison.shown(method)
    inputs = comparison.inputs_for(results[0]) if results else None
    if inputs is None or inputs.ndim > 2 or not np.issubdtype(inputs.dtype, np.number):
        return None
    table = np.asarray(inputs, float).reshape(len(inputs), -1)
    if not table.size:
        return None
    features = Features(table, comparison.facts.feature_names)
    tell = _classes if comparison.task == "classification" else _numbers
    header, groups = tell(comparison, results[0])
    blocks = [
        (
            element("h3", name),
            plain_table(
                ["test row", *header, *features.header],
                [[row, *cells, *features.cells(row)] for row, cells in rows],
                name,
            ),
        )
        for name, rows in groups.items()
        if rows
    ]
    return section(
        "rows",
        "Which rows should not be trusted?",
        "Test rows with the highest predictive uncertainty and with the largest errors, with their "
        f"feature values; {method}, seed {results[0].seed}, rows counted from 0. A feature value "
        f"in bold is more than {_FAR:g} standard deviations from the mean of the test rows.",
        blocks,
    )


class Features:
    """The feature values of rows as cells; of wide tables, the most unusual ones of each row."""

    def __init__(self, table: np.ndarray, names: Sequence[str]):
        count = table.shape[1]
        self.names = list(names) if len(names) == count else _default_names(count)
        deviation = table.std(axis=0)
        self.table = table
        self.scores = (table - table.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        self.wide = count > _MOST_FEATURES

    @property
    def header(self) -> list[str]:
        """The names of the columns."""
        return [f"{_FEW} most unusual features"] if self.wide else self.names

    def cells(self, row: int) -> list[Any]:
        """The values of one row."""
        if not self.wide:
            return [self._value(row, column) for column in range(len(self.names))]
        order = np.argsort(-np.abs(self.scores[row]), kind="stable")[:_FEW]
        parts = [[f"{self.names[c]} = ", self._value(row, c)] for c in order]
        return [element("span", [[", " if k else "", part] for k, part in enumerate(parts)])]

    def _value(self, row: int, column: int) -> Any:
        text = compact(float(self.table[row, column]))
        return element("b", text) if abs(self.scores[row, column]) > _FAR else text


def _default_names(count: int) -> list[str]:
    return ["input"] if count == 1 else [f"feature {column}" for column in range(count)]


def _classes(comparison: Comparison, result: Result):
    (facts,) = class_rows([result])
    assert isinstance(result.prediction, ClassPrediction)
    of_true = np.exp(np.asarray(result.prediction.log_mean, float))[
        np.arange(len(facts.y)), facts.y
    ]
    header = [
        "true class",
        "predicted class",
        "probability",
        "probability of the true class",
        "predictive entropy (nats)",
    ]

    def cells(row: int) -> list[str]:
        name = comparison.class_name(int(facts.label[row]))
        return [
            comparison.class_name(int(facts.y[row])),
            name if facts.right[row] else f"✗ {name}",
            fixed(float(facts.confidence[row]), 3),
            fixed(float(of_true[row]), 3),
            fixed(float(facts.total[row]), 3),
        ]

    wrong = np.flatnonzero(~facts.right)
    groups = {
        "Least certain: highest predictive entropy": _top(facts.total),
        "Most wrong: lowest probability of the true class": wrong[_top(-of_true[wrong])],
    }
    return header, {n: [(int(r), cells(int(r))) for r in rows] for n, rows in groups.items()}


def _numbers(comparison: Comparison, result: Result):
    prediction = result.prediction
    assert isinstance(prediction, RegressionPrediction)
    assert result.y is not None
    y = np.asarray(result.y, float).reshape(len(result.y), -1)
    found = (prediction.mean, prediction.std, *prediction.interval(INTERVAL))
    mean, deviation, low, high = (np.asarray(v, float).reshape(y.shape) for v in found)
    errors = (y - mean) / np.where(deviation > 0, deviation, np.nan)
    scale = y.std(axis=0)
    relative = deviation / np.where(scale > 0, scale, 1.0)
    names = comparison.facts.target_names
    several = y.shape[1] > 1
    header = ["target"] if several else []
    header += ["true", "predicted", f"{percent(INTERVAL)} interval"]
    header += ["standard deviation", "error in standard deviations"]

    def cells(row: int, target: int) -> list[str]:
        at = row, target
        named = names[target] if len(names) == y.shape[1] else str(target)
        return [
            *([named] if several else []),
            *[short(float(v[at])) for v in (y, mean)],
            f"{short(float(low[at]))} to {short(float(high[at]))}",
            short(float(deviation[at])),
            fixed(float(errors[at]), 1),
        ]

    groups = {
        "Least certain: largest predicted standard deviation": relative,
        "Most wrong: largest error in predicted standard deviations": np.abs(errors),
    }
    return header, {
        name: [(int(r), cells(int(r), int(np.argmax(_low_nan(score[r]))))) for r in _top(score)]
        for name, score in groups.items()
    }


def _top(score: np.ndarray) -> np.ndarray:
    """The rows with the highest score, over targets where there are several; NaN comes last."""
    score = _low_nan(score)
    score = score if score.ndim == 1 else score.max(axis=1)
    return np.argsort(-score, kind="stable")[:SHOWN]


def _low_nan(score: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(score), -np.inf, score)
