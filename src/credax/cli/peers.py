"""A process of a distributed training ends with one sentence when another one has ended.

Every process keeps a connection to the first. The system closes it when a process ends, however it
ends, so the others need not wait for a timeout of the collectives they are in. A host that vanishes
without closing anything is found by jax's own heartbeats.
"""

import os
import re
import secrets
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import jax
import numpy as np

from credax.cli.distributed import GRACE_SECONDS, HEARTBEAT_SECONDS, JOIN_SECONDS
from credax.training.interrupts import position

CODE = 75
"""Exit code: try again (EX_TEMPFAIL)."""
_OTHER_ENDED = re.compile(rb"[EF]\d{4} .*(Polled an error from coordination|distributed service)")
_TOKEN, _HOST = 16, 256


class Peers:
    """The connections between the processes of one training."""

    def __init__(self):
        self._stderr = os.dup(2)
        self._ending = threading.Lock()
        self._leaving = False
        self.lost = threading.Event()
        """Set when another process was seen to end before it had finished."""
        self._connections: dict[int, socket.socket] = {}
        self._first = self._joined = False

    def filter_errors(self) -> None:
        """Of the compiled libraries' last words only the sentence remains; all else is passed on.

        They end the process themselves when the first process has ended, with a stack trace.
        """
        read, write = os.pipe()
        os.dup2(write, 2)
        os.close(write)
        sys.stderr = os.fdopen(os.dup(self._stderr), "w", buffering=1)
        threading.Thread(target=self._pass_on, args=(read,), daemon=True).start()

    def connect(self, address: str | None) -> None:
        """Connect all processes; ``address`` is that of the first, where it is known."""
        from jax.experimental import multihost_utils

        content = np.zeros(_TOKEN + 2 + _HOST, np.uint8)
        self._joined = True
        server, self._first = None, jax.process_index() == 0
        if self._first:
            host = (address or "").rpartition(":")[0] or socket.gethostname()
            server = socket.create_server(("127.0.0.1" if host == "127.0.0.1" else "", 0))
            port = server.getsockname()[1].to_bytes(2, "big")
            packed = secrets.token_bytes(_TOKEN) + port + host.encode()[:_HOST]
            content[: len(packed)] = np.frombuffer(packed, np.uint8)
        sent = np.asarray(multihost_utils.broadcast_one_to_all(content)).astype(np.uint8).tobytes()
        token, port = sent[:_TOKEN], int.from_bytes(sent[_TOKEN : _TOKEN + 2], "big")
        try:
            if server is None:
                host = sent[_TOKEN + 2 :].rstrip(b"\0").decode()
                self._connections[0] = socket.create_connection((host, port), timeout=30)
                self._connections[0].sendall(token + jax.process_index().to_bytes(4, "big"))
            else:
                self._accept(server, token)
        except OSError as error:
            words = f"the processes cannot watch each other ({error}); one that ends is noticed"
            self._write(f"credax: warning: {words} after {HEARTBEAT_SECONDS} seconds only")
        for index, connection in self._connections.items():
            connection.settimeout(None)
            threading.Thread(target=self._watch, args=(index, connection), daemon=True).start()

    def leave(self, finished: bool) -> None:
        """This process ends its part; where it has failed, the first waits for the others to end.

        Else they would end with what jax says when the first process is gone.
        """
        self._leaving = True
        for connection in list(self._connections.values()):
            with suppress(OSError):
                connection.sendall(b"." if finished else b"")
                connection.shutdown(socket.SHUT_WR)
        until = time.monotonic() + 3 * GRACE_SECONDS
        while self._first and not finished and self._connections and time.monotonic() < until:
            time.sleep(0.05)

    def _accept(self, server: socket.socket, token: bytes) -> None:
        server.settimeout(30)
        with server:
            while len(self._connections) < jax.process_count() - 1:
                connection, _ = server.accept()
                connection.settimeout(30)
                given = connection.recv(_TOKEN + 4, socket.MSG_WAITALL)
                index = int.from_bytes(given[_TOKEN:], "big")
                if secrets.compare_digest(given[:_TOKEN], token):
                    self._connections[index] = connection
                else:
                    connection.close()

    def _watch(self, index: int, connection: socket.socket) -> None:
        """Until the other end closes: with a dot it has finished, without one it was lost.

        The first process, to which all are connected, says which one was lost.
        """
        said = b""
        with suppress(OSError):
            while not said.endswith(b"\n") and (got := connection.recv(64)):
                said += got
        self._connections.pop(index, None)
        if not said.startswith(b"."):
            self._lost(int(said) if said.strip().isdigit() else index)

    def _lost(self, index: int) -> None:
        self.lost.set()
        self._tell(index)
        time.sleep(GRACE_SECONDS)
        if not self._leaving:
            self.end(index)

    def _tell(self, lost: int) -> None:
        for connection in list(self._connections.values()) if self._first else ():
            with suppress(OSError):
                connection.sendall(f"{lost}\n".encode())

    def end(self, lost: int | None) -> None:
        """Say the sentence, tell the others, and end this process."""
        with self._ending:
            self.lost.set()
            name = "another process" if lost is None else f"process {lost}"
            words = f"{name} of this training has ended; start all of them again: {position()}"
            if not self._joined:
                words = (
                    f"not all processes of this training have joined within {JOIN_SECONDS} "
                    "seconds; start all of them, process 0 at the address of --coordinator"
                )
            self._write(f"credax: stopped; {words}")
            if self._first:  # jax ends the others when the first process has ended
                time.sleep(2 * GRACE_SECONDS)
            os._exit(CODE)

    def _pass_on(self, read: int) -> None:
        rest: bytes = b""
        while got := os.read(read, 65536):
            *lines, rest = (rest + got).split(b"\n")
            for line in lines:
                if _OTHER_ENDED.match(line):
                    self.end(None)
                os.write(self._stderr, line + b"\n")

    def _write(self, sentence: Any) -> None:
        with suppress(OSError):
            os.write(self._stderr, f"{sentence}\n".encode())
