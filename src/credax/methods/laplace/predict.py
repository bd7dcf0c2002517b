"""The compiled parts of Laplace's predictions: moments, links, drawn weights."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from credax.methods.laplace.curvature import jacobian, opened
from credax.methods.laplace.likelihood import row_outputs
from credax.methods.laplace.links import bridge, probit, spread_outputs
from credax.methods.laplace.plan import Plan
from credax.methods.laplace.subset import with_weights
from credax.network import Variables
from credax.problem import Problem


@eqx.filter_jit
def draw_deltas(plan: Plan, factors, keys) -> list[Array]:
    """Drawn weights minus the mode's, one vector ``[draws, params]`` per piece."""

    def one(key):
        own = jax.random.split(key, len(factors))
        dtype = jax.tree.leaves(factors)[0].dtype
        pairs = zip(plan.pieces, factors, own, strict=True)
        return [f.draw(jax.random.normal(k, (piece.size,), dtype)) for piece, f, k in pairs]

    return jax.lax.map(one, keys)


def moved(problem: Problem, plan: Plan, variables: Variables, deltas) -> Variables:
    """The network with its weights moved, by one vector per piece."""
    weights = plan.moved(problem.weights(variables.params), deltas)
    return with_weights(problem, variables, weights)


@eqx.filter_jit
def sampled_outputs(problem: Problem, plan: Plan, variables: Variables, deltas, x) -> Array:
    """Outputs of drawn networks, ``[draws, batch, outputs]``."""
    # Arrays that no draw changes stay unbatched, so that what depends on them is computed once.
    prepared = problem.prepare_inputs(x)

    def one(own):
        member = moved(problem, plan, variables, own)
        outputs = problem.outputs(member, prepared)[0]
        return outputs[..., : plan.outputs]

    return jax.vmap(one)(deltas)


@eqx.filter_jit
def linked_outputs(mean, covariance, link) -> Array:
    """Members' outputs ``[members, batch, outputs]``: by a closed form's name, or by nodes."""
    if isinstance(link, str):
        functions = {"probit": probit, "bridge": bridge}
        closed = functions.get(link)
        if closed is not None:
            return closed(mean, covariance)[None]
        return bridge(mean, covariance, normalised=True)[None]
    return spread_outputs(mean, covariance, link)


@eqx.filter_jit
def output_moments(problem: Problem, plan: Plan, variables: Variables, factors, x):
    """Outputs and their covariance at each row; kernels by their Kronecker factors."""
    kernels = [f for p, f in zip(plan.pieces, factors, strict=True) if p.kind == "kronecker"]
    others = [(p, f) for p, f in zip(plan.pieces, factors, strict=True) if p.kind != "kronecker"]

    def one(row):
        outputs = row_outputs(problem, variables, row)
        covariance = jnp.zeros((len(outputs), len(outputs)), outputs.dtype)
        if kernels:
            found = opened(
                problem,
                variables,
                plan.layers,
                plan.joint,
                row,
                lambda o: jnp.eye(len(o), dtype=o.dtype),
            )
            for path, factor in zip(plan.layers, kernels, strict=True):
                covariance += factor.covariance(found.inputs[path], found.gradients[path])
            outputs = found.outputs
        if others:
            outputs, rows = jacobian(problem, variables, plan.rest, row)
            start = 0
            for piece, factor in others:
                half = factor.half(rows[:, start : start + piece.size])
                covariance += half @ half.T
                start += piece.size
        return outputs, covariance

    return jax.vmap(one)(problem.prepare_inputs(x))
