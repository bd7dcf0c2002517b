"""``credax COMMAND``: find the command, run it, turn errors into one sentence."""

import atexit
import os
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from credax import __version__
from credax.cli.command import COMMAND
from credax.cli.terminal import printable
from credax.errors import InputError, MissingExtra, unknown
from credax.training.interrupts import CAUGHT, Interrupted, Terminated, position

COMMANDS = {
    "compare": "train several methods and seeds on one data set; a table and a report page",
    "fit": "train one method: credax fit METHOD --data NAME ...",
    "evaluate": "metrics of a finished run on test data",
    "predict": "predictions of a finished run for new inputs",
    "calibrate": "fit a calibrator to a finished run: before and after, sets, intervals",
    "export": "a finished run as one program that plain jax loads, for servers",
    "push": "share a finished run or a zoo: credax push RUN hf://user/name",
    "pull": "fetch a shared run or zoo: credax pull hf://user/name FOLDER",
    "report": "the report page of one or more finished runs",
    "reproduce": "run a published experiment and print its table beside the published one",
    "active": "active learning: which rows to label next; a person or a data set answers",
    "design": "experimental design: which experiment says most; someone at the keyboard answers",
    "pca": "principal components of a data set's inputs: credax pca DATA OUT.npz",
    "zoo": "populations of thousands of networks on disk: train, import, verify, analyse",
    "list": "list methods, datasets, networks, metrics, acquisitions, ... or runs",
    "show": "what a run is and how far it is",
    "show-structure": "the groups of hidden units of a network and their symmetries",
}

SWITCH = "CREDAX_COMPILED"
"""Environment variable; "off" keeps no compiled programs between commands."""
MOST_COMPILED = 2**30
"""Bytes of compiled programs that are kept."""


def usage() -> str:
    """The overview that ``credax --help`` prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            f"credax {__version__}: how far the predictions of a neural network can be trusted",
            "",
            "usage: credax COMMAND [options]        credax COMMAND --help",
            "",
            *lines,
            "",
            "a first look:  credax compare --data digits",
            "compiled programs are kept in the cache folder, at most 1 GiB; CREDAX_COMPILED=off "
            "keeps none",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; exit code 2 for what the user can correct, 0 for success."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if arguments[0] in ("-V", "--version"):
        print(f"credax {__version__}")
        return 0
    warnings.showwarning = _show_warning
    COMMAND[:] = ["credax", *map(shlex.quote, arguments)]
    try:
        with _stopping():
            return _run(arguments)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(arguments: list[str]) -> int:
    try:
        if arguments[0] not in COMMANDS:
            raise unknown("command", arguments[0], COMMANDS)
        _keep_compiled_programs()
        command = import_module(f"credax.cli.{arguments[0].replace('-', '_')}")
        command.run(arguments[1:])
    except (InputError, MissingExtra) as error:
        print(f"credax: error: {printable(error)}", file=sys.stderr)
        return 2
    except Interrupted:
        return 128 + signal.SIGINT
    except Terminated:
        return 128 + signal.SIGTERM
    return 0


@contextmanager
def _stopping() -> Iterator[None]:
    """SIGINT and SIGTERM end the process at once, with a sentence; a training saves itself first.

    At once means without the interpreter's own ending, which can crash while jax computes.
    """

    def stop(number: int, frame: object) -> None:
        print(f"credax: stopped; {position()}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in CAUGHT}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _keep_compiled_programs() -> None:
    """The second run of a command does not compile again. Read by jax when it is imported."""
    if os.environ.get(SWITCH, "").lower() in ("off", "0", "no", "false"):
        return
    place = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "credax", "compiled")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(place))
    # jax keeps only programs that took a second; predictions are many small ones.
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    if os.environ["JAX_COMPILATION_CACHE_DIR"] == str(place):
        atexit.register(_bound, place)


def _bound(place: Path) -> None:
    """Remove the oldest compiled programs beyond the bound; another process may do the same."""
    with suppress(OSError):
        kept = 0
        files = [(file.stat(), file) for file in place.iterdir()]
        for found, file in sorted(files, key=lambda pair: -pair[0].st_mtime):
            kept += found.st_size
            if kept > MOST_COMPILED:
                file.unlink(missing_ok=True)


def _show_warning(message, category, filename, lineno, file=None, line=None) -> None:
    print(f"credax: warning: {printable(message)}", file=sys.stderr)
