"""A person in the loop: ``credax active start``, ``tell`` and ``status``."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from credax import __version__
from credax.active.answers import Asking
from credax.active.folder import LoopFolder
from credax.active.state import State
from credax.cli.acquisitions import read_acquisition
from credax.cli.active import Start, Status, Tell
from credax.cli.command import COMMAND
from credax.cli.config import Task, task_to_json
from credax.cli.own_code import is_own
from credax.cli.person_round import next_round
from credax.cli.person_run import (
    PersonRun,
    PersonSettings,
    Standing,
    described,
    keep_pool,
    open_run,
    read_description,
)
from credax.cli.person_status import print_status, summary
from credax.cli.terminal import printable
from credax.cli.to_label import TABLE, write_questions
from credax.cli.variants import read_variants
from credax.data.dataset import Split
from credax.data.tabular import TABLES
from credax.data.unlabelled import (
    Unlabelled,
    read_unlabelled_pictures,
    read_unlabelled_table,
    task_of_labels,
)
from credax.errors import InputError
from credax.prediction import ClassPrediction
from credax.training.hooks import members_of
from credax.training.interrupts import Signals

DEFAULT_ROOT = "runs"
PICTURE_TARGET = "label"


def start(config: Start) -> None:
    """Keep the rows, train on the labels there are, write what to label."""
    task = _checked(config)
    rows = _rows(config, task)
    test = None if config.test is None else _test_rows(config.test, task, rows)
    free = sum(not label for label in rows.labels)
    if config.query > free:
        raise InputError(
            f"query is {config.query} and {source_name(task)} has {free} rows without a label; "
            "ask for fewer at a time"
        )
    names = [f.name for f in dataclasses.fields(PersonSettings)]
    settings = PersonSettings(**{name: getattr(config, name) for name in names})
    source = Path(task.data)
    for note in rows.notes:
        print(printable(f"credax: warning: {note}"))
    out = Path(config.out or Path(DEFAULT_ROOT) / f"active_{source.resolve().name}")
    with LoopFolder(out) as folder:
        content = described(
            settings, task_to_json(task), rows, test, __version__, " ".join(COMMAND)
        )
        folder.agree(content, free=("credax", "command"))
        keep_pool(out, rows, source.resolve(), test)
        if folder.load() is None:
            run = PersonRun(folder, State(len(rows)), [], Standing())
            run.standing = _first_standing(config, rows, test)
            known = {row: label for row, label in enumerate(rows.labels) if label}
            _take(run, known)
            run.save()
        run = open_run(folder)
        if not config.quiet:
            _print_decisions(run)
        _go_on(run, config.quiet)


def source_name(task: Task) -> str:
    """The name of the file or folder of rows."""
    return Path(task.data).name


def tell(config: Tell) -> None:
    """Take the answers, keep them, then train and ask again."""
    path = Path(config.run)
    read_description(path)
    with LoopFolder(path) as folder:
        run = open_run(folder)
        answers = Path(config.answers or path / TABLE)
        if not answers.exists():
            raise InputError(f"answers is {answers}, which does not exist; fill {path / TABLE}")
        found = asking(run).read(answers, config.new_classes, config.correct)
        if not found.labels and len(run.state.asked):
            raise InputError(
                f"{answers} holds no new answers; fill the column {run.target!r} of some rows"
            )
        if found.labels:
            print(printable(_take(run, found.labels)))
            run.save()
        _go_on(run, config.quiet)


def status(config: Status) -> None:
    """Print how far the run is."""
    path = Path(config.run)
    read_description(path)
    run = open_run(LoopFolder(path))
    if config.json:
        print(json.dumps(summary(run), indent=2))
    else:
        print_status(run)


def asking(run: PersonRun) -> Asking:
    """What answers to a run are checked against."""
    standing, state, name = run.standing, run.state, run.settings.id
    known = dict(zip(state.labelled.tolist(), map(run.label_text, state.labels), strict=True))
    ids = {cell: row for row, cell in enumerate(run.kept["cells"][name])} if name else {}
    classes = () if standing.task == "regression" else standing.classes
    asked = frozenset((*standing.ever, *state.asked.tolist()))
    return Asking(run.target, asked, known, classes, standing.task, state.size, ids, name)


def _go_on(run: PersonRun, quiet: bool) -> None:
    """Train and ask if nothing is asked for; then say what is."""
    Signals().at(f"the answers are kept; credax active tell {run.path} goes on from there")
    if not len(run.state.asked) and len(run.state.unlabelled):
        next_round(run, quiet)
    for sentence in write_questions(run):
        print(printable(sentence))
    print_status(run)


def _print_decisions(run: PersonRun) -> None:
    """Print what becomes of every column of a table, or of pictures."""
    from rich.console import Console

    from credax.cli.decisions import print_decisions

    name = f"{run.state.size} rows of {Path(run.kept['source']).name}"
    empty = run.dataset(Split(run.pool[:0], np.zeros(0, np.int32)))
    print_decisions(dataclasses.replace(empty, name=name), Console(), counted=False)


def _take(run: PersonRun, labels: dict[int, str]) -> str:
    """Put answers into the state; a sentence that says what came."""
    if not labels:
        return "no labels yet"
    standing, before = run.standing, len(run.state.labelled)
    if standing.task == "auto":
        standing = dataclasses.replace(standing, task=task_of_labels(list(labels.values())))
    said = f"{len(labels)} labels"
    if standing.task == "classification":
        new = sorted(set(labels.values()) - set(standing.classes))
        classes = (*standing.classes, *new)
        values = np.array([classes.index(label) for label in labels.values()], np.int32)
        check = _check_of_guesses(standing.guesses, labels, before)
        standing = dataclasses.replace(standing, classes=classes, checks=standing.checks + check)
        for _, answers, right in check:
            said += f"; before them the model would have said {right} of {answers} right"
        said += f"; new classes: {', '.join(new)}" if new and before else ""
    else:
        values = np.array([float(label) for label in labels.values()], np.float32)
    run.state = _with_answers(run.state, np.array(list(labels), np.int64), values)
    run.standing = dataclasses.replace(standing, why=(), guesses={})
    return said


def _check_of_guesses(
    guesses: dict[str, str], labels: dict[int, str], before: int
) -> tuple[tuple[int, int, int], ...]:
    """Labels before, answers to rows with a guess, and how many were guessed; or nothing."""
    pairs = [(guesses[str(row)], label) for row, label in labels.items() if str(row) in guesses]
    return ((before, len(pairs), sum(a == b for a, b in pairs)),) if pairs else ()


def _with_answers(state: State, rows: np.ndarray, values: np.ndarray) -> State:
    """The state with new labels, and corrected ones in their old places."""
    old = np.isin(rows, state.labelled)
    if old.any():
        changed = state.labels.copy()
        for row, value in zip(rows[old], values[old], strict=True):
            changed[np.flatnonzero(state.labelled == row)[0]] = value
        state = dataclasses.replace(state, labels=changed)
    # Rows that were asked for earlier may be answered late.
    late = np.setdiff1d(rows[~old], state.asked)
    scores = np.r_[state.asked_scores, np.full(len(late), np.nan)]
    state = state.ask(np.r_[state.asked, late], scores)
    return state.tell(rows[~old], values[~old], len(state.rounds))


def _first_standing(config: Start, rows: Unlabelled, test: Unlabelled | None) -> Standing:
    """Task and classes, as far as the first labels or flags say them."""
    labels = [label for label in rows.labels if label]
    labels += list(config.classes) + ([] if test is None else list(test.labels))
    task: str = config.task.task
    if task == "auto" and labels:
        task = "classification" if config.classes else task_of_labels(labels)
    return Standing(task, () if task == "regression" else tuple(sorted(set(labels))))


def _checked(config: Start) -> Task:
    """The task, with one target; what cannot be is refused before anything is written."""
    task = config.task
    path = Path(task.data)
    table = path.suffix.lower() in TABLES
    if not path.exists() or not (table or path.is_dir()):
        raise InputError(
            f"data is {task.data}; give a .csv, .tsv, .parquet or .feather file, or a folder of "
            "pictures"
        )
    if table and len(task.target) != 1:
        raise InputError(
            "target is missing; name the column that holds, or will hold, the labels: --target "
            "label"
        )
    if not table:
        odd = [n for n in ("labels", "test", "id") if getattr(config, n)]
        if odd:
            raise InputError(f"{odd[0]} is for tables, and data is the folder {task.data}")
    for flag in ("network", "likelihood"):
        if is_own(getattr(task, flag)):
            raise InputError(
                f"{flag} is code of your own, and a run that is told answers later runs no code "
                "that it names; use credax.active.run in Python with oracle="
            )
    acquisition = read_acquisition(config.acquisition)
    task = dataclasses.replace(task, target=task.target[:1] or (PICTURE_TARGET,))
    (variant,) = read_variants((config.method,), None, task, config.members)
    # An evidential member says by itself what it does not know.
    if members_of(variant.method) == 1 and not str(task.likelihood).startswith("evidential"):
        acquisition.check(ClassPrediction.from_probs(np.full((1, 1, 2), 0.5)))
    return task


def _rows(config: Start, task: Task) -> Unlabelled:
    if Path(task.data).is_dir():
        return read_unlabelled_pictures(Path(task.data), task.size)
    ignore = [*task.ignore, *([config.id] if config.id and config.id not in task.ignore else [])]
    return read_unlabelled_table(
        task.data, target=task.target[0], more=config.labels, ignore=ignore, kinds=task.kinds
    )


def _test_rows(path: str, task: Task, rows: Unlabelled) -> Unlabelled:
    """Rows to measure on, as inputs of the pool's columns; each must have its label."""
    prepared: Any = rows.preparation
    found = read_unlabelled_table(path, target=task.target[0], columns=prepared)
    if not all(found.labels):
        raise InputError(
            f"test is {path}, where row {found.labels.index('') + 1} has no label; fill it in"
        )
    return found
