"""HTML from nested calls: text is escaped unless it is `Markup` already."""

from html import escape
from typing import Any

_VOID = frozenset({"br", "hr", "img", "meta"})


class Markup(str):
    """Text that is HTML already and is put into a page unchanged."""

    __slots__ = ()


def element(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """One element; strings are escaped, lists flattened, None left out.

    Attribute names lose a trailing underscore and their other underscores become hyphens; an
    attribute that is None is left out and one that is True has no value.

    >>> element("p", "a < b ", element("b", 1), class_="note", hidden=None)
    '<p class="note">a &lt; b <b>1</b></p>'
    """
    start = f"<{name}{''.join(map(_attribute, attributes, attributes.values()))}>"
    if name in _VOID:
        return Markup(start)
    return Markup(f"{start}{join(children)}</{name}>")


def join(children: Any) -> Markup:
    """Children in a row, each treated as in `element`."""
    if children is None:
        return Markup("")
    if isinstance(children, Markup):
        return children
    if isinstance(children, list | tuple):
        return Markup("".join(map(join, children)))
    return Markup(escape(str(children)))


def _attribute(name: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
