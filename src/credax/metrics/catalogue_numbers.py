"""The metrics of real-valued predictions and of depths, in the order of tables."""

from functools import partial
from math import inf

from credax.metrics import depth, quantiles, ranked_probability, regression, sparsification
from credax.metrics.metric import Metric

_POSITIVE = (0.0, inf)
_ENTRIES = "over rows and targets"


def _number(task, name, label, function, better, unit, estimator, description, **more) -> Metric:
    bounds = more.pop("bounds", _POSITIVE)
    return Metric(name, label, function, task, better, unit, bounds, estimator, description, **more)


_of_numbers = partial(_number, "regression")
_of_depths = partial(_number, "depth")
_VALID = "over entries with y > 0"

ERRORS = (
    _of_numbers(
        "rmse",
        "RMSE",
        regression.rmse,
        False,
        "unit of y",
        f"of the mixture's mean, {_ENTRIES}",
        "root mean squared error",
        headline=True,
    ),
    _of_numbers(
        "mse",
        "MSE",
        regression.mse,
        False,
        "squared unit of y",
        f"of the mixture's mean, {_ENTRIES}",
        "mean squared error",
    ),
    _of_numbers(
        "mae",
        "MAE",
        regression.mae,
        False,
        "unit of y",
        f"of the mixture's mean, {_ENTRIES}",
        "mean absolute error",
    ),
    _of_numbers(
        "r2",
        "R²",
        regression.r2,
        True,
        "share",
        "of the mixture's mean, mean over targets; NaN for a constant target",
        "share of the targets' variance that the mean explains",
        bounds=(-inf, 1.0),
    ),
)

DENSITIES = (
    _of_numbers(
        "moment_matched_nll",
        "Moment-matched NLL",
        regression.moment_matched_nll,
        False,
        "nats",
        "one Gaussian with the mixture's mean and variance, mean over rows",
        "negative log-likelihood after replacing the mixture by one Gaussian",
        bounds=(-inf, inf),
        headline=True,
    ),
    _of_numbers(
        "crps",
        "CRPS",
        ranked_probability.crps,
        False,
        "unit of y",
        f"exact mixture, {_ENTRIES}",
        "distance between the predicted distribution and the target",
        headline=True,
    ),
    *(
        _of_numbers(
            f"pinball_{round(100 * level):02d}",
            f"Pinball loss at {level:g}",
            quantiles.pinball.having(level=level),
            False,
            "unit of y",
            f"quantile of the mixture, {_ENTRIES}",
            f"loss of the {level:g} quantile",
        )
        for level in (0.05, 0.5, 0.95)
    ),
    *(
        _of_numbers(
            f"coverage_{round(100 * level)}",
            f"{round(100 * level)} % coverage",
            quantiles.coverage.having(level=level),
            None,
            "share",
            f"central {round(100 * level)} % interval of the mixture, {_ENTRIES}",
            f"share of targets inside the interval that should hold {round(100 * level)} % of them",
            bounds=(0.0, 1.0),
            target=level,
            headline=level == 0.9,
        )
        for level in (0.9, 0.5, 0.95)
    ),
    _of_numbers(
        "width_90",
        "90 % width",
        quantiles.width.having(level=0.9),
        False,
        "unit of y",
        f"central 90 % interval of the mixture, {_ENTRIES}",
        "width of the interval that should hold 90 % of the targets",
    ),
    _of_numbers(
        "interval_score_90",
        "90 % interval score",
        quantiles.interval_score.having(level=0.9),
        False,
        "unit of y",
        f"central 90 % interval of the mixture, {_ENTRIES}",
        "width of the interval plus 20 times the distance of what it misses",
    ),
    *(
        _of_numbers(
            "quantile_calibration_error" + ("" if norm == "l1" else f"_{norm}"),
            f"Quantile calibration error{label}",
            quantiles.quantile_calibration_error.having(norm=norm),
            False,
            "share",
            f"central intervals at {len(quantiles.LEVELS)} levels from 0.05 to 0.95, {words}",
            "gap between the coverage of intervals and their level",
            bounds=(0.0, 1.0),
        )
        for norm, label, words in (
            ("l1", "", "mean"),
            ("l2", " (root mean square)", "root mean square"),
            ("max", " (largest)", "largest"),
        )
    ),
    _of_numbers(
        "pit_distance",
        "PIT distance",
        quantiles.pit_distance,
        False,
        "share",
        f"Kolmogorov-Smirnov distance to the uniform distribution, {_ENTRIES}",
        "how far the targets' quantiles are from being uniform",
        bounds=(0.0, 1.0),
    ),
    _of_numbers(
        "ence",
        "ENCE",
        sparsification.ence,
        False,
        "share",
        f"{sparsification.ENCE_BINS} bins of equal mass by predicted variance",
        "gap between the error and the predicted spread, as a share of the spread",
    ),
    _of_numbers(
        "ause",
        "AUSE",
        sparsification.ause,
        False,
        "share of the mean error",
        "absolute error, by the mixture's variance, trapezoids",
        "what the order of predicted spreads costs when the least sure are left out",
    ),
    _of_numbers(
        "ause_squared",
        "AUSE (squared error)",
        sparsification.ause.having(error="squared"),
        False,
        "share of the mean error",
        "squared error, by the mixture's variance, trapezoids",
        "AUSE of the squared error",
    ),
    *(
        _of_numbers(
            f"{part}_variance",
            f"{part.capitalize()} variance",
            regression.mean_variance.having(part=part),
            None,
            "squared unit of y",
            f"of the mixture, mean {_ENTRIES}",
            words,
        )
        for part, words in (
            ("total", "total uncertainty"),
            ("aleatoric", "noise that the members see in the data"),
            ("epistemic", "variance of the members' means"),
        )
    ),
)

DEPTHS = (
    _of_depths(
        "silog",
        "SILog",
        depth.silog,
        False,
        "squared log",
        f"λ = 1, {_VALID}",
        "variance of the log ratio of prediction and target",
    ),
    _of_depths(
        "log10_error",
        "log10",
        depth.log10_error,
        False,
        "decades",
        _VALID,
        "absolute error of the decimal logarithm",
    ),
    _of_depths(
        "absolute_relative_error",
        "ARE",
        depth.absolute_relative_error,
        False,
        "share of y",
        _VALID,
        "absolute error as a share of the target",
    ),
    _of_depths(
        "squared_relative_error",
        "SRE",
        depth.squared_relative_error,
        False,
        "unit of y",
        _VALID,
        "squared error divided by the target",
    ),
    _of_depths(
        "root_squared_relative_error",
        "RSRE",
        depth.squared_relative_error.having(root=True),
        False,
        "root of the unit of y",
        _VALID,
        "root of the squared relative error",
    ),
    _of_depths(
        "rmse_log",
        "RMSE of logs",
        depth.rmse_log,
        False,
        "log",
        _VALID,
        "root mean squared error of the logarithm",
    ),
    _of_depths(
        "inverse_mae",
        "iMAE",
        depth.inverse_mae,
        False,
        "1/km",
        f"{_VALID} in metres",
        "absolute error of the inverse",
    ),
    _of_depths(
        "inverse_rmse",
        "iRMSE",
        depth.inverse_rmse,
        False,
        "1/km",
        f"{_VALID} in metres",
        "root mean squared error of the inverse",
    ),
    *(
        _of_depths(
            f"threshold_accuracy_{power}",
            f"δ{power}",
            depth.threshold_accuracy.having(power=power),
            True,
            "share",
            f"ratio below 1.25^{power}, {_VALID}",
            f"share of predictions within a factor of {1.25**power:g}",
            bounds=(0.0, 1.0),
        )
        for power in (1, 2, 3)
    ),
)
