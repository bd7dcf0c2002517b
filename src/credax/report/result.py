"""What a report is about: one record per trained posterior, and the comparison of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from credax.errors import InputError
from credax.prediction import ClassPrediction, Prediction, RegressionPrediction

Task = Literal["classification", "regression"]
LONGEST_TITLE = 120
"""Characters of a title that lists methods; more are only counted."""
_EXAMPLES = {
    "classification": "ClassPrediction",
    "regression": "GaussianPrediction or another prediction of numbers",
}


@dataclass(frozen=True)
class EvaluationResult:
    """What was asked about a posterior besides the clean test rows; empty where nothing was.

    ``values`` are metrics by key (``ood/...``, ``shift/...``, ``calibrated/...``). ``ood`` are
    predictions on other data by name. ``severities`` are metrics by the severity of corruption, 0
    for the same rows uncorrupted, and ``cells`` by its kind and severity. ``calibrated`` are
    predictions after a calibrator, ``sets`` its prediction sets ``[rows, classes]`` (bool) or
    intervals, and ``levels`` its nominal coverage. ``corruptions`` says in words what was
    corrupted; ``notes`` are sentences for the reader, such as what a calibrator warned of.
    """

    values: dict[str, float] = field(default_factory=dict)
    ood: dict[str, Prediction] = field(default_factory=dict)
    severities: dict[int, dict[str, float]] = field(default_factory=dict)
    cells: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    calibrated: dict[str, Prediction] = field(default_factory=dict)
    sets: dict[str, Any] = field(default_factory=dict)
    corruptions: str = ""
    notes: tuple[str, ...] = ()
    levels: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """Where a comparison comes from: what the page says of its data and of the command.

    ``date`` is when the runs ended, ``version`` that of credax and ``command`` the command line.
    ``rows`` counts the rows by split and ``classes`` by split and class name. ``feature_names`` and
    ``target_names`` are the names of columns. ``decisions`` are what became of every column of the
    user's table or of the user's pictures: name, kind, what it became, note. What is empty is not
    shown.
    """

    date: str = ""
    version: str = ""
    command: str = ""
    rows: dict[str, int] = field(default_factory=dict)
    classes: dict[str, dict[str, int]] = field(default_factory=dict)
    feature_names: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()
    decisions: tuple[tuple[str, str, str, str], ...] = ()


class Maps(NamedTuple):
    """Some pictures, their targets and what is predicted at every pixel, to be drawn."""

    rows: np.ndarray
    """Their numbers among the test pictures."""
    errors: np.ndarray
    """Share of wrong pixels, or mean absolute error, of each."""
    x: np.ndarray
    y: np.ndarray
    counted: np.ndarray
    predicted: np.ndarray
    """The label, or the mean."""
    aleatoric: np.ndarray
    epistemic: np.ndarray
    classes: bool


@dataclass(frozen=True)
class Result:
    """One method trained from one seed, and its predictions on the test data.

    ``metrics`` are numbers by name, as `credax.metrics.evaluate` returns them. ``prediction`` and
    ``y`` (the test labels) are needed for the figures only. ``history`` holds one dictionary per
    epoch, as in ``metrics.jsonl``: ``epoch``, ``loss``, and where known ``member_loss`` (a list)
    and ``validation_nll``. ``cost`` may hold ``members``, ``parameters`` (of one member),
    ``epochs``, ``training_seconds``, ``compile_seconds``, ``peak_memory_bytes``, ``network``, and
    anything else worth a column. ``notes`` are sentences for the reader. ``evaluation`` is what was
    found on other data. ``gradients`` ``[members, rows, height, width, channels]`` are the members'
    input gradients at the first test images. ``diagnostics`` are what the posterior says of itself,
    such as R-hat and traces of chains.
    """

    method: str
    seed: int
    metrics: dict[str, float]
    prediction: Prediction | None = None
    y: np.ndarray | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    cost: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    evaluation: EvaluationResult = field(default_factory=EvaluationResult)
    gradients: np.ndarray | None = None
    diagnostics: dict[str, Any] = field(default_factory=dict)
    maps: Maps | None = None
    """Pictures with a prediction at every pixel, where ``prediction`` is of a sample of pixels."""

    def __post_init__(self):
        if (self.prediction is None) != (self.y is None):
            raise InputError(
                f"result {self.method!r}, seed {self.seed}, has only one of prediction and y; "
                "give both or neither"
            )
        if self.prediction is not None and self.y is not None:
            rows = _rows(self.prediction)
            if rows != len(self.y):
                raise InputError(
                    f"result {self.method!r}, seed {self.seed}, predicts {rows} rows and y has "
                    f"{len(self.y)}; give one label per row"
                )

    @property
    def is_shown(self) -> bool:
        """Whether there are predicted rows to draw."""
        return self.prediction is not None and _rows(self.prediction) > 0


def title_of(methods: Sequence[str]) -> str:
    """What a comparison of these methods is called.

    >>> title_of(["Single network", "SWAG"]), title_of(["A", "B", "C"])
    ('Single network against SWAG', 'A, B and C')
    """
    if len(methods) < 3:
        return " against ".join(methods)
    title = f"{', '.join(methods[:-1])} and {methods[-1]}"
    return title if len(title) <= LONGEST_TITLE else f"{len(methods)} methods"


@dataclass(frozen=True)
class Comparison:
    """Methods, each trained from one or more seeds, on the same data.

    ``data`` is the data set's name; ``inputs`` are its raw test inputs, row by row with ``y``:
    images ``[rows, height, width, channels]`` and inputs of one number are drawn, and rows of
    several numbers listed where the prediction is least certain. ``facts`` is where it comes from.
    """

    title: str
    data: str
    task: Task
    results: list[Result]
    class_names: tuple[str, ...] = ()
    inputs: np.ndarray | None = None
    facts: Facts = field(default_factory=Facts)

    def __post_init__(self):
        if self.task not in get_args(Task):
            raise InputError(f"task is {self.task!r}; give 'classification' or 'regression'")
        if not self.results:
            raise InputError("results is empty; a comparison needs at least one result")
        kind = ClassPrediction if self.task == "classification" else RegressionPrediction
        seen = set()
        for result in self.results:
            if (result.method, result.seed) in seen:
                raise InputError(
                    f"results holds method {result.method!r} with seed {result.seed} twice; give "
                    "each pair once, and variants of a method different names or settings"
                )
            seen.add((result.method, result.seed))
            if not isinstance(result.prediction, kind | None):
                raise InputError(
                    f"result {result.method!r} holds a {type(result.prediction).__name__}; "
                    f"{self.task} needs a {_EXAMPLES[self.task]}"
                )

    @property
    def kind(self) -> str:
        """The task in words: where there are maps, segmentation or pixel-regression."""
        if not any(result.maps for result in self.results):
            return self.task
        return "segmentation" if self.task == "classification" else "pixel-regression"

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods' names in the order in which they first appear."""
        return tuple(dict.fromkeys(result.method for result in self.results))

    def of(self, method: str) -> list[Result]:
        """The results of one method, one per seed."""
        return [result for result in self.results if result.method == method]

    def shown(self, method: str) -> list[Result]:
        """The results of one method whose predictions are there to be drawn."""
        return [result for result in self.of(method) if result.is_shown]

    def class_name(self, index: int) -> str:
        """The name of a class, its number where it has none."""
        return self.class_names[index] if index < len(self.class_names) else str(index)

    def inputs_for(self, result: Result) -> np.ndarray | None:
        """The test inputs of a result, or None where they are absent or of another length."""
        if self.inputs is None or result.y is None or len(self.inputs) != len(result.y):
            return None
        return self.inputs


def _rows(prediction: Prediction) -> int:
    if isinstance(prediction, ClassPrediction):
        return prediction.log_probs.shape[1]
    return prediction.means.shape[1]
