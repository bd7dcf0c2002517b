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


# All tests together take longer than `make test` may: whole experiments, executed pages, and what
# compiles many programs run under `make test-slow` only.
_SLOW = (
    "docs/test_contributing",
    "docs/test_pages",
    "experiments/",
    "groups/test_symmetrise",
    "methods/test_calibrated",
    "methods/test_cyclical",
    "methods/test_feature_wgd",
    "methods/test_hamiltonian",
    "infinite/test_empirical",
    "infinite/test_finite_width",
    "methods/test_laplace",
    "methods/test_local_noise",
    "methods/test_noise_posteriors",
    "methods/test_repulsive",
    "methods/test_samplers",
    "methods/test_snapshots",
    "methods/test_stochastic_samplers",
    "methods/test_variational",
    "metrics/test_metrics_properties",
    "metrics/test_metrics_resampling",
    "metrics/test_metrics_streaming",
    "structure/test_structure_canonical",
    "structure/test_structure_mass",
    "structure/test_structure_match",
    "quality/test_exchangeability",
    "training/test_distributed",
    "zoo/test_zoo_training",
)


# Compiled programs hold memory maps, of which Linux allows a process 65530; beyond that it crashes.
_MOST_MAPS = 30_000
_MAPS = Path("/proc/self/maps")


def pytest_runtest_teardown(item, nextitem):
    """Between files, let go of compiled programs where there are too many."""
    if (nextitem is not None and nextitem.path == item.path) or not _MAPS.exists():
        return
    if _MAPS.read_bytes().count(b"\n") > _MOST_MAPS:
        jax.clear_caches()


def pytest_collection_modifyitems(items):
    """Mark the rooms above as slow."""
    tests = Path(__file__).parent
    for item in items:
        if item.path.relative_to(tests).as_posix().startswith(_SLOW):
            item.add_marker(pytest.mark.slow)
