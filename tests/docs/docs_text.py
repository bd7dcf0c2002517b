"""The texts of the project, and the code in them."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
GUIDE = ROOT / "CONTRIBUTING.md"
PAGES = sorted(
    path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.relative_to(ROOT).parts
)
TEXTS = [README, GUIDE, *PAGES]

_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<kind>[^\n]*)\n(?P<code>.*?)^(?P=fence)$", re.M | re.S)
_FILE = re.compile(
    r"^`(?P<path>[^`\n]+)`[^\n]*:\n\n(?P<fence>`{3,})\w+\n(?P<code>.*?)^(?P=fence)$", re.M | re.S
)


class Block(NamedTuple):
    """A fenced block: what it is said to be, and what it holds."""

    language: str
    code: str


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a text, in order."""
    return [Block(m["kind"].strip(), m["code"]) for m in _FENCE.finditer(path.read_text())]


def named_files(path: Path) -> dict[str, str]:
    """Blocks that a line such as ``'src/credax/new.py':`` introduces, by that path."""
    return {m["path"]: m["code"] for m in _FILE.finditer(path.read_text())}


def cells(path: Path) -> list[str]:
    """The cells of a page that Sphinx executes, without their options."""
    found = [block.code for block in blocks(path) if block.language.startswith("{code-cell}")]
    return [re.sub(r"\A(:[\w-]+:[^\n]*\n)+", "", code) for code in found]
