"""Data sets of tasks by name: functions of known processes, and pictures to complete.

Training takes a large fixed number of tasks; which points are context is drawn anew at every step.
"""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from credax.data import digits, mnist
from credax.data.dataset import Dataset, Split
from credax.data.holdout import checked_seed
from credax.data.source import Source
from credax.data.task_form import TaskForm
from credax.data.tasks import Tasks, task_dataset
from credax.errors import InputError

Covariance = Callable[[np.ndarray, np.ndarray], np.ndarray]
_BLOCK = 1024


def draw_functions(
    covariance: Covariance, rng: np.random.Generator, x: np.ndarray, noise: float
) -> np.ndarray:
    """Values ``[tasks, points]`` of a Gaussian process with noise of a variance, in float64."""
    found = np.empty(x.shape[:2])
    for start in range(0, len(x), _BLOCK):
        block = x[start : start + _BLOCK].astype(np.float64)
        matrix = covariance(block, block)
        # Without noise a smooth kernel's matrix is singular in float64.
        matrix = matrix + max(noise, 1e-10) * np.eye(x.shape[1])
        normal = rng.standard_normal((len(block), x.shape[1], 1))
        found[start : start + _BLOCK] = (np.linalg.cholesky(matrix) @ normal)[..., 0]
    return found


def process_tasks(
    name: str,
    covariance: Covariance,
    kernel: dict[str, Any],
    words: str,
    *,
    seed: int,
    train: int,
    test: int,
    points: int,
    noise: float,
    span: float,
) -> Dataset:
    """Tasks of a Gaussian process: ``x`` uniform in [-span, span], noise a standard deviation."""
    for option, value in (("train", train), ("test", test), ("points", points)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise InputError(f"{option} is {value!r}; give a whole number from 1")
    for option, value in (("noise", noise), ("span", span)):
        if not (math.isfinite(value) and value >= 0) or (option == "span" and value == 0):
            raise InputError(f"{option} is {value!r}; give a positive number (noise may be 0)")
    parts = []
    for rng, count in zip(
        np.random.default_rng(checked_seed("seed", seed)).spawn(2), (train, test), strict=True
    ):
        x = rng.uniform(-span, span, (count, points, 1)).astype(np.float32)
        y = draw_functions(covariance, rng, x, noise**2)
        parts.append(Tasks(x, y, np.ones(y.shape, bool)))
    text = (
        f"{words}, noise of deviation {noise:g}, {points} points uniform in [{-span:g}, {span:g}]"
    )
    form = TaskForm(text, ("x",), kernel, noise**2)
    return task_dataset(name, *parts, form=form, standardise=False, target_names=("y",))


def _distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.abs(a[..., :, None, 0] - b[..., None, :, 0])


def gp_rbf(
    *,
    seed: int = 0,
    train: int = 16384,
    test: int = 512,
    points: int = 40,
    noise: float = 0.1,
    lengthscale: float = 0.5,
    span: float = 2.0,
) -> Dataset:
    """Functions of a Gaussian process with ``k(r) = exp(-r² / 2 l²)``."""
    kernel = {"name": "rbf", "log_lengthscale": _log("lengthscale", lengthscale)}
    return process_tasks(
        "tasks/gp-rbf",
        lambda a, b: np.exp(-0.5 * (_distance(a, b) / lengthscale) ** 2),
        {**kernel, "log_variance": 0.0},
        f"Gaussian process, RBF kernel of length {lengthscale:g} and variance 1",
        **_sizes(locals()),
    )


def gp_matern(
    *,
    seed: int = 0,
    train: int = 16384,
    test: int = 512,
    points: int = 40,
    noise: float = 0.1,
    lengthscale: float = 0.5,
    span: float = 2.0,
) -> Dataset:
    """Functions of a Gaussian process with ``k(r) = (1 + √3 r/l) exp(-√3 r/l)``."""
    kernel = {"name": "matern32", "log_lengthscale": _log("lengthscale", lengthscale)}

    def covariance(a, b):
        r = np.sqrt(3) * _distance(a, b) / lengthscale
        return (1 + r) * np.exp(-r)

    words = f"Gaussian process, Matern 3/2 kernel of length {lengthscale:g} and variance 1"
    kernel = {**kernel, "log_variance": 0.0}
    return process_tasks("tasks/gp-matern", covariance, kernel, words, **_sizes(locals()))


def gp_periodic(
    *,
    seed: int = 0,
    train: int = 16384,
    test: int = 512,
    points: int = 40,
    noise: float = 0.1,
    lengthscale: float = 1.0,
    period: float = 1.0,
    span: float = 2.0,
) -> Dataset:
    """Functions of a Gaussian process with ``k(r) = exp(-2 sin²(π r/p) / l²)``."""
    kernel = {"name": "periodic", "log_lengthscale": _log("lengthscale", lengthscale)}
    kernel = {**kernel, "log_period": _log("period", period), "log_variance": 0.0}

    def covariance(a, b):
        return np.exp(-2 * (np.sin(np.pi * _distance(a, b) / period) / lengthscale) ** 2)

    words = f"Gaussian process, periodic kernel of length {lengthscale:g}, period {period:g}"
    return process_tasks("tasks/gp-periodic", covariance, kernel, words, **_sizes(locals()))


def linear(
    *,
    seed: int = 0,
    train: int = 16384,
    test: int = 512,
    points: int = 40,
    noise: float = 0.1,
    span: float = 2.0,
) -> Dataset:
    """Straight lines ``a + b x`` with ``a, b ~ N(0, 1)``."""
    kernel = {"name": "linear", "log_variance": 0.0, "log_bias": 0.0}
    words = "straight lines of standard normal slope and level"
    return process_tasks(
        "tasks/linear",
        lambda a, b: 1 + a[..., :, None, 0] * b[..., None, :, 0],
        kernel,
        words,
        **_sizes(locals()),
    )


def constant(
    *,
    seed: int = 0,
    train: int = 16384,
    test: int = 512,
    points: int = 40,
    noise: float = 1.0,
    span: float = 2.0,
) -> Dataset:
    """Constants ``θ ~ N(0, 1)``: after ``n`` points the variance is ``1 / (1 + n / noise²)``."""
    kernel = {"name": "constant", "log_variance": 0.0}
    return process_tasks(
        "tasks/constant",
        lambda a, b: np.ones((len(a), a.shape[1], b.shape[1])),
        kernel,
        "constants of a standard normal level",
        **_sizes(locals()),
    )


def _sizes(given: dict[str, Any]) -> dict[str, Any]:
    names = ("seed", "train", "test", "points", "noise", "span")
    return {name: given[name] for name in names}


def _log(name: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{name} is {value!r}; give a positive number")
    return math.log(value)


def picture_tasks(dataset: Dataset, name: str, size: int | None = None) -> Dataset:
    """Completion of pictures: a task is a picture, a point a pixel, its value the intensity.

    Inputs are the row and column in [-1, 1], values intensities in [0, 1]. ``size`` averages
    squares of pixels down to so many a side.
    """
    parts = [_pixels(part, size) for part in (dataset.train, dataset.test)]
    top = max(float(one.max()) for one, _ in parts)
    tasks = []
    for pixels, grid in parts:
        y = pixels.reshape(len(pixels), -1) / top
        x = np.broadcast_to(grid, (len(y), *grid.shape))
        tasks.append(Tasks(x, y, np.ones(y.shape, bool)))
    side = parts[0][0].shape[1:3]
    words = f"pictures of {dataset.name}, {side[0]} by {side[1]} pixels of intensity 0 to 1"
    form = TaskForm(words, ("row", "column"), picture=(side[0], side[1]))
    return task_dataset(name, *tasks, form=form, standardise=False, target_names=("intensity",))


def _pixels(split: Split, size: int | None) -> tuple[np.ndarray, np.ndarray]:
    pixels = np.asarray(split.x, np.float32)[..., 0]
    side = pixels.shape[1]
    wanted: int = side if size is None else size
    if wanted < 2 or side % wanted:
        raise InputError(f"size is {size}; give a divisor of {side} from 2, such as {side // 2}")
    k = side // wanted
    pixels = pixels.reshape(len(pixels), wanted, k, wanted, k).mean(axis=(2, 4))
    axis = np.linspace(-1, 1, wanted, dtype=np.float32)
    return pixels, np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)


def _digits() -> Dataset:
    return picture_tasks(digits.read(), "tasks/digits")


def _published(source: Source, place: Path, *, size: int = 14) -> Dataset:
    return picture_tasks(source.read(place), f"tasks/{source.name}", size)


def _pictures(source: Source) -> Source:
    words = f"pictures of {source.name} to complete, from some of their pixels"
    read = partial(_published, source)
    name, rest = f"tasks/{source.name}", (source.find, source.remedy, source.downloads)
    return Source(name, words, "regression", (196, 2), read, *rest)


_MADE = {
    "gp-rbf": (gp_rbf, "functions of a Gaussian process, RBF kernel"),
    "gp-matern": (gp_matern, "functions of a Gaussian process, Matern 3/2 kernel"),
    "gp-periodic": (gp_periodic, "functions of a Gaussian process, periodic kernel"),
    "linear": (linear, "straight lines"),
    "constant": (constant, "constants with noise"),
}
SOURCES = (
    *(Source(f"tasks/{n}", words, "regression", (40, 1), f) for n, (f, words) in _MADE.items()),
    Source(
        "tasks/digits",
        "digits of 8 by 8 pixels to complete, from some of their pixels",
        "regression",
        (64, 2),
        _digits,
        requires="sklearn",
    ),
    *(_pictures(s) for s in mnist.SOURCES if s.name in ("mnist", "fashion-mnist")),
)
