"""What an experiment is: its scales, the arms of each, and a function that measures them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from credax.errors import InputError
from credax.experiments.pictures import generated_pictures
from credax.experiments.published import Published
from credax.likelihood import Categorical
from credax.network import Network
from credax.prior import Prior
from credax.problem import Problem
from credax.report import Result
from credax.report.figure import Figure
from credax.training import Training

if TYPE_CHECKING:
    from credax.data import Dataset, Split

ScaleName = Literal["test", "cpu", "paper"]


@dataclass(frozen=True)
class Arm:
    """One row of an experiment's table: a method with its settings."""

    name: str
    """As in folders and ``--arms``."""
    label: str
    """As in tables; equal to the published row's label where there is one."""
    method: Any
    """A record of `credax.methods`."""
    network: Callable[[int], Network] | None = None
    """A network of its own for so many outputs, where the scale's does not suit the method."""
    prior: Callable[["Split", Network, float], Prior] | None = None
    """A prior made of the training rows, the network and the weight decay, where that is not it."""
    likelihood: Any = None
    """A likelihood of its own, where the scale's does not suit the method."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Changes of the scale's training for this arm, such as fewer epochs."""


@dataclass(frozen=True)
class Data:
    """A data set, how much of it is used, and what is known of it where it is not at hand."""

    name: str
    """As in `credax.data.load`."""
    train_rows: int
    test_rows: int
    input_shape: tuple[int, ...]
    classes: int | None = None
    """Number of classes; None for regression."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of `credax.data.load`."""
    synthetic: bool = False
    """Images made up in the shape of the set, for tests that need no files."""
    unseen: int = 0
    """So many classes beyond ``classes`` are left out of training and test: OOD inputs."""

    def load(self, root: str | None = None, download: bool = True) -> "Dataset":
        """The rows that the experiment uses."""
        from credax.data import load

        if self.synthetic:
            return self.made_up(self.train_rows, self.test_rows)
        dataset = load(self.name, root, download=download, **self.options)
        if self.unseen:
            dataset = _seen(dataset, self.classes or 0)
        return dataset.subset(self.train_rows, self.test_rows)

    def available(self, root: str | None = None) -> bool:
        """Whether the rows are on this machine."""
        from credax.data import describe

        return self.synthetic or describe(self.name).available(root)

    def made_up(self, train_rows: int, test_rows: int) -> "Dataset":
        """Images of the same shape and as many classes, which anyone can make."""
        assert self.classes is not None
        return generated_pictures(
            f"generated images in the shape of {self.name}",
            self.input_shape,
            self.classes,
            train_rows,
            test_rows,
        )


def _seen(dataset: "Dataset", classes: int) -> "Dataset":
    """The rows of the first classes."""
    parts = {name: getattr(dataset, name) for name in ("train", "test")}
    kept = {name: part[np.asarray(part.y) < classes] for name, part in parts.items()}
    return replace(dataset, **kept, class_names=dataset.class_names[:classes])


@dataclass(frozen=True)
class Scale:
    """All settings of an experiment at one size."""

    data: Data
    network: Callable[[int], Network]
    """The network for so many outputs."""
    training: Training
    arms: tuple[Arm, ...]
    seeds: int
    likelihood: Any = field(default_factory=Categorical)
    """A `credax.likelihood.Likelihood`."""
    weight_decay: float = 5e-4
    evaluation: Any = None
    """What the experiment's own function needs, such as corruptions; plain data."""
    note: str = ""
    """What a reader must know to compare this scale with the published one."""

    def training_of(self, arm: Arm) -> Training:
        """The training of an arm: the scale's, with the arm's own changes."""
        return self.training.replace(**arm.training)

    def problem(self, arm: Arm, train: "Split | None" = None) -> Problem:
        """Network, likelihood and prior of an arm; without rows the prior is the weight decay's."""
        likelihood = arm.likelihood or self.likelihood
        outputs = likelihood.num_outputs(self.data.classes or 1)
        network = (arm.network or self.network)(outputs)
        if arm.prior is None or train is None:
            return Problem(network, likelihood, weight_decay=self.weight_decay)
        return Problem(network, likelihood, prior=arm.prior(train, network, self.weight_decay))


@dataclass(frozen=True)
class Outcome:
    """What came out: one result per arm and seed, tables to set beside it, figures, findings."""

    results: list[Result]
    published: tuple[Published, ...] = ()
    figures: tuple[Figure, ...] = ()
    findings: tuple[str, ...] = ()
    """Sentences made from the numbers."""
    data: str = ""
    """What was measured on, where it is not one set under its own name."""


@dataclass(frozen=True)
class Experiment:
    """A published result, or an unpublished question, at up to three sizes."""

    name: str
    """As on the command line."""
    title: str
    description: str
    scales: Mapping[str, Any]
    """``test`` (seconds), ``cpu`` (minutes) and ``paper``, those that there are: a `Scale` each, or
    a `credax.experiments.study.StudyScale` where there is no data set."""
    run: Callable[[Any], Outcome]
    """Trains what is missing and measures it; takes a `Bench`, or a `StudyBench`."""

    def scale(self, name: str) -> Any:
        """The settings of one size, or an error that names those there are."""
        if name not in self.scales:
            raise InputError(
                f"scale is {name!r} and {self.name} has no such size"
                f"{_no_paper if name == 'paper' else ''}; choose {', '.join(self.scales)}"
            )
        return self.scales[name]


_no_paper = " (nothing of the kind has been published)"
