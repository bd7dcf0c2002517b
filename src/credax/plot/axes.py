"""What all figures share: an Axes to draw into, and checks of what is drawn."""

from typing import Any

from credax.errors import InputError, MissingExtra
from credax.prediction import ClassPrediction


def matplotlib() -> Any:
    """The package, or an error that names its extra."""
    try:
        import matplotlib
        import matplotlib.figure
        import matplotlib.lines
    except ImportError as error:
        raise MissingExtra("matplotlib", "plot", "credax.plot") from error
    return matplotlib


def axes(ax: Any = None) -> Any:
    """The given Axes, or matplotlib's current one."""
    matplotlib()
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.gca()


def require_classes(prediction: Any, figure: str) -> None:
    """Refuse a prediction that is not of classes."""
    if not isinstance(prediction, ClassPrediction):
        raise InputError(
            f"prediction is a {type(prediction).__name__}; {figure} is of classes: for numbers see "
            "credax.plot.interval_calibration and predictive_band"
        )


def require_numbers(prediction: Any, figure: str) -> None:
    """Refuse a prediction of classes."""
    if isinstance(prediction, ClassPrediction):
        raise InputError(
            f"prediction is a ClassPrediction; {figure} is of numbers: for classes see "
            "credax.plot.reliability"
        )
