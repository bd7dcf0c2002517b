"""Several processes that train together: do they train the same, and what do they agree on."""

import hashlib
import json
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from credax import __version__
from credax.errors import InputError
from credax.training.describe import FREE, compared

_WORDS = {
    "credax": "the version of credax",
    "method": "the settings of the method",
    "training": "the settings of the training",
    "problem": "the network, the likelihood or the prior",
    "task": "the settings of the data or the network",
    "dataset": "the data",
    "rows": "the training rows",
    "validation_rows": "the validation rows",
    "engine": "how members run",
    "key": "the seed",
    "step": "the checkpoint",
}


def several() -> bool:
    """Whether this process trains together with others."""
    return jax.process_count() > 1


def check_same_run(config: dict[str, Any], layout: tuple[int, int] | None) -> None:
    """Refuse to train where processes have other settings, rows, devices or another credax.

    Args:
        config: what `describe_run` says here.
        layout: devices along the axes of the mesh.
    """
    if not several():
        return
    training = config["training"]
    engine = {name: training[name] for name in sorted(FREE)}
    check_same({**compared(config), "credax": __version__, "engine": [engine, layout]})


def check_same(parts: dict[str, Any]) -> None:
    """Refuse to go on where a part, plain data by name, differs between processes."""
    if not several():
        return
    names = sorted(parts)
    # The names first: a list that is longer in one process would not be gathered.
    for compare in ([names], [parts[name] for name in names]):
        own = np.stack([_digest(part) for part in compare])
        every = np.asarray(multihost_utils.process_allgather(own))
        odd = np.argwhere((every != every[0]).any(-1))
        if len(odd):
            process, part = map(int, odd[0])
            name = names[part] if compare[0] is not names else "settings"
            raise InputError(
                f"the processes of this training differ in {_WORDS.get(name, name)} (process "
                f"{process} from process 0); start all of them with the same command, the same "
                "data and the same credax"
            )


def agreed(number: int) -> int:
    """The largest of the numbers that the processes give: a signal, or the wish to save."""
    if not several():
        return number
    return int(np.max(multihost_utils.process_allgather(np.int32(number))))


def _digest(part: Any) -> np.ndarray:
    text = json.dumps(part, sort_keys=True, default=str)
    return np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint32).copy()
