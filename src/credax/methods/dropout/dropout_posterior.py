"""A network whose dropout stays on: members are draws of its masks."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, UInt32

from credax.errors import InputError
from credax.files import arranged, load_arrays, save_tree
from credax.keys import wrap
from credax.methods.dropout.masks import Inserted, Own, inserted_masks
from credax.network import Variables
from credax.posterior import (
    AroundPopulation,
    Population,
    describe_population,
    in_batches,
    is_traced,
    read_population,
)
from credax.prediction import Prediction, concatenate
from credax.problem import Problem
from credax.reading import check_record
from credax.reading.records import COUNT, FLAG, TEXT, Optional, kind, one_of, record

_RATE = kind("a share from 0 below 1", lambda v: type(v) in (int, float) and 0 <= v < 1)
_MASKS = {"kind": one_of("own", "inserted"), "rate": Optional(_RATE), "consistent": Optional(FLAG)}
_FIELDS = {"draws": COUNT, "bits": COUNT, "masks": record(_MASKS)}


class DropoutPosterior(AroundPopulation):
    """One network per mode, predicted with ``seeds`` of dropout masks ``[modes, draws, bits]``.

    ``masks`` says what a seed does: it masks the kernels' inputs (`Inserted`), the same for all
    rows, or is the key of the network's own layers (`Own`). Batch statistics are those stored.
    """

    networks: Population
    seeds: UInt32[Array, "modes draws bits"]
    masks: Inserted | Own

    @property
    def stored(self) -> Population:
        """The networks, one per mode: masks are not part of them."""
        return self.networks

    @property
    def draws(self) -> int:
        """Masks per mode."""
        return self.seeds.shape[1]

    @property
    def indices(self) -> tuple[int, ...]:
        """Numbers of the members: mode times draws plus draw."""
        return tuple(m * self.draws + s for m in self.networks.indices for s in range(self.draws))

    def predict(self, x, *, key=None, batch_size: int | None = None) -> Prediction:
        """The mixture over modes and masks for raw inputs ``[batch, ...]``.

        The stored masks are used; with ``key`` new ones are drawn.
        """
        if is_traced(x, self.networks.input_shape):
            return self.predict_fn(key)(x)
        x = self.networks.check(x)
        size = self.networks.batch_size(batch_size, self.num_members)
        seeds = self.seeds if key is None else self._new_seeds(key)

        def function(rows, start: int) -> Prediction:
            here = seeds if self.masks.consistent else _fold(seeds, start)
            return _predict(self.problem, self.masks, self.variables, here, rows)

        return concatenate(in_batches(function, x, size))

    def predict_fn(self, key=None) -> Callable[[Array], Prediction]:
        """`predict` as a pure function of raw inputs, all rows at once, without checks."""
        seeds = self.seeds if key is None else self._new_seeds(key)
        here = seeds if self.masks.consistent else _fold(seeds, 0)
        return partial(_mixture, self.problem, self.masks, self.variables, here)

    def sample(self, key: Key[Array, ""], n: int) -> Variables:
        """``n`` networks with masks drawn anew, of modes drawn uniformly.

        Own dropout layers draw their masks when they are applied, so they are refused here.
        """
        if isinstance(self.masks, Own):
            raise InputError(
                "the masks of a network's own dropout are not part of its variables; use predict, "
                "or fit with a rate so that masks are inserted"
            )
        first, second = jax.random.split(key)
        networks, keys = self.networks.sample(first, n), jax.random.split(second, n)
        params = jax.vmap(self.masks.masked)(networks.params, keys)
        return Variables(params, networks.state)

    def save(self, path: str | Path) -> None:
        """Keep networks and seeds in one safetensors file."""
        metadata = describe_population(self.networks, "dropout")
        metadata |= {"draws": self.draws, "bits": self.seeds.shape[2]}
        metadata["masks"] = self.masks.describe()
        save_tree(path, {"networks": self.variables, "seeds": self.seeds}, metadata)

    @classmethod
    def load(cls, path: str | Path, problem: Problem) -> "DropoutPosterior":
        """Read what `save` wrote."""
        arrays, metadata = load_arrays(path)
        template, build = read_population(path, problem, metadata, "dropout")
        check_record(metadata, _FIELDS, path, extra=True)
        shape = (len(metadata["members"]), metadata["draws"], metadata["bits"])
        seeds: Any = jax.ShapeDtypeStruct(shape, "uint32")
        tree = arranged(path, arrays, {"networks": template, "seeds": seeds})
        networks = build(tree["networks"])
        masks, options = (
            metadata["masks"],
            {k: v for k, v in metadata["masks"].items() if k != "kind"},
        )
        wanted = {"own": "consistent", "inserted": "rate"}[masks["kind"]]
        check_record(masks, {"kind": TEXT, wanted: _MASKS[wanted].kind}, f"{path}, masks,")
        if masks["kind"] == "own":
            return cls(networks, jnp.asarray(tree["seeds"]), Own(**options))
        example = jax.ShapeDtypeStruct((1, *networks.input_shape), networks.input_dtype)
        made = inserted_masks(networks.problem, example, **options)
        return cls(networks, jnp.asarray(tree["seeds"]), made)

    def _new_seeds(self, key):
        keys = jax.random.split(key, self.seeds.shape[:2])
        return jax.random.key_data(keys)


def _fold(seeds, number: int):
    keys = wrap(seeds)
    folded = jax.vmap(jax.vmap(lambda key: jax.random.fold_in(key, number)))(keys)
    return jax.random.key_data(folded)


def _mixture(problem: Problem, masks, variables: Variables, seeds, x) -> Prediction:
    prepared = problem.prepare_inputs(x)

    def one(variables, seed):
        return masks.outputs(problem, variables, prepared, wrap(seed))

    each = jax.vmap(lambda v, own: jax.vmap(lambda seed: one(v, seed))(own))(variables, seeds)
    return problem.predict(each.reshape(-1, *each.shape[2:]))


_predict = eqx.filter_jit(_mixture)
