"""Eight host devices for the sharding tests, and compiled programs kept between runs."""

import os
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_ROOT / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")

import jax  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402


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


@pytest.fixture(scope="session")
def blobs():
    """Three separated clouds in the plane: x [60, 2] float32, y [60]."""
    rng = np.random.default_rng(0)
    centres = np.array([[2.0, 0.0], [-1.0, 2.0], [-1.0, -2.0]])
    y = np.arange(60) % 3
    return (centres[y] + 0.5 * rng.standard_normal((60, 2))).astype(np.float32), y


# All tests together take longer than `make test` may. These rooms were added last and have been
# run by `make test-slow` only; what fits the budget of two cores belongs back in `make test`.
_SLOW = (
    "calibration/",
    "docs/",
    "experiments/",
    "metrics/",
    "methods/test_function",
    "methods/test_lengthscale",
    "methods/test_repulsive",
    "methods/test_samplers",
    "data/test_pca",
)


def pytest_collection_modifyitems(items):
    """Mark the rooms above as slow."""
    tests = Path(__file__).parent
    for item in items:
        if item.path.relative_to(tests).as_posix().startswith(_SLOW):
            item.add_marker(pytest.mark.slow)
