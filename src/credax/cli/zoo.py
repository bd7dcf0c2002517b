"""``credax zoo ...``: populations of thousands of networks on disk."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from credax.cli.config import Cluster, Task, read_arguments, task_to_json
from credax.cli.recipes import recipe_of
from credax.errors import unknown

Folder = Annotated[str, tyro.conf.Positional]
COMMANDS = {
    "train": "train many networks of one kind, together and resumably",
    "import": "read published checkpoints (safetensors in a folder or .tgz) into a zoo",
    "info": "what a zoo is and how far it is",
    "verify": "check every byte; damaged members are named",
    "table": "the members' records as CSV",
    "analyse": "two halves by MMD, exchangeability of units, functions of all pairs",
}


@dataclass(frozen=True)
class Train:
    """Train many networks of one kind, together and resumably."""

    count: int = 1000
    """Networks in all; a larger number later extends the zoo."""
    at_once: int = 256
    """Networks in memory and in one program."""
    seed: int = 0
    """Seed of everything random; member i depends on it and on i alone."""
    storage: Literal["float32", "float16"] = "float32"
    """Type of the stored numbers."""
    shard_members: int = 1024
    """Members per file."""
    task: tyro.conf.OmitArgPrefixes[Task] = field(default_factory=Task)
    out: str | None = None
    """Folder of the zoo; the same command resumes it."""
    cluster: Cluster = None
    quiet: bool = False
    """No progress bar."""


@dataclass(frozen=True)
class Import:
    """Read published checkpoints into a zoo; what cannot be read is named and left out."""

    place: Folder
    """A folder of .safetensors files, a .tgz of them, or one file."""
    out: Folder
    """Folder of the zoo; the same command resumes it."""
    architecture: str | None = None
    """resnet18, resnet20-frn-silu or optunet; by default read off the file's name."""
    storage: Literal["float16", "float32"] = "float16"
    """Type of the stored numbers; the published ones are float16."""
    quiet: bool = False
    """No progress bar."""


@dataclass(frozen=True)
class Info:
    """What a zoo is and how far it is."""

    zoo: Folder
    """Folder of the zoo."""
    json: bool = False
    """Print as JSON."""


@dataclass(frozen=True)
class Verify:
    """Check every byte of a zoo; damaged members are named."""

    zoo: Folder
    """Folder of the zoo."""


@dataclass(frozen=True)
class Table:
    """The members' records as CSV."""

    zoo: Folder
    """Folder of the zoo."""
    out: str | None = None
    """Where to write; by default the terminal."""


@dataclass(frozen=True)
class Analyse:
    """Two halves by MMD, exchangeability of units, functions of all pairs."""

    zoo: Folder
    """Folder of the zoo."""
    data: str | None = None
    """Data set whose test inputs the networks are compared on; by default the zoo's own."""
    data_dir: str | None = None
    """Folder with the data files."""
    out_of_distribution: str | None = None
    """Another data set of the same input shape."""
    inputs: int = 1000
    """At most so many inputs of each."""
    members: int | None = None
    """Only the first so many members."""
    permutations: int = 999
    """Relabellings of the tests."""
    seed: int = 0
    """Seed of everything random."""
    json: bool = False
    """Print as JSON."""


def run(arguments: list[str]) -> None:
    """Find the command under ``zoo`` and run it."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return
    name, *flags = arguments
    if name not in COMMANDS:
        raise unknown("zoo command", name, COMMANDS)
    records = {"import": Import, "info": Info, "verify": Verify, "table": Table, "analyse": Analyse}
    from credax.cli import zoo_commands

    if name == "train":
        zoo_commands.train(read_train(flags), flags)
        return
    config = read_arguments(records[name], flags, f"credax zoo {name}")
    getattr(zoo_commands, f"{name}_" if name == "import" else name)(config)


def read_train(flags: list[str]) -> Train:
    """The settings of ``credax zoo train``."""
    return read_arguments(Train, flags, "credax zoo train", Train(task=recipe_of(flags)))


def _usage() -> str:
    lines = [f"  {name:<10}{text}" for name, text in COMMANDS.items()]
    example = "example: credax zoo train --data digits --network mlp --count 1000"
    return "\n".join(
        [
            "usage: credax zoo COMMAND [options]        credax zoo COMMAND --help",
            "",
            *lines,
            "",
            example,
        ]
    )


def print_nested(content: dict[str, Any]) -> None:
    """Names and values, numbers short."""
    for name, value in content.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {_short(entry)}" for key, entry in value.items())
        print(f"{name:<26}{_short(value)}")


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_short, value)) + "]"
    return str(value)


def zoo_folder(config: Train, network: str) -> Path:
    """Where a zoo goes when no folder is given."""
    name = f"{network}_{config.seed}_{Path(config.task.data).name}"
    return Path(config.out or Path("zoos") / name)


def as_json(content: Any) -> str:
    """Readable JSON."""
    return json.dumps(content, indent=2)


def plain_task(task: Task) -> dict[str, Any]:
    """What of a task is written into a zoo: all but where the data files are."""
    places = ("data_dir", "download", "training")
    return {name: value for name, value in task_to_json(task).items() if name not in places}
