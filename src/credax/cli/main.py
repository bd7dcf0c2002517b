"""``credax COMMAND``: find the command, run it, turn errors into one sentence."""

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from credax import __version__
from credax.errors import InputError, MissingExtra, unknown

COMMANDS = {
    "compare": "train several methods and seeds on one data set; a table and a report page",
    "fit": "train one method: credax fit METHOD --data NAME ...",
    "evaluate": "metrics of a finished run on test data",
    "predict": "predictions of a finished run for new inputs",
    "report": "the report page of one or more finished runs",
    "reproduce": "run a published experiment and print its table beside the published one",
    "pca": "principal components of a data set's inputs: credax pca DATA OUT.npz",
    "list": "list methods, datasets, networks, metrics or runs",
    "show": "what a run is and how far it is",
    "show-structure": "the groups of hidden units of a network and their symmetries",
}


def usage() -> str:
    """The overview that ``credax --help`` prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            f"credax {__version__}: how far to believe a neural network",
            "",
            "usage: credax COMMAND [options]        credax COMMAND --help",
            "",
            *lines,
            "",
            "a first look:  credax compare --data digits",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; exit code 2 for what the user can mend, 0 for success."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if arguments[0] in ("-V", "--version"):
        print(f"credax {__version__}")
        return 0
    warnings.showwarning = _show_warning
    try:
        if arguments[0] not in COMMANDS:
            raise unknown("command", arguments[0], COMMANDS)
        _keep_compiled_programs()
        command = import_module(f"credax.cli.{arguments[0].replace('-', '_')}")
        command.run(arguments[1:])
    except (InputError, MissingExtra) as error:
        print(f"credax: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("credax: stopped; the same command goes on from the last checkpoint", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return 0


def _keep_compiled_programs() -> None:
    """The second run of a command does not compile again. Read by jax when it is imported."""
    cache = os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(cache) / "credax" / "compiled"))


def _show_warning(message, category, filename, lineno, file=None, line=None) -> None:
    print(f"credax: warning: {message}", file=sys.stderr)
