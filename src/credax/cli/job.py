"""From a config to a trained run: shared by the commands that train."""

import ast
import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from credax import __version__, networks
from credax.calibration.trust import FILE as TRUST
from credax.calibration.trust import evidence, save_evidence
from credax.cli.command import COMMAND
from credax.cli.config import LATER, PIXEL_TASKS, EvaluationOptions, Fit, Task, task_to_json
from credax.cli.evaluation import Evaluator
from credax.cli.own_code import (
    code_section,
    is_own,
    own_augmentation,
    own_likelihood,
    own_network,
    read_own,
    refuse_changed,
)
from credax.cli.recipes import for_rows
from credax.data import Dataset, describe, load, names
from credax.data.registry import own_folder
from credax.data.tabular import TABLES
from credax.data.task_files import is_task_folder
from credax.errors import InputError, unknown
from credax.files import read_json
from credax.likelihood import BY_NAME, Likelihood, PerPixel
from credax.likelihoods.deviation import rounding_noise
from credax.network import Network, count_params
from credax.posterior import Population, Posterior
from credax.problem import Problem
from credax.runs import read_config
from credax.training import Training, fit
from credax.training.describe import describe_problem

PRECISION, LEAST_DECAY = 4.0, 5e-4
"""Of the prior where no weight decay is given: a standard deviation of 1/2 in small tables."""
SMALL_TABLE = 2000
_NEEDS = {
    "size": "a folder of pictures",
    "ignore_label": "--task segmentation",
    "depth_steps": "--task pixel-regression",
}
_PARTS = {
    "network": "network",
    "likelihood": "likelihood",
    "inputs": "standardisation of inputs",
    "targets": "standardisation of targets",
}


@dataclass(frozen=True)
class Job:
    """A task with its data loaded and its problem built."""

    task: Task
    dataset: Dataset
    problem: Problem
    training: Training
    """The task's, with the functions that stand for augmentations of the user's own."""
    code: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Files of the user's own code by flag, with their digests."""

    @classmethod
    def of(cls, task: Task, dataset: Dataset | None = None) -> "Job":
        """Load the data and build the problem; choices left to ``auto`` are made here."""
        task = _with_own_task(task)
        dataset = load_task(task) if dataset is None else dataset
        task = dataclasses.replace(
            task,
            network=_network_name(task, dataset),
            network_options=_network_options(task, dataset),
            likelihood=_likelihood_name(task, dataset),
            training=for_rows(task.training, len(dataset.train)),
        )
        if task.weight_decay is None:
            decay = max(LEAST_DECAY, PRECISION / len(dataset.train))
            task = dataclasses.replace(task, weight_decay=decay)
        code: dict[str, dict[str, Any]] = {}
        likelihood = _rounded(_likelihood(task, code), dataset)
        if dataset.train.pixels is not None and not likelihood.grid_axes:
            likelihood = PerPixel(likelihood, ignore_label=dataset.train.pixels.ignore_label)
        if likelihood.task != dataset.task:
            raise InputError(
                f"likelihood is {task.likelihood} and the data set {dataset.name} is for "
                f"{dataset.task}; leave --likelihood out to choose by the data"
            )
        classes = dataset.task == "classification"
        targets = dataset.num_classes if classes else dataset.num_targets
        network = _network(task, likelihood.num_outputs(targets), code)
        problem = Problem(network, likelihood, weight_decay=task.weight_decay)
        return cls(task, dataset, problem, _training(task, code), code)

    def with_task(self, task: Task) -> "Job":
        """Another task on the same data, which is not loaded again."""
        return Job.of(task, self.dataset)

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
            **({"code": self.code} if self.code else {}),
        }

    def train(self, fit_config: Fit, folder: Path, progress: bool | None) -> Posterior:
        """Train, or resume, or read the finished run in the folder.

        Predictions for validation rows are kept beside it: from them `predict` knows which
        predictions to trust.
        """
        self._refuse_changed(folder)
        posterior = fit(
            self.problem,
            fit_config.method,
            self.dataset,
            key=fit_config.seed,
            training=self.training,
            folder=folder,
            config=self.config(fit_config),
            progress=progress,
        )
        held = self.dataset.validation
        rows = held is not None and held.tasks is None and held.pixels is None
        writes = jax.process_index() == 0
        if held is not None and rows and writes and not (folder / TRUST).exists():
            found = evidence(posterior.predict(held.x), held.y)
            if found is not None:
                save_evidence(folder / TRUST, found)
        return posterior

    def population(self, run: str) -> Population:
        """The members of a finished run of the same problem, to continue from or surround."""
        from credax.cli.saved import saved_run

        train = self.dataset.train
        own = describe_problem(self.problem.with_units(train.inputs, train.targets))
        for part, words in _PARTS.items():
            if own[part] != read_config(Path(run))["problem"].get(part):
                raise InputError(
                    f"around is {run}, which has another {words} than this command; give the same "
                    "--data, --network and --likelihood as there"
                )
        saved = saved_run(run, self.problem)
        members = saved.posterior()
        if not isinstance(members, Population):
            raise InputError(
                f"around is {run}, a run of {saved.config['method']['name']}, which keeps no plain "
                "networks; give one of single or deep-ensemble"
            )
        return members

    def _refuse_changed(self, folder: Path) -> None:
        """Refuse to go on with a run whose code is another now."""
        if not self.code or not (folder / "config.json").exists():
            return
        stored = code_section(read_json(folder / "config.json"), folder / "config.json")
        for flag, entry in self.code.items():
            if flag in stored:
                refuse_changed(stored[flag], entry["digest"], entry["file"], folder)


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
    own = own_folder(task.data, task.data_dir)
    folder, tasks = own is not None, own is not None and is_task_folder(own)
    allowed: tuple[str, ...] = ("target", "ignore", "kinds", "task") if ending in TABLES else ()
    if tasks:
        allowed = ("target",)
    else:
        allowed = ("task",) if ending == ".npz" else ("size",) if folder else allowed
    if task.task in PIXEL_TASKS:
        allowed = _pixel_options(task, folder and not tasks)
    given: dict[str, Any] = {name: getattr(task, name) for name in LATER}
    given = {name: value for name, value in given.items() if value not in ((), None, "auto")}
    if not folder and task.task in PIXEL_TASKS:
        given.pop("task")
    odd = [name for name in given if name not in allowed]
    if odd:
        needs = _NEEDS.get(odd[0], "a table such as a .csv file")
        raise InputError(f"{odd[0]} is given and data is {task.data}; it is for {needs}")
    if "task" in allowed and "task" not in given and task.likelihood in BY_NAME:
        # A likelihood by name says what the targets of a user's file are: counts are no classes.
        given["task"] = BY_NAME[task.likelihood].task
    if ending in TABLES or (folder and not tasks):
        # What is decided by training rows must not see those that are held out.
        rows: dict[str, Any] = {"train_rows": task.train_rows, "test_rows": task.test_rows}
        given |= {**rows, "validation": task.validation}
    return {**given, "plain": plain} if ending in TABLES else given


def _pixel_options(task: Task, folder: bool) -> tuple[str, ...]:
    """The options of a folder of pictures and masks; a set by name may say its task too."""
    named = task.data in names() and describe(task.data).form == task.task
    if not folder and not named:
        raise InputError(
            f"task is {task.task} and data is {task.data}; give a folder with images and "
            "masks (or depth), or a set such as pixels/shapes"
        )
    own = "ignore_label" if task.task == "segmentation" else "depth_steps"
    return ("task", "size", own) if folder else ()


def parameters(problem: Problem, input_shape: tuple[int, ...], dtype: Any) -> int:
    """Learned numbers of one network of a problem."""
    example = jax.ShapeDtypeStruct((1, *input_shape), dtype)
    return count_params(jax.eval_shape(problem.init, jax.random.key(0), example))


def _likelihood(task: Task, code: dict[str, dict[str, Any]]) -> Likelihood:
    if is_own(task.likelihood):
        own = read_own(task.likelihood, "likelihood")
        code["likelihood"] = own.to_json()
        return own_likelihood(own)
    if task.likelihood not in BY_NAME:
        raise unknown("likelihood", task.likelihood, BY_NAME)
    return BY_NAME[task.likelihood]()


def _with_own_task(task: Task) -> Task:
    """A likelihood of the user's own says what the targets of a user's file are, as names do.

    Only for a likelihood that the command names: what is decided is kept in the run, so that
    reading the file again runs no code.
    """
    own_file = Path(task.data).suffix.lower() in (*TABLES, ".npz")
    if task.task != "auto" or not own_file or not is_own(task.likelihood):
        return task
    return dataclasses.replace(task, task=_likelihood(task, {}).task)


def _network(task: Task, outputs: int, code: dict[str, dict[str, Any]]) -> Network:
    options = network_options(task.network_options)
    if not is_own(task.network):
        return networks.build(task.network, outputs, **options)
    own = read_own(task.network, "network")
    code["network"] = {**own.to_json(), "outputs": outputs}
    return own_network(own, outputs, options)


def _training(task: Task, code: dict[str, dict[str, Any]]) -> Training:
    found = []
    for name in task.training.augment:
        own = read_own(name, "augment") if is_own(name) else None
        if own is not None:
            code[f"augment {own.name}"] = own.to_json()
        found.append(name if own is None else own_augmentation(own))
    return task.training.replace(augment=tuple(found))


def _network_name(task: Task, dataset: Dataset) -> str:
    if task.network != "auto":
        return task.network
    if dataset.train.pixels is not None:
        return "unet"
    return "cnn" if len(dataset.input_shape) == 3 and min(dataset.input_shape[:2]) > 8 else "mlp"


def _likelihood_name(task: Task, dataset: Dataset) -> Any:
    if task.likelihood != "auto":
        return task.likelihood
    if dataset.task == "classification":
        return "categorical"
    return "heteroscedastic-deviation" if task.target else "heteroscedastic"


def _rounded(likelihood: Likelihood, dataset: Dataset) -> Likelihood:
    """With the noise of rounding as the least noise, where targets lie on a grid."""
    units = dataset.train.targets
    if units is None or np.size(units.scale) > 1:
        return likelihood
    return likelihood.with_least_noise(
        rounding_noise(dataset.train.y) / float(np.ravel(units.scale)[0])
    )


def _network_options(task: Task, dataset: Dataset) -> tuple[str, ...]:
    """Two narrow layers for a small table of numbers to predict, which chains explore sooner."""
    own = task.network == "auto" and not task.network_options and bool(task.target)
    small = dataset.task == "regression" and len(dataset.train) <= SMALL_TABLE
    return ("hidden=(16,16)",) if own and small else task.network_options


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
