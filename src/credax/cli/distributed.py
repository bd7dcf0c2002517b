"""``credax fit --distributed``: this process is one of several that train together."""

import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from credax.cli.terminal import printable
from credax.errors import InputError, MissingExtra
from credax.training.interrupts import Interrupted, Terminated

JOIN_SECONDS = 120
HEARTBEAT_SECONDS = 60
SHUTDOWN_SECONDS = 86400
GRACE_SECONDS = 2.0
"""How long a process may go on to its own end, such as an error that all of them have."""


@dataclass(frozen=True)
class Processes:
    """Which process of a distributed training this one is."""

    distributed: bool = False
    """This process is one of several that train together: Slurm, Open MPI, Kubernetes or a TPU pod
    say which, or the three settings below."""
    coordinator: str | None = None
    """Address of the first process, HOST:PORT; the same for all."""
    processes: int | None = None
    """How many processes there are."""
    process_id: int | None = None
    """Number of this process, 0, 1, ..."""

    def __post_init__(self):
        given = [self.coordinator, self.processes, self.process_id]
        if any(value is not None for value in given):
            if not self.distributed:
                raise InputError(
                    "coordinator, processes or process_id is given without --distributed; add it"
                )
            if None in given:
                raise InputError(
                    f"coordinator is {self.coordinator}, processes {self.processes} and process_id "
                    f"{self.process_id}; give all three, or none where Slurm or the like says it"
                )
        if self.coordinator is not None and not re.fullmatch(r".+:\d+", self.coordinator):
            raise InputError(
                f"coordinator is {self.coordinator!r}; give HOST:PORT, such as 10.0.0.1:1234"
            )
        if self.processes is not None and not 0 <= (self.process_id or 0) < self.processes:
            raise InputError(
                f"process_id is {self.process_id} and there are {self.processes} processes; "
                f"number them 0, 1, ... and give at least one"
            )


@contextmanager
def joined(options: Processes) -> Iterator[bool]:
    """Join the other processes for a while; yields whether this one tells people what happens.

    Every way out ends the process where others could not follow: none waits for one that failed.
    """
    if not options.distributed:
        yield True
        return
    import jax

    from credax.cli.peers import Peers

    peers = Peers()
    address = options.coordinator or os.environ.get("JAX_COORDINATOR_ADDRESS")
    try:
        _initialise(options, peers)
        peers.connect(address)
        yield jax.process_index() == 0
    except BaseException as error:
        code = _told(error, peers)
        peers.leave(finished=False)
        os._exit(code)
    sys.stdout.flush()
    peers.leave(finished=True)


def _initialise(options: Processes, peers: Any) -> None:
    import jax

    peers.filter_errors()
    # It takes SIGTERM for itself, on which a training writes a checkpoint.
    jax.config.update("jax_enable_preemption_service", False)
    # Before jax gives up waiting, which can abort the process without a word.
    given_up = threading.Timer(JOIN_SECONDS, peers.end, (None,))
    given_up.daemon = True
    given_up.start()
    try:
        jax.distributed.initialize(
            options.coordinator,
            options.processes,
            options.process_id,
            initialization_timeout=2 * JOIN_SECONDS,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            # At the end the others wait for the first process, which measures the metrics.
            shutdown_timeout_seconds=SHUTDOWN_SECONDS,
        )
    except ValueError as error:
        raise InputError(
            "distributed is given and neither Slurm, Open MPI, Kubernetes nor a TPU pod says which "
            f"process this is ({error}); give --coordinator HOST:PORT --processes N --process-id I"
        ) from error
    except RuntimeError as error:
        where = options.coordinator or "the first process"
        words = str(error).splitlines()[0][:120]
        raise InputError(
            f"no answer of all processes at {where} within {JOIN_SECONDS} seconds ({words}); start "
            "all of them, process 0 at that address, with a port that is free"
        ) from error
    finally:
        given_up.cancel()


def _told(error: BaseException, peers: Any) -> int:
    """Say what ended this process; the exit code."""
    if isinstance(error, InputError | MissingExtra):
        print(f"credax: error: {printable(error)}", file=sys.stderr, flush=True)
        return 2
    if isinstance(error, Interrupted):
        return 128 + signal.SIGINT
    if isinstance(error, Terminated):
        return 128 + signal.SIGTERM
    # It may be what a collective says when another process has ended: then a sentence is said
    # instead, and the process ends there.
    if peers.lost.wait(5 * GRACE_SECONDS):
        time.sleep(10 * GRACE_SECONDS)
    traceback.print_exception(error, file=sys.stderr)
    return 1
