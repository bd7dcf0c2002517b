"""``credax push RUN hf://user/name``: share a finished run or a zoo."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from credax.cli.config import read_arguments


@dataclass(frozen=True)
class Push:
    """Copy a finished run or a zoo to the Hugging Face Hub, with a model card."""

    folder: Annotated[str, tyro.conf.Positional]
    """Folder of the run or zoo."""
    address: Annotated[str, tyro.conf.Positional]
    """hf://user/name, or hf://user/name@branch."""
    rows: bool = False
    """Push the test rows that the run keeps too: they are your data."""
    private: bool = False
    """Make a new repository private."""


def run(arguments: list[str]) -> None:
    """Push, and print the address."""
    config = read_arguments(Push, arguments, "credax push")
    from credax.hub import push

    where = push(config.folder, config.address, rows=config.rows, private=config.private)
    print(f"pushed to {where}")
    print(f'load it with: credax.load("{config.address}"), or credax pull {config.address} FOLDER')
