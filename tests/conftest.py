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

from credax.errors import InputError  # noqa: E402


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


# All tests together take longer than `make test` may: whole experiments, executed pages, and what
# compiles many programs run under `make test-slow` only.
_SLOW = (
    "adapters/test_adapters_batch_norm",
    "adapters/test_adapters_dropout",
    "adapters/test_adapters_equinox",
    "adapters/test_adapters_flax_linen",
    "adapters/test_adapters_haiku",
    "calibration/test_calibration_all",
    "calibration/test_calibration_binning",
    "calibration/test_calibration_conformal",
    "calibration/test_calibration_mapie",
    "calibration/test_calibration_regression",
    "calibration/test_calibration_scaling",
    "cli/test_cli.py::test_sigkill",
    "cli/test_judging",
    "conformance/test_conformance.py::test_a_killed_run_resumes_to_the_same_bytes[forde",
    "conformance/test_conformance.py::test_strategies_agree[deep-ensemble-stream",
    "conformance/test_conformance.py::test_strategies_agree[deep-ensemble-unroll",
    "conformance/test_conformance.py::test_strategies_agree[forde",
    "core/test_batch_statistics.py::test_sequential_passes",
    "data/test_corruptions",
    "docs/test_contributing",
    "docs/test_doctests.py::test_docstring_examples[credax.infinite",
    "docs/test_doctests.py::test_docstring_examples[credax.methods",
    "docs/test_doctests.py::test_docstring_examples[credax.networks",
    "docs/test_pages",
    "experiments/",
    "groups/test_symmetrise",
    "infinite/test_empirical",
    "infinite/test_finite_width",
    "infinite/test_kernels.py::test_gradients_by_the_inputs",
    "infinite/test_turning",
    "methods/test_calibrated",
    "methods/test_cyclical",
    "methods/test_deep_ensemble.py::test_sample_then_optimise",
    "methods/test_feature_wgd",
    "methods/test_hamiltonian",
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
    "networks/test_convolution.py::test_hessian",
    "networks/test_networks.py::test_zero_head_gives_zero_outputs[resnet20",
    "quality/test_against_reference",
    "quality/test_diversity.py::test_a_trajectory",
    "quality/test_exchangeability",
    "structure/test_structure_canonical",
    "structure/test_structure_mass",
    "structure/test_structure_match",
    "test_covariance_prior",
    "training/test_distributed",
    "training/test_hooks.py::test_the_posterior_is_tuned",
    "training/test_loop.py::test_a_second_ensemble",
    "training/test_loop.py::test_best_members",
    "training/test_loop.py::test_members_see_their_own_order",
    "training/test_loop.py::test_records_of_a_resumed",
    "training/test_loop.py::test_shared_augmentation",
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
    """Mark what is listed above as slow."""
    tests = Path(__file__).parent
    for item in items:
        if f"{item.path.relative_to(tests).as_posix()}::{item.name}".startswith(_SLOW):
            item.add_marker(pytest.mark.slow)
