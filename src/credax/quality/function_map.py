"""Networks as points of a plane, near each other when they say the same: members and trajectories.

The picture of Fort et al. 2019 (Deep ensembles: a loss landscape perspective), as data.
"""

from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from credax.errors import InputError, MissingExtra, unknown
from credax.network import Variables
from credax.problem import Problem


@dataclass(frozen=True)
class FunctionMap:
    """Coordinates ``[..., 2]`` in the shape of what was given; for PCA the ``explained`` shares."""

    coordinates: Float[np.ndarray, "... two"]
    explained: tuple[float, ...] = ()


def picture(
    outputs: Float[np.ndarray, "... inputs classes"],
    *,
    method: Literal["pca", "tsne"] = "pca",
    perplexity: float = 30.0,
    seed: int = 0,
) -> FunctionMap:
    """Points in the plane from what networks say of the same inputs.

    ``outputs`` are probabilities or other outputs, ``[members, inputs, classes]`` or, along
    training, ``[times, members, inputs, classes]`` (`PredictionRecorder`). ``pca`` keeps the two
    directions of largest variance over all points, linear and reproducible, each axis turned so
    that its largest entry is positive; ``tsne`` keeps neighbours (van der Maaten and Hinton 2008;
    needs scikit-learn), and its distances between clusters mean nothing. Cost: one matrix product,
    ``points² inputs classes``.

    >>> outputs = np.zeros((3, 1, 2))
    >>> outputs[1:, 0] = [[3.0, 0.0], [0.0, 4.0]]
    >>> picture(outputs).coordinates.shape
    (3, 2)
    """
    outputs = np.asarray(outputs, np.float64)
    if outputs.ndim < 3:
        raise InputError(f"outputs has shape {outputs.shape}; give [..., inputs, classes]")
    shape = outputs.shape[:-2]
    points = outputs.reshape(-1, outputs.shape[-2] * outputs.shape[-1])
    if len(points) < 3:
        raise InputError(f"outputs has {len(points)} networks; a picture needs at least three")
    if method == "pca":
        coordinates, explained = _principal(points)
        return FunctionMap(coordinates.reshape(*shape, 2), explained)
    if method != "tsne":
        raise unknown("method", method, ["pca", "tsne"])
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        raise MissingExtra("scikit-learn", "sklearn", "method='tsne'") from None
    perplexity = min(perplexity, (len(points) - 1) / 3)
    model = TSNE(2, perplexity=perplexity, init="pca", random_state=seed)
    return FunctionMap(np.asarray(model.fit_transform(points)).reshape(*shape, 2))


def _principal(points: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    centred = points - points.mean(0)
    values, vectors = np.linalg.eigh(centred @ centred.T)
    values = np.maximum(values[::-1], 0)
    vectors = vectors[:, ::-1][:, :2]
    largest = np.argmax(np.abs(vectors), axis=0)
    vectors = vectors * np.sign(vectors[largest, np.arange(2)])
    total = values.sum() or 1.0
    return vectors * np.sqrt(values[:2]), (float(values[0] / total), float(values[1] / total))


class PredictionRecorder:
    """An observer of `credax.fit`: what the members say of a few inputs, ``every`` so many steps.

    ``x`` are raw inputs; ``problem`` must know the data's units (``problem.with_units(...)``) if
    the data has any. `outputs` is ``[times, members, inputs, classes]``, for `picture`.
    """

    def __init__(self, problem: Problem, x: np.ndarray, every: int):
        if every < 1:
            raise InputError(f"every is {every}; give a number of steps, at least 1")
        self.every = every
        self.problem = problem
        self.x = np.asarray(x)
        self.steps: list[int] = []
        self._outputs: list[np.ndarray] = []

    def __call__(self, step: int, members: Variables) -> None:
        """Predict and keep."""
        self.steps.append(step)
        self._outputs.append(np.asarray(_means(self.problem, members, self.x)))

    @property
    def outputs(self) -> Float[np.ndarray, "times members inputs classes"]:
        """What was said so far."""
        return np.stack(self._outputs)


@eqx.filter_jit
def _means(problem: Problem, members: Variables, x) -> Any:
    prepared = problem.prepare_inputs(x)
    outputs = jax.vmap(lambda v: problem.outputs(v, prepared)[0])(members)
    prediction = problem.predict(outputs)
    return getattr(prediction, "means", prediction.members)
