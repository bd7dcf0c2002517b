"""What the records of neural processes share: sizes, episodes, training, files."""

import abc
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from credax.data.dataset import Split
from credax.errors import DamagedFile, InputError, unknown
from credax.files import arranged
from credax.functions.descent import with_steps
from credax.functions.posterior import read_posterior, standard_rows
from credax.functions.process_descent import Form, Objective, ProcessDescent, Trained
from credax.functions.process_network import ProcessNetwork
from credax.functions.process_posterior import ProcessPosterior
from credax.likelihood import refuse_grid, require_posterior
from credax.network import output_struct
from credax.problem import Problem
from credax.reading.records import FLAG, NUMBER, OBJECT, WHOLE, record
from credax.training import Training

RATE = 1e-3
"""Of Adam, where the settings have the default rate of plain descent."""
FORM = record(
    {"of_tasks": FLAG}
    | dict.fromkeys(("columns", "values", "outputs"), WHOLE)
    | {"smallest": WHOLE, "largest": WHOLE}
)


@dataclass(frozen=True)
class NeuralProcessRecord(abc.ABC):
    """Abstract: a neural process as a method; a record says which networks and objective."""

    name: ClassVar[str]
    title: ClassVar[str]
    takes_tasks: ClassVar[bool] = True

    smallest_context: int = 0
    """Points of the smallest context in training."""
    largest_context: int | None = None
    """Points of the largest context in training: by default those of the smallest task without
    one, of a table at most 256 rows, and fewer than a minibatch has."""
    floor: float = 0.1
    """Least standard deviation of a prediction, in standard units (heteroscedastic noise)."""
    least_steps: int = 2000
    """Gradient steps that the networks need: where the epochs give fewer there are more of them."""

    def __post_init__(self):
        self.check()

    def check(self) -> None:
        """Raise an error if a setting makes no sense; records add their own."""
        self.at_least(1, "least_steps")
        self.at_least(0, "smallest_context")
        largest = self.largest_context
        if largest is not None and largest < max(1, self.smallest_context):
            raise InputError(
                f"largest_context is {largest} and smallest_context {self.smallest_context}; give "
                "at least 1, and no fewer than the smallest"
            )
        if not 0 <= self.floor < 1:
            raise InputError(f"floor is {self.floor}; it lies in [0, 1)")

    def at_least(self, least: int, *names: str) -> None:
        """Raise an error if a setting is smaller."""
        values = vars(self)
        for name in names:
            if values[name] < least:
                raise InputError(f"{name} is {values[name]}; it is at least {least}")

    def one_of(self, name: str, known: tuple[str, ...]) -> None:
        """Raise an error if a setting is not one of these words."""
        if vars(self)[name] not in known:
            raise unknown(name, vars(self)[name], known)

    @abc.abstractmethod
    def process(self, points: np.ndarray) -> ProcessNetwork:
        """The networks, for inputs like these in standard units."""

    def stored_process(self, content: dict[str, Any], form: Form, path: Any) -> ProcessNetwork:
        """A hook: the networks again, from what `ProcessNetwork.stored` gave."""
        return self.process(np.zeros((1, form.columns)))

    @property
    def training_objective(self) -> tuple[Objective, int]:
        """A hook: the objective and its draws of the latent variable per step."""
        return "elbo", 1

    @property
    def drawn(self) -> int:
        """A hook: members of a prediction."""
        return 1

    @property
    def expected_members(self) -> int:
        """Members of a prediction."""
        return self.drawn

    def settings(self, training: Training, num_data: int) -> Training:
        """Adam in place of sgd, with rate 0.001 in place of the default one; enough epochs."""
        if training.optimiser == "sgd":
            default = training.learning_rate == Training.learning_rate
            rate = RATE if default else training.learning_rate
            training = training.replace(optimiser="adam", learning_rate=rate)
        return with_steps(training, num_data, self.least_steps)

    def dynamics(self, problem: Problem, data: Split, training: Training) -> ProcessDescent:
        """Descent on the objective of episodes."""
        require_posterior(problem.likelihood, self.title)
        refuse_grid(problem.likelihood, self.title)
        if training.keep_best:
            raise InputError(f"keep_best is set; {self.name} keeps its last state: leave it out")
        if training.augment:
            raise InputError(f"augment is {training.augment}; {self.name} takes rows as they are")
        points = task_points(problem, data)
        objective, samples = self.training_objective
        return ProcessDescent(
            problem,
            training,
            len(data),
            self.process(points),
            self._form(problem, data, training, points.shape[1]),
            self.floor,
            objective,
            samples,
            self.drawn,
        )

    def posterior(self, problem, dynamics, states, variables, alive, data) -> ProcessPosterior:
        """The networks, with an empty context or training rows as the context."""
        if not bool(np.all(alive)):
            raise InputError(
                f"the objective of {self.name} became no number; lower the learning rate"
            )
        state = jax.tree.map(lambda leaf: np.asarray(leaf[0]), states)
        form: Form = dynamics.form
        context_x, context_y = _context_rows(problem, data, form)
        shape = (form.columns,) if form.of_tasks else tuple(data.x.shape[1:])
        return ProcessPosterior(
            problem=problem,
            noise=state.noise,
            indices=tuple(range(len(state.noise))),
            input_shape=shape,
            input_dtype=str(np.asarray(data.x[:0]).dtype),
            diagnostics={"context": len(context_x), "largest_context": form.largest},
            network=dynamics.network,
            trained=state.trained,
            form=form,
            floor=self.floor,
            context_x=context_x,
            context_y=context_y,
        )

    def load(self, path: str | Path, problem: Problem) -> ProcessPosterior:
        """Read the networks and the context back."""
        fields = {"form": FORM, "floor": NUMBER, "network": OBJECT}
        arrays, metadata, shared = read_posterior(path, problem, "neural process", fields, None)
        form = Form(**metadata["form"])
        network = self.stored_process(metadata["network"], form, path)
        prefix = "network/"
        own = {k: v for k, v in arrays.items() if k.startswith(prefix)}
        template = jax.eval_shape(
            lambda: network.init(jax.random.key(0), form.columns, form.values, form.outputs)
        )
        params = jax.tree.map(np.asarray, arranged(path, own, {"network": template})["network"])
        learned = {"own"} if problem.likelihood.learns else set()
        x, y = (arrays.get(name, np.zeros(0)) for name in ("context_x", "context_y"))
        names = {"context_x", "context_y", "noise"} | learned
        fits = y.ndim and x.shape == (len(y), form.columns)
        fits = fits and shared["noise"].shape[1] == network.latent_size
        if set(arrays) != set(own) | names or not fits:
            raise DamagedFile(f"{path} holds other arrays than it should; restore it from a copy")
        return ProcessPosterior(
            **shared,
            network=network,
            trained=Trained(params, arrays.get("own", {})),
            form=form,
            floor=metadata["floor"],
            context_x=x,
            context_y=y,
        )

    def _form(self, problem: Problem, data: Split, training: Training, columns: int) -> Form:
        of_tasks = data.tasks is not None
        outputs = network_outputs(problem, (columns,) if of_tasks else data.x.shape[1:], data.x)
        likelihood = problem.likelihood
        targets = likelihood.num_targets(outputs)
        values = max(2, targets) if likelihood.task == "classification" else targets
        largest = self.largest_context
        if of_tasks:
            sizes = present_points(np.asarray(data.y)).sum(axis=1)
            most = max(1, int(sizes.min()) - 1) if largest is None else largest
            if most > sizes.max():
                raise InputError(
                    f"largest_context is {largest} and the largest task has {sizes.max()} points; "
                    "give at most that"
                )
        else:
            most = max(1, min(256 if largest is None else largest, training.batch_size - 1))
        if most < self.smallest_context:
            raise InputError(
                f"smallest_context is {self.smallest_context} and the largest context here has "
                f"{most} points; give at most that"
            )
        return Form(of_tasks, columns, values, outputs, self.smallest_context, most)


def task_points(problem: Problem, data: Split) -> np.ndarray:
    """All inputs of the training in standard units, ``[points, columns]``."""
    x = np.asarray(data.x)
    if data.tasks is not None:
        x = x[present_points(np.asarray(data.y))]
    return standard_rows(problem, x)


def present_points(y: np.ndarray) -> np.ndarray:
    """Which points of padded tasks are there: no NaN, no label of -1."""
    if y.dtype.kind != "f":
        return y >= 0
    there = ~np.isnan(y)
    return np.asarray(there if y.ndim == 2 else there.all(axis=-1))


def network_outputs(problem: Problem, shape: tuple[int, ...], x: np.ndarray) -> int:
    """Outputs of the problem's network for one point: as many as the decoder gives."""
    example = jax.ShapeDtypeStruct((1, *shape), np.asarray(x[:0]).dtype)
    shapes = jax.eval_shape(problem.init, jax.random.key(0), example)
    prepared = jax.eval_shape(problem.prepare_inputs, example)
    whole = output_struct(problem.network, shapes, prepared)
    return jax.eval_shape(problem.likelihood.network_outputs, whole).shape[-1]


def _context_rows(problem: Problem, data: Split, form: Form) -> tuple[np.ndarray, np.ndarray]:
    """Nothing, of tasks; of a table a fixed choice of training rows, at most those of training."""
    y = np.asarray(data.y)
    labels = problem.likelihood.task == "classification"
    kind = np.int32 if labels else np.float32
    if form.of_tasks:
        return np.zeros((0, form.columns), np.float32), np.zeros((0, *y.shape[2:]), kind)
    chosen = np.sort(np.random.default_rng(0).permutation(len(y))[: form.largest])
    rows = standard_rows(problem, np.asarray(data.x[chosen]))
    y = y[chosen].astype(kind)
    if not labels and problem.targets is not None:
        y = np.asarray(problem.targets(jnp.asarray(y)))
    return rows.astype(np.float32), y
