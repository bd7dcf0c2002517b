"""Rooms use rooms above them, never below: DESIGN section 3, read off the imports."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "credax"
# From the top of the house down. A room may import from its own floor and the floors above it.
FLOORS = [
    {"errors", "precision", "lazy", "train_mode", "keys", "remembered", "locks"},
    {
        "standardise",
        "reading",
        "files",
        "network",
        "prediction",
        "description",
        "regression_prediction",
    },
    {"distributions", "mixture_prediction", "partly_trained"},
    {"likelihood", "likelihoods", "prior", "covariance_prior"},
    {"problem"},
    {"posterior", "batch_statistics", "gaussians", "gaussian_posterior", "adoption", "export"},
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
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
# Rooms on one floor that do not know each other, and rooms that see less than their floor allows.
MUST_NOT_IMPORT = {
    "metrics": {"training", "methods", "data", "networks", "posterior", "problem"},
    "report": {"training", "methods", "networks", "posterior", "problem", "data"},
    "infinite": {"groups"},
    "groups": {"infinite"},
}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


MODULE = re.compile(r"credax\.(\w+)(\.\w+)*")


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        # A registry names modules by strings, to import them when they are asked for.
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = MODULE.fullmatch(node.value)
            if named and named[1] in FLOOR:
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
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert room in FLOOR, f"{room} has no floor in this test's list"
    for other, line in imported_rooms(path):
        if other.startswith("__"):
            continue
        assert FLOOR[other] <= FLOOR[room], f"{path.name}:{line}: {room} must not import {other}"
        assert other not in MUST_NOT_IMPORT.get(room, ()), (
            f"{path.name}:{line}: {room} imports {other}"
        )


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_private_jax(path):
    text = path.read_text()
    assert "jax._src" not in text
    if path.relative_to(SOURCE).as_posix() != "structure/trace.py":
        assert "jax.extend" not in text


def test_the_registry_of_methods_is_seen():
    """NTK and NNGP lie in `infinite`: the arrow from the registry is a string."""
    rooms = {room for room, _ in imported_rooms(SOURCE / "methods" / "__init__.py")}
    assert {"infinite", "methods"} <= rooms


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
