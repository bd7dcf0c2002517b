"""The only training loop. It knows nothing of methods; methods know nothing of it."""

import json
import resource
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from credax.data.dataset import Split
from credax.errors import InputError
from credax.posterior import Posterior
from credax.problem import Problem
from credax.training.augment import check_augmentations
from credax.training.config import Training
from credax.training.describe import default_settings, describe_run
from credax.training.engine import build_program
from credax.training.hooks import check_validation, settings_of, tuned_posterior
from credax.training.members import Shard, on_host
from credax.training.observer import Observer
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
from credax.training.run import RunFolder
from credax.training.schedule import learning_rate_at
from credax.training.supply import DeviceSupply, StreamSupply, narrow
from credax.training.validation import Validation

RECORDS = 200
CHUNK_SECONDS = 1.0
CHECKPOINT_SECONDS = 30.0


class MemberDiverged(UserWarning):
    """A member's loss became non-finite; it is left out of the result."""


def fit(
    problem: Problem,
    method: Any,
    data: Split,
    *,
    key: int | jax.Array = 0,
    training: Training | None = None,
    validation: Split | None = None,
    folder: str | Path | None = None,
    config: dict[str, Any] | None = None,
    progress: bool | Reporter | None = None,
    mesh: jax.sharding.Mesh | None = None,
    observer: Observer | None = None,
) -> Posterior:
    """Train a population by a method and return its posterior.

    Args:
        problem: network, likelihood and prior.
        method: a record of `credax.methods`, such as ``DeepEnsemble(members=5)``.
        data: training rows, raw; their units become the problem's.
        key: a seed or a typed key; member ``i`` uses ``fold_in(key, i)``.
        training: epochs, batch size, optimiser and the rest.
        validation: rows for early stopping, ``keep_best`` and methods tuned on them; never trained
            on.
        folder: keep the run there; the same call resumes it, and a finished run is only read.
        config: what to write to the folder's ``config.json`` beside what is known here.
        progress: a bar on a terminal by default; ``True``, ``False`` or one's own reporter.
        mesh: devices with axes ``("members", "data")`` for ``training.strategy == "shard"``.
        observer: shown the members every so many steps, such as `credax.quality.KendallTracker`.
    """
    training = settings_of(method, training or Training(), len(data))
    problem = problem.with_units(data.inputs, data.targets)
    problem.check(data.x, data.y)
    check_augmentations(training.augment, tuple(data.x.shape[1:]))
    check_validation(method, training, validation)
    key = jax.random.key(key) if isinstance(key, int) else key
    training.steps_per_epoch(len(data))
    dynamics = method.dynamics(problem, data, training)
    program = build_program(problem, dynamics, training, data, key, mesh)
    run = None
    if folder is not None:
        run = RunFolder(folder, writes=jax.process_index() == 0)
        described = describe_run(problem, method, training, data, validation, key, config)
        run.open(described, default_settings(method))
    try:
        reporter = reporter_for(progress)
        return _Loop(program, method, data, validation, run, reporter, observer).run()
    finally:
        if run is not None:
            run.close()


class _Loop:
    """One training: the host's part, between chunks of the compiled program."""

    def __init__(self, program, method, data, validation, run, reporter, observer=None):
        self.program: Program = program
        self.method = method
        self.data: Split = data
        self.folder: RunFolder | None = run
        self.reporter: Reporter = reporter
        self.observer: Observer | None = observer
        self.held_out: Split | None = validation
        scored = validation if getattr(program.dynamics, "scored", True) else None
        self.validation = Validation.start(program, scored)
        self.step = 0
        self.seconds = 0.0
        self.compiling = 0.0
        self.dead: dict[int, int] = {}

    def run(self) -> Posterior:
        if self.folder is not None and self.folder.finished:
            return self.method.load(self.folder.members, self.program.problem)
        carry = self._begin()
        per_epoch, epochs = self.program.per_epoch, self.program.training.epochs
        self.reporter.start(self.method.title, epochs, self.step // per_epoch)
        try:
            carry = self._train(carry)
        finally:
            self.reporter.stop()
        return self._finish(carry)

    def _begin(self) -> Carry:
        example = Rows(np.asarray(self.data.x[:1]), narrow(self.data.y[:1]))
        carry = initialise(self.program, example)
        strategy = self.program.strategy
        if isinstance(strategy, Shard):
            rest = strategy.place((carry.order, carry.totals, carry.alive), None)
            carry = Carry(strategy.place(carry.states, "members"), *rest)
        return self._resume(carry)

    def _resume(self, carry: Carry) -> Carry:
        if self.folder is None:
            return carry
        found = self.folder.load_state(self._checkpoint(carry))
        if found is None:
            self.folder.rewind(-1)
            return carry
        tree, metadata = found
        placed = jax.tree.map(
            lambda old, new: jax.device_put(new, old.sharding),
            carry._replace(order=()),
            tree["carry"],
        )
        self.step, self.seconds = metadata["step"], metadata["seconds"]
        self.compiling = metadata["compile_seconds"]
        self.dead = {int(member): step for member, step in metadata["dead"].items()}
        self.validation = self.validation.restore(tree["validation"])
        self.folder.rewind(self.step)
        order = carry.order
        if not self.program.streamed:
            order = order_of(self.program, jnp.int32(self.step // self.program.per_epoch))
        return placed._replace(order=order)

    def _train(self, carry: Carry) -> Carry:
        program = self.program
        supply = (StreamSupply if program.streamed else DeviceSupply)(self.data, program)
        every = program.per_epoch * -(-program.training.epochs // RECORDS)
        # Processes of one training must agree on every chunk, so theirs do not follow the clock.
        alone = jax.process_count() == 1
        length, chunks, saved = 1 if alone else program.total, 0, time.monotonic()
        recorded = self.step - self.step % every
        if self.step == 0:
            self._observe(carry)
        while self.step < program.total:
            boundary = min(recorded + every, program.total)
            stop = min(self.step + length, boundary, self.step + (supply.longest or boundary))
            if self.observer is not None:
                stop = min(stop, self.step + self.observer.every - self.step % self.observer.every)
            began = time.monotonic()
            carry = self._chunk(carry, supply, stop)
            self._bury(np.asarray(on_host(carry.alive)))
            took = time.monotonic() - began
            if chunks == 0:  # the first chunk is one step: its time is the compiler's
                self.compiling += took
            self.seconds += took
            self.step, chunks = stop, chunks + 1
            length = _next_length(length, took) if alone else length
            self._observe(carry)
            if stop == boundary:
                carry = self._record(carry, stop - recorded)
                recorded = stop
            else:
                self.reporter.update(stop / program.per_epoch, "")
            if self.validation.finished:
                break
            due = not alone or time.monotonic() - saved > CHECKPOINT_SECONDS
            if program.training.checkpoint_every is not None:
                due = chunks % program.training.checkpoint_every == 0
            if due:
                self._save(carry)
                saved = time.monotonic()
        return carry

    def _chunk(self, carry: Carry, supply, stop: int) -> Carry:
        if self.program.dispatch:
            for step in range(self.step, stop):
                rows = supply(self.program, step)
                carry = advance((self.program, rows, jnp.int32(step), jnp.int32(step + 1)), carry)
            return carry
        rows = supply(self.program, self.step)
        return advance((self.program, rows, jnp.int32(self.step), jnp.int32(stop)), carry)

    def _observe(self, carry: Carry) -> None:
        if self.observer is not None and self.step % self.observer.every == 0:
            members = on_host(current_members(self.program, carry.states))
            self.observer(self.step, members)

    def _bury(self, alive: np.ndarray) -> None:
        offset = self.program.dynamics.offset
        for member in np.flatnonzero(~alive):
            if int(member) not in self.dead:
                self.dead[int(member)] = self.step
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
                f"(learning_rate is {self.program.training.learning_rate}) or set clip_norm"
            )

    def _record(self, carry: Carry, steps: int) -> Carry:
        totals = on_host(carry.totals)
        alive = np.asarray(on_host(carry.alive))
        line: dict[str, Any] = {"epoch": self.step / self.program.per_epoch, "step": self.step}
        for name, total in totals.items():
            each = np.asarray(total, np.float64) / steps
            line |= _entries(name, each, alive)
        rate = learning_rate_at(self.program.training, self.program.num_data)
        line["learning_rate"] = float(rate(jnp.float32(self.step - 1)))
        line["seconds"] = round(self.seconds, 3)
        if self.validation.rows is not None:
            members = on_host(current_members(self.program, carry.states))
            self.validation, scores = self.validation.update(members, alive)
            line |= scores
        if self.folder is not None:
            self.folder.append(line)
        text = f"loss {line['loss']:.4g}" if line["loss"] is not None else ""
        self.reporter.update(line["epoch"], text)
        return carry._replace(totals=jax.tree.map(jnp.zeros_like, carry.totals))

    def _checkpoint(self, carry: Carry) -> dict[str, Any]:
        return {"carry": carry._replace(order=()), "validation": self.validation.arrays}

    def _save(self, carry: Carry) -> None:
        if self.folder is not None:
            metadata = {"step": self.step, "seconds": round(self.seconds, 3), "dead": self.dead}
            metadata["compile_seconds"] = round(self.compiling, 3)
            self.folder.save_state(on_host(self._checkpoint(carry)), metadata)

    def _finish(self, carry: Carry) -> Posterior:
        program = self.program
        variables = self.validation.best(on_host(current_members(program, carry.states)))
        alive = np.repeat(np.asarray(on_host(carry.alive)), self.validation.slots)
        alive &= _finite(variables)
        if self.validation.slots == 1:  # of several, those never filled are not finite
            self._bury(alive)
        posterior = self.method.posterior(
            program.problem, program.dynamics, on_host(carry.states), variables, alive, self.data
        )
        posterior = tuned_posterior(self.method, posterior, self.held_out)
        if self.folder is not None and self.folder.writes:
            posterior.save(self.folder.members)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            offset = program.dynamics.offset
            self.folder.append(
                {
                    "event": "finished",
                    "step": self.step,
                    "seconds": round(self.seconds, 3),
                    "compile_seconds": round(self.compiling, 3),
                    "peak_memory_bytes": peak,
                    "excluded": {
                        str(m + offset): step / program.per_epoch for m, step in self.dead.items()
                    },
                }
            )
            self.folder.clear_state()
        return posterior


def _next_length(length: int, seconds: float) -> int:
    """Chunks grow until they take about a second, so that the bar moves and dispatch is cheap."""
    if seconds < CHUNK_SECONDS / 2:
        return length * 4
    return max(1, length // 2) if seconds > 2 * CHUNK_SECONDS else length


def _finite(variables) -> np.ndarray:
    checks = [
        jnp.isfinite(leaf).reshape(len(leaf), -1).all(1) for leaf in jax.tree.leaves(variables)
    ]
    return np.asarray(jnp.stack(checks).all(0))


def _entries(name: str, value: np.ndarray, alive: np.ndarray) -> dict[str, Any]:
    """A recorded quantity: one number a member gives mean and list, others stay as they are."""
    if value.size != alive.size or value.ndim > 2:
        return {name: json.loads(json.dumps(value.tolist()), parse_constant=lambda _: None)}
    flat = value.reshape(-1)
    return {
        name: _number(flat[alive].mean()),
        f"member_{name}": [_number(entry) for entry in flat],
    }


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
