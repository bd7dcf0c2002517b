"""A Gaussian over the parameters of each mode, and the draws from it that predictions use."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from credax import batch_statistics
from credax.errors import InputError
from credax.files import arranged, load_arrays, save_tree
from credax.gaussians import GAUSSIANS, WeightGaussian
from credax.keys import as_key
from credax.network import Variables
from credax.posterior import (
    INDICES,
    AroundPopulation,
    Population,
    describe_population,
    in_batches,
    population,
    read_population,
)
from credax.prediction import Prediction
from credax.problem import Problem
from credax.reading import check_record
from credax.reading.records import OBJECT, WHOLE, one_of

# "law" is the name of the Gaussian in files since the first version: old files must load.
_FIELDS = {"law": one_of(*GAUSSIANS), "law_options": OBJECT, "modes": INDICES}
_OPTIONS = {"low-rank": {"rank": WHOLE}, "full": {}}


class GaussianPosterior(AroundPopulation):
    """One Gaussian per mode, mixed uniformly; the draws made when it was fitted are members.

    ``gaussian`` has a leading axis of modes on every leaf; ``draws`` are ``samples`` networks of
    each mode, mode by mode, with batch statistics of their own. Predictions use these
    draws, so that they repeat and need no data; `sample` makes new ones.
    """

    gaussian: WeightGaussian
    draws: Population
    state: Any
    """State of each mode's network, for Gaussians of networks whose state is not recomputed."""
    modes: tuple[int, ...]

    @property
    def stored(self) -> Population:
        """The draws that predictions use."""
        return self.draws

    @property
    def num_modes(self) -> int:
        """How many modes were kept."""
        return len(self.modes)

    def member(self, index: int) -> Population:
        """One stored draw, by its number."""
        return self.draws.member(index)

    def take(self, positions) -> Population:
        """Some stored draws, by position."""
        return self.draws.take(positions)

    def mode(self, position: int) -> WeightGaussian:
        """One mode's Gaussian."""
        return jax.tree.map(lambda leaf: leaf[position], self.gaussian)

    def predict(self, x, *, key=None, batch_size: int | None = None) -> Prediction:
        """The mixture of the stored draws for raw inputs ``[batch, ...]``; no ``key`` is needed."""
        return self.draws.predict(x, key=key, batch_size=batch_size)

    def predict_fn(self) -> Callable[[Array], Prediction]:
        """`predict` as a pure function of raw inputs, all rows at once, without checks."""
        return self.draws.predict_fn()

    def sample(self, key: Key[Array, ""], n: int, refresh: Any = None) -> Variables:
        """``n`` new draws, as evenly over the modes as ``n`` allows, in random order.

        A network with batch statistics needs ``refresh``: the training inputs (or split) from
        which each draw's statistics are computed.
        """
        if n < 1:
            raise InputError(f"n is {n}; draw at least 1")
        order, keys = jax.random.split(key)
        which = jax.random.permutation(order, jnp.arange(n) % self.num_modes)
        variables = _draw(self.gaussian, self.state, which, jax.random.split(keys, n))
        if not batch_statistics.has_statistics(variables):
            return variables
        if refresh is None:
            raise InputError(
                "refresh is None and the network carries batch statistics, which a new draw "
                "does not have; pass the training rows, refresh=data.train"
            )
        x = np.asarray(getattr(refresh, "x", refresh))
        return batch_statistics.refresh(self.problem, variables, x)

    def functions(
        self, key: int | Key[Array, ""], n: int, x: Any
    ) -> Float[np.ndarray, "draws points outputs"]:
        """``n`` draws of whole functions at raw inputs, without noise.

        A draw is one network, new from the Gaussians: its value at a point is the same in every
        batch and call with the same key, and draw ``i`` of ``n`` is draw ``i`` of more. Values are
        targets in raw units for regression, and logits for classes.
        """
        if n < 1:
            raise InputError(f"n is {n}; draw at least 1 function")
        x, own = self.draws.check(x), as_key(key)
        keys = jax.vmap(lambda i: jax.random.fold_in(own, i))(jnp.arange(n))
        which = jax.vmap(lambda k: jax.random.randint(k, (), 0, self.num_modes))(keys)
        variables = _draw(
            self.gaussian, self.state, which, jax.vmap(jax.random.fold_in, (0, None))(keys, 1)
        )
        if batch_statistics.has_statistics(variables):
            raise InputError(
                "the network carries batch statistics, so that new draws are no functions yet; "
                "use predict, whose members have statistics of their own"
            )
        size, problem = self.draws.batch_size(None, n), self.problem.traced()
        parts = in_batches(
            lambda rows, _: (_values(problem, variables, jnp.asarray(rows)),), x, size
        )
        values = np.concatenate([np.asarray(part[0]) for part in parts])
        drawn, units = np.moveaxis(values, 0, 1).astype(np.float64), problem.targets
        if units is None or problem.likelihood.task != "regression":
            return drawn
        return drawn * np.atleast_1d(units.scale) + np.atleast_1d(units.mean)

    def save(self, path: str | Path) -> None:
        """Keep Gaussian and draws in one safetensors file."""
        metadata = describe_population(self.draws, "gaussian")
        metadata |= {"law": self.gaussian.kind, "law_options": self.gaussian.describe()}
        metadata["modes"] = list(self.modes)
        tree = {"law": self.gaussian, "draws": self.variables, "state": self.state}
        save_tree(path, tree, metadata)

    @classmethod
    def load(cls, path: str | Path, problem: Problem) -> "GaussianPosterior":
        """Read what `save` wrote; ``problem`` has the network and likelihood it was trained on."""
        arrays, metadata = load_arrays(path)
        template, build = read_population(path, problem, metadata, "gaussian")
        check_record(metadata, _FIELDS, path, extra=True)
        check_record(metadata["law_options"], _OPTIONS[metadata["law"]], f"{path}, law_options,")
        one = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape[1:], s.dtype), template)
        modes = len(metadata["modes"])
        gaussian = GAUSSIANS[metadata["law"]].template(one.params, modes, **metadata["law_options"])
        state = jax.tree.map(lambda s: jax.ShapeDtypeStruct((modes, *s.shape), s.dtype), one.state)
        tree = arranged(path, arrays, {"law": gaussian, "draws": template, "state": state})
        tree = jax.tree.map(jnp.asarray, tree)
        return cls(tree["law"], build(tree["draws"]), tree["state"], tuple(metadata["modes"]))


def gaussian_posterior(
    problem: Problem,
    gaussian: WeightGaussian,
    state: Any,
    modes: tuple[int, ...],
    keys: Key[Array, " modes"],
    samples: int,
    data: Any,
    *,
    refreshed: bool = True,
    diagnostics: dict[str, Any] | None = None,
) -> GaussianPosterior:
    """The posterior of stacked Gaussians, ``samples`` draws of each made and stored now.

    Draw ``s`` of a mode uses ``fold_in(its key, s)``, so it does not depend on how many there are.
    ``refreshed`` recomputes batch statistics for every draw; else draws keep their mode's state.
    """
    number = jnp.arange(samples)
    fold = jax.vmap(lambda key: jax.vmap(lambda s: jax.random.fold_in(key, s))(number))
    which = jnp.repeat(jnp.arange(len(modes)), samples)
    variables = _draw(gaussian, state, which, fold(keys).reshape(-1))
    if refreshed:
        variables = batch_statistics.refresh(problem, variables, data.x)
    indices = tuple(mode * samples + s for mode in modes for s in range(samples))
    draws = population(problem, variables, data.x, indices, diagnostics)
    return GaussianPosterior(gaussian, draws, state, modes)


@eqx.filter_jit
def _values(problem: Problem, variables: Variables, x: Array) -> Float[Array, "rows draws outputs"]:
    prepared, likelihood = problem.prepare_inputs(x), problem.likelihood

    def one(own: Variables) -> Array:
        outputs = problem.outputs(own, prepared)[0]
        return likelihood.compared(outputs, raw=likelihood.task == "classification")

    return jax.vmap(one, out_axes=1)(variables)


@eqx.filter_jit
def _draw(gaussian: WeightGaussian, state: Any, which: Array, keys: Array) -> Variables:
    def one(item):
        mode, key = item
        own, carried = jax.tree.map(lambda leaf: leaf[mode], (gaussian, state))
        return Variables(own.draw(key), carried)

    return jax.lax.map(one, (which, keys))
