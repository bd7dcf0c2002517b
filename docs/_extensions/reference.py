"""Writes one page of the API reference for every public package, from the public names.

A package that gains a name, or credax that gains a package, needs no change here. Every object is
described once, under the shortest of its public names.
"""

import inspect
import pkgutil
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any, Literal, get_args, get_origin

from sphinx.application import Sphinx

import credax
from credax import methods


def public_names(package: ModuleType) -> list[str]:
    """What a package offers: its ``__all__``, or all it re-exports; of a file, its own names."""
    names = getattr(package, "__all__", None) or [n for n in vars(package) if n[0] != "_"]
    if not hasattr(package, "__path__"):
        names = [n for n in names if _module(getattr(package, n)) == package.__name__]
    return [name for name in names if not isinstance(getattr(package, name), ModuleType)]


def _module(thing: Any) -> str | None:
    return getattr(thing, "__module__", None)


def packages() -> list[ModuleType]:
    """credax itself, its packages but the command line, and the files that are public names."""
    found = pkgutil.iter_modules(credax.__path__, "credax.")
    names = {each.name for each in found if each.ispkg and each.name != "credax.cli"}
    public = (getattr(credax, name) for name in credax.__all__)
    names |= {thing.__name__ for thing in public if isinstance(thing, ModuleType)}
    return [credax, *map(import_module, sorted(names))]


def entries(package: ModuleType) -> list[tuple[str, Any]]:
    """Full names and objects of one package."""
    found = [(f"{package.__name__}.{n}", getattr(package, n)) for n in public_names(package)]
    if package is methods:
        records = [methods.REGISTRY[name][:2] for name in methods.names()]
        found += [(f"{path}.{name}", getattr(import_module(path), name)) for path, name in records]
    return found


def describe(thing: Any) -> str:
    """A sentence about a public value, which has no docstring of its own."""
    if isinstance(thing, UnionType):
        return "Either of " + ", ".join(f"`{kind.__name__}`" for kind in get_args(thing)) + "."
    if get_origin(thing) is Literal:
        return "One of " + ", ".join(f"``{value!r}``" for value in get_args(thing)) + "."
    if isinstance(thing, Mapping):
        return "A mapping from " + ", ".join(f"``{key!r}``" for key in thing) + "."
    return f"A {type(thing).__name__}."


def page(package: ModuleType, seen: set[int]) -> str | None:
    """reStructuredText of a package without objects already ``seen``; None if none is left."""
    name = package.__name__
    first = inspect.getdoc(package) or ""
    lines = [name, "=" * len(name), "", f".. py:module:: {name}", "", first, ""]
    new = [(full, thing) for full, thing in entries(package) if id(thing) not in seen]
    if not new:
        return None
    for full, thing in new:
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if inspect.isclass(thing) or inspect.isroutine(inspect.unwrap(thing)):
            lines += [f".. auto{'class' if inspect.isclass(thing) else 'function'}:: {full}", ""]
        else:
            lines += [f".. py:data:: {full}", "", f"   {describe(thing)}", ""]
    return "\n".join(lines)


def write(app: Sphinx) -> None:
    """Write the pages whose content changed, so that others are not read again."""
    folder = Path(app.srcdir) / "api" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    wanted, seen = {}, set()
    for package in packages():
        if (text := page(package, seen)) is not None:
            wanted[f"{package.__name__}.rst"] = text
    for old in folder.glob("*.rst"):
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def plain_signature(app, what, name, thing, options, signature, returned):
    """Arrays by the name users know; protocols, which nobody constructs, without arguments."""
    if what == "class" and getattr(thing, "_is_protocol", False):
        return "", returned
    plain = lambda text: text and text.replace("jaxlib._jax.Array", "Array")  # noqa: E731
    return plain(signature), plain(returned)


def skip_member(app, what, name, thing, skip, options):
    """What others write: Python of the fields of named tuples, scikit-learn of its requests."""
    if name.startswith("set_") and name.endswith("_request"):
        return True
    if (getattr(thing, "__doc__", None) or "").startswith("Alias for field number"):
        return True
    return None


def keep_sentences(app, what, name, thing, options, lines):
    """A colon in the sentence of a field does not end a type, which napoleon takes it for.

    It looks at the first line only, so an empty comment comes before.
    """
    if what in ("attribute", "property") and lines:
        lines[:0] = ["..", ""]


def setup(app: Sphinx) -> dict:
    """Write before the sources are looked for."""
    app.connect("builder-inited", write)
    app.connect("autodoc-process-signature", plain_signature)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("autodoc-process-docstring", keep_sentences, priority=400)  # napoleon has 500
    return {"parallel_read_safe": True, "parallel_write_safe": True}
