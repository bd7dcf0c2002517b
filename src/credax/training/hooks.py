"""What a method may have beside `dynamics`, `posterior` and `load`; `fit` asks for it here only."""

from typing import Any, Protocol, runtime_checkable

from credax.data.dataset import Split
from credax.data.tasks import tasks_of
from credax.errors import InputError
from credax.posterior import Posterior
from credax.problem import Problem
from credax.training.config import Training


@runtime_checkable
class SetsTraining(Protocol):
    """A method that decides part of the training itself.

    A snapshot ensemble has its cyclic rate, HMC its full batch; `fit` asks before anything else.
    """

    def settings(self, training: Training, num_data: int) -> Training:
        """The training as this method wants it."""
        ...


@runtime_checkable
class TrainsFirst(Protocol):
    """A method that may begin at networks which another method trains first.

    Chains begin at an ensemble. `fit` trains it with the settings that the user gave, in a folder
    of its own inside the run's; both are part of the run's description.
    """

    def first_stage(self, training: Training, num_data: int) -> tuple[Any, Training] | None:
        """The method that is trained first and how, from the user's settings; None: nothing is."""
        ...

    def beginning_at(self, population: Any) -> Any:
        """The same record, with these networks to begin at."""
        ...


@runtime_checkable
class ChangesProblem(Protocol):
    """A method that trains another network than the one it is given, such as narrower ones.

    Members are networks of that problem; a run's description and `load` know the given one.
    """

    def trained_problem(self, problem: Problem) -> Problem:
        """The problem that is trained."""
        ...


@runtime_checkable
class TunedOnValidation(Protocol):
    """A method whose posterior can be tuned on rows held out, once the training has ended.

    Laplace may choose its prior precision so. Without validation rows `fit` refuses before it
    trains; what is tuned is what is saved, so that a finished run is only read.
    """

    @property
    def needs_validation(self) -> bool:
        """Whether this record asks for it."""
        ...

    def tuned(self, posterior: Any, validation: Split) -> Posterior:
        """The posterior tuned on raw rows that were not trained on."""
        ...


@runtime_checkable
class TakesTasks(Protocol):
    """A method that can be trained on tasks: rows that are sets of points."""

    @property
    def takes_tasks(self) -> bool:
        """Whether this record does."""
        ...


@runtime_checkable
class CountsMembers(Protocol):
    """A method that knows before it trains how many members its prediction will have.

    Active learning refuses one member and a score of disagreement before it spends a training.
    """

    @property
    def expected_members(self) -> int:
        """Members of a prediction if all of them stay finite."""
        ...


@runtime_checkable
class ReadsFiles(Protocol):
    """A method whose settings name files; their contents are part of a run's description."""

    def files(self) -> tuple[str, ...]:
        """Paths of the files that the method reads."""
        ...


@runtime_checkable
class LoadsByFunctions(Protocol):
    """A method that reads members back by functions of the user's own, which no folder can hold."""

    def loads_by(self) -> tuple[str, ...]:
        """Names of the settings without which members would be read back as other networks."""
        ...


def check_loads(method: Any, settings: dict[str, Any], folder: Any) -> None:
    """Raise an error if ``settings``, as a folder holds them, lack a function that `load` needs."""
    for name in method.loads_by() if isinstance(method, LoadsByFunctions) else ():
        if settings.get(name) is not None:
            record = type(method).__name__
            raise InputError(
                f"the run in {folder} was made with {name}=, a function of yours that its folder "
                f"cannot hold; use {record}(..., {name}=...).load(folder / 'members.safetensors', "
                "problem)"
            )


def members_of(method: Any) -> int | None:
    """Members of the method's predictions; None where only its training can say."""
    return method.expected_members if isinstance(method, CountsMembers) else None


def files_of(method: Any) -> tuple[str, ...]:
    """The files that the method reads: none, for most."""
    return method.files() if isinstance(method, ReadsFiles) else ()


def settings_of(method: Any, training: Training, num_data: int) -> Training:
    """The training as the method wants it: as it is, for most; a default batch fits the rows."""
    training = training.for_rows(num_data)
    return method.settings(training, num_data) if isinstance(method, SetsTraining) else training


def first_of(method: Any, training: Training, num_data: int) -> tuple[Any, Training] | None:
    """What is trained before the method itself, and how: nothing, for most."""
    if not isinstance(method, TrainsFirst):
        return None
    return method.first_stage(training.for_rows(num_data), num_data)


def problem_of(method: Any, problem: Problem) -> Problem:
    """The problem that the method trains: the given one, for most."""
    changes = isinstance(method, ChangesProblem)
    return method.trained_problem(problem) if changes else problem


def takes_tasks(method: Any) -> bool:
    """Whether the method can be trained on tasks: most take a table."""
    return isinstance(method, TakesTasks) and method.takes_tasks


def check_rows(method: Any, problem: Problem, train: Split) -> None:
    """Raise an error if training rows cannot be used; of tasks, all of their points."""
    if train.tasks is None:
        problem.check(train.x, train.y)
        return
    if not takes_tasks(method):
        raise InputError(
            f"the data are {len(train)} tasks, sets of points of different functions, and "
            f"{method.name} takes a table; use cnp, np, anp or convcnp, or give the points of one "
            "task"
        )
    tasks = tasks_of(train)
    problem.check(tasks.x[tasks.mask], tasks.y[tasks.mask])


def wants_tuning(method: Any) -> bool:
    """Whether the method's posterior is to be tuned on validation rows."""
    return isinstance(method, TunedOnValidation) and method.needs_validation


def check_validation(method: Any, training: Training, validation: Split | None) -> None:
    """Raise an error if rows are held out for something and there are none."""
    if validation is not None and len(validation):
        return
    if wants_tuning(method):
        what = f"{method.title} is to be tuned on validation rows"
    elif training.patience or training.keep_best:
        what = "patience or keep_best is set"
    else:
        return
    raise InputError(
        f"{what} and there are no validation rows; give validation=..., "
        "or on the command line --validation 0.1"
    )


def tuned_posterior(method: Any, posterior: Posterior, validation: Split | None) -> Posterior:
    """The posterior as it is kept: tuned on validation rows where the method asks for it."""
    if validation is None or not wants_tuning(method):
        return posterior
    return method.tuned(posterior, validation)
