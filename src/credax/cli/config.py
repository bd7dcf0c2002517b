"""What the commands take: one dataclass is the flags, the Python config and ``config.json``."""

import contextlib
import dataclasses
import io
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from credax.errors import InputError
from credax.reading import check_name, check_settings
from credax.training.config import Training

_COMMAS = PrimitiveConstructorSpec(
    nargs=1,
    metavar="A,B,...",
    # Not inside brackets: forde:milestones=(0.2,0.8) is one name with its options.
    instance_from_str=lambda given: tuple(re.findall(r"(?:[^,(\[]|[(\[][^)\]]*[)\]])+", given[0])),
    is_instance=lambda value: isinstance(value, tuple),
    str_from_instance=lambda value: [",".join(map(str, value))],
)
Names = Annotated[tuple[str, ...], _COMMAS]
LATER = ("target", "ignore", "kinds", "task", "size", "ignore_label", "depth_steps")
PIXEL_TASKS = ("segmentation", "pixel-regression")
"""Settings of a task that the first runs did not have."""


@dataclass(frozen=True)
class Task:
    """The data and the network: what every training command shares."""

    data: str = "digits"
    """Data set by name (credax list datasets), a .csv, .tsv, .parquet, .feather or .npz file, or a
    folder of pictures with a subfolder per class."""
    target: Names = ()
    """Of a table: the column to predict, or several for a regression; by default the last."""
    ignore: Names = ()
    """Of a table: columns to leave out."""
    kinds: Names = ()
    """Of a table: what columns are where their cells do not say it, such as zip=category; number,
    boolean, category, date, date-dmy or date-mdy."""
    task: Literal["auto", "classification", "regression", "segmentation", "pixel-regression"] = (
        "auto"
    )
    """Of a file: what to learn; auto goes by the target. Of a folder with images and masks (or
    depth): segmentation, a class at every pixel, or pixel-regression, a number."""
    ignore_label: int | None = None
    """Of segmentation: the label of pixels that do not count; by default 255."""
    depth_steps: float | None = None
    """Of depths in pictures of 16 bits: steps per unit; by default 256, for millimetres 1000."""
    size: int | None = None
    """Of a folder of pictures: scale them to so many pixels a side; by default 64, or their own
    size if it is one and not larger."""
    data_dir: str | None = None
    """Folder with the data files; by default CREDAX_DATA or the cache."""
    download: bool = True
    """Fetch data that is not here, where its publisher's address is known."""
    split: int | None = None
    """Which standard split (UCI sets)."""
    train_rows: int | None = None
    """Use only so many training rows."""
    test_rows: int | None = None
    """Use only so many test rows."""
    validation: float = 0.0
    """Share of the training rows held out for validation, from which predict learns which
    predictions to trust; by default 0.15 with --target or a folder of pictures."""
    network: str = "auto"
    """Network by name (credax list networks), or FILE.py:NAME of your own function outputs ->
    network; auto chooses by the data."""
    network_options: tuple[str, ...] = ()
    """Options of the network, such as 'hidden=(50,50)' zero_head=True."""
    likelihood: str = "auto"
    """How outputs become probabilities: categorical, bernoulli, label-smoothing, focal,
    evidential-dirichlet; gaussian, heteroscedastic, heteroscedastic-deviation, laplace-noise,
    student-t, poisson, negative-binomial, quantile, beta-nll, evidential-normal; or FILE.py:NAME of
    your own; auto is categorical or heteroscedastic, with --target heteroscedastic-deviation."""
    weight_decay: float | None = 5e-4
    """Weight decay on the mean loss: a Gaussian prior of precision (training rows x decay).

    None, the default with --target, is a precision of 4, and at least a decay of 0.0005."""
    training: tyro.conf.OmitArgPrefixes[Training] = field(default_factory=Training)


@dataclass(frozen=True)
class EvaluationOptions:
    """What a posterior is evaluated on besides the test rows as they are."""

    shift: bool = False
    """Evaluate on corrupted test images too."""
    corruptions: Names = ("auto",)
    """A suite, corruptions by name (credax list corruptions), or a published set: cifar10-c."""
    shift_rows: int = 1000
    """Corrupt so many test rows; 0 is all of them."""
    ood: Names = ()
    """Other data sets, or noise, that should be out of distribution."""
    calibrate: Names = ()
    """Calibrators to fit on the validation rows (credax list calibrators)."""
    reference: str | None = None
    """Folder of a zoo of the same network: distance of the weights from its, as MMD and NS."""


@dataclass(frozen=True)
class Output:
    """Where results go and how much is said."""

    out: str | None = None
    """Folder of the run; the same command resumes it."""
    name: str = ""
    """A word to add to the folder's name."""
    dry_run: bool = False
    """Print the plan, parameter count and memory estimate; train nothing."""
    json: bool = False
    """Print results as JSON."""
    quiet: bool = False
    """No progress bar."""

    def __post_init__(self):
        if self.name:
            check_name(self.name)


@dataclass(frozen=True)
class Fit:
    """One method on one data set with one seed; the flags are made in `credax.cli.fit`."""

    method: Any
    task: Task
    seed: int = 0


_CLUSTER = (
    "Train on the workers of a Dask cluster: local:N starts N workers here, or a scheduler's "
    "address, tcp://HOST:PORT; they need the same files as this command."
)
Cluster = Annotated[str | None, tyro.conf.arg(help=_CLUSTER)]


@dataclass(frozen=True)
class Compare:
    """Several methods and seeds on one data set."""

    methods: Names = ("single", "deep-ensemble")
    """Methods by name, separated by commas, with options after colons: single,swag:modes=5."""
    grid: str | None = None
    """TOML file of a sweep: a table of options per method; lists are swept over."""
    members: int | None = 5
    """Members of every method that has them, the same for all; None leaves each its own default."""
    seeds: int = 3
    """How many seeds, 0, 1, ..."""
    figures: Literal["pdf", "png", "svg"] | None = None
    """Also write figures of this format to the folder figures, by matplotlib."""
    cluster: Cluster = None
    task: tyro.conf.OmitArgPrefixes[Task] = field(default_factory=Task)
    evaluation: tyro.conf.OmitArgPrefixes[EvaluationOptions] = field(
        default_factory=EvaluationOptions
    )
    output: tyro.conf.OmitArgPrefixes[Output] = field(default_factory=Output)


def read_arguments(config: Any, arguments: list[str], program: str, default: Any = None) -> Any:
    """Flags into a config; a mistake ends the program with code 2."""
    kwargs = {} if default is None else {"default": default}
    words = io.StringIO()
    try:
        with contextlib.redirect_stderr(words):
            return tyro.cli(config, args=arguments, prog=program, **kwargs)
    except SystemExit as ending:
        # A record that refuses its values says why in one sentence: better than the parser's box.
        error: BaseException | None = ending
        while error is not None and not isinstance(error, InputError):
            error = error.__cause__ or error.__context__
        if error is not None:
            raise error from None
        print(words.getvalue(), end="", file=sys.stderr)
        raise


def peek(arguments: list[str], flag: str, default: str) -> str:
    """The value of a flag before the flags are read: defaults of others depend on it."""
    for position, argument in enumerate(arguments):
        if argument == flag and position + 1 < len(arguments):
            return arguments[position + 1]
        if argument.startswith(f"{flag}="):
            return argument.split("=", 1)[1]
    return default


def to_json(config: Any) -> dict[str, Any]:
    """A config as plain data."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def task_to_json(task: Any) -> dict[str, Any]:
    """A task as plain data; settings that older runs did not have only where they are used."""
    content = to_json(task)
    return {n: v for n, v in content.items() if n not in LATER or v not in ([], None, "auto")}


def task_from_json(content: dict[str, Any], path: Path) -> Task:
    """The task of a saved ``config.json``."""
    try:
        values = dict(content["task"])
        training = dict(values.pop("training"))
        training["milestones"] = tuple(training["milestones"])
        training["cycle_ratios"] = tuple(training.get("cycle_ratios", (1.0, 0.01)))
        training["augment"] = tuple(training["augment"])
        if training.get("stepping") == "auto":  # what the first runs called the loop
            training["stepping"] = "loop"
        for name in ("network_options", "target", "ignore", "kinds"):
            values[name] = tuple(values.get(name, ()))
        check_settings(Training, training, f"{path}, training,")
        check_settings(Task, values, path)
        return Task(**values, training=Training(**training))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} is not the configuration of a credax run ({error}); was it made by credax fit?"
        ) from error
