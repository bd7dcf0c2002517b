"""What the pages' executed cells show: tables made from the library itself, never typed."""

import ast
import dataclasses
import inspect
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin


class Table:
    """Rows of one dictionary each, as a Markdown table."""

    def __init__(self, rows: Iterable[dict[str, Any]]):
        self.rows = list(rows)

    def _repr_markdown_(self) -> str:
        columns = list(self.rows[0])
        lines = [columns, ["---"] * len(columns)]
        lines += [[_cell(row[column]) for column in columns] for row in self.rows]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)

    def __repr__(self) -> str:
        return self._repr_markdown_()


class Tables:
    """Tables under bold headings."""

    def __init__(self, tables: dict[str, list[dict[str, Any]]]):
        self.tables = tables

    def _repr_markdown_(self) -> str:
        parts = [f"**{head}**\n\n{Table(rows)}" for head, rows in self.tables.items()]
        return "\n\n".join(parts)


class Page:
    """A whole HTML page inside this one."""

    def __init__(self, html: str):
        self.html = html

    def _repr_html_(self) -> str:
        quoted = self.html.replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe class="report" title="the report" srcdoc="{quoted}"></iframe>'


def options(record: type) -> Table:
    """The options of a method or of any other record of settings, with their explanations."""
    said = _field_docstrings(record)
    return Table(
        {
            "option": f"`{field.name}`",
            "type": f"`{_name(field.type)}`",
            "default": f"`{_default(field)}`",
            "meaning": said.get(field.name, ""),
        }
        for field in dataclasses.fields(record)
    )


def terminal(*commands: str, columns: int = 88, refused: bool = False) -> None:
    """Print commands and what they answer, as in a terminal of so many columns.

    With ``refused`` the last one is a mistake, and the sentence that it gets is printed too.
    """
    environment = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "dumb"}
    answer = subprocess.run(
        [sys.executable, "-c", _SESSION, *commands],
        capture_output=True,
        text=True,
        env=environment,
    )
    if answer.returncode != (2 if refused else 0):
        raise RuntimeError(answer.stderr)
    said = answer.stdout + (textwrap.fill(answer.stderr, columns) if refused else "")
    print("\n".join(line.rstrip() for line in said.splitlines()))


# One process for all commands of a cell: importing jax takes longer than most of them.
_SESSION = """
import shlex, sys
from credax.cli import main
for command in sys.argv[1:]:
    print("$", command, flush=True)
    try:
        code = main(shlex.split(command)[1:])
    except SystemExit as ending:
        code = ending.code
    if code:
        sys.exit(code)
"""


def _field_docstrings(record: type) -> dict[str, str]:
    said = {}
    for kind in reversed([k for k in record.__mro__ if dataclasses.is_dataclass(k)]):
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body
        for field, after in pairwise(body):
            named = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                said[field.target.id] = inspect.cleandoc(str(after.value.value))
    return said


def _default(field: dataclasses.Field) -> str:
    if field.default is not dataclasses.MISSING:
        return repr(field.default)
    if field.default_factory is not dataclasses.MISSING:
        return f"{_name(field.default_factory)}()"
    return "required"


def _name(kind: Any) -> str:
    parts = get_args(kind)
    if get_origin(kind) is Annotated:
        return _name(parts[0])
    if get_origin(kind) in (Union, UnionType):
        return " | ".join(map(_name, parts))
    if get_origin(kind) is Literal:
        return " | ".join(map(repr, parts))
    if kind is NoneType:
        return "None"
    return inspect.formatannotation(kind).replace("typing.", "")


def _cell(value: Any) -> str:
    return str(value).replace("\n", " ").replace("|", "\\|")


def draw_curves(axis: Any, x: Any, prediction: Any, split: Any, title: str = "") -> None:
    """Members, mean and two deviations of a prediction on a line, and the rows it learned from."""
    low, high = (prediction.mean + side * prediction.std for side in (-2, 2))
    axis.fill_between(x[:, 0], low, high, color="C0", alpha=0.2, lw=0)
    axis.plot(x[:, 0], prediction.members.T, color="C0", lw=0.5, alpha=0.6)
    axis.plot(x[:, 0], prediction.mean, color="C0")
    axis.scatter(split.x[:, 0], split.y, color="C1", s=6)
    axis.set(title=title, ylim=(-6, 6))


def gradient_cosine(posterior: Any, split: Any) -> float:
    """Mean cosine between two members' input gradients of the true class's logit."""
    import jax
    import jax.numpy as jnp

    problem = posterior.problem

    def gradients(variables):
        logit = lambda row, label: problem.outputs(variables, row[None])[0][0, label]  # noqa: E731
        return jax.vmap(jax.grad(logit))(problem.prepare_inputs(split.x), split.y)

    unit = jax.vmap(gradients)(posterior.variables)
    unit = unit / jnp.linalg.norm(unit, axis=-1, keepdims=True)
    count = len(unit)
    total = jnp.einsum("ibd,jbd->ijb", unit, unit).mean(-1).sum()
    return float((total - count) / (count * (count - 1)))
