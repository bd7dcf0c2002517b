"""How far a person's run is."""

from collections import Counter
from typing import Any

from credax.cli.person_run import PersonRun
from credax.cli.terminal import printable
from credax.cli.to_label import FOLDER, TABLE
from credax.data.pictures import Pictures


def summary(run: PersonRun) -> dict[str, Any]:
    """The run in plain data."""
    state, standing = run.state, run.standing
    classes = standing.task == "classification"
    counts = Counter(run.label_text(label) for label in state.labels) if classes else {}
    return {
        "run": str(run.path),
        "task": standing.task,
        "rows": state.size,
        "labels": len(state.labelled),
        "classes": {name: counts.get(name, 0) for name in standing.classes} if classes else {},
        "asked": (state.asked + 1).tolist(),
        "rounds": [each.to_json() for each in state.rounds],
        "seconds": run.seconds,
        "guessed": [
            {"labels": before, "answers": answers, "right": right}
            for before, answers, right in standing.checks
        ],
        "members": _members(run),
    }


def _members(run: PersonRun) -> str | None:
    """The folder of the newest training, which other commands read."""
    trained = [each.number for each in run.state.rounds if each.members]
    return str(run.folder.round(trained[-1])) if trained else None


def print_status(run: PersonRun) -> None:
    """Print it for people."""
    for line in _lines(run, summary(run)):
        print(printable(line))


def _lines(run: PersonRun, found: dict[str, Any]) -> list[str]:
    state, lines = run.state, [f"{found['labels']} of {found['rows']} rows have labels"]
    if found["classes"]:
        lines[0] += ": " + ", ".join(f"{n} {count}" for n, count in found["classes"].items())
    for each in state.rounds[-1:]:
        if each.metrics:
            words = ", ".join(f"{name} {value:.4g}" for name, value in each.metrics.items())
            lines.append(f"on the test rows, trained on {each.labels} labels: {words}")
        lines += [f"warning: {text}" for text in each.warnings]
        lines += [each.why] if each.why and len(state.asked) else []
    for before, answers, right in run.standing.checks[-1:]:
        lines.append(
            f"of the last {answers} answers the model, trained on {before} labels, would have said "
            f"{right} right; it asks for difficult rows, so expect more on others"
        )
    if found["members"]:
        lines.append(f"predictions: credax predict {found['members']} FILE")
    path = run.path / TABLE
    if len(state.asked):
        lines.append(f"{len(state.asked)} rows to label: {path}, column {run.target!r}")
        if isinstance(run.preparation, Pictures):
            lines.append(f"pictures: {run.path / FOLDER / 'index.html'}")
        lines.append(f"then: credax active tell {run.path}")
    elif not len(state.unlabelled):
        lines.append("every row has a label")
    else:
        lines.append(f"the next rows are not chosen yet: credax active tell {run.path}")
    return lines
