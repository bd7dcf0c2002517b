import subprocess
import sys

import pytest

from credax.adapters import from_function, from_haiku, from_linen, from_nnx
from credax.errors import InputError, MissingExtra


def test_the_room_imports_no_optional_library():
    code = (
        "import sys, credax.adapters; "
        "sys.exit(', '.join({'flax', 'haiku'} & set(sys.modules)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("adapter", "package", "extra"),
    [
        (from_nnx, "flax", "flax"),
        (from_linen, "flax", "flax"),
        (from_haiku, "haiku", "haiku"),
    ],
)
def test_a_missing_library_names_its_extra(adapter, package, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'credax\[{extra}\]'"):
        adapter(lambda x: x)


@pytest.mark.parametrize(
    ("initialise", "function", "message"),
    [
        ({}, lambda p, x: x, r"initialise is of type dict; give a function initialise\(key, x\)"),
        (lambda key: {}, lambda p, x: x, r"initialise is <lambda>\(key\); give a function"),
        (lambda key, x: {}, lambda p: p, r"function is <lambda>\(p\); .* function\(params, x\)"),
    ],
)
def test_bad_functions_are_one_sentence(initialise, function, message):
    with pytest.raises(InputError, match=message):
        from_function(initialise, function)
