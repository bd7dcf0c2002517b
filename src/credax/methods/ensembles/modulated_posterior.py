"""Members that share one network: stored once, predicted in one program."""

import dataclasses
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree, UInt32

from credax.exporting import export
from credax.files import arranged, load_arrays, save_tree
from credax.keys import wrap
from credax.methods.ensembles.modulator import (
    Member,
    Modulator,
    Parts,
    member_outputs,
    member_variables,
)
from credax.network import Variables
from credax.networks.convolution import unmapped_kernels
from credax.posterior import (
    Population,
    check_rows,
    describe_population,
    in_batches,
    is_traced,
    read_population,
)
from credax.prediction import Prediction, concatenate
from credax.problem import Problem
from credax.reading import check_record
from credax.reading.records import COUNT, kind

KIND = "modulated"
_MODES = kind(
    "a list of different whole numbers",
    lambda v: isinstance(v, list) and {type(i) for i in v} == {int} and len({*v}) == len(v),
)
_FIELDS = {"modes": _MODES, "draws": COUNT, "bits": COUNT}


class Shared(NamedTuple):
    """What is stored, every leaf with a leading modes axis.

    ``weights`` are shared by a mode's members; leaves of ``own`` and, unless members share it,
    ``carried`` (the network's state) have a members axis next.
    """

    weights: dict[str, Array]
    own: dict[str, Array]
    parts: Parts
    carried: PyTree


class ModulatedPosterior(eqx.Module):
    """One shared network per mode, and factors and own leaves per member.

    A prediction runs all members in one program that reads the shared weights once. `members` gives
    networks of their own for whoever wants them. ``seeds`` are those of a random member's draws.
    """

    problem: Problem
    modulator: Modulator
    shared: Shared
    seeds: UInt32[Array, "modes members draws bits"]
    modes: tuple[int, ...]
    input_shape: tuple[int, ...]
    input_dtype: str = "float32"
    diagnostics: dict[str, Any] = dataclasses.field(default_factory=dict)

    # By identity: jax.jit of a bound method needs a hash, and arrays have none.
    __hash__ = object.__hash__

    @property
    def draws(self) -> int:
        """Networks drawn of every member: 1 where members are not random."""
        return self.seeds.shape[2]

    @property
    def indices(self) -> tuple[int, ...]:
        """Numbers of the members: mode by mode, member by member, draw by draw."""
        each = self.seeds.shape[1] * self.draws
        return tuple(mode * each + i for mode in self.modes for i in range(each))

    @property
    def num_members(self) -> int:
        """Members of a prediction."""
        return len(self.indices)

    @property
    def weights(self) -> None:
        """None: all members count alike."""
        return None

    @property
    def variables(self) -> Variables:
        """The variables of all members, written out: as large as an ensemble of them."""
        return self.members().variables

    def members(self) -> Population:
        """Every member as a network of its own, such as zoos and symmetry tools want."""
        variables = _write_out(self.modulator, self.shared, self.seeds)
        return Population(
            self.problem, variables, self.indices, self.input_shape, self.input_dtype,
            self.diagnostics,
        )  # fmt: skip

    def take(self, positions) -> Population:
        """Some members as networks of their own, by position."""
        return self.members().take(positions)

    def predict(self, x, *, key=None, batch_size: int | None = None) -> Prediction:
        """The mixture over members for raw inputs; with ``key``, random members are drawn anew."""
        if is_traced(x, self.input_shape):
            return self.predict_fn(key)(x)
        x, problem = check_rows(x, self.input_shape), self.problem.traced()
        seeds = self._seeds(key)
        size = Population.batch_size(self, batch_size, self.num_members)  # pyright: ignore[reportArgumentType]
        function = lambda rows, _: _predict(problem, self.modulator, self.shared, seeds, rows)  # noqa: E731
        return concatenate(in_batches(function, x, size))

    def predict_fn(self, key=None) -> Callable[[Array], Prediction]:
        """`predict` as a pure function of raw inputs, all rows at once, without checks."""
        problem = self.problem.traced()
        return partial(_mixture, problem, self.modulator, self.shared, self._seeds(key))

    def sample(self, key: Key[Array, ""], n: int) -> Variables:
        """``n`` networks, without repeats while there are enough; random members are drawn anew."""
        first, second = jax.random.split(key)
        count = self.seeds.shape[0] * self.seeds.shape[1]
        most = count * (1 if self.modulator.random else self.draws)
        rows = jax.random.choice(first, count, (n,), replace=n > most)
        modes, members = jnp.divmod(rows, self.seeds.shape[1])
        seeds = jax.random.key_data(jax.random.split(second, n))
        return _take(self.modulator, self.shared, modes, members, seeds)

    def export(self, path: str | Path, **options: Any) -> Path:
        """Write the prediction as a program that plain jax loads; see `credax.export`."""
        return export(self, path, **options)

    def save(self, path: str | Path) -> None:
        """Keep shared weights and what members add in one safetensors file."""
        extra = {"modes": [*self.modes], "draws": self.draws, "bits": self.seeds.shape[3]}
        metadata = describe_population(self, KIND) | extra  # pyright: ignore[reportArgumentType]
        save_tree(path, {"shared": self.shared, "seeds": self.seeds}, metadata)

    @classmethod
    def load(
        cls,
        path: str | Path,
        problem: Problem,
        build: Callable[[Problem, Any], tuple[Modulator, Any]],
    ) -> "ModulatedPosterior":
        """Read what `save` wrote; ``build(problem, x)`` gives modulator and shapes of a mode."""
        arrays, metadata = load_arrays(path)
        read_population(path, problem, metadata, KIND)
        check_record(metadata, _FIELDS, path, extra=True)
        problem = problem.with_stored_units(**metadata["units"])
        shape, dtype = tuple(metadata["input_shape"]), metadata["input_dtype"]
        example = jax.ShapeDtypeStruct((1, *shape), dtype)
        modulator, one = build(problem, example)
        modes = len(metadata["modes"])
        stacked = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((modes, *leaf.shape), leaf.dtype), one
        )
        size = (modes, modulator.members, metadata["draws"], metadata["bits"])
        template = {"shared": stacked, "seeds": jax.ShapeDtypeStruct(size, "uint32")}
        tree = jax.tree.map(jnp.asarray, arranged(path, arrays, template))
        return cls(
            problem, modulator, tree["shared"], tree["seeds"], tuple(metadata["modes"]), shape,
            dtype, metadata.get("diagnostics", {}),
        )  # fmt: skip

    def _seeds(self, key) -> Array:
        if key is None or not self.modulator.random:
            return self.seeds
        return jax.random.key_data(jax.random.split(key, self.seeds.shape[:3]))


def _mixture(problem: Problem, modulator: Modulator, shared: Shared, seeds, x) -> Prediction:
    prepared = problem.prepare_inputs(x)

    def draw(weights, own, common, member, fixed, carried, seed):
        here = Member(weights | own, Parts(common, member, fixed), carried)
        return member_outputs(problem, modulator, here, _key(modulator, seed), prepared)[0]

    def all_members(mode):
        weights, own, (common, members, fixed), carried = _part(shared, mode)
        inner = jax.vmap(draw, in_axes=(None,) * 6 + (0,))
        state = None if modulator.shared_state else 0
        each = jax.vmap(inner, in_axes=(None, 0, None, 0, 0, state, 0))
        return each(weights, own, common, members, fixed, carried, seeds[mode])

    # Kernels that are drawn anew for every member are mapped over.
    with nullcontext() if modulator.covered else unmapped_kernels():
        # Written out, for weights that are mapped over would make every product a batched one.
        outputs = [all_members(mode) for mode in range(len(seeds))]
    stacked = jnp.stack(outputs)
    return problem.predict(stacked.reshape(-1, *stacked.shape[3:]))


_predict = eqx.filter_jit(_mixture)


def _part(tree, index) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _key(modulator: Modulator, seed) -> Any:
    return wrap(seed) if modulator.random else None


@eqx.filter_jit
def _take(modulator: Modulator, shared: Shared, modes, members, seeds) -> Variables:
    """Chosen members, written out, each with a draw of its own."""

    def one(mode, member, seed):
        weights, own, (common, each, fixed), carried = _part(shared, mode)
        own, each, fixed = _part((own, each, fixed), member)
        carried = carried if modulator.shared_state else _part(carried, member)
        here = Member(weights | own, Parts(common, each, fixed), carried)
        return member_variables(modulator, here, _key(modulator, seed))

    return jax.vmap(one)(modes, members, seeds)


def _write_out(modulator: Modulator, shared: Shared, seeds) -> Variables:
    """All members, one after another."""
    modes, members, draws, bits = seeds.shape
    number = np.indices((modes, members, draws)).reshape(3, -1)
    return _take(
        modulator, shared, jnp.asarray(number[0]), jnp.asarray(number[1]), seeds.reshape(-1, bits)
    )
