"""Packages import from layers above them, never from below: read off the imports."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "credax"
# From the top down. A package may import from its own layer and the layers above it.
LAYERS = [
    {"errors", "precision", "lazy", "train_mode", "keys", "remembered", "locks"},
    {
        "standardise",
        "reading",
        "files",
        "network",
        "prediction",
        "mixing",
        "description",
        "regression_prediction",
    },
    {"distributions", "mixture_prediction", "partly_trained"},
    {"likelihood", "likelihoods", "prior", "covariance_prior"},
    {"problem"},
    {
        "posterior",
        "row_batches",
        "batch_statistics",
        "gaussians",
        "gaussian_posterior",
        "adoption",
        "exporting",
        "arviz_data",
    },
    {"tiling"},
    {"networks", "adapters"},
    {"data"},
    {"groups", "structure"},
    {"training"},
    {"infinite", "functions"},
    {"methods"},
    {"fitting", "runs", "hub", "model_card"},
    {"metrics"},
    {"calibration"},
    {"quality"},
    {"active", "design"},
    {"zoo"},
    {"plot", "report"},
    {"experiments", "sklearn"},
    {"cli", "__main__"},
]
LAYER = {package: number for number, packages in enumerate(LAYERS) for package in packages}
# Packages of one layer that do not import each other, or that may import less than others there.
MUST_NOT_IMPORT = {
    "metrics": {"training", "methods", "data", "networks", "posterior", "problem"},
    "report": {"training", "methods", "networks", "posterior", "problem", "data"},
    "infinite": {"groups"},
    "groups": {"infinite"},
}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


MODULE = re.compile(r"credax\.(\w+)(\.\w+)*")


def imported_packages(path):
    for node in ast.walk(ast.parse(path.read_text())):
        # A registry names modules by strings, to import them when they are asked for.
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = MODULE.fullmatch(node.value)
            if named and named[1] in LAYER:
                yield named[1], node.lineno
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "credax":
            parts = node.module.split(".")
            if len(parts) > 1:
                yield parts[1], node.lineno
            else:
                yield from ((alias.name, node.lineno) for alias in node.names)
        if isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "credax" and len(parts) > 1:
                    yield parts[1], node.lineno


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_upwards(path):
    package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert package in LAYER, f"{package} has no layer in this test's list"
    for other, line in imported_packages(path):
        if other.startswith("__"):
            continue
        assert LAYER[other] <= LAYER[package], (
            f"{path.name}:{line}: {package} must not import {other}"
        )
        assert other not in MUST_NOT_IMPORT.get(package, ()), (
            f"{path.name}:{line}: {package} imports {other}"
        )


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_private_jax(path):
    text = path.read_text()
    assert "jax._src" not in text
    if path.relative_to(SOURCE).as_posix() != "structure/trace.py":
        assert "jax.extend" not in text


def test_the_registry_of_methods_is_seen():
    """NTK and NNGP lie in `infinite`: the arrow from the registry is a string."""
    packages = {package for package, _ in imported_packages(SOURCE / "methods" / "__init__.py")}
    assert {"infinite", "methods"} <= packages


@pytest.mark.parametrize("name", ["loop", "program", "validation"])
def test_hooks_are_not_found_by_name(name):
    assert "getattr(" not in (SOURCE / "training" / f"{name}.py").read_text()


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_what_is_missing_is_abstract(path):
    """Inheritance is abstract or final (CONTRIBUTING): nothing waits to be overridden."""
    assert "NotImplementedError" not in path.read_text()


def test_files_are_short():
    long = {p.name: n for p in FILES if (n := len(p.read_text().splitlines())) > 400}
    assert not long
