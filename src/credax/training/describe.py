"""What was run, in plain data: enough to know whether a folder holds the same run."""

import dataclasses
import json
from typing import Any

import jax
import numpy as np

from credax.data.about import About
from credax.data.dataset import Split
from credax.data.rows import fingerprint
from credax.description import describe, file_digest, shortened
from credax.problem import Problem
from credax.standardise import Standardise
from credax.training.config import Training
from credax.training.hooks import files_of

FORMAT = 2
# A change of these changes no mathematics, so a run may be resumed with others.
FREE = {"checkpoint_every", "strategy", "members_at_once", "stepping", "placement"}
# Where the rows come from; their digests say what they are.
PLACES = {"data", "data_dir", "download"}


def describe_run(
    problem: Problem,
    method: Any,
    training: Training,
    about: About,
    key: jax.Array,
    config: dict[str, Any] | None,
    first: tuple[Any, Training] | None = None,
) -> dict[str, Any]:
    """The resolved configuration of a fit, as JSON; all that changes a number is in it.

    ``first`` is what is trained before the method itself.
    """
    content = {
        **(config or {}),
        "format": FORMAT,
        "method": describe_method(method),
        "training": describe_training(training),
        "problem": describe_problem(problem),
        "key": describe(key, "key"),
        "dataset": about.to_json(),
        "rows": about.rows["train"],
        "validation_rows": about.rows.get("validation"),
        **({} if first is None else {"first": _describe_first(*first)}),
    }
    return json.loads(json.dumps(content))


def _describe_first(method: Any, training: Training) -> dict[str, Any]:
    settings = _without(describe_training(training), FREE)
    return {"method": describe_method(method), "training": settings}


def describe_problem(problem: Problem) -> dict[str, Any]:
    """Network, likelihood, prior and units; those of credax can be built again from it."""
    return {
        "network": describe(problem.network, "network"),
        "likelihood": describe(problem.likelihood, "likelihood"),
        "prior": shortened(describe(problem.prior, "prior")),
        "inputs": _units(problem.inputs),
        "targets": _units(problem.targets),
    }


def _units(unit: Standardise | None) -> dict[str, Any] | None:
    """By value, however many columns there are: predictions need them."""
    return None if unit is None else {"type": "credax.Standardise", **unit.to_lists()}


def describe_method(method: Any) -> dict[str, Any]:
    """A record's name and fields, and digests of the files it reads."""
    fields = {
        field.name: shortened(describe(getattr(method, field.name), f"{method.name}.{field.name}"))
        for field in dataclasses.fields(method)
    }
    digests = {str(path): file_digest(path) for path in files_of(method)}
    return {"name": method.name, **fields, **({"files": digests} if digests else {})}


def describe_training(training: Training) -> dict[str, Any]:
    """Every setting of the training."""
    return {
        field.name: shortened(describe(getattr(training, field.name), f"training.{field.name}"))
        for field in dataclasses.fields(training)
    }


def compared(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration without what may change between two calls of one run."""
    kept = {name: value for name, value in config.items() if name not in ("credax", "command")}
    kept["training"] = _without(kept.get("training"), FREE)
    if isinstance(kept.get("task"), dict):
        task = _without(kept["task"], PLACES)
        kept["task"] = {**task, "training": _without(task.get("training"), FREE)}
    if isinstance(kept.get("dataset"), dict):
        # The rows are those after preparation, so their digests say whether it was the same.
        kept["dataset"] = _without(kept["dataset"], {"name", "path", "preparation"})
    return kept


def changed_freely(old: dict[str, Any], new: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Settings of how members run that differ: results then agree to rounding, not to the bit."""
    before, after = old.get("training", {}), new.get("training", {})
    names = sorted(FREE - {"checkpoint_every"})
    before = {**before, "stepping": "loop"} if before.get("stepping") == "auto" else before
    return {n: (before[n], after[n]) for n in names if n in before and before[n] != after.get(n)}


def default_settings(method: Any) -> dict[str, Any]:
    """What the sections of `describe_run` say of settings that nobody chose."""
    fields = [f for f in dataclasses.fields(method) if f.default is not dataclasses.MISSING]
    return {
        "method": {f.name: shortened(describe(f.default, f.name)) for f in fields},
        "training": describe_training(Training()),
        # The command line keeps the settings of its own, all of them, beside.
        "task": {"training": describe_training(Training())},
    }


def describe_run_before(
    problem: Problem,
    method: Any,
    training: Training,
    data: Split,
    validation: Split | None,
    key: jax.Array,
    config: dict[str, Any] | None,
) -> dict[str, Any]:
    """What runs of the first format said of themselves: to go on with one that is unfinished."""
    plain = (str, int, float, type(None), list, tuple, dict)
    fields = {f.name: getattr(method, f.name) for f in dataclasses.fields(method)}
    settings = {f.name: getattr(training, f.name) for f in dataclasses.fields(training)}
    settings["augment"] = [a if isinstance(a, str) else _name_of(a) for a in training.augment]
    text = repr(problem.network)
    content = {
        **(config or {}),
        "method": {
            "name": method.name,
            **{k: v if isinstance(v, plain) else _name_of(v) for k, v in fields.items()},
        },
        "training": settings,
        "problem": {
            "network": text if " at 0x" not in text else type(problem.network).__name__,
            "likelihood": repr(problem.likelihood),
            "prior": repr(problem.prior),
        },
        "key": np.asarray(jax.random.key_data(key)).tolist(),
        "rows": _rows_before(data),
        "validation_rows": None if validation is None else _rows_before(validation),
    }
    return json.loads(json.dumps(content))


def _rows_before(split: Split) -> dict[str, Any]:
    return _without(fingerprint(split, most=2**28), {"dtype"})


def _name_of(value: Any) -> str:
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def _without(content: Any, names: set[str]) -> Any:
    if not isinstance(content, dict):
        return content
    return {name: value for name, value in content.items() if name not in names}
