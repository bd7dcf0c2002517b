"""Names of packages that are loaded when first used."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import credax as cx
from credax.lazy import lazy_package

PACKAGES = ["calibration", "groups", "infinite", "quality", "reading", "training", "zoo"]


def test_dir_lists_the_public_names():
    assert set(cx.__all__) <= set(dir(cx))
    assert {"fit", "SWAG", "Problem", "data", "__version__"} <= set(dir(cx))
    assert "lazy_package" not in dir(cx)


@pytest.mark.parametrize("name", ["", *(f".{package}" for package in PACKAGES)])
def test_every_name_is_there_once(name):
    package = import_module(f"credax{name}")
    assert len(set(package.__all__)) == len(package.__all__)
    for public in package.__all__:
        assert getattr(package, public) is not None


LAZY = [
    path
    for path in sorted(Path(cx.__file__).parent.rglob("__init__.py"))
    if "lazy_package(" in path.read_text()
]


@pytest.mark.parametrize("init", LAZY, ids=lambda path: path.parent.name)
def test_no_module_has_the_name_of_what_it_offers(init):
    """Python sets a module on its package when it is imported: it would replace the lazy name."""
    lines = [n for n in ast.walk(ast.parse(init.read_text())) if isinstance(n, ast.ImportFrom)]
    own = "credax." if init.parent.name == "credax" else f".{init.parent.name}."
    offered = {a.asname or a.name for n in lines if own in f"{n.module}." for a in n.names}
    modules = {a.name for n in lines if f"{n.module}.".endswith(own) for a in n.names}
    files = {path.stem for path in init.parent.glob("*.py")}
    assert not (offered - modules) & files


def test_listing_names_imports_no_jax():
    code = "import sys, credax; dir(credax); sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_an_attribute_error(tmp_path):
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from math import pi as pi\n"
    (tmp_path / "__init__.py").write_text(source)
    getattribute, names, public = lazy_package("circle", str(tmp_path / "__init__.py"))
    assert public == ["pi"]
    assert "pi" in names()
    assert getattribute("pi") == pytest.approx(3.14159265)
    with pytest.raises(AttributeError, match="'circle' has no attribute 'tau'"):
        getattribute("tau")
