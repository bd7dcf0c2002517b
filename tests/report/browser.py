"""Headless Chromium, driven over its DevTools pipe: no package is needed for it."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--remote-debugging-pipe",
)
NAMES = ("chromium", "chromium-browser", "google-chrome")
# Chromium reads commands from descriptor 3 and writes answers to 4. A Python in between moves them
# there, because a fork with code of our own is not safe beside JAX's threads.
_MOVE = (
    "import os, sys; a, b = (os.dup(int(n)) for n in sys.argv[1:3]);"
    "x, y = os.dup2(a, 30), os.dup2(b, 31); os.dup2(x, 3); os.dup2(y, 4);"
    "os.execvp(sys.argv[3], sys.argv[3:])"
)


def chromium():
    """The path of a Chromium on this machine, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One Chromium with one tab; events of the tab are kept in ``events``."""

    def __init__(self, path, timeout=30.0):
        self.timeout, self.events, self._count, self._rest = timeout, [], 0, b""
        self._profile = tempfile.TemporaryDirectory(prefix="credax-browser-")
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        command = [sys.executable, "-c", _MOVE, str(theirs_in), str(theirs_out), path, *FLAGS]
        command += [f"--user-data-dir={self._profile.name}", "about:blank"]
        self._process = subprocess.Popen(
            command,
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._session = None
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
            self._session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def close(self):
        """End the browser that this object started, and remove its profile."""
        for pipe in (self._out, self._in):
            os.close(pipe)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._profile.cleanup()

    def call(self, method, **params):
        """Send one command and return its answer; events that come before it are kept."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self.timeout
        while True:
            answer = self._read(deadline)
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def show(self, path, width, height=900, dark=False):
        """Open a file at a width, light or dark, and wait until it has loaded."""
        media = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=media)
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.events.clear()
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        deadline = time.monotonic() + self.timeout
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._read(deadline))

    def run(self, expression):
        """The value of a JavaScript expression; a promise is awaited."""
        found = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"])[:2000])
        return found["result"].get("value")

    def screenshot(self, path, whole=True):
        """Write the page as PNG, the part below the window too."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def _read(self, deadline):
        while b"\0" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise TimeoutError(f"Chromium said nothing for {self.timeout} seconds")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise RuntimeError("Chromium ended by itself")
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)
