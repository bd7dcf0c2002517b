"""The loop: train, score the pool, ask for labels, put them in, repeat."""

import contextlib
import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from credax import __version__, methods
from credax.active import registry
from credax.active.ahead import check_ahead
from credax.active.fine_tuning import Continue, replayed
from credax.active.folder import LoopFolder
from credax.active.given import Given, given_data
from credax.active.history import History
from credax.active.initial import initial_rows
from credax.active.oracle import Oracle, checked_labels
from credax.active.pool import pool_digest
from credax.active.rounds import (
    Keys,
    Trained,
    Trainer,
    ask_for,
    fitting,
    labelled_rows,
    measured,
)
from credax.active.settings import Settings
from credax.active.state import FORMAT, Round, State
from credax.data.rows import fingerprint
from credax.description import describe, shortened
from credax.errors import InputError
from credax.keys import as_key, numpy_generator
from credax.methods.trajectory.snapshot_ensemble import SnapshotEnsemble
from credax.posterior import Population
from credax.problem import Problem
from credax.training import Training
from credax.training.describe import describe_method, describe_problem, describe_training
from credax.training.given import check_method
from credax.training.hooks import settings_of
from credax.training.progress import Reporter, reporter_for


def run(
    problem: Problem,
    method: Any,
    data: Any,
    *,
    acquisition: Any = "bald",
    query: int = 10,
    rounds: int = 10,
    initial: int | Any = 20,
    oracle: Oracle | None = None,
    retrain: Literal["scratch", "continue"] | Continue = "scratch",
    scoring_pool: int | None = 10_000,
    final: Any = None,
    target_x: Any = None,
    key: Any = 0,
    training: Training | None = None,
    steps: int | None = None,
    folder: str | Path | None = None,
    keep_members: bool = True,
    chunk: int = 4096,
    progress: bool | Reporter | None = None,
) -> History:
    """Buy labels where they teach the most: ``rounds`` times ``query`` of them.

    Each round trains the method on all labels so far, measures it on the test rows, scores the
    unlabelled rows by the acquisition and asks the oracle for the labels of those it chooses. After
    the last purchase one more round trains and measures, so there are ``rounds + 1``.

    Args:
        problem: network, likelihood and prior.
        method: any method, a record or its name; its posterior's disagreement is what is spent.
        data: a `Dataset` whose training rows are the pool (its test rows measure, its validation
            rows go to the method; neither is ever bought); rows ``(x, y)``; or inputs alone, with
            an oracle. The inputs may be a memory map larger than the device, or than memory.
        acquisition: a record or its name; see ``credax.active.names()``.
        query: labels bought in each round.
        rounds: purchases.
        initial: labels before the first round, as many of each class where the oracle knows the
            classes, else at random; or the rows themselves.
        oracle: ``oracle(indices) -> labels``, the only source of labels; by default those of the
            data, given out row by row.
        retrain: ``"scratch"`` trains new networks in every round; ``"continue"`` (or a `Continue`)
            goes on with a `SnapshotEnsemble`'s trajectory, and trains anew in the last round.
        scoring_pool: score a new random subset of so many unlabelled rows in each round; None
            scores all of them.
        final: a method trained on the same labels in every round and measured beside the one that
            asks.
        target_x: inputs whose labels matter, for acquisitions that ask for them (EPIG).
        key: a seed or a typed key.
        training: epochs, batch size and the rest; batches are at most as large as the labels.
        steps: gradient steps of every network in every round, whatever the number of labels: epochs
            are then ``⌈steps / steps per epoch⌉``. Rounds that continue have the epochs of
            their `Continue`.
        folder: keep the loop there, round by round: the same call resumes it to the same bytes.
        keep_members: keep the trained members of all rounds in the folder, or of the last only.
        chunk: rows of the pool on the device at once.
        progress: a bar or lines of rounds; ``False`` for none.

    >>> import credax as cx
    >>> data = cx.data.load("toy/two-moons", train=60)
    >>> problem = cx.Problem(cx.networks.MLP((8,), outputs=2), cx.Categorical())
    >>> history = cx.active.run(problem, cx.DeepEnsemble(members=3), data, query=2, rounds=1,
    ...                         initial=4, training=cx.Training(5), progress=False)
    >>> history.labels, len(history.purchases)
    ([4, 6], 6)
    """
    method, final = _method(method), None if final is None else _method(final, "final")
    acquisition = registry.get(acquisition)() if isinstance(acquisition, str) else acquisition
    given = given_data(data, oracle, problem.likelihood.task)
    settings = Settings(
        query, rounds, initial, _retrain(retrain, method), scoring_pool, chunk, steps
    )
    settings.check(len(given.pool))
    problem = problem.with_units(given.pool.inputs, None)
    check_ahead(acquisition, method, problem, given.pool.x)
    loop = _Loop(
        problem,
        method,
        final,
        given,
        acquisition,
        settings,
        training or Training(),
        as_key(key),
        target_x,
        keep_members,
    )
    if folder is None:
        return loop.run(None, reporter_for(progress, "rounds"))
    with LoopFolder(folder) as place:
        place.agree(loop.description())
        return loop.run(place, reporter_for(progress, "rounds"))


@dataclass(frozen=True)
class _Loop:
    problem: Problem
    method: Any
    final: Any
    given: Given
    acquisition: Any
    settings: Settings
    training: Training
    key: Any
    target_x: Any
    keep_members: bool

    def description(self) -> dict[str, Any]:
        """All that changes a number, as plain data; the pool by its digest."""
        given, final = self.given, self.final
        return {
            "format": FORMAT,
            "credax": __version__,
            "problem": describe_problem(self.problem),
            "method": describe_method(self.method),
            "final": None if final is None else describe_method(final),
            "acquisition": describe(self.acquisition, "acquisition"),
            "training": describe_training(self.training),
            **self.settings.description(),
            "target_x": shortened(describe(self.target_x, "target_x")),
            "key": describe(self.key, "key"),
            "pool": pool_digest(given.pool.x),
            "test": None if given.test is None else fingerprint(given.test),
            "validation": None if given.validation is None else fingerprint(given.validation),
            "keep_members": self.keep_members,
        }

    def run(self, place: LoopFolder | None, reporter: Reporter) -> History:
        found = None if place is None else place.load()
        state, seconds, _ = found or (State(len(self.given.pool)), [], {})
        last, final = None, None
        reporter.start(self.method.title, self.settings.rounds + 1, len(state.rounds))
        with contextlib.ExitStack() as stack:
            stack.callback(reporter.stop)
            while len(state.rounds) <= self.settings.rounds:
                state = self._labels(state, seconds, place)
                began = time.monotonic()
                number = len(state.rounds)
                last = self._train(state, number, last and last.posterior, place)
                final = self._train_final(state, number, place)
                state = self._ask(state, number, last, final)
                seconds = [*seconds, round(time.monotonic() - began, 3)]
                if place is not None:
                    place.save(state, seconds)
                    if not self.keep_members:
                        place.drop_before(number)
                reporter.update(number + 1, _words(state.rounds[-1]))
        if last is None:  # a finished loop is only read
            number = self.settings.rounds
            last = self._train(state, number, None, place)
            final = self._train_final(state, number, place)
        path = None if place is None else place.path
        classifier = None if final is None else final.posterior
        return History(state, tuple(seconds), last.posterior, classifier, path)

    def _labels(self, state: State, seconds: list, place: LoopFolder | None) -> State:
        """The state after the oracle's answer; what was asked for is on disk before it answers."""
        if not len(state.labelled) and not len(state.asked):
            rows = initial_rows(self.settings.initial, self.given, self.key)
            state = state.ask(rows)
            if place is not None:
                place.save(state, seconds)
        if not len(state.asked):
            return state
        task = self.problem.likelihood.task
        labels = checked_labels(self.given.oracle(state.asked.copy()), state.asked, task)
        state = state.tell(state.asked, labels, len(state.rounds))
        if place is not None:
            place.save(state, seconds)
        return state

    def _train(self, state: State, number: int, before: Any, place: LoopFolder | None) -> Trained:
        keys = Keys.of(self.key, number)
        folder = None if place is None else place.round(number)
        trainer = self._trainer(self.method)
        going_on = self.settings.retrain
        if going_on is None or number in (0, self.settings.rounds):
            return trainer.fit(labelled_rows(self.given.pool, state), keys.train, folder)
        if before is None:
            assert place is not None  # only a loop that was resumed has no posterior at hand
            before = Population.load(place.members(number - 1), self.problem)
        chosen = replayed(state.bought, going_on.replay, numpy_generator(keys.replay))
        rows = labelled_rows(self.given.pool, state, chosen)
        usual = fitting(self.training, len(rows), self.settings.steps)
        usual = settings_of(self.method, usual, len(rows))
        own = going_on.training(usual, len(rows))
        trainer = dataclasses.replace(
            self._trainer(going_on.method(self.method, before)), training=own, steps=None
        )
        return trainer.fit(rows, keys.train, folder)

    def _train_final(self, state: State, number: int, place: LoopFolder | None) -> Trained | None:
        if self.final is None:
            return None
        folder = None if place is None else place.round(number, final=True)
        rows = labelled_rows(self.given.pool, state)
        return self._trainer(self.final).fit(rows, Keys.of(self.key, number).final, folder)

    def _trainer(self, method: Any) -> Trainer:
        given, steps = self.given, self.settings.steps
        return Trainer(
            self.problem, method, self.training, given.validation, given.about, steps=steps
        )

    def _ask(self, state: State, number: int, last: Trained, final: Trained | None) -> State:
        """The state with the record of this round, and what it asks for."""
        keys, task = Keys.of(self.key, number), self.problem.likelihood.task
        found = Round(
            number,
            len(state.labelled),
            measured(last.posterior, self.given.test, keys.draw, task),
            {} if final is None else measured(final.posterior, self.given.test, keys.draw, task),
            last.steps,
            last.posterior.num_members,
        )
        if number == self.settings.rounds:
            return state.with_round(found)
        rows, choice = ask_for(
            last.posterior,
            self.given.pool.x,
            state,
            self.acquisition,
            self.settings.query,
            keys,
            scoring_pool=self.settings.scoring_pool,
            chunk=self.settings.chunk,
            target_x=self.target_x,
        )
        return state.ask(rows, choice.scores).with_round(found.with_choice(choice))


def _method(method: Any, name: str = "method") -> Any:
    if isinstance(method, str):
        return methods.get(method)()
    check_method(method)
    return method


def _retrain(given: Any, method: Any) -> Continue | None:
    """How rounds go on; None where each begins anew."""
    if given == "scratch":
        return None
    if given != "continue" and not isinstance(given, Continue):
        raise InputError(
            f"retrain is {given!r}; give 'scratch', 'continue' or a credax.active.Continue"
        )
    if not isinstance(method, SnapshotEnsemble) or method.modes != 1:
        raise InputError(
            f"retrain is 'continue', which goes on with one trajectory of snapshots, and method is "
            f"{method.name}; give SnapshotEnsemble(members=5), or retrain='scratch'"
        )
    return given if isinstance(given, Continue) else Continue()


def _words(found: Round) -> str:
    metrics = ", ".join(f"{n} {v:.4g}" for n, v in (found.final or found.metrics).items())
    return ", ".join(filter(None, (f"{found.labels} labels", metrics)))
