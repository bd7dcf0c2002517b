"""The guide "add a method in an hour": its code is taken off the page and used as it says."""

import importlib.util
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from docs_text import GUIDE, ROOT, named_files

import credax as cx
from credax import methods
from credax.cli import main
from credax.cli.config import task_from_json
from credax.runs import open_run

pytestmark = pytest.mark.slow

METHOD = "src/credax/methods/trajectory/weight_average.py"
REGISTRY = "src/credax/methods/__init__.py"
ROWS = "tests/conformance/table.py"
TEST = "tests/methods/test_weight_average.py"
PAGE = "docs/methods/weight-average.md"


@pytest.fixture(scope="module")
def guide():
    files = named_files(GUIDE)
    assert set(files) == {METHOD, REGISTRY, ROWS, TEST, PAGE}
    return files


@pytest.fixture
def registered(guide, tmp_path, monkeypatch):
    """The guide's method, as if its file and its line in the registry were there."""
    path = tmp_path / "weight_average.py"
    path.write_text(guide[METHOD])
    name = "credax.methods.trajectory.weight_average"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    for entry, value in eval(f"{{{guide[REGISTRY]}}}").items():
        monkeypatch.setitem(methods.REGISTRY, entry, value)
    return module.WeightAverage


def test_the_average_has_its_closed_form(guide, registered, float64):
    names = {}
    exec(guide[TEST], names)
    names["test_the_mean_of_descent_on_a_parabola_is_a_geometric_series"](None)


def test_the_command_line_fits_saves_and_loads_it(registered, tmp_path):
    flags = ["--data", "toy/two-moons", "--epochs", "4", "--start", "0.25", "--quiet"]
    folder = tmp_path / "run"
    assert main(["fit", "weight-average", *flags, "--out", str(folder)]) == 0
    saved = open_run(folder)
    assert saved.method == registered(start=0.25)
    data = cx.data.load("toy/two-moons")
    test = data.test
    prediction = saved.posterior().predict(test.x)
    assert prediction.num_members == 1
    assert cx.evaluate(prediction, test.y)["accuracy"] > 0.8
    training = task_from_json(saved.config, folder / "config.json").training
    fresh = cx.fit(saved.problem, saved.method, data, training=training, progress=False)
    np.testing.assert_array_equal(fresh.predict(test.x).probs, prediction.probs)


def insert(path, opening, code):
    """Put lines at the end of the dictionary that ``opening`` begins."""
    text = path.read_text()
    end = text.index("\n}\n", text.index(opening)) + 1
    path.write_text(text[:end] + code + text[end:])


@pytest.fixture(scope="module")
def tree(guide, tmp_path_factory):
    """A copy of the project in which a person has followed the guide."""
    copy = tmp_path_factory.mktemp("copy")
    ignore = shutil.ignore_patterns("__pycache__", "_build", "generated")
    for name in ("src", "tests/conformance", "docs/methods"):
        shutil.copytree(ROOT / name, copy / name, ignore=ignore)
    for name in (
        "pyproject.toml",
        *(f"tests/{path.name}" for path in (ROOT / "tests").glob("*.*")),
    ):
        shutil.copy(ROOT / name, copy / name)
    (copy / "tests" / "methods").mkdir()
    for name in (METHOD, TEST, PAGE):
        (copy / name).write_text(guide[name])
    insert(copy / REGISTRY, "REGISTRY = {", guide[REGISTRY])
    insert(copy / ROWS, "ROWS = {", guide[ROWS])
    text = (copy / ROWS).read_text()
    new = "from credax.methods.trajectory.weight_average import WeightAverage\n"
    (copy / ROWS).write_text(text.replace("\n\n\n@dataclass", f"\n{new}\n\n@dataclass", 1))
    return copy


def run(tree, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    command = [sys.executable, "-m", *arguments]
    answer = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def test_the_guides_code_is_in_the_house_style(tree):
    changed = [METHOD, REGISTRY, ROWS, TEST]
    run(tree, "ruff", "check", "--select", "I", "--fix", ROWS)
    run(tree, "ruff", "check", *changed)
    run(tree, "ruff", "format", "--check", *changed)


def test_the_guides_method_conforms(tree):
    chosen = "weight or row_and_a_docs_page"
    out = run(tree, "pytest", "tests", "-q", "-k", chosen, "-p", "no:cacheprovider")
    assert "passed" in out
