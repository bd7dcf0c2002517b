"""What was run, in plain data: enough to know whether a folder holds the same run."""

import dataclasses
import hashlib
from typing import Any

import jax
import numpy as np

from credax.data.dataset import Split
from credax.problem import Problem
from credax.training.config import Training

# A change of these changes no number, so a run may be resumed with others.
FREE = {"checkpoint_every"}


def describe_run(
    problem: Problem,
    method: Any,
    training: Training,
    data: Split,
    validation: Split | None,
    key: jax.Array,
    config: dict[str, Any] | None,
) -> dict[str, Any]:
    """The resolved configuration of a fit, as JSON."""
    return {
        **(config or {}),
        "method": {"name": method.name, **describe_method(method)},
        "training": _settings(training),
        "problem": {
            "network": _name(problem.network),
            "likelihood": repr(problem.likelihood),
            "prior": repr(problem.prior),
        },
        "key": np.asarray(jax.random.key_data(key)).tolist(),
        "rows": fingerprint(data),
        "validation_rows": None if validation is None else fingerprint(validation),
    }


def default_settings(method: Any) -> dict[str, Any]:
    """What the sections of `describe_run` say of settings that nobody chose."""
    fields = [f for f in dataclasses.fields(method) if f.default is not dataclasses.MISSING]
    return {
        "method": _plain({field.name: field.default for field in fields}),
        "training": _settings(Training()),
        # The command line keeps the settings of its own, all of them, beside.
        "task": {"training": dataclasses.asdict(Training())},
    }


def _settings(training: Training) -> dict[str, Any]:
    settings = {field.name: getattr(training, field.name) for field in dataclasses.fields(training)}
    settings["augment"] = [a if isinstance(a, str) else _name_of(a) for a in training.augment]
    return {name: value for name, value in settings.items() if name not in FREE}


def describe_method(method: Any) -> dict[str, Any]:
    """A record's fields; what JSON cannot hold, such as a schedule, by its name."""
    return _plain({field.name: getattr(method, field.name) for field in dataclasses.fields(method)})


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    plain = (str, int, float, type(None), list, tuple, dict)
    return {k: v if isinstance(v, plain) else _name_of(v) for k, v in values.items()}


def fingerprint(split: Split, most: int = 2**28) -> dict[str, Any]:
    """Shape and digest of the rows; of very large sets, a fixed selection of rows."""
    rows: Any = slice(None)
    if split.x.nbytes > most:
        rows = np.linspace(0, len(split) - 1, 4096).astype(int)
    digest = hashlib.blake2b(digest_size=16)
    for array in (split.x, split.y):
        digest.update(np.asarray(array[rows]).tobytes())
    return {"count": len(split), "shape": list(split.x.shape[1:]), "digest": digest.hexdigest()}


def _name(network: Any) -> str:
    text = repr(network)
    # Functions print their address, which differs from process to process.
    return text if " at 0x" not in text else type(network).__name__


def _name_of(value: Any) -> str:
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"
