"""Tasks of Gaussian processes of any kernel, and the named sets of `credax.data`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from credax.data.dataset import Dataset
from credax.data.task_sets import constant as constant_tasks
from credax.data.task_sets import linear as linear_tasks
from credax.data.task_sets import picture_tasks as picture_tasks
from credax.data.task_sets import process_tasks
from credax.functions.kernels import as_kernel, named_kernel, to_data
from credax.functions.kernels.base import Kernel

__all__ = ["constant_tasks", "gp_tasks", "linear_tasks", "picture_tasks"]


def gp_tasks(
    kernel: str | Kernel | Any,
    *,
    noise: float,
    seed: int = 0,
    train: int = 16384,
    test: int = 512,
    points: int = 40,
    span: float = 2.0,
) -> Dataset:
    """Functions of a Gaussian process with one input, ``x`` uniform in [-span, span].

    ``noise`` is the standard deviation of the observations. The process itself is the best
    predictor: results are measured against it.

    >>> from credax.functions.kernels import RBF
    >>> len(gp_tasks(RBF(0.5), noise=0.1, train=3, test=2, points=5).train)
    3
    """
    record = named_kernel(kernel, 1, False) if isinstance(kernel, str) else as_kernel(kernel)
    record.check(1)
    with jax.enable_x64(True):
        # A kernel is an argument: one program serves all blocks.
        program = jax.jit(jax.vmap(lambda k, a, b: k(a, b), in_axes=(None, 0, 0)))
        whole = jax.tree.map(jnp.asarray, record)

    def covariance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(program(whole, jnp.asarray(a), jnp.asarray(b)))

    data = to_data(record)
    words = f"Gaussian process, kernel {_words(data)}"
    sizes = {"seed": seed, "train": train, "test": test, "points": points}
    return process_tasks("gp-tasks", covariance, data, words, **sizes, noise=noise, span=span)


def _words(data: dict[str, Any]) -> str:
    """A kernel in words, with the logarithms of its numbers undone."""
    if "first" in data:
        sign = " + " if data["name"] == "sum" else " * "
        return sign.join(_words(data[part]) for part in ("first", "second"))
    numbers = [
        f"{name.removeprefix('log_')} {np.exp(np.asarray(value)).round(4).tolist()}"
        for name, value in data.items()
        if name.startswith("log_")
    ]
    return f"{data['name']} ({', '.join(numbers)})"
