"""Networks of neural processes: a set of points becomes a context, which predicts at others."""

import abc
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from credax.functions.set_layers import (
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
    layers,
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
    of them that there are, and ``x*``.
    """

    hidden: int = 128
    encoder_layers: int = 4
    decoder_layers: int = 2
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
        names = ("path", "attention", "query", "self", "latent", "latent_self", "out", "moments")
        keys = dict(zip(names, jax.random.split(key, len(names)), strict=True))
        width, size = self.hidden, aggregated_size(self.hidden, self.aggregate)
        encoder = (columns + values, *([width] * self.encoder_layers))
        found: dict[str, Any] = {}
        decoder = columns
        if self.deterministic:
            found["path"] = {"encoder": init_layers(keys["path"], encoder)} | self._token(width)
            decoder += size
            if self.attention == "multihead":
                found["path"]["queries"] = init_layers(keys["query"], (columns, width, width))
                found["path"]["attention"] = init_attention(keys["attention"], width)
            if self.self_attention:
                found["path"]["self"] = init_attention(keys["self"], width)
        if self.latent_size:
            found["latent"] = {"encoder": init_layers(keys["latent"], encoder)} | self._token(width)
            middle, moments = jax.random.split(keys["moments"])
            found["latent"]["middle"] = init_dense(middle, size, width, 2.0)
            found["latent"]["moments"] = init_dense(moments, width, 2 * self.latent_size)
            decoder += self.latent_size
            if self.self_attention:
                found["latent"]["self"] = init_attention(keys["latent_self"], width)
        sizes = (decoder, *([width] * self.decoder_layers), outputs)
        return found | {"decoder": init_layers(keys["out"], sizes)}

    def condition(self, params, context: Points) -> PyTree:
        """The aggregate of the deterministic path, or what attention needs."""
        if not self.deterministic:
            return {}
        path = params["path"]
        encoded = self._encoded(path, context)
        if self.attention != "multihead":
            return {"whole": aggregate(encoded, context.mask, self._empty(path), self.aggregate)}
        keys = layers(path["queries"], fourier_features(context.x, self.frequencies))
        return {"keys": keys, "values": encoded, "mask": context.mask}

    def latent(self, params, points: Points) -> Latent:
        """A ReLU layer on the aggregate; ``σ = floor + (1 - floor) sigmoid``."""
        path = params["latent"]
        whole = aggregate(
            self._encoded(path, points), points.mask, self._empty(path), self.aggregate
        )
        found = dense(path["moments"], jax.nn.relu(dense(path["middle"], whole)))
        mean, raw = jnp.split(found, 2, axis=-1)
        return Latent(mean, self.latent_floor + (1 - self.latent_floor) * jax.nn.sigmoid(raw))

    def outputs(self, params, context, z, x) -> Array:
        """The decoder of ``(r, z, x*)``."""
        points, x = x.shape[1], fourier_features(x, self.frequencies)
        parts = [x]
        if self.deterministic:
            parts.append(self._reached(params["path"], context, x))
        if self.latent_size:
            parts.append(jnp.broadcast_to(z[:, None], (len(z), points, z.shape[-1])))
        return layers(params["decoder"], jnp.concatenate(parts, axis=-1))

    def _reached(self, path, context, x) -> Array:
        """The deterministic path at targets."""
        if "whole" in context:
            whole = context["whole"][:, None]
            return jnp.broadcast_to(whole, (len(x), x.shape[1], whole.shape[-1]))
        queries, mask = layers(path["queries"], x), context["mask"]
        found = attend(
            path["attention"], queries, context["keys"], context["values"], mask, self.heads
        )
        some = jnp.any(mask, axis=-1)[:, None, None]
        found = jnp.where(some, found, self._empty(path))
        if self.aggregate != "mean_and_count":
            return found
        size = counted(mask, found.dtype)[:, None]
        return jnp.concatenate([found, jnp.broadcast_to(size, (*found.shape[:2], 2))], axis=-1)

    def _encoded(self, path, points: Points) -> Array:
        x = fourier_features(points.x, self.frequencies)
        found = layers(path["encoder"], jnp.concatenate([x, points.values], axis=-1))
        if not self.self_attention:
            return found
        return found + attend(path["self"], found, found, found, points.mask, self.heads)

    def _token(self, width: int) -> dict:
        return {"empty": jnp.zeros(width)} if self.empty == "learned" else {}

    def _empty(self, path) -> Array:
        return path["empty"] if self.empty == "learned" else jnp.zeros(self.hidden)
