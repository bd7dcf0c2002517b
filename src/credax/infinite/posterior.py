"""The infinite ensemble as a posterior: exact marginals of infinitely wide trained networks."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from credax.errors import DamagedFile, InputError
from credax.exporting import export
from credax.files import load_arrays, save_tree
from credax.infinite.dynamics import EnsembleDynamics
from credax.infinite.kernel import variances
from credax.network import Variables
from credax.posterior import INDICES, check_rows, is_traced
from credax.prediction import Prediction, concatenate
from credax.problem import Problem
from credax.reading import check_record
from credax.reading.records import OBJECT
from credax.standardise import check_units

ROWS = 512


@dataclasses.dataclass(frozen=True)
class InfinitePosterior:
    """Infinitely wide networks at a time of their training on the squared error.

    A member's outputs at a point are ``mean(x) + √variance(x) noise[member]``: their distribution
    at each point is exact, and so is every metric of single points; between points a member is
    smoother than a true one (for joint draws use ``dynamics.sample``). Classes are trained as
    centred one-hot targets; the factor from outputs to logits, or the noise level of a regression,
    is the best by leave-one-out on the training rows.
    """

    problem: Problem
    dynamics: EnsembleDynamics
    time: float
    noise: Float[np.ndarray, "members outputs"]
    indices: tuple[int, ...]
    x: np.ndarray
    """Raw training inputs."""
    scale: float
    """Factor from outputs to logits, or the noise's standard deviation in standard units."""
    learned: np.ndarray
    """``ψ(Θ)``, which gives a point's weights on the training rows."""

    @property
    def variables(self) -> Variables:
        """What tells members apart: their noise. There are no finite parameters."""
        return Variables({"noise": self.noise}, {})

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one row of raw inputs."""
        return self.x.shape[1:]

    @property
    def input_dtype(self) -> str:
        """Type of raw inputs."""
        return str(self.x.dtype)

    @property
    def num_members(self) -> int:
        """How many members are drawn."""
        return len(self.indices)

    @property
    def diagnostics(self) -> dict[str, Any]:
        """Rank and condition of the training kernel, and what leave-one-out chose."""
        return {
            "rank": self.dynamics.rank,
            "condition": self.dynamics.condition,
            "leave_one_out_scale": self.scale,
        }

    def take(self, positions) -> "InfinitePosterior":
        """Some members, by position."""
        rows = np.atleast_1d(np.asarray(positions))
        indices = tuple(self.indices[i] for i in rows)
        return dataclasses.replace(self, noise=self.noise[rows], indices=indices)

    def member(self, index: int) -> "InfinitePosterior":
        """One member, by its number."""
        if index not in self.indices:
            raise InputError(f"member is {index}; this posterior has {list(self.indices)}")
        return self.take([self.indices.index(index)])

    def moments(
        self, x
    ) -> tuple[Float[np.ndarray, "points outputs"], Float[np.ndarray, " points"]]:
        """Mean and variance of the outputs at raw inputs; the variance is the same for all."""
        points = prepared(self.problem, x)
        nngp, ntk = self.dynamics.kernel.kernels(points, self.dynamics.x)
        weights = (ntk if self.dynamics.train == "all" else nngp) @ self.learned
        middle = self.dynamics.nngp
        if self.dynamics.train == "last_layer":
            middle = middle + self.dynamics.ridge * np.eye(len(middle))
        own = variances(self.dynamics.kernel, points)
        change = np.sum((weights @ middle - 2 * nngp) * weights, axis=1)
        return weights @ self.dynamics.y, np.maximum(own + change, 0.0)

    def predict(self, x, *, key=None, batch_size: int | None = None) -> Prediction:
        """The mixture of the members for raw inputs ``[batch, ...]``; no ``key`` is needed."""
        if is_traced(x, self.x.shape[1:]):
            return self.predict_fn()(x)
        x = check_rows(x, self.x.shape[1:])
        size = ROWS if batch_size is None else batch_size
        if size < 1:
            raise InputError(f"batch_size is {batch_size}; it must be at least 1")
        return concatenate([self._predict(x[i : i + size]) for i in range(0, len(x), size)])

    def predict_fn(self) -> Callable[[Array], Prediction]:
        """Always an error: the kernels are computed in float64 outside compiled programs."""
        raise InputError(
            "this posterior has no compiled predict_fn: the kernels of infinite width are computed "
            "in float64 by numpy; use predict, or export a trained ensemble"
        )

    def _predict(self, x: np.ndarray) -> Prediction:
        mean, variance = self.moments(x)
        outputs = mean + np.sqrt(variance)[:, None] * self.noise[:, None].astype(np.float64)
        outputs = self.problem.likelihood.from_regressed(outputs, self.scale)
        return self.problem.predict(jax.numpy.asarray(outputs.astype(np.float32)))

    def export(self, path: str | Path, **options: Any) -> Path:
        """Always an error, as `predict_fn`."""
        return export(self, path, **options)

    def sample(self, key: Key[Array, ""], n: int) -> Variables:
        """The noise of ``n`` new members."""
        return Variables({"noise": jax.random.normal(key, (n, self.noise.shape[1]))}, {})

    def save(self, path: str | Path) -> None:
        """Keep the training rows and the members' noise; the kernels are computed again."""
        units = {"inputs": self.problem.inputs, "targets": self.problem.targets}
        metadata = {
            "kind": "infinite",
            "members": list(self.indices),
            "units": {name: unit and unit.to_lists() for name, unit in units.items()},
        }
        save_tree(path, {"x": self.x, "y": self.dynamics.y, "noise": self.noise}, metadata)


def load_infinite(path: str | Path, problem: Problem, build: Any) -> InfinitePosterior:
    """Read what `InfinitePosterior.save` wrote; ``build`` makes the posterior of its rows."""
    arrays, metadata = load_arrays(path)
    if metadata.get("kind") != "infinite":
        raise InputError(
            f"{path} does not hold an infinite posterior; it holds {metadata.get('kind')!r}"
        )
    check_record(metadata, {"members": INDICES, "units": OBJECT}, path, extra=True)
    check_arrays(arrays, len(metadata["members"]), path)
    check_units(metadata["units"], arrays["x"].shape[1:], path)
    problem = problem.with_stored_units(**metadata["units"])
    return build(problem, arrays["x"], arrays["y"], arrays["noise"], tuple(metadata["members"]))


def check_arrays(arrays: dict[str, np.ndarray], members: int, path: str | Path) -> None:
    """Refuse arrays of a file that are not the rows and the noise of so many members."""
    if arrays.keys() != {"x", "y", "noise"}:
        raise DamagedFile(f"{path} holds {', '.join(sorted(arrays))}, not x, y and noise")
    x, y, noise = arrays["x"], arrays["y"], arrays["noise"]
    rows = x.ndim >= 2 and y.ndim == 2 and len(x) == len(y) > 0
    if not rows or noise.shape != (members, y.shape[1]) or not y.size or y.dtype.kind != "f":
        raise DamagedFile(
            f"{path} holds x of shape {x.shape}, y {y.shape} and noise {noise.shape} for {members} "
            "members, which do not fit; restore it from a copy"
        )


def prepared(problem: Problem, x: np.ndarray) -> Float[np.ndarray, "rows features"]:
    """Raw inputs in standard units, flattened, in float64."""
    rows = np.asarray(problem.prepare_inputs(np.asarray(x)), np.float64)
    return rows.reshape(len(rows), -1)


def targets_of(problem: Problem, y: np.ndarray, outputs: int) -> Float[np.ndarray, "rows outputs"]:
    """What is regressed on: centred one-hot labels, ±1/2 for two classes, or standard targets."""
    found = problem.likelihood.regressed(y, outputs)
    if found is not None:
        return found
    y = np.asarray(y, np.float64).reshape(len(y), -1)
    if problem.targets is None:
        return y
    return (y - np.asarray(problem.targets.mean)) / np.asarray(problem.targets.scale)


def leave_one_out(dynamics: EnsembleDynamics) -> Float[np.ndarray, "rows outputs"]:
    """The mean at each training row had it been left out, at infinite time."""
    spectrum = dynamics.spectrum
    inverse = spectrum.solver("flow", 1.0, float("inf"))
    weights = spectrum.vectors @ (inverse[:, None] * (spectrum.vectors.T @ dynamics.y))
    diagonal = np.square(spectrum.vectors) @ inverse
    return dynamics.y - weights / np.maximum(diagonal, np.finfo(float).tiny)[:, None]


def chosen_scale(problem: Problem, dynamics: EnsembleDynamics) -> float:
    """The factor from outputs to logits, or the noise, with the best leave-one-out score."""
    return problem.likelihood.best_scale(leave_one_out(dynamics), dynamics.y)
