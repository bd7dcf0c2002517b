"""From a config to a trained run and back: shared by the commands that train or read runs."""

import ast
import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from credax import __version__, methods, networks
from credax.cli.config import Fit, Judging, Task, task_from_json
from credax.cli.judge import Judge
from credax.data import Dataset, Split, load
from credax.errors import InputError
from credax.experiments.saliency import input_gradients
from credax.files import read_json
from credax.likelihood import Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian
from credax.metrics import evaluate
from credax.network import count_params
from credax.posterior import Population, Posterior
from credax.prediction import Prediction
from credax.problem import Problem
from credax.reading import check_record, check_settings
from credax.reading.records import TEXT, record
from credax.report.pictures import is_images
from credax.report.result import Result
from credax.training import RunFolder, fit

LIKELIHOODS = {
    "categorical": Categorical,
    "bernoulli": Bernoulli,
    "gaussian": Gaussian,
    "heteroscedastic": HeteroscedasticGaussian,
}
_PICTURES = 4
_METHOD = record({"name": TEXT}, extra=True)


@dataclass(frozen=True)
class Job:
    """A task with its data loaded and its problem built."""

    task: Task
    dataset: Dataset
    problem: Problem

    @classmethod
    def of(cls, task: Task) -> "Job":
        """Load the data and build the problem; choices left to ``auto`` are made here."""
        dataset = load(task.data, root=task.data_dir, split=task.split, download=task.download)
        dataset = dataset.subset(task.train_rows, task.test_rows).with_validation(task.validation)
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
        example = jax.ShapeDtypeStruct((1, *train.x.shape[1:]), train.x.dtype)
        return count_params(jax.eval_shape(problem.init, jax.random.key(0), example))

    def judge(self, judging: Judging) -> Judge:
        """The rows that posteriors are judged on; a judging that cannot be is refused here."""
        return Judge(judging, self.dataset, self.task.data_dir, self.task.download)

    def config(self, fit_config: Fit) -> dict[str, Any]:
        """What ``config.json`` holds: everything needed to repeat or to read the run."""
        return {
            "credax": __version__,
            "task": json.loads(json.dumps(dataclasses.asdict(self.task))),
            "seed": fit_config.seed,
        }

    def train(self, fit_config: Fit, folder: Path, progress: bool | None) -> Posterior:
        """Train, or resume, or read the finished run in the folder."""
        return fit(
            self.problem,
            fit_config.method,
            self.dataset.train,
            key=fit_config.seed,
            training=self.task.training,
            validation=self.dataset.validation,
            folder=folder,
            config=self.config(fit_config),
            progress=progress,
        )


@dataclass(frozen=True)
class SavedRun:
    """A run folder read back."""

    folder: RunFolder
    config: dict[str, Any]
    job: Job
    method: Any

    @classmethod
    def open(cls, path: str | Path, data: str | None = None) -> "SavedRun":
        """Read a run; ``data`` may name another data set to use it on."""
        folder = RunFolder(path)
        if not (folder.path / "config.json").exists():
            raise InputError(f"{path} is not a run: it has no config.json; see: credax list runs")
        file = folder.path / "config.json"
        config = check_record(read_json(file), {"method": _METHOD}, file, extra=True)
        task = task_from_json(config, folder.path / "config.json")
        job = Job.of(dataclasses.replace(task, data=data) if data else task)
        options = dict(config["method"])
        method = methods.get(options.pop("name"))
        check_settings(method, options, f"{folder.path / 'config.json'}, method,")
        return cls(folder, config, job, method(**options))

    def posterior(self) -> Posterior:
        """The members; a run that is not finished is said to be so."""
        if not self.folder.finished:
            raise InputError(
                f"the run in {self.folder.path} is not finished; run its command again to go on"
            )
        return self.method.load(self.folder.members, self.job.problem)

    def result(
        self,
        posterior: Posterior | None = None,
        judge: Judge | None = None,
        progress: bool | None = False,
    ) -> Result:
        """Predictions, metrics, history and cost on the test rows, and what the judge found."""
        posterior = posterior or self.posterior()
        judge = judge or self.job.judge(Judging())
        test = self.job.dataset.test
        prediction: Prediction = jax.tree.map(np.asarray, posterior.predict(test.x))
        history = self.folder.history()
        ending = next((line for line in history if line.get("event") == "finished"), {})
        excluded = ending.get("excluded", {})
        judgement = judge.judge(
            posterior, prediction, self.folder.path, progress, getattr(self.method, "modes", None)
        )
        return Result(
            method=self.method.title,
            seed=self.config["seed"],
            metrics={**evaluate(prediction, test.y), **judgement.values},
            prediction=prediction,
            y=np.asarray(test.y),
            history=[line for line in history if "event" not in line],
            cost={
                "network": self.job.task.network,
                "members": prediction.num_members,
                "parameters": self.job.params,
                "epochs": self.job.task.training.epochs,
                "training_seconds": ending.get("seconds"),
                "compile_seconds": ending.get("compile_seconds"),
                "peak_memory_bytes": ending.get("peak_memory_bytes"),
            },
            config=self.config,
            notes=(
                *(
                    f"member {m} was left out: its loss became non-finite at epoch {epoch:.1f}"
                    for m, epoch in excluded.items()
                ),
                *judgement.notes,
            ),
            judgement=judgement,
            gradients=_gradients(posterior, test),
        )


def _gradients(posterior: Posterior, test: Split) -> np.ndarray | None:
    """Members' input gradients at the first test pictures; None where inputs are no pictures."""
    if not isinstance(posterior, Population) or not is_images(test.x):
        return None
    rows = test[slice(0, _PICTURES)]
    found = input_gradients(posterior, rows.x, rows.y)
    return found.reshape(len(found), *rows.x.shape)


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
