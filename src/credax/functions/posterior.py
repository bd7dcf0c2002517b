"""What posteriors over functions share: batches, members, draws of functions, files."""

import abc
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from credax.errors import DamagedFile, InputError
from credax.exporting import export
from credax.files import load_arrays
from credax.network import Variables
from credax.posterior import INDICES, check_rows, in_batches, is_traced
from credax.prediction import GaussianPrediction, Prediction, concatenate
from credax.problem import Problem
from credax.reading import check_record
from credax.reading.records import DTYPE, OBJECT, SHAPE, TEXT
from credax.standardise import check_units

ROWS = 512


@dataclasses.dataclass(frozen=True)
class FunctionPosterior(abc.ABC):
    """Abstract: a posterior over functions, known by its moments at any points.

    Regression with Gaussian noise predicts in closed form, with one member. Otherwise a member's
    outputs at a point are ``mean(x) + root(x) noise[member]``: their distribution at each point is
    exact and does not depend on the batch. Whole functions are drawn by `functions`.
    """

    problem: Problem
    noise: Float[np.ndarray, "members outputs"]
    """What tells members apart."""
    indices: tuple[int, ...]
    input_shape: tuple[int, ...]
    input_dtype: str
    diagnostics: dict[str, Any]
    """What the fit reported about itself: numbers by name."""

    @abc.abstractmethod
    def predict_points(self, points: Float[np.ndarray, "points columns"]) -> Prediction:
        """The prediction at points in standard units."""

    @abc.abstractmethod
    def latent_functions(
        self, key: Any, n: int, points: Float[np.ndarray, "points columns"], **options: Any
    ) -> Float[np.ndarray, "draws points outputs"]:
        """Draws of functions at points in standard units."""

    @abc.abstractmethod
    def save(self, path: str | Path) -> None:
        """Keep it in one safetensors file."""

    @property
    def variables(self) -> Variables:
        """What tells members apart: their noise."""
        return Variables({"noise": self.noise}, {})

    @property
    def num_members(self) -> int:
        """Members of a prediction."""
        return len(self.indices)

    def take(self, positions) -> Any:
        """Some members, by position."""
        rows = np.atleast_1d(np.asarray(positions))
        indices = tuple(self.indices[i] for i in rows)
        return dataclasses.replace(self, noise=self.noise[rows], indices=indices)

    def member(self, index: int) -> Any:
        """One member, by its number."""
        if index not in self.indices:
            raise InputError(f"member is {index}; this posterior has {list(self.indices)}")
        return self.take([self.indices.index(index)])

    def predict(self, x, *, key=None, batch_size: int | None = None) -> Prediction:
        """The prediction for raw inputs ``[batch, ...]``; no ``key`` is needed."""
        if is_traced(x, self.input_shape):
            return self.predict_fn()(x)
        x = check_rows(x, self.input_shape)
        size = ROWS if batch_size is None else batch_size
        if size < 1:
            raise InputError(f"batch_size is {batch_size}; it must be at least 1")

        def one(rows, _):
            return self.predict_points(standard_rows(self.problem, rows))

        return concatenate(in_batches(one, x, size))

    def predict_fn(self) -> Callable[[Array], Prediction]:
        """Always an error: it is solved in float64 outside compiled programs."""
        raise InputError(
            "this posterior has no compiled predict_fn: it is solved in float64 outside compiled "
            "programs; use predict, or export a trained ensemble"
        )

    def export(self, path: str | Path, **options: Any) -> Path:
        """Always an error, as `predict_fn`."""
        return export(self, path, **options)

    def sample(self, key: Key[Array, ""], n: int) -> Variables:
        """The noise of ``n`` new members."""
        return Variables({"noise": jax.random.normal(key, (n, self.noise.shape[1]))}, {})

    def functions(
        self, key: int | Key[Array, ""], n: int, x: Any, **options: Any
    ) -> Float[np.ndarray, "draws points outputs"]:
        """``n`` draws of whole functions at raw inputs, without noise.

        A draw is one function: its value at a point is the same in every batch and call with the
        same key. Values are targets in raw units for regression, and logits for classes.
        ``options`` are those of `credax.functions.gp.ConditionedProcess.functions`.
        """
        x = check_rows(x, self.input_shape)
        drawn = self.latent_functions(key, n, standard_rows(self.problem, x), **options)
        units = self.problem.targets
        if units is None or self.problem.likelihood.task != "regression":
            return drawn
        return drawn * np.atleast_1d(units.scale) + np.atleast_1d(units.mean)

    def closed_form(
        self, mean: np.ndarray, variance: np.ndarray, noise: np.ndarray
    ) -> GaussianPrediction:
        """A Gaussian in raw units from moments in standard ones, ``[points, outputs]``."""
        arrays = (mean, variance + noise, np.broadcast_to(variance, mean.shape))
        prediction = GaussianPrediction(*(jnp.asarray(a[None], jnp.float32) for a in arrays))
        units = self.problem.targets
        if units is None:
            return prediction
        return prediction.in_units(jnp.atleast_1d(units.mean), jnp.atleast_1d(units.scale))

    def from_noise(
        self, mean: Float[np.ndarray, "points outputs"], root: np.ndarray
    ) -> Float[np.ndarray, "members points outputs"]:
        """Latent values of the members: ``mean + root noise``."""
        return mean + np.einsum("pcd,md->mpc", root, self.noise.astype(np.float64))

    def description(self, kind: str) -> dict[str, Any]:
        """What a file says beside its arrays."""
        units = {"inputs": self.problem.inputs, "targets": self.problem.targets}
        return {
            "kind": kind,
            "members": list(self.indices),
            "input_shape": list(self.input_shape),
            "input_dtype": self.input_dtype,
            "units": {name: unit and unit.to_lists() for name, unit in units.items()},
            "diagnostics": self.diagnostics,
        }


FIELDS = {
    "kind": TEXT,
    "members": INDICES,
    "input_shape": SHAPE,
    "input_dtype": DTYPE,
    "units": OBJECT,
    "diagnostics": OBJECT,
}


def read_posterior(
    path: str | Path,
    problem: Problem,
    kind: str,
    fields: dict[str, Any],
    names: tuple[set[str], ...] | None,
) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, Any]]:
    """Arrays and metadata of a file of a kind, and the fields that all posteriors share."""
    arrays, metadata = load_arrays(path)
    if metadata.get("kind") != kind:
        raise InputError(f"{path} does not hold a {kind}; it holds {metadata.get('kind')!r:.40}")
    check_record(metadata, FIELDS | fields, path)
    if names is not None and all(arrays.keys() != one for one in names):
        raise DamagedFile(
            f"{path} holds {', '.join(sorted(arrays))}, not {', '.join(sorted(names[0]))}; restore "
            "it from a copy"
        )
    shape = tuple(metadata["input_shape"])
    check_units(metadata["units"], shape, path)
    noise = arrays.get("noise", np.zeros(0))
    if noise.ndim != 2 or len(noise) != len(metadata["members"]) or not len(noise):
        raise DamagedFile(
            f"{path} has noise of shape {noise.shape} for {len(metadata['members'])} members, "
            "which do not fit; restore it from a copy"
        )
    shared = {
        "problem": problem.with_stored_units(**metadata["units"]),
        "noise": noise,
        "indices": tuple(metadata["members"]),
        "input_shape": shape,
        "input_dtype": metadata["input_dtype"],
        "diagnostics": metadata["diagnostics"],
    }
    return arrays, metadata, shared


def standard_rows(problem: Problem, x: np.ndarray) -> Float[np.ndarray, "rows columns"]:
    """Raw inputs in standard units, flattened, in float64."""
    rows = np.asarray(problem.prepare_inputs(np.asarray(x)), np.float64)
    return rows.reshape(len(rows), -1)


def roots(covariance: Float[np.ndarray, "points outputs outputs"]) -> np.ndarray:
    """Symmetric square roots of positive semi-definite matrices, one for each point."""
    values, vectors = np.linalg.eigh(covariance)
    return np.einsum("pcd,pd,ped->pce", vectors, np.sqrt(np.maximum(values, 0.0)), vectors)
