"""What the texts mention exists: names of the library, files of the project, flags of commands."""

import dataclasses
import re
from importlib import import_module

import pytest
from docs_text import GUIDE, ROOT, TEXTS, named_files

from credax import methods

NAME = re.compile(r"\b(?:cx|credax)((?:\.[A-Za-z_]\w*)+)")
FILE = re.compile(r"`((?:src|tests|docs|examples|benchmarks)/[\w./-]+)`")
# Shown on a page as what a reader would write or what a build makes, and not there before.
MADE = {*named_files(GUIDE), "docs/_build/html", "docs/_build/html/methods/weight-average.html"}
FILES_OF_RUNS = (".html", ".json", ".safetensors", ".npy", ".npz", ".csv")


def resolve(dotted):
    thing = import_module("credax")
    for part in dotted.split(".")[1:]:
        try:
            thing = getattr(thing, part)
        except AttributeError:
            thing = import_module(f"{thing.__name__}.{part}")


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_exist(path):
    text = path.read_text()
    for match in NAME.finditer(text):
        dotted = f"credax{match[1]}"
        if "weight_average" not in dotted and not dotted.endswith(FILES_OF_RUNS):
            resolve(dotted)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_exist(path):
    for name in set(FILE.findall(path.read_text())) - MADE:
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("name", methods.names())
def test_a_method_page_says_what_it_must(name):
    text = (ROOT / "docs" / "methods" / f"{name}.md").read_text()
    record = methods.get(name)
    assert text.startswith("---\nfile_format: mystnb"), "the page's cells would not be executed"
    assert f"\n# {record.title}\n" in text
    assert f"options({record.__name__})" in text or not dataclasses.fields(record)
    assert "## References" in text
    for test in re.findall(r"`(tests/[\w./-]+)`", text):
        assert (ROOT / test).exists()


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_merge_was_left_open(path):
    assert not re.search(r"^(<{7}|>{7}|={7}$)", path.read_text(), re.M)
