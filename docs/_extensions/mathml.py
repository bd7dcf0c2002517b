"""A Sphinx math renderer that writes MathML, so that pages with formulas need no script."""

from latex2mathml.converter import convert
from sphinx.application import Sphinx


def _inline(writer, node) -> None:
    writer.body.append(convert(node.astext()))
    raise_skip()


def _block(writer, node) -> None:
    number = node.get("number")
    mark = f'<span class="eqno">({number})</span>' if number else ""
    formula = convert(node.astext(), display="block")
    writer.body.append(f'<div class="math-block">{mark}{formula}</div>')
    raise_skip()


def raise_skip() -> None:
    """The node is written; its text must not be written again."""
    from docutils.nodes import SkipNode

    raise SkipNode


def setup(app: Sphinx) -> dict:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
