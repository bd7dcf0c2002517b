"""``credax active ...``: spend labels where they teach the most."""

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import tyro

from credax.cli.config import Cluster, Names, Task, read_arguments
from credax.cli.recipes import recipe_of
from credax.errors import InputError, unknown

Run = Annotated[str, tyro.conf.Positional]
COMMANDS = {
    "start": "begin with your rows, few or none of them labelled; writes to_label.csv",
    "tell": "take a person's answers, train again, and ask again",
    "status": "how far a run is, what is asked for, how well it does",
    "compare": "methods and acquisitions on a labelled data set: learning curves, a report page",
}


def _pool_task() -> Any:
    """The task without flags of data sets that are divided: a pool is not."""
    names = ("data_dir", "download", "split", "train_rows", "test_rows", "validation")
    hidden = [
        (f.name, tyro.conf.Suppress[f.type], field(default=f.default))  # pyright: ignore
        for f in dataclasses.fields(Task)
        if f.name in names
    ]
    return dataclasses.make_dataclass("Task", hidden, bases=(Task,), frozen=True)


PoolTask: Any = _pool_task()


@dataclass(frozen=True)
class Start:
    """Begin: read the rows, train on the labels there are, and write what to label next.

    The column --target of a table holds the labels; cells of rows that have none are empty. Without
    any label the first rows are chosen at random. The rows are kept in the run: the file is not
    needed again.
    """

    method: str = "deep-ensemble"
    """Method by name, with options after colons, such as mc-dropout:rate=0.2."""
    members: int | None = 5
    """Members of a method that has them; None leaves its own default."""
    acquisition: str = "bald"
    """What to ask for, by name, with options after colons: random, entropy, bald, batchbald, ..."""
    query: int = 10
    """Rows to ask for at a time."""
    initial: int = 20
    """Rows to ask for while there are too few labels to train on."""
    scoring_pool: int | None = 10_000
    """Score a random subset of so many rows each time; None scores all."""
    labels: str | None = None
    """Another table with the same columns and the target: rows that are labelled already."""
    classes: Names = ()
    """Classes that may come, where the labels do not name them all yet."""
    test: str | None = None
    """A labelled table to measure on after every training; its rows are never asked for."""
    id: str = ""
    """A column by which answers may name rows, instead of row; it is not learned from."""
    steps: int | None = None
    """Gradient steps of every training, whatever the number of labels; they decide the epochs."""
    keep_members: bool = False
    """Keep the trained members of all rounds, not of the last only."""
    seed: int = 0
    """Seed of everything random."""
    task: tyro.conf.OmitArgPrefixes[PoolTask] = field(default_factory=PoolTask)  # pyright: ignore
    out: str | None = None
    """Folder of the run."""
    quiet: bool = False
    """No progress bar."""


@dataclass(frozen=True)
class Tell:
    """Take answers, train again, and ask again.

    Any part of the answers, in any order; rows without one are free to be asked for again.
    """

    run: Run
    """Folder of the run."""
    answers: Annotated[str | None, tyro.conf.Positional] = None
    """A table with the columns row and the target; by default to_label.csv of the run."""
    new_classes: bool = False
    """Allow classes that no label had before."""
    correct: bool = False
    """Allow answers that differ from those told before, and replace them."""
    quiet: bool = False
    """No progress bar."""


@dataclass(frozen=True)
class Status:
    """How far a run is, what is asked for, and how well it does."""

    run: Run
    """Folder of the run."""
    json: bool = False
    """Print as JSON."""


@dataclass(frozen=True)
class Compare:
    """Methods and acquisitions on a labelled data set, whose labels are bought one by one."""

    methods: Names = ("deep-ensemble",)
    """Methods by name, separated by commas, with options after colons."""
    acquisitions: Names = ("random", "entropy", "bald")
    """Acquisitions by name, separated by commas, with options after colons."""
    members: int | None = 5
    """Members of every method that has them; None leaves each its own default."""
    seeds: int = 5
    """How many seeds, 0, 1, ..."""
    query: int = 10
    """Labels bought in each round."""
    rounds: int = 10
    """Purchases."""
    initial: int = 20
    """Labels before the first round, as many of each class."""
    scoring_pool: int | None = 2000
    """Score a random subset of so many rows in each round; None scores all."""
    repeat: int = 1
    """Put every row so many times into the pool, with a little noise: a pool of near duplicates."""
    repeat_noise: float = 0.1
    """Standard deviation of that noise over that of the inputs."""
    retrain: Literal["scratch", "continue"] = "scratch"
    """Train anew in every round, or go on with the trajectory of a snapshot ensemble."""
    final: str | None = None
    """A method trained on the same labels and measured instead of the one that asks."""
    steps: int | None = None
    """Gradient steps of every training, whatever the number of labels; they decide the epochs."""
    keep_members: bool = False
    """Keep the trained members of all rounds, not of the last only."""
    cluster: Cluster = None
    task: tyro.conf.OmitArgPrefixes[Task] = field(default_factory=Task)
    out: str | None = None
    """Folder; the same command resumes."""
    json: bool = False
    """Print the table as JSON."""
    quiet: bool = False
    """No progress bar."""


def run(arguments: list[str]) -> None:
    """Find the command under ``active`` and run it."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return
    name, *flags = arguments
    if name not in COMMANDS:
        raise unknown("active command", name, COMMANDS)
    config = read(name, flags)
    if name == "compare":
        from credax.cli import active_compare

        active_compare.compare(config, flags)
        return
    from credax.cli import active_person

    getattr(active_person, name)(config)


def read(name: str, flags: list[str]) -> Any:
    """The settings of a command under ``active``."""
    program = f"credax active {name}"
    if name == "start":
        default = Start(task=_as(PoolTask, _for_few(recipe_of(flags))))
        config = read_arguments(Start, flags, program, default)
        config = dataclasses.replace(config, task=_as(Task, config.task))
        for option in ("query", "initial"):
            if getattr(config, option) < 1:
                raise InputError(f"{option} is {getattr(config, option)}; ask for at least 1 row")
        if config.steps is not None and config.steps < 1:
            raise InputError(f"steps is {config.steps}; a training has at least 1")
        return config
    if name == "compare":
        config = read_arguments(Compare, flags, program, Compare(task=_for_few(recipe_of(flags))))
        if config.seeds < 1:
            raise InputError(f"seeds is {config.seeds}; give at least 1")
        return config
    return read_arguments({"tell": Tell, "status": Status}[name], flags, program)


def _for_few(task: Task) -> Task:
    """The recipe for few labels: more epochs, for an epoch is few steps; nothing held out."""
    least = 100 if task.network in ("cnn", "resnet20") else 300
    training = task.training.replace(
        epochs=max(least, task.training.epochs), keep_best=False, patience=None
    )
    training = training.replace(last_batch="pad", batch_size=min(32, training.batch_size))
    return dataclasses.replace(task, training=training, validation=0.0)


def _as(record: Any, given: Any) -> Any:
    """The same fields in another dataclass."""
    return record(**{f.name: getattr(given, f.name) for f in dataclasses.fields(given)})


def _usage() -> str:
    lines = [f"  {name:<10}{text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: credax active COMMAND [options]        credax active COMMAND --help",
            "",
            *lines,
            "",
            "example: credax active start --data pool.csv --target label --out runs/labels",
            "         ... fill the column label of runs/labels/to_label.csv ...",
            "         credax active tell runs/labels",
        ]
    )
