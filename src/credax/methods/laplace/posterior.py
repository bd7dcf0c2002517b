"""A Gaussian around each mode, and predictions of the network linearised there."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, UInt32
from scipy.special import softmax

from credax.errors import DamagedFile, InputError
from credax.files import arranged, load_arrays, save_tree
from credax.keys import wrap
from credax.methods.laplace.blocks import Block, Factor, shapes_of, template
from credax.methods.laplace.curvature import rows_at_once
from credax.methods.laplace.evidence import Evidence
from credax.methods.laplace.joint import check_joint_memory, half_jacobians, joint_covariance
from credax.methods.laplace.likelihood import with_noise, without_prior
from credax.methods.laplace.links import nodes
from credax.methods.laplace.plan import Plan
from credax.methods.laplace.predict import (
    draw_deltas,
    linked_outputs,
    moved,
    output_moments,
    sampled_outputs,
)
from credax.methods.laplace.stored import CLOSED_LINKS, FIELDS, plan_of, size_of
from credax.mixing import pick_members, weighted
from credax.network import Variables
from credax.posterior import (
    AroundPopulation,
    Population,
    describe_population,
    in_batches,
    is_traced,
    read_population,
)
from credax.prediction import GaussianPrediction, Prediction, concatenate
from credax.problem import Problem
from credax.reading import check_record
from credax.reading.tensors import COPY


class LaplaceGaussian(eqx.Module):
    """One mode's curvature, prior precisions (a number or an array per block) and noise factor.

    ``likelihood`` holds both parts of ``log p(D | θ*)`` and the number of noisy target values.
    """

    blocks: tuple[Block, ...]
    priors: tuple[Float[np.ndarray, "..."], ...]
    noise: Float[np.ndarray, ""]
    temperature: Float[np.ndarray, ""]
    likelihood: Float[np.ndarray, " 3"]

    def factors(self, dtype: Any) -> tuple[Factor, ...]:
        """A root of each block's covariance."""
        scale = 1 / (float(self.temperature) * float(self.noise))
        pairs = zip(self.blocks, self.priors, strict=True)
        return tuple(block.factor(scale, prior, dtype) for block, prior in pairs)

    def evidence(self, plan: Plan, weights: Any) -> Evidence:
        """What the evidence at these weights is made of."""
        squares = [np.square(np.asarray(v, np.float64)) for v in plan.vectors(weights)]
        varying, constant, count = (float(n) for n in self.likelihood)
        return Evidence(
            self.blocks, varying, constant, round(count), tuple(squares), float(self.temperature)
        )


class LaplacePosterior(AroundPopulation):
    """``N(θ*, (H / T + P₀)⁻¹)`` around each network, mixed by ``weights``, uniform without.

    With ``predictive="linearised"`` outputs are Gaussian, ``f ~ N(f(x; θ*), J Σ Jᵀ)``; members of a
    prediction are nodes of that Gaussian, ``samples`` per mode, or one per mode for the closed
    forms of ``link``. With "sampled" members are networks with drawn weights. Batch statistics are
    those at the mode. Memory: Jacobians of one block of rows.
    """

    networks: Population
    gaussians: tuple[LaplaceGaussian, ...]
    factors: tuple[tuple[Factor, ...], ...]
    seeds: UInt32[Array, "modes bits"]
    plan: Plan
    options: dict[str, Any]

    @property
    def stored(self) -> Population:
        """The networks at the modes."""
        return self.networks

    @property
    def num_modes(self) -> int:
        """How many modes."""
        return self.networks.num_members

    @property
    def draws(self) -> int:
        """Members of a prediction per mode."""
        closed = self.options["predictive"] == "linearised" and (
            self.options["link"] in CLOSED_LINKS and self.problem.likelihood.task != "regression"
        )
        return 1 if closed else self.options["samples"]

    @property
    def indices(self) -> tuple[int, ...]:
        """Numbers of a prediction's members: mode times draws plus draw."""
        return tuple(m * self.draws + s for m in self.networks.indices for s in range(self.draws))

    def mode(self, position: int) -> Variables:
        """One mode's network."""
        return jax.tree.map(lambda leaf: leaf[position], self.variables)

    def evidence(self, position: int = 0) -> Evidence:
        """What one mode's log evidence is made of (in standard units of the targets)."""
        weights = self.problem.weights(self.mode(position).params)
        return self.gaussians[position].evidence(self.plan, weights)

    @property
    def log_evidence(self) -> Float[np.ndarray, " modes"]:
        """``log p(D|θ*) - 1/2 [θ*ᵀ P₀ θ* + log det(H + P₀) - log det P₀]`` of each mode."""
        gaussians = enumerate(self.gaussians)
        return np.array(
            [self.evidence(i).log_evidence(w.priors, float(w.noise)) for i, w in gaussians]
        )

    def with_prior_precision(self, value: Any) -> "LaplacePosterior":
        """The same curvature under another prior precision: a number, or a list with one per block.

        Blocks are ``plan.pieces``, in that order; of full and diagonal ones an entry may be an
        array with a precision for each weight.
        """
        several = isinstance(value, list | tuple)
        values = list(value) if several else [value] * len(self.plan.pieces)
        priors = tuple(np.asarray(v, np.float64) for v in values)
        gaussians = tuple(
            eqx.tree_at(lambda gaussian: gaussian.priors, gaussian, priors)
            for gaussian in self.gaussians
        )
        return laplace_posterior(self.networks, gaussians, self.seeds, self.plan, self.options)

    def function_moments(
        self, x, *, joint: bool = False, batch_size: int | None = None
    ) -> tuple[Float[Array, "modes batch outputs"], Float[Array, "modes batch outputs ..."]]:
        """Mean and covariance ``J Σ Jᵀ`` of the linearised outputs, in standard units, no noise.

        The covariance is ``[modes, batch, outputs, outputs]``, of each row's outputs. With
        ``joint`` it is that of the outputs of all rows, ``[modes, batch, outputs, batch,
        outputs]``: the square of rows times outputs, and a Jacobian of all rows on the way.
        """
        if joint:
            rows, itemsize = len(self.networks.check(x)), self._dtype.itemsize
            check_joint_memory(self.plan, rows, self.num_modes, itemsize, self.options["memory"])
        function = self._halves if joint else self._moments
        found = []
        for mode in range(self.num_modes):
            parts = self._blocks(x, batch_size, lambda rows, i=mode: function(i, rows))
            means, arrays = (jnp.concatenate(each) for each in zip(*parts, strict=True))
            found.append((means, joint_covariance(arrays) if joint else arrays))
        means, covariances = zip(*found, strict=True)
        return jnp.stack(means), jnp.stack(covariances)

    def predict(self, x, *, key=None, batch_size: int | None = None) -> Prediction:
        """The mixture over modes and their members for raw inputs; ``key`` is not needed."""
        if is_traced(x, self.networks.input_shape):
            return self.predict_fn()(x)
        each = self._predictive()
        parts = [
            concatenate(self._blocks(x, batch_size, lambda rows, i=i: each(i, rows)))
            for i in range(self.num_modes)
        ]
        return self._mixed(parts)

    def predict_fn(self) -> Callable[[Array], Prediction]:
        """`predict` as a pure function of raw inputs, all rows at once, without checks."""
        each = self._predictive()

        def function(x) -> Prediction:
            return self._mixed([each(mode, x) for mode in range(self.num_modes)])

        return function

    def _mixed(self, parts: list[Prediction]) -> Prediction:
        """The predictions of all modes as one; the members of a mode share its weight."""
        whole = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)
        if self.weights is None:
            return whole
        return weighted(whole, np.repeat(self.weights, self.draws) / self.draws)

    def _predictive(self) -> Callable[[int, Any], Prediction]:
        """The prediction of one mode for rows."""
        if self.options["predictive"] == "linearised":
            return self._linearised
        vectors = [self._vectors(i, self._keys(i)) for i in range(self.num_modes)]
        return lambda mode, rows: self._sampled(mode, vectors[mode], rows)

    def sample(self, key: Key[Array, ""], n: int) -> Variables:
        """``n`` networks with drawn weights, as evenly over the modes as ``n`` allows.

        Modes of unequal weight are drawn by these.
        """
        if n < 1:
            raise InputError(f"n is {n}; draw at least 1")
        order, keys = jax.random.split(key)
        if self.weights is None:
            which = jax.random.permutation(order, jnp.arange(n) % self.num_modes)
        else:
            which = pick_members(order, (n,), self.num_modes, self.weights)
        which = np.asarray(which)
        own = jax.random.split(keys, n)
        rows = [np.flatnonzero(which == mode) for mode in range(self.num_modes)]
        drawn = [self._draw(mode, own[r]) for mode, r in enumerate(rows) if len(r)]
        back = np.argsort(np.concatenate(rows))
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[back], *drawn)

    def save(self, path: str | Path) -> None:
        """Keep networks, curvature and seeds in one safetensors file."""
        metadata = describe_population(self.networks, "laplace") | {"options": self.options}
        first = self.gaussians[0]
        metadata["blocks"] = [[block.kind, shapes_of(block)] for block in first.blocks]
        metadata["priors"] = [list(np.shape(prior)) for prior in first.priors]
        metadata["bits"] = self.seeds.shape[1]
        entries = self.plan.entries
        metadata["entries"] = None if entries is None else len(entries)
        save_tree(path, self._tree(), metadata)

    def _tree(self) -> dict[str, Any]:
        # "laws" is the name in files since the first version: old files must load.
        tree = {"networks": self.variables, "laws": list(self.gaussians), "seeds": self.seeds}
        return tree | ({} if self.plan.entries is None else {"entries": self.plan.entries})

    @classmethod
    def load(cls, path: str | Path, problem: Problem) -> "LaplacePosterior":
        """Read what `save` wrote; ``problem`` has the network and likelihood it was trained on."""
        arrays, metadata = load_arrays(path)
        shapes, build = read_population(path, problem, metadata, "laplace")
        check_record(metadata, FIELDS, path, extra=True)
        sizes = [size_of(block, path) for block in metadata["blocks"]]
        modes, options = len(metadata["members"]), metadata["options"]
        number: Any = lambda *shape: jax.ShapeDtypeStruct(shape, np.float64)  # noqa: E731
        gaussian = LaplaceGaussian(
            tuple(template(kind, sizes) for kind, sizes in metadata["blocks"]),
            tuple(number(*shape) for shape in metadata["priors"]),
            number(),
            number(),
            number(3),
        )
        tree: dict[str, Any] = {"networks": shapes, "laws": [gaussian] * modes}
        tree["seeds"] = jax.ShapeDtypeStruct((modes, metadata["bits"]), np.uint32)
        if metadata["entries"] is not None:
            tree["entries"] = jax.ShapeDtypeStruct((metadata["entries"],), np.int32)
        found = arranged(path, arrays, tree)
        networks = build(found["networks"])
        entries = found.get("entries")
        plan = plan_of(networks, options, None if entries is None else jnp.asarray(entries))
        if sizes != [(piece.kind, piece.size) for piece in plan.pieces]:
            raise DamagedFile(f"{path} holds blocks that do not cover its weights; {COPY}")
        if any(min(own.noise, own.temperature) <= 0 for own in found["laws"]):
            raise DamagedFile(f"{path} holds a noise or temperature that is not positive; {COPY}")
        seeds = jnp.asarray(found["seeds"])
        return laplace_posterior(networks, tuple(found["laws"]), seeds, plan, options)

    @property
    def _dtype(self) -> Any:
        return jax.tree.leaves(self.variables.params)[0].dtype

    def _blocks(self, x, batch_size: int | None, function) -> list:
        """A function of blocks of rows; the last one is filled up and cut."""
        x = self.networks.check(x)
        most = rows_at_once(self.plan.bytes_per_row(self._dtype.itemsize), self.options["memory"])
        size = min(self.networks.batch_size(batch_size, self.draws), most)
        return in_batches(lambda rows, _: function(rows), x, size)

    def _moments(self, mode: int, rows) -> tuple[Any, Any]:
        return output_moments(
            without_prior(self.problem), self.plan, self.mode(mode), self.factors[mode], rows
        )

    def _halves(self, mode: int, rows) -> tuple[Any, Any]:
        return half_jacobians(
            without_prior(self.problem), self.plan, self.mode(mode), self.factors[mode], rows
        )

    def _linearised(self, mode: int, rows) -> Prediction:
        mean, covariance = self._moments(mode, rows)
        link, points = self.options["link"], nodes(self.options["samples"], self.plan.outputs)
        closed = self.draws == 1 and link in CLOSED_LINKS
        outputs = linked_outputs(mean, covariance, link if closed else points)
        return self._prediction(mode, outputs)

    def _sampled(self, mode: int, vectors, rows) -> Prediction:
        outputs = sampled_outputs(
            without_prior(self.problem), self.plan, self.mode(mode), vectors, rows
        )
        return self._prediction(mode, outputs)

    def _prediction(self, mode: int, outputs) -> Prediction:
        whole = with_noise(self.problem, self.mode(mode), outputs)
        prediction = self.problem.predict(whole)
        if isinstance(prediction, GaussianPrediction):
            noise = float(self.gaussians[mode].noise)
            return GaussianPrediction(prediction.means, prediction.variances * noise)
        return prediction

    def _keys(self, mode: int) -> Key[Array, " samples"]:
        key = wrap(self.seeds[mode])
        number = jnp.arange(self.options["samples"])
        return jax.vmap(lambda s: jax.random.fold_in(key, s))(number)

    def _vectors(self, mode: int, keys) -> list[Array]:
        return draw_deltas(self.plan, self.factors[mode], keys)

    def _draw(self, mode: int, keys) -> Variables:
        variables, deltas = self.mode(mode), self._vectors(mode, keys)
        return jax.vmap(lambda own: moved(self.problem, self.plan, variables, own))(deltas)


def laplace_posterior(
    networks: Population,
    gaussians: tuple[LaplaceGaussian, ...],
    seeds: Array,
    plan: Plan,
    options: dict[str, Any],
    factors: tuple[tuple[Factor, ...], ...] | None = None,
) -> LaplacePosterior:
    """The posterior of these Gaussians, its covariances factorised unless they are already."""
    if factors is None:
        dtype = jax.tree.leaves(networks.variables.params)[0].dtype
        factors = tuple(gaussian.factors(dtype) for gaussian in gaussians)
    made = LaplacePosterior(networks, gaussians, factors, seeds, plan, options)
    if options.get("weights") != "evidence":
        return made
    return dataclasses.replace(made, networks=weighted(networks, softmax(made.log_evidence)))
