"""The only training loop. It knows nothing of methods; methods know nothing of it."""

import time
import warnings
from datetime import datetime
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from credax.data.dataset import Dataset, Split
from credax.errors import InputError
from credax.keys import as_key
from credax.posterior import Posterior
from credax.problem import Problem
from credax.training.augment import check_augmentations
from credax.training.chunks import next_length, placed_as
from credax.training.config import Training
from credax.training.describe import default_settings, describe_run, describe_run_before
from credax.training.engine import build_program
from credax.training.first_stage import Stage
from credax.training.given import about_rows, check_method, held_out_rows, training_rows
from credax.training.hooks import (
    check_rows,
    check_validation,
    first_of,
    problem_of,
    settings_of,
    tuned_posterior,
)
from credax.training.interrupts import Signals
from credax.training.members import Shard, on_host
from credax.training.memory import program_bytes
from credax.training.observer import Observer
from credax.training.partition import Rules
from credax.training.processes import agreed, check_same, check_same_run, several
from credax.training.program import (
    Carry,
    Program,
    Rows,
    advance,
    current_members,
    initialise,
    order_of,
)
from credax.training.progress import Reporter, reporter_for
from credax.training.records import entries, finite_members
from credax.training.run import RunFolder
from credax.training.schedule import rate_of, rate_text
from credax.training.stored import FILE as ROWS_FILE
from credax.training.stored import keep_rows
from credax.training.supply import DeviceSupply, StreamSupply, Supply, narrow
from credax.training.validation import Validation

RECORDS = 200
CHECKPOINT_SECONDS = 30.0


class MemberDiverged(UserWarning):
    """A member's loss became non-finite; it is left out of the result."""


def fit(
    problem: Problem,
    method: Any,
    data: Split | Dataset | tuple[Any, Any],
    *,
    key: int | jax.Array = 0,
    training: Training | None = None,
    validation: Split | tuple[Any, Any] | None = None,
    folder: str | Path | None = None,
    config: dict[str, Any] | None = None,
    progress: bool | Reporter | None = None,
    mesh: jax.sharding.Mesh | None = None,
    partition: Rules | None = None,
    observer: Observer | None = None,
) -> Posterior:
    """Train a population by a method and return its posterior.

    Args:
        problem: network, likelihood and prior.
        method: a record of `credax.methods`, such as ``DeepEnsemble(members=5)``.
        data: training rows, raw; their units become the problem's. A `Dataset` brings its
            validation rows, and names and test rows that a run folder keeps; ``(x, y)`` will do.
        key: a seed or a typed key; member ``i`` uses ``fold_in(key, i)``.
        training: epochs, batch size, optimiser and the rest.
        validation: rows for early stopping, ``keep_best`` and methods tuned on them; never trained
            on.
        folder: keep the run there; the same call resumes it, and a finished run is only read.
            SIGTERM and Ctrl-C write a checkpoint first.
        config: what to write to the folder's ``config.json`` beside what is known here.
        progress: by default a bar on a terminal and a plain line now and then elsewhere; ``True``,
            ``False`` or one's own reporter.
        mesh: devices with axes ``("members", "data")``, and perhaps ``"model"``; by default all
            devices where there are several.
        partition: of members larger than a device: see `credax.training.partition`.
        observer: shown the members every so many steps, such as `credax.quality.KendallTracker`.
    """
    check_method(method)
    train, held_out = training_rows(data), held_out_rows(data, validation)
    first = first_of(method, training or Training(), len(train))
    training = settings_of(method, training or Training(), len(train))
    problem = problem.with_units(train.inputs, train.targets)
    check_rows(method, problem, train)
    check_augmentations(training.augment, tuple(train.x.shape[1:]))
    check_validation(method, training, held_out)
    own = as_key(key)
    training.steps_per_epoch(len(train))
    # Numbers of prior and noise are arguments of the compiled program, not constants in it.
    traced = problem_of(method, problem).traced()

    def program_of(method):
        return build_program(
            traced, method.dynamics(traced, train, training), training, train, own, mesh, partition
        )

    program, seconds, run = program_of(method), 0.0, None
    described: dict[str, Any] = {}
    if folder is not None or several():
        about = about_rows(data, train, held_out, problem)
        described = describe_run(problem, method, training, about, own, config, first)
        check_same_run(described, program.layout)
    if folder is not None:
        run = RunFolder(folder, writes=jax.process_index() == 0)
        run.open(
            described,
            default_settings(method),
            lambda: describe_run_before(problem, method, training, train, held_out, own, config),
        )
    try:
        if run is not None and run.writes and not (run.path / ROWS_FILE).exists():
            keep_rows(run.path, train, data.test if isinstance(data, Dataset) else None)
        if first is not None and (run is None or not run.finished):
            stage = Stage(*first, problem, train, held_out, own, folder)
            networks, seconds = stage.train(fit, progress=progress, mesh=mesh, partition=partition)
            method = method.beginning_at(networks)
            program = program_of(method)
        reporter = reporter_for(progress)
        loop = _Loop(program, problem, method, train, held_out, run, reporter, observer)
        loop.seconds = seconds
        return loop.run()
    finally:
        if run is not None:
            run.close()


class _Loop:
    """One training: the host's part, between chunks of the compiled program."""

    def __init__(self, program, problem, method, data, validation, run, reporter, observer=None):
        self.program: Program = program
        self.problem: Problem = problem
        self.method = method
        self.data: Split = data
        self.folder: RunFolder | None = run
        self.reporter: Reporter = reporter
        self.observer: Observer | None = observer
        self.held_out: Split | None = validation
        scored = validation if program.dynamics.scored else None
        self.validation = Validation.start(program, scored)
        self.step = 0
        self.seconds = 0.0
        self.compiling = 0.0
        self.memory: int | None = None
        self.text = ""
        self.diverged: dict[int, int] = {}
        self.signals = Signals()

    def run(self) -> Posterior:
        if self.folder is not None and self.folder.finished:
            return self._read()
        per_epoch, epochs = self.program.per_epoch, self.program.training.epochs
        with self.signals:
            self._tell()
            began = time.monotonic()
            carry = self._begin()
            self._tell()
            self.compiling += time.monotonic() - began
            self.seconds += time.monotonic() - began
            self.reporter.start(self.method.title, epochs, self.step // per_epoch)
            try:
                carry = self._train(carry)
                posterior = self._finish(carry)
            finally:
                self.reporter.stop()
            if self.signals.received is not None and self.folder is not None:
                self.signals.at(f"{self.method.title} in {self.folder.path} is finished")
                self.signals.stop()
            return posterior

    def _read(self) -> Posterior:
        """The finished run; one that was killed before its last line gets it now."""
        assert self.folder is not None
        posterior = self.method.load(self.folder.members, self.problem)
        if self.folder.ending is None:
            self.diverged = self.folder.diverged()
            found = self.folder.progress() or {}
            self._end({"seconds": found.get("seconds"), "step": found.get("step")})
        return posterior

    def _begin(self) -> Carry:
        example = Rows(np.asarray(self.data.x[:1]), narrow(self.data.y[:1]))
        carry = initialise(self.program, example)
        strategy = self.program.strategy
        if isinstance(strategy, Shard):
            rest = strategy.place((carry.order, carry.totals, carry.alive), None)
            carry = Carry(strategy.place(carry.states, "members"), *rest)
        return self._resume(carry)

    def _own(self, tree: Any) -> Any:
        """On the host, whole, without the copies that fill up a mesh."""
        return self.program.without_padding(on_host(tree))

    def _resume(self, carry: Carry) -> Carry:
        if self.folder is None:
            return carry
        shapes = jax.eval_shape(self.program.without_padding, carry._replace(order=()))
        template = {"carry": shapes, "validation": self.validation.arrays}
        found = self.folder.load_state(template)
        if found is None:
            check_same({"step": None})
            self.folder.rewind(-1)
            return carry
        tree, metadata = found
        check_same({"step": metadata["step"]})
        placed = jax.tree.map(placed_as, carry._replace(order=()), self.program.pad(tree["carry"]))
        self.step, self.seconds = metadata["step"], metadata["seconds"]
        self.compiling = metadata["compile_seconds"]
        self.diverged = {int(member): step for member, step in metadata["dead"].items()}
        self.validation = self.validation.restore(tree["validation"])
        self.folder.rewind(self.step)
        order = carry.order
        if not self.program.streamed:
            order = order_of(self.program, jnp.int32(self.step // self.program.per_epoch))
        return placed._replace(order=order)

    def _train(self, carry: Carry) -> Carry:
        program = self.program
        supply: Supply = (StreamSupply if program.streamed else DeviceSupply)(self.data, program)
        every = program.per_epoch * -(-program.training.epochs // RECORDS)
        # Processes of one training must agree on every chunk, so theirs do not follow the clock.
        alone = not several()
        length, chunks, saved = 1 if alone else program.total, 0, time.monotonic()
        recorded = self.step - self.step % every
        if self.step == 0:
            self._observe(carry)
        while self.step < program.total and not self.validation.finished:
            boundary = min(recorded + every, program.total)
            stop = min(self.step + length, boundary, supply.end(self.step, program.total))
            if self.observer is not None:
                stop = min(stop, self.step + self.observer.every - self.step % self.observer.every)
            began = time.monotonic()
            carry = self._chunk(carry, supply, stop)
            self._drop_diverged(np.asarray(self._own(carry.alive)))
            took = time.monotonic() - began
            if chunks == 0:  # the first chunk is one step: its time is the compiler's
                self.compiling += took
            self.seconds += took
            self.step, chunks = stop, chunks + 1
            self.signals.unsaved = self.folder is not None
            length = next_length(length, took) if alone else length
            self._observe(carry)
            if stop == boundary:
                carry = self._record(carry, stop - recorded)
                recorded = stop
            else:
                self.reporter.update(stop / program.per_epoch, self.text)
            due = time.monotonic() - saved > CHECKPOINT_SECONDS
            if program.training.checkpoint_every is not None:
                due |= chunks % program.training.checkpoint_every == 0
            # All save and stop where one is to.
            due = bool(agreed(due))
            self.signals.received = agreed(self.signals.received or 0) or None
            if due or self.signals.received is not None:
                self._save(carry)
                saved = time.monotonic()
            if self.signals.received is not None:
                self.signals.stop()
        return carry

    def _chunk(self, carry: Carry, supply, stop: int) -> Carry:
        program, ends = self.program, self.program.dispatch
        stopped: Any = self.program.pad(self.validation.stopped)
        if several() and stopped is not None:
            stopped = np.asarray(stopped)  # the same in all processes
        for step in range(self.step, stop) if ends else (self.step,):
            rows = supply(program, step)
            last = step + 1 if ends else stop
            inputs = (program, rows, jnp.int32(step), jnp.int32(last), stopped)
            carry = advance(inputs, carry)
            if self.memory is None:
                self.memory = program_bytes(advance, inputs, carry)
        return carry

    def _observe(self, carry: Carry) -> None:
        if self.observer is not None and self.step % self.observer.every == 0:
            members = self._own(current_members(self.program, carry.states))
            self.observer(self.step, members)

    def _drop_diverged(self, alive: np.ndarray) -> None:
        offset = self.program.dynamics.replicas.offset
        for member in np.flatnonzero(~alive):
            if int(member) not in self.diverged:
                self.diverged[int(member)] = self.step
                epoch = self.step / self.program.per_epoch
                warnings.warn(
                    f"member {member + offset} has a non-finite loss after epoch {epoch:.1f} and "
                    "is left out; a lower learning rate may help",
                    MemberDiverged,
                    stacklevel=4,
                )
        if not alive.any():
            raise InputError(
                f"all {len(alive)} members have a non-finite loss; lower the learning rate "
                f"({rate_text(self.program.training)}) or clip gradients (clip_norm)"
            )

    def _record(self, carry: Carry, steps: int) -> Carry:
        totals = self._own(carry.totals)
        alive = np.asarray(self._own(carry.alive))
        line: dict[str, Any] = {"epoch": self.step / self.program.per_epoch, "step": self.step}
        for name, total in totals.items():
            line |= entries(name, np.asarray(total, np.float64) / steps, alive)
        rate = rate_of(self.program.training, self.program.num_data)
        known = rate is not None
        line["learning_rate"] = float(rate(jnp.float32(self.step - 1))) if known else None
        line["seconds"] = round(self.seconds, 3)
        if self.validation.rows is not None:
            members = self._own(current_members(self.program, carry.states))
            self.validation, scores = self.validation.update(members, alive)
            line |= scores
        if self.folder is not None:
            self.folder.append(line)
        self.text = f"loss {line['loss']:.4g}" if line["loss"] is not None else ""
        self.reporter.update(line["epoch"], self.text)
        return carry._replace(totals=jax.tree.map(jnp.zeros_like, carry.totals))

    def _save(self, carry: Carry) -> None:
        if self.folder is not None:
            metadata = {"step": self.step, "seconds": round(self.seconds, 3), "dead": self.diverged}
            metadata["compile_seconds"] = round(self.compiling, 3)
            tree = {"carry": carry._replace(order=()), "validation": self.validation.arrays}
            if several():
                self.folder.save_parts(tree, metadata)
            else:
                tree["carry"] = self._own(tree["carry"])
                self.folder.save_state(tree, metadata)
            self.signals.unsaved = False
            self._tell()

    def _tell(self) -> None:
        """Say from where the run would go on, should it be stopped."""
        if self.folder is None:
            return
        epoch, epochs = self.step / self.program.per_epoch, self.program.training.epochs
        where = f"{self.method.title} in {self.folder.path}"
        begins = f"{where} has no checkpoint yet, and the same command begins it again"
        goes_on = f"the same command goes on with {where} from epoch {epoch:.4g} of {epochs}"
        self.signals.at(goes_on if self.step else begins)

    def _finish(self, carry: Carry) -> Posterior:
        program, began = self.program, time.monotonic()
        if agreed(self.seconds > CHECKPOINT_SECONDS):  # computing the posterior may take long too
            self._save(carry)
        self.signals.unsaved = False
        self.reporter.update(self.step / program.per_epoch, "computing the posterior")
        variables = self.validation.best(self._own(current_members(program, carry.states)))
        alive = np.repeat(np.asarray(self._own(carry.alive)), self.validation.slots)
        alive &= finite_members(variables)
        if self.validation.slots == 1:  # of several, those never filled are not finite
            self._drop_diverged(alive)
        posterior = self.method.posterior(
            self.problem, program.dynamics, self._own(carry.states), variables, alive, self.data
        )
        posterior = tuned_posterior(self.method, posterior, self.held_out)
        took = time.monotonic() - began
        self.seconds += took
        self.reporter.update(self.step / program.per_epoch, self.text)
        if self.folder is not None and self.folder.writes:
            posterior.save(self.folder.members)
            numbers = {"seconds": self.seconds, "compile_seconds": self.compiling}
            numbers["posterior_seconds"] = took
            numbers = {name: round(value, 3) for name, value in numbers.items()}
            self._end({"step": self.step, **numbers, "peak_memory_bytes": self.memory})
        return posterior

    def _end(self, numbers: dict[str, Any]) -> None:
        """The last line of the metrics; the checkpoint is no longer needed."""
        assert self.folder is not None
        program = self.program
        excluded = {
            str(member + program.dynamics.replicas.offset): step / program.per_epoch
            for member, step in self.diverged.items()
        }
        date = datetime.now().astimezone().isoformat(timespec="minutes")
        line = {"event": "finished", **numbers, "date": date, "excluded": excluded}
        self.folder.append(line)
        self.folder.clear_state()
