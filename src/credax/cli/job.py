"""From a config to a trained run: shared by the commands that train."""

import ast
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from credax import __version__, networks
from credax.calibration.trust import FILE as TRUST
from credax.calibration.trust import evidence, save_evidence
from credax.cli.command import COMMAND
from credax.cli.config import LATER, EvaluationOptions, Fit, Task, task_to_json
from credax.cli.evaluation import Evaluator
from credax.data import Dataset, load
from credax.data.registry import own_folder
from credax.data.tabular import TABLES
from credax.errors import InputError
from credax.likelihood import Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian
from credax.network import count_params
from credax.posterior import Posterior
from credax.problem import Problem
from credax.training import fit

LIKELIHOODS = {
    "categorical": Categorical,
    "bernoulli": Bernoulli,
    "gaussian": Gaussian,
    "heteroscedastic": HeteroscedasticGaussian,
}


@dataclass(frozen=True)
class Job:
    """A task with its data loaded and its problem built."""

    task: Task
    dataset: Dataset
    problem: Problem

    @classmethod
    def of(cls, task: Task, dataset: Dataset | None = None) -> "Job":
        """Load the data and build the problem; choices left to ``auto`` are made here."""
        dataset = load_task(task) if dataset is None else dataset
        task = dataclasses.replace(
            task, network=_network_name(task, dataset), likelihood=_likelihood_name(task, dataset)
        )
        likelihood = LIKELIHOODS[task.likelihood]()
        if likelihood.task != dataset.task:
            raise InputError(
                f"likelihood is {task.likelihood} and the data set {dataset.name} is for "
                f"{dataset.task}; leave --likelihood out to choose by the data"
            )
        classes = dataset.task == "classification"
        targets = dataset.num_classes if classes else dataset.num_targets
        network = networks.build(
            task.network, likelihood.num_outputs(targets), **network_options(task.network_options)
        )
        problem = Problem(network, likelihood, weight_decay=task.weight_decay)
        return cls(task, dataset, problem)

    @property
    def params(self) -> int:
        """Learned numbers of one network."""
        train = self.dataset.train
        problem = self.problem.with_units(train.inputs, train.targets)
        return parameters(problem, train.x.shape[1:], train.x.dtype)

    def evaluator(self, evaluation: EvaluationOptions) -> Evaluator:
        """The rows that posteriors are evaluated on; what cannot be evaluated is refused here."""
        return Evaluator(evaluation, self.dataset, self.task.data_dir, self.task.download)

    def config(self, fit_config: Fit) -> dict[str, Any]:
        """What ``config.json`` holds: everything needed to repeat or to read the run."""
        return {
            "credax": __version__,
            "command": " ".join(COMMAND),
            "task": task_to_json(self.task),
            "seed": fit_config.seed,
        }

    def train(self, fit_config: Fit, folder: Path, progress: bool | None) -> Posterior:
        """Train, or resume, or read the finished run in the folder.

        Predictions for validation rows are kept beside it: from them `predict` knows which
        predictions to trust.
        """
        posterior = fit(
            self.problem,
            fit_config.method,
            self.dataset,
            key=fit_config.seed,
            training=self.task.training,
            folder=folder,
            config=self.config(fit_config),
            progress=progress,
        )
        held = self.dataset.validation
        if held is not None and not (folder / TRUST).exists():
            found = evidence(posterior.predict(held.x), held.y)
            if found is not None:
                save_evidence(folder / TRUST, found)
        return posterior


def load_task(task: Task, plain: bool = False) -> Dataset:
    """The rows of a task, in its splits.

    ``plain`` reads a table of numbers as runs did that have no record of their columns.
    """
    place: Any = {"root": task.data_dir, "split": task.split, "download": task.download}
    options = _file_options(task, plain)
    dataset = load(task.data, **place, **options)
    return dataset.subset(task.train_rows, task.test_rows).with_validation(task.validation)


def _file_options(task: Task, plain: bool) -> dict[str, Any]:
    """The options of a user's own file; those that it does not have are refused."""
    ending = Path(task.data).suffix.lower()
    folder = own_folder(task.data, task.data_dir) is not None
    allowed: tuple[str, ...] = ("target", "ignore", "kinds", "task") if ending in TABLES else ()
    allowed = ("task",) if ending == ".npz" else ("size",) if folder else allowed
    given: dict[str, Any] = {name: getattr(task, name) for name in LATER}
    given = {name: value for name, value in given.items() if value not in ((), None, "auto")}
    odd = [name for name in given if name not in allowed]
    if odd:
        needs = "a folder of pictures" if odd[0] == "size" else "a table such as a .csv file"
        raise InputError(f"{odd[0]} is given and data is {task.data}; it is for {needs}")
    if ending in TABLES or folder:
        # What is decided by training rows must not see those that are held out.
        rows: dict[str, Any] = {"train_rows": task.train_rows, "test_rows": task.test_rows}
        given |= {**rows, "validation": task.validation}
    return {**given, "plain": plain} if ending in TABLES else given


def parameters(problem: Problem, input_shape: tuple[int, ...], dtype: Any) -> int:
    """Learned numbers of one network of a problem."""
    example = jax.ShapeDtypeStruct((1, *input_shape), dtype)
    return count_params(jax.eval_shape(problem.init, jax.random.key(0), example))


def _network_name(task: Task, dataset: Dataset) -> str:
    if task.network != "auto":
        return task.network
    return "cnn" if len(dataset.input_shape) == 3 and min(dataset.input_shape[:2]) > 8 else "mlp"


def _likelihood_name(task: Task, dataset: Dataset) -> Any:
    if task.likelihood != "auto":
        return task.likelihood
    return "categorical" if dataset.task == "classification" else "heteroscedastic"


def network_options(given: tuple[str, ...]) -> dict[str, Any]:
    """``name=value`` texts as the options of a network."""
    options = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(
                f"network_options has {text!r}; write name=value, such as 'hidden=(50,50)'"
            )
        try:
            options[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            options[name] = value
    return options
