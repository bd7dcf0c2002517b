"""Dropout masks: inserted before every kernel of a traced network, or drawn by its own layers."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from credax.errors import InputError
from credax.methods.traced import structure_with_kernels
from credax.network import Variables
from credax.problem import Batch, Problem
from credax.structure import Structure, kernels, modulate, unit_shape
from credax.train_mode import using_train_mode
from credax.training import Descent
from credax.training.dynamics import DescentState, Dynamics, Info, Replicas


class Inserted(eqx.Module):
    """``W = diag(z / (1 - rate)) W`` with ``z ~ Bernoulli(1 - rate)`` on inputs of every kernel."""

    structure: Structure = eqx.field(static=True)
    rate: float

    consistent = True

    def draw(self, key: Key[Array, ""]) -> dict[str, Array]:
        """A factor for every input unit of every kernel: zero, or one over the share kept."""
        paths = kernels(self.structure)
        keys = jax.random.split(key, len(paths))
        keep = 1 - self.rate

        def one(path, key):
            return jax.random.bernoulli(key, keep, unit_shape(self.structure, path, "input")) / keep

        return {path: one(path, key) for path, key in zip(paths, keys, strict=True)}

    def masked(self, params: PyTree, key: Key[Array, ""]) -> PyTree:
        """The parameters under one draw."""
        return modulate(self.structure, params, inputs=self.draw(key))

    def outputs(self, problem: Problem, variables: Variables, x, key) -> Array:
        """The network in evaluation mode under one draw."""
        return problem.outputs(variables._replace(params=self.masked(variables.params, key)), x)[0]

    def describe(self) -> dict[str, Any]:
        """What makes it again."""
        return {"kind": "inserted", "rate": self.rate}


class Own(eqx.Module):
    """The network's own dropout layers in training mode, its running averages.

    With ``consistent`` rows are applied one by one under the same key: one mask for all rows.
    """

    consistent: bool = True

    def outputs(self, problem: Problem, variables: Variables, x, key) -> Array:
        """The network with dropout on."""

        def apply(rows):
            # Running batch statistics: switching them to the batch's with dropout is a defect.
            with using_train_mode(use_running_average=None):
                return problem.outputs(variables, rows, key=key, train=True)[0]

        return jax.vmap(lambda row: apply(row[None])[0])(x) if self.consistent else apply(x)

    def describe(self) -> dict[str, Any]:
        """What makes it again."""
        return {"kind": "own", "consistent": self.consistent}


def inserted_masks(problem: Problem, x: Any, rate: float) -> Inserted:
    """Masks for a problem's network and raw inputs shaped like ``x``; networks are traced once."""
    structure = structure_with_kernels(problem, x, "drop")
    return Inserted(structure, rate)


class MaskedDescent(Dynamics):
    """Gradient descent under inserted masks; each of ``groups`` parts of a batch has its own."""

    descent: Descent
    masks: Inserted
    groups: int = 1

    @property
    def replicas(self) -> Replicas:
        """As the wrapped dynamics has."""
        return self.descent.replicas

    def init(self, key, variables: Variables) -> DescentState:
        """As descent begins."""
        return self.descent.init(key, variables)

    def members(self, state: DescentState) -> Variables:
        """The network without masks, with an axis of length one."""
        return self.descent.members(state)

    def step(self, key, state: DescentState, batch: Batch) -> tuple[DescentState, Info]:
        """One optimiser step on the loss under masks."""
        problem, num_data = self.descent.problem, self.descent.num_data

        def loss(params):
            variables = Variables(params, state.variables.state)
            outputs, new = self.outputs(variables, batch.x, key)
            value = problem.negative_log_likelihood(outputs, batch)
            penalty = problem.prior.penalty(problem.weights(params), num_data=num_data)
            return value + penalty, (new, value)

        (total, (new, nll)), gradient = jax.value_and_grad(loss, has_aux=True)(
            state.variables.params
        )
        return self.descent.update(state, gradient, new), {"loss": total, "nll": nll}

    def outputs(self, variables: Variables, x, key) -> tuple[Array, PyTree]:
        """Outputs in training mode, each group of rows under its own masks, and the mean state."""
        problem = self.descent.problem
        rows = x.reshape(self.groups, len(x) // self.groups, *x.shape[1:])

        def one(key, rows):
            mask, inner = jax.random.split(key)
            params = self.masks.masked(variables.params, mask)
            return problem.outputs(Variables(params, variables.state), rows, key=inner, train=True)

        keys = jax.random.split(key, self.groups)
        outputs, state = jax.vmap(one)(keys, rows)
        outputs = outputs.reshape(len(x), *outputs.shape[2:])
        return outputs, jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), state)


def drops(problem: Problem, variables: Variables, x: Any) -> bool:
    """Whether the network draws random numbers in training with running averages."""

    def run(variables, x, key):
        with using_train_mode(use_running_average=None):
            return problem.outputs(variables, x, key=key, train=True)[0]

    prepared = jax.eval_shape(problem.prepare_inputs, x)
    program = jax.make_jaxpr(run)(variables, prepared, jax.random.key(0))
    return "random_bits" in str(program) or "threefry" in str(program)


def check_dropout(problem: Problem, variables: Variables, x: Any) -> None:
    """Raise an error unless the network has dropout that can stay on by itself."""
    if not drops(problem, variables, x):
        raise InputError(
            "rate is None and the network has no dropout of its own, so all of its members would "
            "be equal; give a rate such as 0.1, or a network with credax.networks.Dropout layers"
        )
    if not jax.tree.leaves(variables.state):
        return
    with using_train_mode(use_running_average=None) as mode:
        jax.eval_shape(
            lambda v, a: problem.outputs(v, a, key=jax.random.key(0), train=True)[0],
            variables,
            jax.eval_shape(problem.prepare_inputs, x),
        )
    if mode.seen == 0:
        raise InputError(
            "the network's batch normalisation is not credax's own, so that dropout cannot stay on "
            "without it; use credax.networks.BatchNorm or a network without batch statistics"
        )
