"""The examples in the docstrings of all modules."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import credax

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PROMPT = re.compile(r"^\s*>>> ", re.M)


def modules_with_examples():
    found = pkgutil.walk_packages(credax.__path__, "credax.")
    for module in (m for m in found if m.name != "credax.__main__"):
        spec = module.module_finder.find_spec(module.name)
        if PROMPT.search(Path(spec.origin).read_text()):
            yield module.name


SLOW = ("credax.infinite", "credax.methods", "credax.networks")


def _modules():
    for name in sorted(modules_with_examples()):
        yield pytest.param(name, marks=[pytest.mark.slow] if name.startswith(SLOW) else [])


@pytest.mark.parametrize("name", list(_modules()))
def test_docstring_examples(name):
    module = importlib.import_module(name)
    prompts = len(PROMPT.findall(Path(module.__file__).read_text()))
    result = doctest.testmod(module, optionflags=OPTIONS)
    assert result.failed == 0
    assert result.attempted == prompts, "an example stands where doctest does not look for it"
