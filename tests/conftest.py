"""Eight host devices for the sharding tests, and compiled programs kept between runs."""

import os
import signal
from pathlib import Path

# A shell ignores Ctrl-C for what it runs in the background; tests of signals need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_ROOT / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")
# One of them, unless a test says otherwise: programs for eight take longer to compile.
os.environ.setdefault("CREDAX_DEVICES", "1")
# Tests compile much and compute little: without LLVM's optimiser a fifth of all time is saved.
# Those that compare bits with programs compiled elsewhere have a run of their own (Makefile).
_OPTIMISED = os.environ.get("CREDAX_TEST_OPTIMISED") == "1"
if not _OPTIMISED:
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

from array_checks import install  # noqa: E402

install()

from credax.errors import InputError  # noqa: E402
from processor_time import ProcessorTime  # noqa: E402


@pytest.fixture(scope="session")
def shared_folder() -> Path | None:
    """The project's shared folder beside the checkout, or None."""
    folder = _ROOT.parent / "shared"
    return folder if folder.exists() else None


@pytest.fixture
def float64():
    """Double precision inside a test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def refused():
    """Checks that a call is refused with one line that matches."""

    def check(call, words):
        with pytest.raises(InputError, match=words) as caught:
            call()
        assert "\n" not in str(caught.value)

    return check


@pytest.fixture(scope="session")
def blobs():
    """Three separated clouds in the plane: x [60, 2] float32, y [60]."""
    rng = np.random.default_rng(0)
    centres = np.array([[2.0, 0.0], [-1.0, 2.0], [-1.0, -2.0]])
    y = np.arange(60) % 3
    return (centres[y] + 0.5 * rng.standard_normal((60, 2))).astype(np.float32), y


def pytest_configure(config):
    """Processor time per package."""
    config.pluginmanager.register(ProcessorTime())


def pytest_collection_modifyitems(items):
    """Tests that need the compiler's usual optimisation are left to their own run."""
    wait = pytest.mark.skip(reason="needs CREDAX_TEST_OPTIMISED=1: make test and make test-all")
    for item in items:
        if item.get_closest_marker("optimised") and not _OPTIMISED:
            item.add_marker(wait)
