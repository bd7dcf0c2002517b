"""The posterior of a neural process: its networks and the context that it is conditioned on."""

import dataclasses
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from credax.errors import InputError
from credax.files import save_tree
from credax.functions.draws import draw_keys, normal_of
from credax.functions.episodes import encoded_values
from credax.functions.posterior import FunctionPosterior, standard_rows
from credax.functions.process_descent import Form, Trained, process_outputs
from credax.functions.process_network import Points, ProcessNetwork
from credax.network import Variables
from credax.posterior import check_rows
from credax.prediction import Prediction
from credax.problem import Problem

LEAST = 16
"""Programs are compiled for so many points, and for powers of two above."""


@dataclass(frozen=True)
class ProcessPosterior(FunctionPosterior):
    """Functions given a context: a member is one draw of the latent variable.

    Of a data set of tasks the context is empty until `condition` is called; of a table it holds
    training rows.
    """

    network: ProcessNetwork
    trained: Trained
    form: Form
    floor: float
    context_x: Float[np.ndarray, "context columns"]
    """In standard units."""
    context_y: np.ndarray
    """In standard units, or labels."""

    @property
    def variables(self) -> Variables:
        """What tells members apart: their noise, or, of one member, the networks themselves."""
        if self.network.latent_size:
            return Variables({"noise": self.noise}, {})
        one = jax.tree.map(lambda leaf: np.asarray(leaf)[None], self.trained.network)
        return Variables(one, {})

    @property
    def num_params(self) -> int:
        """Learned numbers of the networks and the likelihood."""
        return sum(np.size(leaf) for leaf in jax.tree.leaves(self.trained))

    def sample(self, key, n: int) -> Variables:
        """The noise of ``n`` new members; without a latent variable, the networks ``n`` times."""
        if self.network.latent_size:
            return FunctionPosterior.sample(self, key, n)
        return jax.tree.map(lambda leaf: np.repeat(leaf, n, axis=0), self.variables)

    def condition(self, x: Any, y: Any) -> "ProcessPosterior":
        """The posterior of one task, given points of it in raw units; they replace the context.

        >>> import credax as cx
        >>> data = cx.data.load("tasks/constant", train=8, test=2)
        >>> problem = cx.Problem(cx.networks.MLP((4,), outputs=2), cx.HeteroscedasticGaussian())
        >>> record = cx.CNP(hidden=8, least_steps=1)
        >>> posterior = cx.fit(problem, record, data, training=cx.Training(1, 8), progress=False)
        >>> task = posterior.condition([[0.0], [1.0]], [2.0, 2.5])
        >>> task.predict([[0.5]]).mean.shape
        (1,)
        """
        x = np.asarray(x, np.float32)
        x = x[:, None] if x.ndim == 1 and self.input_shape == (1,) else x
        empty = np.zeros((0, *self.input_shape), np.float32)
        x = check_rows(x, self.input_shape) if len(x) else empty
        labels = self.problem.likelihood.task == "classification"
        y = np.asarray(y, np.int32 if labels else np.float32)
        if len(x) != len(y):
            raise InputError(f"x has {len(x)} points and y has {len(y)}; give one value per point")
        if len(y):
            self.problem.likelihood.check(y, self.form.outputs)
        if len(x) > self.form.largest:
            warnings.warn(
                f"the context has {len(x)} points and training saw at most {self.form.largest}; "
                "predictions may be worse than from fewer",
                stacklevel=2,
            )
        if not labels and self.problem.targets is not None:
            y = np.asarray(self.problem.targets(y))
        rows = standard_rows(self.problem, x) if len(x) else x.reshape(0, self.form.columns)
        rows = rows.astype(np.float32)
        return dataclasses.replace(self, context_x=rows, context_y=y)

    def predict_fn(self) -> Callable[[Array], Prediction]:
        """A pure function of raw inputs, given the context: it can be compiled and exported."""
        context = self._context()

        def predict(x: Array) -> Prediction:
            rows = self.problem.prepare_inputs(x).reshape(1, len(x), -1)
            outputs = self._at(context, rows.astype(jnp.float32), self.noise)
            return self.problem.predict(outputs[:, 0])

        return predict

    def predict_points(self, points) -> Prediction:
        """The mixture of members; without a latent variable one Gaussian, or one softmax."""
        return self.problem.predict(self._outputs(points, self.noise))

    def latent_functions(self, key, n, points, **options: Any) -> np.ndarray:
        """Draws of the latent variable, and so of whole functions; else the mean function."""
        if options:
            raise InputError(f"{sorted(options)[0]} is no option here: draws are exact functions")
        noise = normal_of(draw_keys(key, n), 1, (self.network.latent_size,)).astype(np.float32)
        outputs = self._outputs(points, noise)
        classes = self.problem.likelihood.task == "classification"
        return np.asarray(self.problem.likelihood.compared(outputs, raw=classes), np.float64)

    def task_outputs(
        self,
        x: Float[np.ndarray, "tasks points columns"],
        y: np.ndarray,
        context: Bool[np.ndarray, "tasks points"],
    ) -> Float[Array, "members tasks points outputs"]:
        """What the likelihood takes at all points of tasks in standard units, given contexts."""
        known = jnp.asarray(np.nan_to_num(y) if y.dtype.kind == "f" else y)
        places = jnp.asarray(x, jnp.float32)
        values = encoded_values(self.problem, known, self.form.values)
        points = Points(places, values.astype(places.dtype), jnp.asarray(context))
        return self._at(points, places, self.noise)

    def save(self, path: str | Path) -> None:
        """Keep the networks, the context and what they are."""
        arrays: dict[str, Any] = {"network": jax.tree.map(np.asarray, self.trained.network)}
        arrays |= {"context_x": self.context_x, "context_y": self.context_y}
        arrays["noise"] = self.noise
        if self.problem.likelihood.learns:
            arrays["own"] = np.asarray(self.trained.own)
        more: dict[str, Any] = {"form": self.form._asdict(), "floor": self.floor}
        more["network"] = self.network.stored()
        save_tree(path, arrays, self.description("neural process") | more)

    def _outputs(self, points: np.ndarray, noise: np.ndarray) -> Array:
        """Outputs of members at points, padded to sizes for which programs exist."""
        count, size = len(points), _size(len(points))
        x = np.zeros((1, size, self.form.columns), np.float32)
        x[0, :count] = points
        return self._at(self._context(), jnp.asarray(x), noise)[:, 0, :count]

    def _context(self) -> Points:
        count = len(self.context_x)
        size = _size(count)
        x = np.zeros((1, size, self.form.columns), np.float32)
        x[0, :count] = self.context_x
        y = np.zeros((1, size, *self.context_y.shape[1:]), self.context_y.dtype)
        y[0, :count] = self.context_y
        values = encoded_values(self.problem, jnp.asarray(y), self.form.values)
        mask = np.arange(size)[None] < count
        return Points(jnp.asarray(x), values.astype(jnp.float32), jnp.asarray(mask))

    def _at(self, context: Points, x: Array, noise: np.ndarray) -> Array:
        problem = self.problem.traced()
        trained = jax.tree.map(jnp.asarray, self.trained)
        return _decoded(problem, self.network, self.floor, trained, context, x, jnp.asarray(noise))


@eqx.filter_jit
def _decoded(
    problem: Problem,
    network: ProcessNetwork,
    floor: float,
    trained: Trained,
    context: Points,
    x: Array,
    noise: Float[Array, "members latent"],
) -> Float[Array, "members tasks points outputs"]:
    """Outputs at points of tasks, one for each noise of the latent variable."""
    params: PyTree = trained.network
    kept = network.condition(params, context)
    if network.latent_size:
        q = network.latent(params, context)
        z = q.mean + q.std * noise[:, None].astype(q.mean.dtype)
    else:
        z = jnp.zeros((len(noise), len(x), 0))
    outputs = jax.vmap(lambda one: network.outputs(params, kept, one, x))(z)
    return process_outputs(problem, outputs, trained.own, floor)


def _size(count: int) -> int:
    return max(LEAST, 1 << (count - 1).bit_length()) if count else LEAST
