"""``credax pull hf://user/name FOLDER``: fetch a run or a zoo that somebody shared."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from credax.cli.config import read_arguments


@dataclass(frozen=True)
class Pull:
    """Fetch a run or a zoo from the Hugging Face Hub: JSON and safetensors only."""

    address: Annotated[str, tyro.conf.Positional]
    """hf://user/name, or hf://user/name@revision."""
    folder: Annotated[str, tyro.conf.Positional]
    """Where to put it; an empty or new folder."""


def run(arguments: list[str]) -> None:
    """Pull, and say what to do next."""
    config = read_arguments(Pull, arguments, "credax pull")
    from credax.hub import pull

    print(f"{config.address} is in {pull(config.address, config.folder)}")
