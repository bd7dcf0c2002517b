"""A network whose own dropout stays on: members are draws of its masks."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, UInt32

from credax.errors import InputError
from credax.files import load_tree, read_header, save_tree
from credax.network import Variables
from credax.phases import using_phase
from credax.posterior import Population, describe_population, read_population
from credax.prediction import Prediction, concatenate
from credax.problem import Problem


class DropoutPosterior(eqx.Module):
    """One network a mode, predicted with ``seeds`` of dropout masks ``[modes, draws, bits]``.

    Only dropout is in training mode: batch statistics are those stored. With ``consistent`` a seed
    gives one mask for all rows (rows are applied one by one under the same key), so that a member
    is one function, the same in batches of any size and order; otherwise every row of every batch
    has its own.
    """

    networks: Population
    seeds: UInt32[Array, "modes draws bits"]
    consistent: bool = True

    @property
    def problem(self) -> Problem:
        """The problem the networks were trained on."""
        return self.networks.problem

    @property
    def variables(self) -> Variables:
        """The networks, one a mode: masks are not part of them."""
        return self.networks.variables

    @property
    def draws(self) -> int:
        """Masks a mode."""
        return self.seeds.shape[1]

    @property
    def indices(self) -> tuple[int, ...]:
        """Numbers of the members: mode times draws plus draw."""
        return tuple(m * self.draws + s for m in self.networks.indices for s in range(self.draws))

    @property
    def num_members(self) -> int:
        """Modes times masks."""
        return len(self.indices)

    def predict(self, x, *, key=None, batch_size: int | None = None) -> Prediction:
        """The mixture over modes and masks for raw inputs ``[batch, ...]``.

        The stored masks are used; with ``key`` new ones are drawn.
        """
        x = self.networks.check(x)
        size = self.networks.batch_size(batch_size, self.num_members)
        size = min(size, len(x))
        seeds = self.seeds if key is None else self._new_seeds(key)
        parts = []
        for start in range(0, len(x), size):
            rows = x[start : start + size]
            padded = np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)])
            here = seeds if self.consistent else _fold(seeds, start)
            part = _predict(self.problem, self.variables, here, padded, self.consistent)
            parts.append(part.select(slice(0, len(rows))) if len(rows) < size else part)
        return concatenate(parts)

    def sample(self, key: Key[Array, ""], n: int) -> Variables:
        """Networks of the modes, drawn uniformly; their masks come with `predict` alone."""
        return self.networks.sample(key, n)

    def save(self, path: str | Path) -> None:
        """Keep networks and seeds in one safetensors file."""
        metadata = describe_population(self.networks, "dropout")
        metadata |= {"draws": self.draws, "bits": self.seeds.shape[2]}
        metadata["consistent"] = self.consistent
        save_tree(path, {"networks": self.variables, "seeds": self.seeds}, metadata)

    @classmethod
    def load(cls, path: str | Path, problem: Problem) -> "DropoutPosterior":
        """Read what `save` wrote."""
        metadata = read_header(path)["metadata"]
        template, build = read_population(path, problem, metadata, "dropout")
        shape = (len(metadata["members"]), metadata["draws"], metadata["bits"])
        seeds: Any = jax.ShapeDtypeStruct(shape, "uint32")
        tree, _ = load_tree(path, {"networks": template, "seeds": seeds})
        return cls(build(tree["networks"]), jnp.asarray(tree["seeds"]), metadata["consistent"])

    def _new_seeds(self, key):
        keys = jax.random.split(key, self.seeds.shape[:2])
        return jax.random.key_data(keys)


def drops(problem: Problem, variables: Variables, x: Any) -> bool:
    """Whether the network draws random numbers in training with batch statistics at rest."""

    def run(variables, x, key):
        with using_phase(settled=None):
            return problem.outputs(variables, x, key=key, train=True)[0]

    prepared = jax.eval_shape(problem.prepare_inputs, x)
    program = jax.make_jaxpr(run)(variables, prepared, jax.random.key(0))
    return "random_bits" in str(program) or "threefry" in str(program)


def check_dropout(problem: Problem, variables: Variables, x: Any) -> None:
    """Raise one sentence unless the network has dropout that can stay on by itself."""
    if not drops(problem, variables, x):
        raise InputError(
            "the network has no dropout of its own, so all of its members would be equal; give it "
            "credax.networks.Dropout layers"
        )
    if not jax.tree.leaves(variables.state):
        return
    with using_phase(settled=None) as phase:
        jax.eval_shape(
            lambda v, a: problem.outputs(v, a, key=jax.random.key(0), train=True)[0],
            variables,
            jax.eval_shape(problem.prepare_inputs, x),
        )
    if phase.seen == 0:
        raise InputError(
            "the network's batch normalisation is not credax's own, so that dropout cannot stay on "
            "without it; use credax.networks.BatchNorm or a network without batch statistics"
        )


def _fold(seeds, number: int):
    keys = jax.random.wrap_key_data(seeds)
    folded = jax.vmap(jax.vmap(lambda key: jax.random.fold_in(key, number)))(keys)
    return jax.random.key_data(folded)


@eqx.filter_jit
def _predict(problem: Problem, variables: Variables, seeds, x, consistent: bool) -> Prediction:
    prepared = problem.prepare_inputs(x)

    def outputs(variables, rows, key):
        # Batch statistics at rest: switching them to the batch's with dropout is a known defect.
        with using_phase(settled=None):
            return problem.outputs(variables, rows, key=key, train=True)[0]

    def one(variables, seed):
        key = jax.random.wrap_key_data(seed)
        if not consistent:
            return outputs(variables, prepared, key)
        return jax.vmap(lambda row: outputs(variables, row[None], key)[0])(prepared)

    each = jax.vmap(lambda v, own: jax.vmap(lambda seed: one(v, seed))(own))(variables, seeds)
    return problem.predict(each.reshape(-1, *each.shape[2:]))
