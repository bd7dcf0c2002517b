"""The model of a design command: by name with options, or code of one's own."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from credax.cli.own_code import is_own, read_own
from credax.design import models
from credax.design.model import DesignModel
from credax.design.records import DesignRun
from credax.errors import InputError


def stored_model(run: DesignRun, own: str | None, path: Path) -> DesignModel:
    """The model of a run; one's own is named again, and must not have changed."""
    if "file" not in run.model:
        if own is not None:
            raise InputError(
                f"model is {own} and the run in {path} has the model {run.model['name']}; leave it "
                "out"
            )
        return models.get(run.model["name"], **run.model.get("options", {}))
    wanted = f"{run.model['file']}:{run.model['name']}"
    if own is None:
        raise InputError(
            f"the run in {path} has a model of your own, {wanted}, and a folder never names code "
            f"to run; pass --model {wanted}"
        )
    model, description = read_model(own, run.model.get("options", {}))
    if description["digest"] != run.model["digest"]:
        raise InputError(
            f"model is {own} and its file has changed since the run in {path} began; restore the "
            "file, or begin a new run"
        )
    return model


def read_model(text: str, options: dict[str, Any]) -> tuple[DesignModel, dict[str, Any]]:
    """The model and what a run keeps of it."""
    if not is_own(text):
        return models.get(text, **options), {"name": text, "options": options}
    code = read_own(text, "MODEL")
    value = code.value
    if callable(value) and not isinstance(value, DesignModel):
        value = value(**options)
    if not isinstance(value, DesignModel):
        raise InputError(
            f"MODEL is {text!r}, which is a {type(value).__name__}; name a credax.design."
            "DesignModel, or a function that returns one"
        )
    return value, {**code.to_json(), "options": options}


def read_options(given: list[str]) -> dict[str, Any]:
    """``NAME=NUMBER`` by name."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"option is {text!r}; give NAME=NUMBER, such as sources=1")
        found[name] = read_numbers(value, f"option {name}")
    return found


def read_numbers(text: str, name: str) -> Any:
    """A number, or nested lists of numbers."""
    try:
        value = json.loads(text)
        np.asarray(value, float)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{name} is {text!r}; give a number such as 1 or 0.5, or a list such as [1, 2]"
        ) from error
    if value is None or isinstance(value, str | bool | dict):
        raise InputError(f"{name} is {text!r}; give a number, or a list of numbers")
    return value


def short_numbers(value: Any) -> str:
    """A design or an outcome with six decimals at most."""
    return json.dumps(np.asarray(value, float).round(6).tolist())
