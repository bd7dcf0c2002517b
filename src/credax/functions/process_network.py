"""Networks of neural processes: a set of points becomes a context, which predicts at others."""

import abc
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from credax.functions.set_layers import (
    ACTIVATIONS,
    Activation,
    Aggregate,
    aggregate,
    aggregated_size,
    attend,
    counted,
    dense,
    fourier_features,
    init_attention,
    init_dense,
    init_layers,
    init_residual,
    layers,
    layers_of_tasks,
    residual,
)

Attention = Literal["multihead", "uniform"]


class Points(NamedTuple):
    """Points of several tasks: inputs, values as the encoder sees them, and which are there."""

    x: Float[Array, "tasks points columns"]
    values: Float[Array, "tasks points values"]
    mask: Bool[Array, "tasks points"]


class Latent(NamedTuple):
    """A Gaussian of the latent variable of every task."""

    mean: Float[Array, "tasks latent"]
    std: Float[Array, "tasks latent"]


class ProcessNetwork(eqx.Module):
    """Abstract: what a neural process needs of its networks; parameters are an argument."""

    latent_size: eqx.AbstractVar[int]
    """Numbers of the latent variable; 0 where there is none."""

    @abc.abstractmethod
    def init(self, key: Key[Array, ""], columns: int, values: int, outputs: int) -> PyTree:
        """Parameters for inputs, encoded values and outputs of so many numbers."""

    @abc.abstractmethod
    def condition(self, params: PyTree, context: Points) -> PyTree:
        """What is kept of a context."""

    @abc.abstractmethod
    def latent(self, params: PyTree, points: Points) -> Latent:
        """``q(z | points)``."""

    @abc.abstractmethod
    def outputs(
        self,
        params: PyTree,
        context: PyTree,
        z: Float[Array, "tasks latent"],
        x: Float[Array, "tasks targets columns"],
    ) -> Float[Array, "tasks targets outputs"]:
        """The decoder at targets."""

    def stored(self) -> dict[str, Any]:
        """A hook: what a file must say of the networks beside the settings of the method."""
        return {}


class SetNetwork(ProcessNetwork):
    """Encoders of single points, an aggregation or attention, and a decoder.

    The deterministic path gives ``r(C, x*)``, the latent path ``q(z | C)``; the decoder takes those
    of them that there are, and ``x*``. An aggregate passes ``set_blocks`` residual blocks of twice
    the width: they run once per task, so that they cost little.
    """

    hidden: int = 128
    encoder_layers: int = 4
    decoder_layers: int = 2
    set_blocks: int = 0
    activation: Activation = "relu"
    aggregate: Aggregate = "mean_and_count"
    empty: Literal["learned", "zero"] = "learned"
    latent_size: int = 0
    deterministic: bool = True
    latent_floor: float = 0.1
    attention: Attention | None = None
    heads: int = 8
    self_attention: bool = False
    frequencies: int = 0

    def init(self, key, columns: int, values: int, outputs: int) -> PyTree:
        """He's initialisation; tokens of an empty context begin at zero."""
        columns *= 1 + 2 * self.frequencies
        path, latent, attention, query, moments, out = jax.random.split(key, 6)
        width, size = self.hidden, aggregated_size(self.hidden, self.aggregate)
        whole = 2 * width if self.set_blocks else size
        encoder = (columns + values, *([width] * self.encoder_layers))
        found: dict[str, Any] = {}
        decoder = columns
        if self.deterministic:
            attends = self.attention == "multihead"
            found["path"] = self._init_path(path, encoder, size, blocks=not attends)
            decoder += size if attends else whole
            if attends:
                found["path"]["queries"] = init_layers(query, (columns, width, width))
                found["path"]["attention"] = init_attention(attention, width)
        if self.latent_size:
            found["latent"] = self._init_path(latent, encoder, size, blocks=True)
            middle, last = jax.random.split(moments)
            found["latent"]["middle"] = init_dense(middle, whole, width, 2.0)
            found["latent"]["moments"] = init_dense(last, width, 2 * self.latent_size)
            decoder += self.latent_size
        sizes = (decoder, *([width] * self.decoder_layers), outputs)
        return found | {"decoder": init_layers(out, sizes)}

    def _init_path(self, key, encoder: tuple[int, ...], size: int, blocks: bool) -> dict:
        """An encoder of points, and what an aggregate of them passes."""
        first, own, then = jax.random.split(key, 3)
        found: dict[str, Any] = {"encoder": init_layers(first, encoder)}
        if self.empty == "learned":
            found["empty"] = jnp.zeros(self.hidden)
        if self.self_attention:
            found["self"] = init_attention(own, self.hidden)
        if blocks and self.set_blocks:
            found["set"] = init_residual(then, size, 2 * self.hidden, self.set_blocks)
        return found

    def condition(self, params, context: Points) -> PyTree:
        """The aggregate of the deterministic path, or what attention needs."""
        if not self.deterministic:
            return {}
        path = params["path"]
        if self.attention != "multihead":
            return {"whole": self._whole(path, context)}
        x = fourier_features(context.x, self.frequencies)
        keys = layers(path["queries"], x, self._activation)
        return {"keys": keys, "values": self._encoded(path, context), "mask": context.mask}

    def latent(self, params, points: Points) -> Latent:
        """A ReLU layer on the aggregate; ``σ = floor + (1 - floor) sigmoid``."""
        path = params["latent"]
        middle = jax.nn.relu(dense(path["middle"], self._whole(path, points)))
        mean, raw = jnp.split(dense(path["moments"], middle), 2, axis=-1)
        return Latent(mean, self.latent_floor + (1 - self.latent_floor) * jax.nn.sigmoid(raw))

    def outputs(self, params, context, z, x) -> Array:
        """The decoder of ``(x*, r, z)``."""
        x = fourier_features(x, self.frequencies)
        own, shared = [x], [z]
        if "whole" in context:
            shared = [context["whole"], *shared]
        elif self.deterministic:
            own.append(self._attended(params["path"], context, x))
            if self.aggregate == "mean_and_count":
                shared = [counted(context["mask"], x.dtype), *shared]
        points, whole = jnp.concatenate(own, axis=-1), jnp.concatenate(shared, axis=-1)
        return layers_of_tasks(params["decoder"], points, whole, self._activation)

    @property
    def _activation(self):
        return ACTIVATIONS[self.activation]

    def _whole(self, path, points: Points) -> Array:
        """What stands for a set."""
        encoded = self._encoded(path, points)
        found = aggregate(encoded, points.mask, self._empty(path), self.aggregate)
        return residual(path["set"], found, self._activation) if "set" in path else found

    def _attended(self, path, context, x) -> Array:
        """What targets find in a context."""
        queries, mask = layers(path["queries"], x, self._activation), context["mask"]
        found = attend(
            path["attention"], queries, context["keys"], context["values"], mask, self.heads
        )
        some = jnp.any(mask, axis=-1)[:, None, None]
        return jnp.where(some, found, self._empty(path))

    def _encoded(self, path, points: Points) -> Array:
        x = fourier_features(points.x, self.frequencies)
        whole = jnp.concatenate([x, points.values], axis=-1)
        found = layers(path["encoder"], whole, self._activation)
        if not self.self_attention:
            return found
        return found + attend(path["self"], found, found, found, points.mask, self.heads)

    def _empty(self, path) -> Array:
        return path["empty"] if self.empty == "learned" else jnp.zeros(self.hidden)
