"""Where a comparison comes from: data, rows per split and class, date, version, command line."""

from collections.abc import Mapping

from credax.report.cost import seeds_text
from credax.report.markup import Markup, element
from credax.report.parts import numbers
from credax.report.result import Comparison, Facts

_SPLITS = ("train", "validation", "test")


def facts_list(comparison: Comparison) -> Markup:
    """The facts at the top of the page, those that are known."""
    facts = comparison.facts
    rows = facts.rows or _test_rows(comparison)
    items = {
        "Data": f"{comparison.data} ({comparison.kind})",
        "Rows": ", ".join(f"{_count(rows[s])} {_word(s)}" for s in _ordered(rows)),
        "Seeds": _seeds(comparison),
        "Date": facts.date.replace("T", " "),
        "Version": f"credax {facts.version}" if facts.version else "",
        "Command": element("code", facts.command) if facts.command else "",
    }
    entries = [
        element("div", element("dt", name), element("dd", text))
        for name, text in items.items()
        if text
    ]
    return element("dl", entries, class_="facts")


def classes_table(facts: Facts) -> Markup | None:
    """Rows per split and class, to be unfolded."""
    if not facts.classes:
        return None
    splits = _ordered(facts.classes)
    names = dict.fromkeys(name for split in splits for name in facts.classes[split])
    return numbers(
        "Rows per split and class",
        ["class", *[_word(s) for s in splits]],
        [[name, *[facts.classes[s].get(name, 0) for s in splits]] for name in names],
    )


def decisions_table(facts: Facts) -> Markup | None:
    """What became of every column of the user's own data, to be unfolded."""
    if not facts.decisions:
        return None
    header = ["column", "is", "becomes", "note"]
    return numbers("How the data became inputs", header, facts.decisions)


def _test_rows(comparison: Comparison) -> dict[str, int]:
    lengths = [len(r.y) for r in comparison.results if r.y is not None]
    return {"test": lengths[0]} if lengths else {}


def _seeds(comparison: Comparison) -> str:
    each = {seeds_text(comparison.of(m)) for m in comparison.methods}
    if len(each) > 1:
        return ""
    return each.pop() + (" per method" if len(comparison.methods) > 1 else "")


def _ordered(found: Mapping[str, object]) -> list[str]:
    return [s for s in _SPLITS if s in found] + [s for s in found if s not in _SPLITS]


def _word(split: str) -> str:
    return {"train": "training"}.get(split, split)


def _count(rows: int) -> str:
    return f"{rows:,}".replace(",", "\u202f")
