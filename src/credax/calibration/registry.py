"""Every calibrator by its name on the command line; nothing is imported until it is asked for."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from credax.errors import unknown

Task = Literal["classification", "regression"]
Result = Literal["prediction", "sets", "intervals"]

CLASSES: Task = "classification"
NUMBERS: Task = "regression"


@dataclass(frozen=True)
class Entry:
    """A calibrator's class, what it is for (None is both tasks) and what it gives."""

    record: str
    task: Task | None
    gives: Result
    description: str


REGISTRY = {
    "temperature": Entry(
        "Temperature",
        CLASSES,
        "prediction",
        "one temperature for all probabilities (Guo et al. 2017)",
    ),
    "vector": Entry(
        "Vector", CLASSES, "prediction", "a temperature and a bias for each class (Guo et al. 2017)"
    ),
    "matrix": Entry(
        "Matrix",
        CLASSES,
        "prediction",
        "a full affine map of the centred log-probabilities (Guo et al. 2017)",
    ),
    "dirichlet": Entry(
        "Dirichlet",
        CLASSES,
        "prediction",
        "a penalised affine map of the log-probabilities (Kull et al. 2019)",
    ),
    "histogram": Entry(
        "Histogram",
        CLASSES,
        "prediction",
        "label shares in equal-width bins, class by class (Zadrozny and Elkan 2001)",
    ),
    "isotonic": Entry(
        "Isotonic",
        CLASSES,
        "prediction",
        "the best monotone map of each class's probability (Zadrozny and Elkan 2002)",
    ),
    "bbq": Entry(
        "BBQ",
        CLASSES,
        "prediction",
        "equal-mass binnings averaged by their evidence (Naeini et al. 2015)",
    ),
    "beta": Entry(
        "Beta",
        CLASSES,
        "prediction",
        "three numbers for two classes, contains the identity (Kull et al. 2017)",
    ),
    "platt": Entry(
        "Platt",
        CLASSES,
        "prediction",
        "slope and offset of the log-odds for two classes (Platt 1999)",
    ),
    "variance-scaling": Entry(
        "VarianceScaling",
        NUMBERS,
        "prediction",
        "one factor of the standard deviation, closed form (Laves et al. 2020)",
    ),
    "quantile-recalibration": Entry(
        "QuantileRecalibration",
        NUMBERS,
        "prediction",
        "a monotone map of quantile levels (Kuleshov et al. 2018)",
    ),
    "threshold": Entry(
        "Threshold",
        CLASSES,
        "sets",
        "conformal sets of all classes above one probability, THR or LAC (Sadinle et al. 2019)",
    ),
    "aps": Entry(
        "APS",
        CLASSES,
        "sets",
        "conformal sets that grow with a row's difficulty (Romano et al. 2020)",
    ),
    "raps": Entry(
        "RAPS",
        CLASSES,
        "sets",
        "adaptive conformal sets, far classes penalised (Angelopoulos et al. 2021)",
    ),
    "mondrian": Entry(
        "Mondrian",
        None,
        "sets",
        "conformal sets with coverage within every class or group (Vovk et al. 2005)",
    ),
    "residual": Entry(
        "Residual",
        NUMBERS,
        "intervals",
        "conformal intervals of one width around the mean (Lei et al. 2018)",
    ),
    "normalised": Entry(
        "Normalised",
        NUMBERS,
        "intervals",
        "conformal intervals in units of the predicted standard deviation (Lei et al. 2018)",
    ),
    "cqr": Entry(
        "CQR",
        NUMBERS,
        "intervals",
        "predicted quantiles moved to conformal coverage (Romano et al. 2019)",
    ),
}


def names(task: Task | None = None) -> list[str]:
    """The calibrators, as on the command line; of one task if given."""
    return [name for name, entry in REGISTRY.items() if task is None or entry.task in (None, task)]


def entry(name: str) -> Entry:
    """The facts about a calibrator, by its name."""
    if name not in REGISTRY:
        raise unknown("calibrator", name, REGISTRY)
    return REGISTRY[name]


def get(name: str) -> Any:
    """The record class of a calibrator, by its name on the command line."""
    return getattr(import_module("credax.calibration"), entry(name).record)


def describe(name: str) -> str:
    """One line about a calibrator."""
    return entry(name).description
