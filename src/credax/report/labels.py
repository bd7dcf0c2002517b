"""Variants of one method, labelled by the settings in which they differ."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from credax.report.result import Result

# How a run was carried out or repeated, not what was trained: shown only where nothing else does.
_EXECUTION = frozenset(
    {
        "split",
        "strategy",
        "members_at_once",
        "stepping",
        "placement",
        "checkpoint_every",
        "download",
        "data_dir",
        "credax",
    }
)
_SEPARATE = ("training", "network_options")
_ABSENT = object()


def distinguish(results: Sequence[Result]) -> list[Result]:
    """The same results, those of one method with different settings under different names.

    Among the results of one title, settings that differ are put behind it: those of the method
    first, then of the training, then of the network, likelihood and data. Seeds of one variant keep
    one name. Settings of the execution alone (the strategy, the split) count only where the same
    seed would otherwise occur twice. Results that differ in nothing keep their name.

    >>> runs = [Result("SWAG", 0, {}, config={"method": {"rank": r}}) for r in (10, 20)]
    >>> [result.method for result in distinguish(runs)]
    ['SWAG (rank 10)', 'SWAG (rank 20)']
    """
    out = list(results)
    for title in dict.fromkeys(result.method for result in results):
        places = [i for i, result in enumerate(results) if result.method == title]
        for i, label in zip(places, _labels([results[i] for i in places]), strict=True):
            out[i] = replace(results[i], method=label)
    return out


def settings(config: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run by name: the method's, the training's, then those of its task.

    >>> settings({"seed": 1, "method": {"name": "swag", "rank": 3}, "training": {"epochs": 5}})
    {'rank': 3, 'epochs': 5}
    """
    method, task = config.get("method"), config.get("task")
    found = _flat(method) if isinstance(method, dict) else {}
    found.pop("name", None)
    task = task if isinstance(task, dict) else {}
    training = config.get("training", task.get("training"))
    rest = {name: value for name, value in task.items() if name not in _SEPARATE}
    options = [str(option).partition("=") for option in task.get("network_options") or ()]
    problem = config.get("problem") if not task else None
    parts = {
        "training": _flat(training) if isinstance(training, dict) else {},
        "task": _flat(rest),
        "network": {name: value for name, _, value in options},
        "problem": _flat(problem) if isinstance(problem, dict) else {},
        "": {"credax": config["credax"]} if "credax" in config else {},
    }
    for place, part in parts.items():
        # A name that an earlier part has too says where it comes from: training schedule.
        found |= {f"{place}.{n}" if n in found else n: value for n, value in part.items()}
    return found


def _labels(results: list[Result]) -> list[str]:
    each = [settings(result.config) for result in results]
    names = list(dict.fromkeys(name for found in each for name in found))
    differing = [name for name in names if _differs(found.get(name, _ABSENT) for found in each)]
    shared = [n for n in differing if all(n in found for found in each)]
    shown = [name for name in shared if name not in _EXECUTION]
    for name in (n for n in differing if n not in shown):
        if not _repeated(results, each, shown):
            break
        if _repeated(results, each, shown) > _repeated(results, each, [*shown, name]):
            shown.append(name)
    return [_label(r.method, found, shown) for r, found in zip(results, each, strict=True)]


def _repeated(results: list[Result], each: list[dict[str, Any]], shown: list[str]) -> int:
    """How many results have the seed and the shown settings of another one."""
    keys = [
        (r.seed, *[_text(found.get(name)) for name in shown])
        for r, found in zip(results, each, strict=True)
    ]
    return len(keys) - len(set(keys))


def _differs(values: Iterable[Any]) -> bool:
    return len({"" if value is _ABSENT else _text(value) for value in values}) > 1


def _label(title: str, found: dict[str, Any], shown: list[str]) -> str:
    words = [f"{_words(name)} {_text(found[name])}" for name in shown if name in found]
    return f"{title} ({', '.join(words)})" if words else title


def _words(name: str) -> str:
    return "version" if name == "credax" else name.replace("_", " ").replace(".", " ")


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "on", False: "off"}[value]
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, str):
        return value or "none"
    return json.dumps(value, ensure_ascii=False, default=str)


def _flat(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            out |= _flat(value, f"{prefix}{name}.")
        else:
            out[prefix + name] = value
    return out
