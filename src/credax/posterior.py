"""What fitting returns: something that predicts, draws members, and can be kept on disk."""

import abc
import dataclasses
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from credax.arviz_data import to_arviz
from credax.errors import DamagedFile, InputError
from credax.exporting import export
from credax.files import arranged, load_arrays, save_tree
from credax.mixing import Weights, as_weights, joined_weights, kept_weights, weighted
from credax.network import Variables, output_struct, take_members
from credax.prediction import Prediction, concatenate
from credax.problem import Problem
from credax.reading import check_record, damage
from credax.reading.records import DTYPE, NUMBER, OBJECT, SHAPE, TEXT, Optional, kind, list_of
from credax.reading.tensors import COPY
from credax.row_batches import check_rows as check_rows
from credax.row_batches import in_batches as in_batches
from credax.row_batches import is_traced as is_traced
from credax.standardise import check_units

LARGEST_BATCH = 512
BATCH_ENTRIES = 2**22
GRID_CHANNELS = 8
"""Of a layer for each of the inputs, where outputs lie on a grid."""
INDICES = kind(
    "a list of different whole numbers",
    lambda v: isinstance(v, list) and {type(i) for i in v} == {int} and len({*v}) == len(v),
)
_FIELDS = {
    "kind": TEXT,
    "members": INDICES,
    "input_shape": SHAPE,
    "input_dtype": DTYPE,
    "units": OBJECT,
    "diagnostics": Optional(OBJECT),
    "weights": Optional(list_of(NUMBER)),
}


@runtime_checkable
class Posterior(Protocol):
    """A population of networks, or something that can draw one."""

    @property
    def problem(self) -> Problem:
        """What it is a posterior of."""
        ...

    @property
    def num_members(self) -> int:
        """Members of a prediction."""
        ...

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one row of raw inputs."""
        ...

    @property
    def input_dtype(self) -> str:
        """Type of raw inputs."""
        ...

    def predict(
        self, x, *, key: Key[Array, ""] | None = None, batch_size: int | None = None
    ) -> Prediction:
        """The mixture prediction for raw inputs."""
        ...

    def predict_fn(self) -> Callable[[Array], Prediction]:
        """`predict` as a pure function of raw inputs: it can be jitted, vmapped, differentiated.

        All rows are predicted at once and none is checked: for serving, gradients and export.
        """
        ...

    def sample(self, key: Key[Array, ""], n: int) -> Variables:
        """``n`` draws of the network's variables, on a leading axis."""
        ...

    def save(self, path: str | Path) -> None:
        """Keep it in one safetensors file."""
        ...

    def export(self, path: str | Path, **options: Any) -> Path:
        """Write the prediction as a program that plain jax loads; see `credax.export`."""
        ...


class Population(eqx.Module):
    """Members side by side: every leaf of ``variables`` has a leading ``members`` axis.

    ``indices`` are the members' own numbers: member 3 of a population whose member 1 diverged is
    still member 3. Predictions are the mixture by ``weights``, uniform without them.
    """

    problem: Problem
    variables: Variables
    indices: tuple[int, ...]
    input_shape: tuple[int, ...]
    input_dtype: str = "float32"
    diagnostics: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What the fit reported about itself, such as R-hat of chains: numbers by name."""
    weights: Weights = eqx.field(default=None, static=True)
    """Weights of the members, ``[members]``, made to sum to one; None: all alike."""

    def __post_init__(self):
        self.weights = as_weights(self.weights, len(self.indices))

    # By identity: jax.jit of a bound method needs a hash, and arrays have none.
    __hash__ = object.__hash__

    @property
    def num_members(self) -> int:
        """How many members there are."""
        return len(self.indices)

    def member(self, index: int) -> "Population":
        """A population of one, by the member's own number."""
        if index not in self.indices:
            raise InputError(f"member is {index}; this population has {list(self.indices)}")
        return self.take([self.indices.index(index)])

    def take(self, positions) -> "Population":
        """Some members, by position."""
        rows = np.atleast_1d(np.asarray(positions))
        variables = take_members(self.variables, rows)
        indices = tuple(self.indices[i] for i in rows)
        weights = kept_weights(self.weights, rows, len(indices))
        return dataclasses.replace(self, variables=variables, indices=indices, weights=weights)

    def with_weights(self, weights: Any) -> "Population":
        """The same members mixed by other weights ``[members]``; None: all alike.

        Weights are finite, not negative, and need not sum to one. What predicts, draws or scores
        uses them; comparisons of members with each other do not.
        """
        return weighted(self, weights)

    def predict(self, x, *, key=None, batch_size: int | None = None) -> Prediction:
        """The mixture prediction for raw inputs ``[batch, ...]``, in batches of ``batch_size``.

        The result does not depend on ``batch_size`` (to rounding); by default it is at most 512 and
        smaller for many members or large inputs, which bounds the memory. ``key`` is not needed.
        """
        if is_traced(x, self.input_shape):
            return self.predict_fn()(x)
        x = self.check(x)
        size = self.batch_size(batch_size, self.num_members)
        problem = self.problem.traced()
        function = lambda rows, _: _predict(problem, self.variables, rows)  # noqa: E731
        return self._mixed(concatenate(in_batches(function, x, size)))

    def predict_fn(self) -> Callable[[Array], Prediction]:
        """`predict` as a pure function of raw inputs, all rows at once, without checks.

        >>> import credax as cx
        >>> problem = cx.Problem(cx.networks.MLP((4,), outputs=2), cx.Categorical())
        >>> x = np.ones((3, 5), np.float32)
        >>> keys = jax.random.split(jax.random.key(0), 4)
        >>> variables = jax.vmap(lambda key: problem.init(key, x))(keys)
        >>> function = population(problem, variables, x).predict_fn()
        >>> jax.jit(function)(x).probs.shape
        (3, 2)
        """
        function = partial(_mixture, self.problem.traced(), self.variables)
        return function if self.weights is None else lambda x: self._mixed(function(x))

    def _mixed(self, prediction: Prediction) -> Prediction:
        return prediction if self.weights is None else weighted(prediction, self.weights)

    def sample(self, key: Key[Array, ""], n: int) -> Variables:
        """``n`` members drawn uniformly, without repeats while there are enough.

        With unequal weights they are drawn by these, with repeats.
        """
        if self.weights is None:
            rows = jax.random.choice(key, self.num_members, (n,), replace=n > self.num_members)
        else:
            rows = jax.random.choice(key, self.num_members, (n,), p=jnp.asarray(self.weights))
        return jax.tree.map(lambda leaf: leaf[rows], self.variables)

    def export(self, path: str | Path, **options: Any) -> Path:
        """Write the prediction as a program that plain jax loads; see `credax.export`."""
        return export(self, path, **options)

    def to_arviz(self, x=None, *, weights: bool = True) -> Any:
        """The chains of a sampler as ArviZ data; see `credax.arviz_data.to_arviz`."""
        return to_arviz(self, x, weights=weights)

    def save(self, path: str | Path) -> None:
        """Keep the members in one safetensors file (equal members give equal bytes)."""
        save_tree(path, self.variables, describe_population(self, "population"))

    @classmethod
    def load(cls, path: str | Path, problem: Problem) -> "Population":
        """Read what `save` wrote; ``problem`` has the network and likelihood it was trained on."""
        arrays, metadata = load_arrays(path)
        template, build = read_population(path, problem, metadata, "population")
        return build(arranged(path, arrays, template))

    def batch_size(self, asked: int | None, members: int) -> int:
        """Rows to predict at once by so many members: what is asked for, or what memory allows."""
        if asked is None:
            entries = members * max(1, math.prod(self.input_shape))
            if self.problem.likelihood.grid_axes:  # every layer has the size of the inputs
                return max(1, min(LARGEST_BATCH, BATCH_ENTRIES // (GRID_CHANNELS * entries)))
            return max(16, min(LARGEST_BATCH, BATCH_ENTRIES // entries))
        if asked < 1:
            raise InputError(f"batch_size is {asked}; it must be at least 1")
        return asked

    def check(self, x) -> np.ndarray:
        """``x`` as an array, or an error if it cannot be predicted."""
        return check_rows(x, self.input_shape)


class AroundPopulation(eqx.Module):
    """Abstract: a posterior around a stored population, such as one network per mode."""

    # By identity: jax.jit of a bound method needs a hash, and arrays have none.
    __hash__ = object.__hash__

    @property
    @abc.abstractmethod
    def stored(self) -> Population:
        """The stored networks."""

    @property
    def problem(self) -> Problem:
        """The problem it is a posterior of."""
        return self.stored.problem

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one row of raw inputs."""
        return self.stored.input_shape

    @property
    def input_dtype(self) -> str:
        """Type of raw inputs."""
        return self.stored.input_dtype

    @property
    def variables(self) -> Variables:
        """The variables of the stored networks."""
        return self.stored.variables

    @property
    def indices(self) -> tuple[int, ...]:
        """Numbers of a prediction's members: a hook, by default those of the stored networks."""
        return self.stored.indices

    @property
    def num_members(self) -> int:
        """Members of a prediction."""
        return len(self.indices)

    @property
    def weights(self) -> Weights:
        """Weights of the stored networks; None: all alike."""
        return self.stored.weights

    @property
    def diagnostics(self) -> dict[str, Any]:
        """What the fit reported about itself, such as the evidence: numbers by name."""
        return self.stored.diagnostics

    @abc.abstractmethod
    def predict(self, x, *, key=None, batch_size: int | None = None) -> Prediction:
        """The mixture prediction for raw inputs."""

    @abc.abstractmethod
    def predict_fn(self) -> Callable[[Array], Prediction]:
        """`predict` as a pure function of raw inputs, all rows at once, without checks."""

    @abc.abstractmethod
    def sample(self, key: Key[Array, ""], n: int) -> Variables:
        """``n`` draws of the network's variables, on a leading axis."""

    @abc.abstractmethod
    def save(self, path: str | Path) -> None:
        """Keep it in one safetensors file."""

    def export(self, path: str | Path, **options: Any) -> Path:
        """Write the prediction as a program that plain jax loads; see `credax.export`."""
        return export(self, path, **options)


def describe_population(members: Population, kind: str) -> dict[str, Any]:
    """What a file says of a population beside its arrays."""
    units = {"inputs": members.problem.inputs, "targets": members.problem.targets}
    metadata = {
        "kind": kind,
        "members": list(members.indices),
        "input_shape": list(members.input_shape),
        "input_dtype": members.input_dtype,
        "units": {name: unit and unit.to_lists() for name, unit in units.items()},
    }
    metadata |= {"weights": list(members.weights)} if members.weights else {}
    return metadata | ({"diagnostics": members.diagnostics} if members.diagnostics else {})


def read_population(
    path: str | Path, problem: Problem, metadata: dict[str, Any], kind: str
) -> tuple[Variables, Callable[[Variables], Population]]:
    """Shapes of the members in a file, and what makes a population of their variables."""
    if metadata.get("kind") != kind:
        raise InputError(f"{path} does not hold a {kind}; it holds {metadata.get('kind')!r:.40}")
    check_record(metadata, _FIELDS, path, extra=True)
    check_units(metadata["units"], tuple(metadata["input_shape"]), path)
    problem = problem.with_stored_units(**metadata["units"])
    indices, shape = tuple(metadata["members"]), tuple(metadata["input_shape"])
    dtype, diagnostics = metadata["input_dtype"], metadata.get("diagnostics", {})
    try:
        weights = as_weights(metadata.get("weights"), len(indices))
    except InputError as error:
        raise DamagedFile(f"{path} is damaged: {error}; {COPY}") from error
    example = jax.ShapeDtypeStruct((1, *shape), dtype)
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), len(indices)))
    problem_text = f"does not fit this problem: inputs of shape {shape}"
    with damage(path, "load it with the network it was saved with", problem=problem_text):
        template = jax.eval_shape(jax.vmap(lambda key: problem.init(key, example)), keys)
        check_targets(problem, template, example)

    def build(variables: Variables) -> Population:
        variables = jax.tree.map(jnp.asarray, variables)
        return Population(problem, variables, indices, shape, dtype, diagnostics, weights)

    return template, build


def check_targets(problem: Problem, template: Variables, example: Any) -> None:
    """Raise a ValueError if the units of several targets do not fit the network's outputs."""
    if problem.targets is None or np.size(problem.targets.mean) == 1:
        return
    one = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape[1:], s.dtype), template)
    prepared = jax.eval_shape(problem.prepare_inputs, example)
    outputs = output_struct(problem.network, one, prepared).shape[-1]
    targets = np.size(problem.targets.mean)
    if problem.likelihood.num_outputs(targets) != outputs:
        raise ValueError(f"it has units of {targets} targets and the network {outputs} outputs")


def population(
    problem: Problem,
    variables: Variables,
    x: np.ndarray,
    indices: tuple[int, ...] | None = None,
    diagnostics: dict[str, Any] | None = None,
) -> Population:
    """A `Population` from stacked variables and an array shaped like the raw inputs."""
    members = len(jax.tree.leaves(variables)[0])
    indices = tuple(range(members)) if indices is None else indices
    dtype = str(np.asarray(x[:0]).dtype)
    # In the order in which a file gives them back.
    ordered = dict(sorted((diagnostics or {}).items()))
    return Population(problem, variables, indices, tuple(x.shape[1:]), dtype, ordered)


def combine(populations: "list[Any]") -> Population:
    """One population of all members of several (same problem, distinct member numbers)."""
    indices = tuple(i for p in populations for i in p.indices)
    if len(set(indices)) != len(indices):
        raise InputError(
            f"members is {list(indices)}: numbers repeat; train the second ensemble with "
            "DeepEnsemble(offset=...) so that its members are new"
        )
    variables = jax.tree.map(
        lambda *leaves: jnp.concatenate(leaves), *[p.variables for p in populations]
    )
    first = populations[0]
    own = [p.weights if isinstance(p, Population) else None for p in populations]
    weights = joined_weights(own, [len(p.indices) for p in populations])
    return Population(
        first.problem, variables, indices, first.input_shape, first.input_dtype, weights=weights
    )


def _mixture(problem: Problem, variables: Variables, x) -> Prediction:
    prepared = problem.prepare_inputs(x)
    outputs = jax.vmap(lambda v: problem.outputs(v, prepared)[0])(variables)
    return problem.predict(outputs)


_predict = eqx.filter_jit(_mixture)
