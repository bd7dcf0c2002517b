"""Each member's score on rows it is not trained on: early stopping and the best of each member."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, PyTree

from credax.data.dataset import Split
from credax.errors import InputError
from credax.network import Variables
from credax.problem import Problem
from credax.training.program import Program
from credax.training.records import number
from credax.training.supply import narrow

BATCH = 512


@dataclass(frozen=True)
class Validation:
    """What validation has seen so far.

    Members are scored one by one, by their own negative log-likelihood, so a member's fate does not
    depend on the others: one that has not improved for ``patience`` validations has stopped. Its
    parameters no longer change while others go on, and its best stays what it was.
    """

    problem: Problem
    rows: Split | None
    patience: int | None
    keep_best: bool
    arrays: dict[str, Any]

    @classmethod
    def start(cls, program: Program, rows: Split | None) -> "Validation":
        """Before the first validation; members are kept only where the settings need them."""
        training = program.training
        wanted = program.dynamics.replicas.keep_best_of
        slots, keep = max(1, wanted), training.keep_best or wanted > 0
        if rows is None and wanted:
            raise InputError(
                "the best networks are asked for and there are no validation rows; give "
                "validation=..., or on the command line --validation 0.1"
            )
        arrays: dict[str, Any] = {}
        if rows is not None and (training.patience or keep):
            program.problem.check(rows.x, rows.y)
            example = jax.ShapeDtypeStruct((1, *rows.x.shape[1:]), rows.x.dtype)
            shapes = jax.eval_shape(
                lambda: program.without_padding(program.members(program.first(example)))
            )
            members = len(jax.tree.leaves(shapes)[0])
            arrays = {
                "score": jnp.full((members, slots), jnp.inf),
                "waiting": jnp.zeros(members, jnp.int32),
                "best": jax.tree.map(
                    lambda s: _unfilled((s.shape[0], slots, *s.shape[1:]), s.dtype), shapes
                ),
            }
        return cls(program.problem, rows, training.patience, keep, arrays)

    def restore(self, arrays: dict[str, Any]) -> "Validation":
        """As it was at a checkpoint."""
        return dataclasses.replace(self, arrays=jax.tree.map(jnp.asarray, arrays))

    @property
    def finished(self) -> bool:
        """Every member is stopped."""
        stopped = self.stopped
        return stopped is not None and bool(np.all(np.asarray(stopped)))

    @property
    def stopped(self) -> Bool[Array, " members"] | None:
        """Members that have stopped; None where none ever does."""
        if not self.arrays or self.patience is None:
            return None
        return self.arrays["waiting"] >= self.patience

    def update(self, members: Variables, alive: np.ndarray) -> "tuple[Validation, dict[str, Any]]":
        """Score the members; returns the new record and what to write to the metrics."""
        assert self.rows is not None
        log_prob = self._log_prob(members)
        each = -log_prob.mean(1)
        mixture = -(logsumexp(log_prob[alive], axis=0) - np.log(alive.sum())).mean()
        scores = {
            "validation_nll": number(mixture),
            "member_validation_nll": [number(value) for value in each],
        }
        if not self.arrays:
            return self, scores
        arrays = _keep(
            self.arrays, members, jnp.asarray(each), self.patience or np.iinfo(np.int32).max
        )
        return dataclasses.replace(self, arrays=arrays), scores

    def best(self, members: Variables) -> Variables:
        """Each member at its best (its several best, member by member) if asked for, else as it is.

        Slots that no validation has filled hold NaN.
        """
        if not self.arrays or not self.keep_best:
            return members
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), self.arrays["best"])

    @property
    def slots(self) -> int:
        """Networks kept of each member."""
        return self.arrays["score"].shape[1] if self.arrays and self.keep_best else 1

    def _log_prob(self, members: Variables) -> np.ndarray:
        assert self.rows is not None
        x, y = self.rows.x, narrow(self.rows.y)
        parts = []
        for start in range(0, len(x), BATCH):
            chosen = np.minimum(np.arange(start, start + min(BATCH, len(x))), len(x) - 1)
            part = _member_log_prob(self.problem, members, np.asarray(x[chosen]), y[chosen])
            parts.append(np.asarray(part)[:, : len(x) - start])
        return np.concatenate(parts, axis=1)


@eqx.filter_jit
def _member_log_prob(problem: Problem, members: Variables, x, y) -> Float[Array, "members batch"]:
    batch = problem.prepare(x, y)

    def one(variables):
        return problem.likelihood.log_prob(problem.outputs(variables, batch.x)[0], batch.y)

    return jax.vmap(one)(members)


@eqx.filter_jit
def _keep(arrays: dict[str, Any], members: Variables, each: Array, patience: int) -> dict[str, Any]:
    stopped: Bool[Array, " members"] = arrays["waiting"] >= patience
    score = arrays["score"]
    rows, worst = jnp.arange(len(each)), jnp.argmax(score, axis=1)
    enters = (each < score[rows, worst]) & ~stopped
    better = (each < score.min(1)) & ~stopped

    def choose(new: PyTree, old: PyTree):
        old_one = old[rows, worst]
        chosen = jnp.where(enters.reshape(-1, *(1,) * (new.ndim - 1)), new, old_one)
        return old.at[rows, worst].set(chosen)

    return {
        "score": choose(each, score),
        "waiting": jnp.where(better, 0, arrays["waiting"] + 1),
        "best": jax.tree.map(choose, members, arrays["best"]),
    }


def _unfilled(shape: tuple[int, ...], dtype: Any) -> Array:
    empty = jnp.nan if jnp.issubdtype(dtype, jnp.inexact) else 0
    return jnp.full(shape, empty, dtype)
