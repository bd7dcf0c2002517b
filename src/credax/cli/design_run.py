"""The commands of ``credax design``: start, ask, tell and report."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from credax import __version__
from credax.cli.design import Ask, Report, Start, Tell
from credax.cli.design_models import (
    read_model,
    read_numbers,
    read_options,
    short_numbers,
    stored_model,
)
from credax.cli.design_train import copy_policy, policy_design
from credax.cli.own_code import is_own
from credax.cli.terminal import printable
from credax.design.adaptive import believe, recommend_next
from credax.design.beliefs.belief import Belief, check_outcome
from credax.design.model import DesignModel, check_designs, check_model
from credax.design.policy_files import load_policy
from credax.design.records import FILE, DesignRun, load_run
from credax.errors import InputError
from credax.locks import claim_folder

DEFAULT_ROOT = "runs"


class Opened(NamedTuple):
    """A run, its folder and its model."""

    folder: Path
    run: DesignRun
    model: DesignModel

    def belief(self) -> Belief:
        """What is believed now."""
        return believe(self.model, self.run.seen, belief=self.run.belief, key=self.run.seed)  # pyright: ignore[reportArgumentType]


def start(config: Start) -> None:
    """Keep the model's description and ask for the first experiment."""
    model, description = read_model(config.model, read_options(config.option))
    name = config.model.rpartition(":")[2] if is_own(config.model) else config.model
    folder = Path(config.out or Path(DEFAULT_ROOT) / f"design_{name}")
    fresh = DesignRun(
        __version__, description, config.belief, config.seed, config.outer, config.inner
    )
    if config.policy is not None:
        rounds = load_policy(config.policy, model).rounds
        fresh = dataclasses.replace(fresh, policy_rounds=rounds)
    with _entered(folder):
        if (folder / FILE).exists():
            raise InputError(
                f"{folder} holds a run already; go on with credax design ask {folder}, or choose "
                "another folder with --out"
            )
        if model.designs is None:
            raise InputError(f"{model.name} has no designs to choose from; give it designs=")
        check_model(model, check_designs(model, model.designs)[0])
        if config.policy is not None:
            copy_policy(config.policy, folder, model, description)
        fresh.save(folder)
        _print_question(_asked(Opened(folder, fresh, model)), as_json=False)


def ask(config: Ask) -> None:
    """Print what is asked for; choose it if nothing is."""
    with _entered(Path(config.run), existing=True):
        _print_question(_asked(_open(config.run, config.model)), config.json)


def tell(config: Tell) -> None:
    """Keep the outcome, then ask for the next experiment."""
    with _entered(Path(config.run), existing=True):
        opened = _open(config.run, config.model)
        run, model = opened.run, opened.model
        outcome = read_numbers(config.outcome, "OUTCOME")
        expected = None
        if config.design is not None:
            design = check_designs(
                model, np.asarray(read_numbers(config.design, "--design"))[None]
            )[0]
        elif run.asked is not None:
            design, expected = np.asarray(run.asked["design"]), run.asked["expected"]
        else:
            raise InputError(f"nothing is asked for in {opened.folder}; run credax design ask")
        value = check_outcome(model, design, outcome)
        run = run.tell(np.asarray(design).tolist(), value.tolist(), expected)
        # On disk before anything is computed: an outcome is never lost.
        run.save(opened.folder)
        if run.policy_rounds is not None and len(run.rounds) >= run.policy_rounds:
            print(f"all {run.policy_rounds} experiments of the policy are done")
            return
        _print_question(_asked(opened._replace(run=run)), as_json=False)


def report(config: Report) -> None:
    """Write the page of a run."""
    from credax.cli.design_report import write_report

    opened = _open(config.run, config.model)
    print(printable(f"report: {write_report(opened.folder, opened.run, opened.model)}"))


def _asked(opened: Opened) -> Opened:
    """The run with a design asked for, chosen and kept where there was none."""
    if opened.run.asked is not None:
        return opened
    run = opened.run
    key = jax.random.fold_in(jax.random.key(run.seed), len(run.rounds))
    # A policy's design is the only one that is compared: its information is still told.
    designs = None
    if run.policy_rounds is not None:
        designs = policy_design(opened.folder, run, opened.model)[None]
    found = recommend_next(opened.belief().model, key, designs, outer=run.outer, inner=run.inner)
    information, place = found.information, found.position
    asked = {
        "design": np.asarray(found.design).tolist(),
        "expected": float(information.value[place]),
        "lower": _finite(information.lower[place]),
        "upper": _finite(information.upper[place]),
        "standard_error": float(information.standard_error[place]),
    }
    run = run.ask(asked)
    run.save(opened.folder)
    return opened._replace(run=run)


def _print_question(opened: Opened, as_json: bool) -> None:
    run, asked = opened.run, opened.run.asked
    assert asked is not None
    if as_json:
        print(json.dumps({"experiments": len(run.rounds), **asked}, indent=2))
        return
    belief = opened.belief()
    count = len(run.rounds)
    lines = [f"{opened.model.title}: {count} experiment{'' if count == 1 else 's'} done"]
    lines += [f"  {name}: {value}" for name, value in _moments(belief)]
    lines += [f"credax: warning: {warning}" for warning in belief.warnings]
    lines += [f"next experiment: {short_numbers(asked['design'])}", f"  {_words(asked)}"]
    lines += [f"then: credax design tell {opened.folder} OUTCOME"]
    print(printable("\n".join(lines)))


def _words(asked: dict[str, Any]) -> str:
    expected = f"expected information {asked['expected']:.4f} nats"
    if asked["lower"] == asked["upper"]:
        return f"{expected}, exact"
    return (
        f"{expected}, between {asked['lower']:.4f} and {asked['upper']:.4f}, standard error "
        f"{asked['standard_error']:.4f}"
    )


def _moments(belief: Belief) -> list[tuple[str, str]]:
    """Mean and standard deviation of every entry of θ, at most eight of them."""
    names, found = jax.tree_util.tree_flatten_with_path(belief.mean)[0], []
    for (path, mean), std in zip(names, jax.tree.leaves(belief.std), strict=True):
        label = jax.tree_util.keystr(path, simple=True, separator=".") or "θ"
        for index in np.ndindex(np.shape(mean)):
            place = f"[{', '.join(map(str, index))}]" if index else ""
            value = f"{np.asarray(mean)[index]:.4g} ± {np.asarray(std)[index]:.4g}"
            found.append((f"{label}{place}", value))
    if belief.effective is not None:
        found = [*found[:8], ("effective sample size", f"{belief.effective:.0f}")]
    return found[:9]


def _open(folder: str, own: str | None) -> Opened:
    path = Path(folder)
    run = load_run(path)
    return Opened(path, run, stored_model(run, own, path))


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


@contextlib.contextmanager
def _entered(folder: Path, existing: bool = False) -> Iterator[None]:
    """Alone in the folder."""
    if existing:
        load_run(folder)
    with claim_folder(folder):
        yield
