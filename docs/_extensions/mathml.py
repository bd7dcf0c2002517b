"""A Sphinx math renderer that writes MathML, so that pages with formulas need no script."""

from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

_LOGGER = logging.getLogger(__name__)


def _formula(node, display: str) -> str:
    formula = convert(node.astext(), display=display)
    if "\\" in formula:
        _LOGGER.warning("a command in this formula is not known: %s", node.astext(), location=node)
    return formula


def _inline(writer, node) -> None:
    writer.body.append(_formula(node, "inline"))
    raise SkipNode


def _block(writer, node) -> None:
    number = node.get("number")
    mark = f'<span class="eqno">({number})</span>' if number else ""
    writer.body.append(f'<div class="math-block">{mark}{_formula(node, "block")}</div>')
    raise SkipNode


def setup(app: Sphinx) -> dict:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
