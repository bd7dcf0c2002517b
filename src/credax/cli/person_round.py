"""One round of a person's run: train on the labels, choose, and say why."""

import dataclasses
import time
from typing import Any

import numpy as np

from credax.active.ahead import check_ahead
from credax.active.given import Pool
from credax.active.reasons import reasons
from credax.active.rounds import Keys, Trainer, ask_for, labelled_rows, measured
from credax.active.state import Round
from credax.cli.acquisitions import read_acquisition
from credax.cli.config import Fit
from credax.cli.job import Job
from credax.cli.person_run import PersonRun
from credax.cli.variants import read_variants
from credax.keys import as_key, numpy_generator


def next_round(run: PersonRun, quiet: bool) -> None:
    """Train if there is enough to train on, ask for more rows, and keep all of it."""
    began = time.monotonic()
    words = too_few(run)
    round_ = _ask_at_random(run, words) if words else _train_and_ask(run, quiet)
    ever = tuple(sorted({*run.standing.ever, *run.state.asked.tolist()}))
    run.standing = dataclasses.replace(run.standing, ever=ever)
    run.state = run.state.with_round(round_)
    run.seconds = [*run.seconds, round(time.monotonic() - began, 3)]
    run.save()
    if not run.settings.keep_members and round_.members:
        run.folder.drop_before(round_.number)


def too_few(run: PersonRun) -> str:
    """Why nothing can be trained yet, in words; empty where something can."""
    labels = run.state.labels
    if run.standing.task == "regression":
        return "" if len(labels) >= 2 else f"{len(labels)} labels are too few to train on"
    seen = {run.label_text(label) for label in labels}
    if len(seen) >= 2:
        return ""
    return f"all labels are {seen.pop()!r}" if seen else "there are no labels yet"


def _ask_at_random(run: PersonRun, words: str) -> Round:
    state, number = run.state, len(run.state.rounds)
    free = state.unlabelled
    keys = Keys.of(as_key(run.settings.seed), number)
    count = min(run.settings.initial, len(free))
    rows = numpy_generator(keys.subset).permutation(free)[:count]
    run.state = state.ask(rows)
    why = f"chosen at random: {words}"
    run.standing = dataclasses.replace(run.standing, why=(why,) * count, guesses={})
    return Round(number, len(state.labelled), why=why)


def _train_and_ask(run: PersonRun, quiet: bool) -> Round:
    state, standing, settings = run.state, run.standing, run.settings
    number = len(state.rounds)
    keys = Keys.of(as_key(settings.seed), number)
    pool = Pool(run.pool, run.units, standing.task == "regression")
    rows = labelled_rows(pool, state)
    job = Job.of(run.task, run.dataset(rows))
    (variant,) = read_variants((settings.method,), None, job.task, settings.members)
    config = job.config(Fit(variant.method, variant.task, settings.seed))
    acquisition = read_acquisition(settings.acquisition)
    check_ahead(acquisition, variant.method, job.problem, run.pool)
    training, steps = variant.task.training, settings.steps
    trainer = Trainer(job.problem, variant.method, training, None, job.dataset, config, steps)
    progress: Any = False if quiet else None
    trained = trainer.fit(rows, keys.train, run.folder.round(number), progress)
    posterior = trained.posterior
    task = "regression" if standing.task == "regression" else "classification"
    found = Round(
        number,
        len(state.labelled),
        measured(posterior, run.test, keys.draw, task),
        {},
        trained.steps,
        posterior.num_members,
    )
    count = min(settings.query, len(state.unlabelled))
    asked, choice = ask_for(
        posterior,
        run.pool,
        state,
        acquisition,
        count,
        keys,
        scoring_pool=settings.scoring_pool and max(settings.scoring_pool, count),
        chunk=4096,
    )
    run.state = state.ask(asked, choice.scores)
    prediction = posterior.predict(np.asarray(run.pool[asked]), key=keys.draw)
    why, guesses = reasons(prediction, standing.classes)
    told = {str(row): guess for row, guess in zip(asked.tolist(), guesses, strict=True)}
    run.standing = dataclasses.replace(standing, why=tuple(why), guesses=told)
    return found.with_choice(choice)
