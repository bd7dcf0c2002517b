"""Packages whose names are imported when first used: the command line starts without jax."""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

Where = dict[str, tuple[str, str]]


def lazy_package(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    The names are those that its ``__init__.py`` imports under ``if TYPE_CHECKING``: type checkers
    read the same list, and every name stands once.
    """
    where = _imports(ast.parse(Path(file).read_text(encoding="utf-8")))

    def getattribute(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = where[name]
        if module == package:
            return import_module(f"{package}.{attribute}")
        return getattr(import_module(module), attribute)

    return getattribute, lambda: sorted([*where, "__version__", "__doc__"]), list(where)


def _imports(tree: ast.Module) -> Where:
    found: Where = {}
    for node in tree.body:
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            for line in node.body:
                assert isinstance(line, ast.ImportFrom)
                names = {a.asname or a.name: (line.module or "", a.name) for a in line.names}
                found.update(names)
    return found
