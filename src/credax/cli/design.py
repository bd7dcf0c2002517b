"""``credax design ...``: which experiment next, for someone at the keyboard."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import tyro

from credax.cli.config import read_arguments
from credax.errors import unknown

Text = Annotated[str, tyro.conf.Positional]
COMMANDS = {
    "start": "begin with a model of the list or of your own: credax design start MODEL --out RUN",
    "ask": "the next experiment, its expected information, and how sure that is",
    "tell": "the outcome of an experiment: credax design tell RUN OUTCOME",
    "report": "posterior against prior, information so far, the curve over designs",
    "train": "a policy that plans several experiments ahead: credax design train MODEL --rounds T",
}


@dataclass(frozen=True)
class Start:
    """Begin a run of experiments and ask for the first one."""

    model: Text
    """A name (credax design start --help lists them), or FILE.py:NAME of a DesignModel."""
    out: str | None = None
    """Folder of the run; by default runs/design_MODEL."""
    belief: Literal["auto", "grid", "particles", "laplace", "variational"] = "auto"
    """How the posterior is kept; auto takes an exact grid where the model has one."""
    seed: int = 0
    """Seed of all draws."""
    outer: int = 2000
    """Draws per design, where information is estimated."""
    inner: int = 500
    """Contrastive draws, where information is estimated."""
    option: list[str] = field(default_factory=list)
    """Options of the model, such as sources=1."""
    policy: str | None = None
    """Ask by a trained policy (policy.safetensors of credax design train); by default the design
    with the most information next is asked for."""


@dataclass(frozen=True)
class Train:
    """Train a policy for a sequence of experiments, and compare it with the usual plans."""

    model: Text
    """A name (credax design train --help lists them), or FILE.py:NAME of a DesignModel."""
    rounds: int
    """Experiments of a sequence."""
    out: str | None = None
    """Folder for policy.safetensors and results.json; by default runs/policy_MODEL_ROUNDS."""
    steps: int = 2000
    """Training steps."""
    batch: int = 256
    """Simulated sequences per step."""
    inner: int = 512
    """Contrastive parameters per step; the objective cannot exceed the log of one more."""
    learning_rate: float = 1e-3
    """Of Adam; it decays to a hundredth."""
    hidden: int = 128
    """Units of the hidden layers."""
    seed: int = 0
    """Seed of all draws."""
    evaluate_outer: int = 1024
    """Simulated sequences of the evaluation."""
    evaluate_inner: int = 10_000
    """Contrastive parameters of the evaluation."""
    option: list[str] = field(default_factory=list)
    """Options of the model, such as sources=1."""


@dataclass(frozen=True)
class Ask:
    """Print the next experiment."""

    run: Text
    """Folder of the run."""
    model: str | None = None
    """FILE.py:NAME again, where the model is your own: a folder never names code to run."""
    json: bool = False
    """Print JSON."""


@dataclass(frozen=True)
class Tell:
    """Take the outcome of the experiment that was asked for, and ask for the next."""

    run: Text
    """Folder of the run."""
    outcome: Text
    """The outcome: a number, or numbers in brackets separated by commas."""
    design: str | None = None
    """The design that was really used, where it is not the one asked for."""
    model: str | None = None
    """FILE.py:NAME again, where the model is your own."""


@dataclass(frozen=True)
class Report:
    """Write report.html into the run."""

    run: Text
    """Folder of the run."""
    model: str | None = None
    """FILE.py:NAME again, where the model is your own."""


def run(arguments: list[str]) -> None:
    """Find the command under ``design`` and run it."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return
    name, *flags = arguments
    if name not in COMMANDS:
        raise unknown("design command", name, COMMANDS)
    configs: dict[str, Any] = {
        "start": Start, "ask": Ask, "tell": Tell, "report": Report, "train": Train,
    }  # fmt: skip
    if name in ("start", "train") and ("-h" in flags or "--help" in flags):
        print(_models())
    config = read_arguments(configs[name], flags, f"credax design {name}")
    from credax.cli import design_run, design_train

    commands = {
        "start": design_run.start, "ask": design_run.ask, "tell": design_run.tell,
        "report": design_run.report, "train": design_train.train,
    }  # fmt: skip
    commands[name](config)


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(["usage: credax design COMMAND [options]", "", *lines, "", _models()])


def _models() -> str:
    from credax.design import models

    width = max(map(len, models.names()))
    lines = [f"  {name:<{width}}  {models.about(name)}" for name in models.names()]
    return "\n".join(["models:", *lines, ""])
