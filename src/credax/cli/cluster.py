"""Many trainings on the workers of a Dask cluster: the one file that knows Dask.

A task is plain data: a command's arguments and the number of one of its trainings. The worker reads
the command as it was given, does that training in its own folder, and returns nothing. When all are
done, the command goes on as it would alone and finds every training finished: what it writes is
what it would have written alone.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from credax import __version__
from credax.cli.cluster_view import View
from credax.cli.command import COMMAND
from credax.errors import FolderInUse, InputError, MissingExtra, optional

CONNECT_SECONDS = 15
POLL_SECONDS = 0.3
RECONNECT_SECONDS = 300
"""How long to wait for a scheduler that has ended to be started again."""
MOST_LOST = 20
"""How often the worker of one training may die before it is given up."""
BUSY_SECONDS = 600
"""How long a training waits for its folder: a worker that was lost may still be alive."""
_LOCAL = "local:"


@dataclass(frozen=True)
class Work:
    """One training of a command."""

    label: str
    """What people read."""
    folder: Path
    """Where it is kept; the progress is read from there."""


def train_on(
    address: str, command: str, arguments: Sequence[str], works: dict[int, Work], quiet: bool
) -> dict[int, str]:
    """Do the trainings of a command on a cluster; what could not be done, by number, in words.

    Args:
        address: of a scheduler, or ``local:N`` for N workers here.
        command: module under ``credax.cli`` with ``train_one(arguments, number)``.
        arguments: of the command, as they were given.
        works: trainings by number.
        quiet: show no progress.
    """
    if not works:
        return {}
    view = View({number: (work.label, work.folder) for number, work in works.items()}, quiet)
    failed: dict[int, str] = {}
    lost: dict[int, int] = {}
    with _scheduler(address) as place, view:
        left, until = set(works), time.monotonic()
        while left:
            try:
                with _client(place) as client:
                    until = time.monotonic() + RECONNECT_SECONDS
                    _refuse_other_versions(client, place)
                    done = _submit(client, command, arguments, sorted(left), view, lost)
                    for number, problem in done:
                        left.discard(number)
                        if problem is not None:
                            failed[number] = problem
            except (OSError, TimeoutError, _Lost) as error:
                if time.monotonic() > until:
                    raise _unreachable(place, error, len(works) - len(left), len(works)) from error
                view.note(f"the scheduler at {place} has ended; waiting for it")
                time.sleep(1)
    return failed


def raise_first(failed: dict[int, str], works: dict[int, Work]) -> None:
    """Raise an error if trainings failed; the others are kept."""
    if not failed:
        return
    first = min(failed)
    raise InputError(
        f"{len(failed)} of {len(works)} trainings failed, the first of them {works[first].label}: "
        f"{failed[first]}"
    )


class _Lost(Exception):
    """The connection to the scheduler is lost."""


def _distributed() -> Any:
    return optional("distributed", "cluster", "--cluster")


@contextmanager
def _scheduler(address: str) -> Iterator[str]:
    """The address of a scheduler; ``local:N`` starts one here, and ends it."""
    distributed = _distributed()
    if not address.startswith(_LOCAL):
        if "://" not in address and ":" not in address:
            raise InputError(
                f"cluster is {address!r}; give local:N for N workers here, or the address of a "
                "Dask scheduler, such as tcp://10.0.0.1:8786"
            )
        yield address
        return
    count = address.removeprefix(_LOCAL)
    if not count.isdecimal() or int(count) < 1:
        raise InputError(f"cluster is {address!r}; give the number of workers, such as local:2")
    # What goes wrong with a worker or a training is told by the view.
    with distributed.LocalCluster(
        n_workers=int(count),
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        silence_logs=logging.CRITICAL,
    ) as cluster:
        yield cluster.scheduler_address


@contextmanager
def _client(address: str) -> Iterator[Any]:
    # What it says of a lost scheduler, with a trace, is told by the view.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    client = _distributed().Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    try:
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=2)


def _unreachable(address: str, error: BaseException, done: int, count: int) -> InputError:
    kept = f"; {done} of {count} trainings are kept" if done else ""
    words = str(error).splitlines()[0][:100] if str(error) else type(error).__name__
    return InputError(
        f"no Dask scheduler answers at {address} ({words}){kept}; start it (dask scheduler) and "
        "its workers (dask worker), then the same command again"
    )


def _refuse_other_versions(client: Any, address: str) -> None:
    try:
        found = client.run(_version)
    except (OSError, TimeoutError):
        raise
    except Exception as error:  # what a worker without credax says depends on Dask
        raise InputError(
            f"a worker of {address} cannot run credax ({str(error).splitlines()[0][:100]}); "
            f"install credax {__version__} in the environment of all workers"
        ) from error
    for worker, version in found.items():
        if version != __version__:
            raise InputError(
                f"the worker at {worker} has credax {version} and this command is {__version__}; "
                "install the same version for both"
            )


def _submit(
    client: Any,
    command: str,
    arguments: Sequence[str],
    numbers: list[int],
    view: View,
    lost: dict[int, int],
) -> Iterator[tuple[int, str | None]]:
    """Each training as it ends, with what went wrong; those whose worker died are begun again."""
    distributed = _distributed()

    def begin(number: int) -> Any:
        again = lost.get(number, 0)
        payload = (command, list(arguments), list(COMMAND), number, __version__, os.getcwd())
        key = f"{command}-{number}-{again}-{time.time_ns()}"
        return client.submit(work, *payload, key=key, pure=False)

    futures = {begin(number): number for number in numbers}
    while futures:
        if client.status != "running":
            raise _Lost
        ready = [future for future in futures if future.done()]
        if not ready:
            view.update({futures[f] for f in _processing(client, futures)})
            time.sleep(POLL_SECONDS)
        for future in ready:
            number = futures.pop(future)
            if future.status == "cancelled" or future.status == "lost":
                raise _Lost
            problem = _problem(future)
            if isinstance(problem, distributed.KilledWorker):
                lost[number] = lost.get(number, 0) + 1
                if lost[number] < MOST_LOST:
                    futures[begin(number)] = number
                    continue
                problem = InputError(
                    f"its worker died {lost[number]} times; is there enough memory for it?"
                )
            view.ended(number, problem is None)
            yield number, None if problem is None else str(problem)


def _problem(future: Any) -> BaseException | None:
    if future.status == "finished":
        words = future.result(timeout=CONNECT_SECONDS)
        return None if words is None else InputError(words)
    return future.exception(timeout=CONNECT_SECONDS)


def _processing(client: Any, futures: dict[Any, int]) -> list[Any]:
    with suppress(Exception):  # only for the view
        keys = {key for each in client.processing().values() for key in each}
        return [future for future in futures if future.key in keys]
    return []


def _version() -> str:
    return __version__


def work(
    command: str, arguments: list[str], words: list[str], number: int, version: str, place: str
) -> str | None:
    """Runs on a worker: one training of a command; what a user can correct is returned in words."""
    try:
        if version != __version__:
            raise InputError(
                f"a worker has credax {__version__} and the command is {version}; install the same "
                "version for both"
            )
        COMMAND[:] = words
        try:
            os.chdir(place)
        except OSError as error:
            raise InputError(
                f"a worker has no folder {place} ({error.strerror}); run the command in a folder "
                "that all workers see"
            ) from error
        train_one = import_module(f"credax.cli.{command}").train_one
        _when_free(lambda: train_one(tuple(arguments), number))
    except (InputError, MissingExtra) as error:
        return str(error)
    return None


def _when_free(train: Callable[[], None]) -> None:
    """Wait for a folder that another worker has."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            train()
            return
        except FolderInUse:
            if time.monotonic() > until:
                raise
            time.sleep(2)
