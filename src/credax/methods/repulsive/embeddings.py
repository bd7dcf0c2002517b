"""Spaces in which members are compared: weights, functions, features, input gradients.

A space maps every member on a batch to ``z`` and can pull a cotangent back to its parameters. All
members are embedded at once; how they run is up to the strategy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from credax.errors import InputError
from credax.network import Variables
from credax.networks.convolution import using_implementation
from credax.problem import Batch, Problem
from credax.training.members import Strategy, Unroll, separate

GradientOf = Literal["logit", "log_prob", "loss", "logit_difference"]
Statistics = Literal["batch", "frozen", "detached"]
STEP = 1e-3


class Embedding(NamedTuple):
    """Members on a batch: outputs, place in the space, carried state, and the pullback.

    ``pullback(outputs_cotangent, z_cotangent)`` is ``J_out^T c_out + J_z^T c_z`` for each member.
    """

    outputs: Float[Array, "members batch outputs"]
    z: PyTree
    carried: PyTree
    pullback: Callable[[Array, PyTree], PyTree]
    to_features: Callable[[Array], PyTree] | None = None
    """Takes a cotangent of the outputs to one of ``z``, where outputs are a function of ``z``."""


class EmbeddingSpace(Protocol):
    """Where members are compared."""

    def embed(
        self, problem: Problem, strategy: Strategy, variables: Variables, batch: Batch, keys: Array
    ) -> Embedding:
        """All members on one batch."""
        ...


class Weights(eqx.Module):
    """All parameters of a member as one vector (a pytree; nothing is flattened)."""

    def embed(self, problem, strategy, variables, batch, keys) -> Embedding:
        """``z`` is the parameters; its pullback is the identity."""
        outputs, pull, carried = jax.vjp(
            lambda params: _outputs(problem, strategy, params, variables.state, batch.x, keys),
            variables.params,
            has_aux=True,
        )

        def pullback(outputs_cotangent, z_cotangent):
            return jax.tree.map(jnp.add, pull(outputs_cotangent)[0], z_cotangent)

        return Embedding(outputs, variables.params, carried, pullback)


@dataclass(frozen=True)
class Noise:
    """Inputs near a batch: ``x + deviation ε``, ``ε`` standard normal."""

    deviation: float = 0.25

    def __call__(self, key: Array, x: Array) -> Array:
        """The same noise for all members."""
        return x + self.deviation * jax.random.normal(key, x.shape, x.dtype)


class Functions(eqx.Module):
    """A member's outputs on the batch, on other inputs, or on both.

    ``outputs="probs"`` compares probabilities (classes) or means (regression), ``"logit"`` raw
    outputs; a noise level that the likelihood learns is no function and never compared. ``points``:
    ``"batch"``, ``"other"`` (``other(key, x)``, inputs in standard units, so that labelled points
    themselves are not repelled apart) or ``"both"``. Padding rows of a batch are compared as zeros.
    """

    outputs: Literal["probs", "logit"] = "probs"
    points: Literal["batch", "other", "both"] = "batch"
    other: Callable[[Array, Array], Array] = Noise()

    def embed(self, problem, strategy, variables, batch, keys) -> Embedding:
        """``z`` is ``[members, points, outputs]``, compared as one vector."""

        def both(params):
            outputs, carried = _outputs(problem, strategy, params, variables.state, batch.x, keys)
            values = []
            if self.points != "other":
                values.append(self.values(problem, outputs) * batch.weight[:, None])
            if self.points != "batch":
                other = self.other(jax.random.fold_in(keys[0], 2), batch.x)
                there, _ = _outputs(problem, strategy, params, variables.state, other, keys)
                values.append(self.values(problem, there))
            return (outputs, jnp.concatenate(values, axis=1)), carried

        (outputs, z), pull, carried = jax.vjp(both, variables.params, has_aux=True)
        return Embedding(outputs, z, carried, lambda out, cotangent: pull((out, cotangent))[0])

    def where(self, batch: Batch, key: Array) -> tuple[Array, Array]:
        """The inputs at which members are compared, and their weights."""
        if self.points == "batch":
            return batch.x, batch.weight
        other = self.other(jax.random.fold_in(key, 2), batch.x)
        weight = jnp.ones(len(other), batch.weight.dtype)
        if self.points == "other":
            return other, weight
        return jnp.concatenate([batch.x, other]), jnp.concatenate([batch.weight, weight])

    def values(self, problem: Problem, outputs: Array) -> Array:
        """What is compared, from raw outputs."""
        return problem.likelihood.compared(outputs, raw=self.outputs == "logit")

    def blend(self, problem: Problem, scores: Array, cotangent: Array) -> Array:
        """Members' cotangents of the outputs mixed by ``scores``; a learned noise stays its own."""
        mixed = jnp.tensordot(scores.astype(cotangent.dtype), cotangent, 1)
        count = problem.likelihood.network_outputs(cotangent).shape[-1]
        if count == cotangent.shape[-1]:
            return mixed
        return jnp.concatenate([mixed[..., :count], cotangent[..., count:]], axis=-1)


class InputGradients(eqx.Module):
    """Gradient of one output with respect to the (standardised, augmented) input: ``[M, B, D]``.

    ``gradient_of``: the raw true-class logit, its log-probability, the mean loss, or the difference
    of two logits; in regression the predicted mean (with several targets, a random sign vector
    shared by all members). ``statistics`` says what batch statistics do in the gradient's pass:
    ``"batch"`` uses them and leaks between rows, ``"frozen"`` uses the running averages,
    ``"detached"`` the batch's values as constants. ``pullback``: ``"jvp"`` differentiates a
    directional derivative (one forward tangent, one reverse pass), ``"vjp"`` the reverse pass
    itself, whose own derivatives of the chosen output it need not compute again,
    ``"difference"`` approximates; ``"auto"`` is vjp for members written out one after another
    (convolutions on CPU: a seventh less work and memory), else jvp. ``fraction`` of the batch
    enters.
    """

    gradient_of: GradientOf = "logit"
    statistics: Statistics = "batch"
    pullback: Literal["auto", "vjp", "jvp", "difference"] = "auto"
    fraction: float = 1.0

    def embed(self, problem, strategy, variables, batch, keys) -> Embedding:
        """``z`` is the flattened gradients of the rows that enter."""
        rows = max(1, round(self.fraction * len(batch.y)))
        part = Batch(batch.x[:rows], batch.y[:rows], batch.weight[:rows])
        shared_key = jax.random.fold_in(keys[0], 1)
        together = self.statistics == "batch" and rows == len(batch.y)

        def target(params, carried, key, x):
            """Σ_b of the chosen output; auxiliary: all outputs and the carried state."""
            train = self.statistics == "batch"
            outputs, new = problem.outputs(Variables(params, carried), x, key=key, train=train)
            each = chosen_output(problem, outputs, part, self.gradient_of, shared_key)
            return jnp.sum(each), (outputs, new, each)

        def one(own, _):
            params, carried, key = own
            updated = self._update_statistics(problem, params, carried, part.x, key)
            (_, (outputs, new, _)), gradient = jax.value_and_grad(target, 3, has_aux=True)(
                params, updated, key, part.x
            )
            if not together:
                full = Variables(params, carried)
                outputs, new = problem.outputs(full, batch.x, key=key, train=True)
            return (outputs, gradient.reshape(rows, -1)), new

        own = lambda params: (params, variables.state, keys)  # noqa: E731
        unrolled = isinstance(strategy, Unroll)
        if self.pullback == "vjp" or (unrolled and self.pullback == "auto"):
            if unrolled:
                with using_implementation("reverse"):
                    (outputs, z), pull, carried = strategy.vjp(
                        lambda params, rest: one((params, *rest), None),
                        variables.params,
                        (variables.state, keys),
                    )
                return Embedding(outputs, z, carried, lambda out, cotangent: pull((out, cotangent)))
            (outputs, z), pull, carried = jax.vjp(
                lambda params: strategy(one, own(params), None), variables.params, has_aux=True
            )
            return Embedding(outputs, z, carried, lambda out, cotangent: pull((out, cotangent))[0])
        (outputs, z), carried = strategy(one, own(variables.params), None)

        def along(params, updated, key, cotangent):
            """Σ_b v_b . g_b as a directional derivative: exact, or by a finite difference."""
            cotangent = cotangent.reshape(part.x.shape)
            if self.pullback != "difference":
                value = lambda x: target(params, updated, key, x)[0]  # noqa: E731
                return jax.jvp(value, (part.x,), (cotangent,))[1]
            size = jnp.sqrt(jnp.sum(jnp.square(cotangent.reshape(rows, -1)), -1))
            step = STEP / jnp.maximum(size, jnp.finfo(size.dtype).tiny)
            moved = part.x + cotangent * step.reshape(-1, *(1,) * (cotangent.ndim - 1))
            near, far = (target(params, updated, key, x)[1][2] for x in (part.x, moved))
            return jnp.sum((far - near) / step)

        def pullback(outputs_cotangent, z_cotangent):
            def pulled(own, cotangents):
                (params, carried, key), (out, cotangent) = own, cotangents
                updated = self._update_statistics(problem, params, carried, part.x, key)

                def value(params):
                    outputs, _ = problem.outputs(
                        Variables(params, carried), batch.x, key=key, train=True
                    )
                    return jnp.sum(outputs * out) + along(params, updated, key, cotangent)

                return jax.grad(value)(params)

            cotangents = (outputs_cotangent, z_cotangent)
            if unrolled:
                each = [partial(pulled, mine) for mine in separate(own(variables.params))]
                return strategy.in_turn(each, cotangents)
            both = (own(variables.params), cotangents)
            return strategy(lambda both, _: pulled(*both), both, None)

        return Embedding(outputs, z, carried, pullback)

    def _update_statistics(self, problem, params, carried, x, key):
        """The state the gradient's pass uses."""
        if self.statistics != "detached" or not jax.tree.leaves(carried):
            return carried
        # Batch norm's state is a bias-corrected average: one step from nothing is the batch's own.
        fresh = jax.tree.map(jnp.zeros_like, carried)
        _, new = problem.outputs(Variables(params, fresh), x, key=key, train=True)
        return jax.lax.stop_gradient(new)


def chosen_output(
    problem: Problem, outputs: Array, batch: Batch, gradient_of: GradientOf, key: Array
) -> Float[Array, " batch"]:
    """The number of each row whose input gradient is taken."""
    likelihood = problem.likelihood
    if gradient_of == "loss":
        return -likelihood.log_prob(outputs, batch.y) / jnp.sum(batch.weight)
    if gradient_of == "log_prob":
        return likelihood.log_prob(outputs, batch.y)
    if gradient_of == "logit_difference":
        difference = likelihood.logit_difference(outputs)
        if difference is not None:
            return difference
    centres = likelihood.centres(outputs, batch.y)
    if centres.shape[-1] == 1:
        return centres[:, 0]
    return jnp.sum(centres * jax.random.rademacher(key, centres.shape, centres.dtype), axis=-1)


class Features(eqx.Module):
    """The features that a classifier shared by all members reads."""

    encoder: Any
    head: Any
    split: Callable[[PyTree], tuple[PyTree, PyTree]]
    """Parameters into the encoder's and the head's."""

    def embed(self, problem, strategy, variables, batch, keys) -> Embedding:
        """``z`` is ``[members, batch, features]``, compared as one vector."""

        def one(own, _):
            params, carried, key = own
            inner, outer = self.split(params)
            features, new = self.encoder.apply(
                Variables(inner, carried), batch.x, key=key, train=True
            )
            features = features.reshape(len(features), -1)
            outputs, _ = self.head.apply(Variables(outer, {}), features)
            return (outputs, features), new

        (outputs, z), pull, carried = jax.vjp(
            lambda params: strategy(one, (params, variables.state, keys), None),
            variables.params,
            has_aux=True,
        )

        def to_features(cotangent):
            def one(params, features, out):
                head = lambda z: self.head.apply(Variables(self.split(params)[1], {}), z)[0]  # noqa: E731
                return jax.vjp(head, features)[1](out)[0]

            return jax.vmap(one)(variables.params, z, cotangent)

        pullback = lambda out, cotangent: pull((out, cotangent))[0]  # noqa: E731
        return Embedding(outputs, z, carried, pullback, to_features)


def check_detached(problem: Problem, x: Any) -> None:
    """Only the state of credax's own batch norm is known to hold a batch's own statistics."""
    example = jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype)
    state = jax.eval_shape(problem.init, jax.random.key(0), example).state

    def own(node) -> bool:
        if not isinstance(node, dict):
            return False
        return set(node) == {"mean", "variance", "weight"} or all(map(own, node.values()))

    if not own(state):
        raise InputError(
            "statistics is 'detached' and the network's state is not that of credax's own batch "
            "norm; use statistics='frozen', or a network of credax.networks"
        )


def _outputs(problem: Problem, strategy: Strategy, params, carried, x, keys):
    def one(own, x):
        params, carried, key = own
        return problem.outputs(Variables(params, carried), x, key=key, train=True)

    return strategy(one, (params, carried, keys), x)
