"""``credax fit METHOD``: train one method."""

import dataclasses
import inspect
import json
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

import tyro

from credax import methods
from credax.cli.config import Fit, Output, Task, read_arguments
from credax.cli.distributed import Processes, joined
from credax.cli.recipes import for_method, recipe_of
from credax.errors import InputError
from credax.training.config import Training

DEFAULT_ROOT = "runs"
_DEVICES = "With --dry-run: take a step here and project hours on so many devices."
_SPEED = "With --devices: how many times as fast as this machine a device is; by default 1."
_HIDDEN = tyro.conf.Suppress[str | None]


def run(arguments: list[str]) -> None:
    """Read the flags, train, print the metrics and where the run is."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return
    name, *flags = arguments
    if name.startswith("-"):
        raise InputError(
            f"fit needs a method before its flags; one of: {', '.join(methods.names())}"
        )
    given = read_flags(name, flags)
    with joined(given.processes) as tells:
        config = Fit(given.method, given.task, given.seed)
        _fit(config, given.output, given.around, tells, given.devices, given.device_speed)


def read_flags(name: str, flags: list[str]) -> Any:
    """Method, task, seed and output of ``credax fit NAME`` with these flags."""
    record = methods.get(name)
    task, training = _own_task(record)
    command = _command(record, task)
    suited = recipe_of(flags)
    suited_training = for_method(suited.training, record, flags)
    own = _as(task, suited, training=_as(training, suited_training))
    given = read_arguments(command, flags, f"credax fit {name}", command(task=own))
    plain = _as(Task, given.task, training=_as(Training, given.task.training))
    return dataclasses.replace(given, method=_as(record, given.method), task=plain)


def _usage() -> str:
    lines = [f"  {name:<16}{methods.describe(name)}" for name in methods.names()]
    return "\n".join(
        [
            "usage: credax fit METHOD [options]        credax fit METHOD --help",
            "",
            *lines,
            "",
            "example: credax fit deep-ensemble --data digits --members 5 --seed 1",
        ]
    )


def _own_task(record: type) -> tuple[Any, Any]:
    """Task and training without flags that the method has itself: those it decides anyway."""
    names = {f.name for f in dataclasses.fields(record)}
    shared = [f for f in dataclasses.fields(Training) if f.name in names]
    renamed: list[Any] = []
    if "size" in names:  # of a part of the network, in Laplace
        words = "Of a folder of pictures: scale them to so many pixels a side."
        flag = tyro.conf.arg(name="picture-size", help=words)
        renamed = [("size", Annotated[int | None, flag], field(default=None))]
    if not shared and not renamed:
        return Task, Training
    hidden = [
        (f.name, tyro.conf.Suppress[f.type], field(default=f.default))  # pyright: ignore
        for f in shared
    ]
    training = dataclasses.make_dataclass("Training", hidden, bases=(Training,), frozen=True)
    flat = tyro.conf.OmitArgPrefixes[training]
    inner = [("training", flat, field(default_factory=training))]
    task = dataclasses.make_dataclass("Task", [*renamed, *inner], bases=(Task,), frozen=True)
    return task, training


def _as(record: Any, given: Any, **changes: Any) -> Any:
    """The same fields in another dataclass."""
    fields = {f.name: getattr(given, f.name) for f in dataclasses.fields(given)}
    return record(**{**fields, **changes})


def _command(record: type, task: type) -> Any:
    """The flags of ``fit`` for one method: its own fields beside the common ones."""
    flat = tyro.conf.OmitArgPrefixes
    text = "Folder of a finished run of the same network and data to continue from or surround."
    known = "around" in {f.name for f in dataclasses.fields(record)}
    around = Annotated[str | None, tyro.conf.arg(help=text)] if known else _HIDDEN
    title, record = record.title, _for_help(record)
    command = dataclasses.make_dataclass(
        "Command",
        [
            ("method", flat[record], field(default_factory=record)),
            ("seed", Annotated[int, tyro.conf.arg(help="Seed of everything random.")], 0),
            ("around", around, None),
            ("task", flat[task], field(default_factory=task)),
            ("output", flat[Output], field(default_factory=Output)),
            ("devices", Annotated[int | None, tyro.conf.arg(help=_DEVICES)], None),
            ("device_speed", Annotated[float | None, tyro.conf.arg(help=_SPEED)], None),
            ("processes", flat[Processes], field(default_factory=Processes)),
        ],
        frozen=True,
    )
    command.__doc__ = f"Train: {title}."
    return command


def _for_help(record: type) -> Any:
    """The record with a docstring for people at a terminal: no example in Python."""
    text = inspect.getdoc(record) or ""
    kept = [part for part in text.split("\n\n") if not part.lstrip().startswith(">>>")]
    return type(record.__name__, (record,), {"__doc__": "\n\n".join(kept)})


def folder_name(config: Fit, name: str) -> str:
    """``network_seed_data_method``, and a name of one's own."""
    parts = [config.task.network, str(config.seed), config.task.data, config.method.name, name]
    names = [Path(part).name.replace("/", "-").replace(".py:", "-") for part in parts if part]
    return "_".join(names)


def _fit(
    config: Fit,
    output: Output,
    around: str | None,
    tells: bool,
    devices: int | None,
    speed: float | None,
) -> None:
    """``tells`` says whether this process is the one that prints."""
    from rich.console import Console

    from credax.cli.cost import check_devices
    from credax.cli.decisions import print_decisions
    from credax.cli.job import Job
    from credax.cli.plan import plan, print_plan
    from credax.cli.results import result_of
    from credax.cli.saved import Rows, saved_run

    check_devices(devices, speed, output.dry_run)
    job = Job.of(config.task)
    config = dataclasses.replace(config, task=job.task)
    if around is not None:
        members = job.population(around)
        config = dataclasses.replace(
            config, method=dataclasses.replace(config.method, around=members)
        )
    folder = Path(output.out or Path(DEFAULT_ROOT) / folder_name(config, output.name))
    if tells and not output.quiet and not output.json:
        print_decisions(job.dataset, Console())
    if output.dry_run:
        if tells:
            print_plan(plan(job, config, folder, devices, speed), output.json)
        return
    quiet = output.quiet or output.json or not tells
    posterior = job.train(config, folder, False if quiet else None)
    if not tells:
        return
    saved = saved_run(folder, job.problem if job.code else None)
    result = result_of(saved, Rows(job.dataset, True), posterior)
    if output.json:
        summary = {"run": str(folder), "metrics": result.metrics, "cost": result.cost}
        print(json.dumps(summary, indent=2))
        return
    console = Console()
    width = max([22, *(len(metric) + 2 for metric in result.metrics)])
    for metric, value in result.metrics.items():
        console.print(f"  {metric:<{width}}{value:.4f}", highlight=False, markup=False)
    kept = f"run kept in {folder}  (credax report {folder})"
    console.print(kept, highlight=False, markup=False, soft_wrap=True)
