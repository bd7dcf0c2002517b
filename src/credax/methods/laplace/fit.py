"""The Gaussian around one trained network: curvature, tuned prior, and the Newton decrement."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from credax.data.dataset import Split
from credax.methods.laplace.blocks import (
    Block,
    DenseBlock,
    DiagonalBlock,
    Factor,
    Kronecker,
    LowRankBlock,
)
from credax.methods.laplace.curvature import (
    curvature_product,
    dense_sums,
    fit_of,
    kronecker_sums,
    rows_at_once,
)
from credax.methods.laplace.evidence import tune
from credax.methods.laplace.functional import kernel_eigenpairs
from credax.methods.laplace.hessian import hessian_product, hessian_sums
from credax.methods.laplace.lanczos import leading_eigenpairs
from credax.methods.laplace.likelihood import without_prior
from credax.methods.laplace.plan import Plan
from credax.methods.laplace.posterior import LaplaceGaussian
from credax.methods.laplace.subset import Subset, named, smallest
from credax.network import Variables
from credax.prior import GaussianPrior
from credax.problem import Problem

# In posterior standard deviations per weight: a draw is at 1.
FAR = 3.0


class NotConverged(UserWarning):
    """The network that Laplace surrounds has not converged to a mode."""


def curvature_blocks(
    problem: Problem,
    variables: Variables,
    data: Split,
    plan: Plan,
    *,
    rank: int | None,
    memory: float,
    curvature: str = "ggn",
) -> tuple[Block, ...]:
    """The curvature of each piece of the plan at a network, over all rows.

    A low-rank piece has ``rank`` eigenpairs by Lanczos; None: all of them, by the kernel matrix.
    """
    problem = without_prior(problem)
    dtype = jax.tree.leaves(variables.params)[0].dtype
    rows = rows_at_once(plan.bytes_per_row(dtype.itemsize), memory)
    found: dict[str, Block] = {}
    if plan.layers:
        sums = kronecker_sums(problem, variables, plan.layers, plan.joint, data, rows, curvature)
        for path, (a, g) in sums.items():
            products = len(data) * plan.layers[path].positions
            ranks = products, products * plan.outputs
            found[path] = Kronecker.of(a, g, dtype, ranks)
    others = [piece for piece in plan.pieces if piece.kind != "kronecker"]
    if others and others[0].kind == "low-rank":
        return (_low_rank(problem, variables, data, plan, rows, rank, curvature),)
    if others:
        if curvature == "hessian":
            dense = others[0].kind == "dense"
            whole = hessian_sums(problem, variables, plan.rest, data, rows, diagonal=not dense)
            cuts = np.cumsum([piece.size for piece in others])[:-1]
            sums = [whole] if dense else np.split(whole, cuts)
        else:
            sizes = tuple(p.size if p.kind == "dense" else -p.size for p in others)
            sums = dense_sums(problem, variables, plan.rest, sizes, data, rows, curvature)
        for piece, array in zip(others, sums, strict=True):
            found[piece.names[0]] = (
                DenseBlock(array) if piece.kind == "dense" else DiagonalBlock(array)
            )
    return tuple(found[piece.names[0]] for piece in plan.pieces)


def _low_rank(
    problem: Problem,
    variables: Variables,
    data: Split,
    plan: Plan,
    rows: int,
    rank: int | None,
    curvature: str,
) -> LowRankBlock:
    arguments = problem, variables, plan.rest, data, rows
    if rank is None:
        values, vectors = kernel_eigenpairs(*arguments, curvature)
        return LowRankBlock(vectors, values)

    def product(vector):
        if curvature == "hessian":
            return hessian_product(*arguments, vector)
        return curvature_product(*arguments, vector, curvature)

    size = plan.pieces[0].size
    values, vectors = leading_eigenpairs(product, size, min(rank, size))
    return LowRankBlock(vectors, values)


def largest_variances(
    problem: Problem,
    variables: Variables,
    data: Split,
    count: int,
    outputs: int,
    memory: float,
    curvature: str = "ggn",
) -> np.ndarray:
    """The ``count`` weights with the largest variances under a diagonal curvature.

    For "hessian" that of the Gauss-Newton matrix: the diagonal of second derivatives of all weights
    would cost as many gradients as there are weights.
    """
    arrays = named(problem.weights(variables.params))
    subset, size = Subset(tuple(arrays)), sum(array.size for array in arrays.values())
    rows = rows_at_once(12 * outputs * size, memory)
    kind = "ggn" if curvature == "hessian" else curvature
    (values,) = dense_sums(without_prior(problem), variables, subset, (-size,), data, rows, kind)
    return smallest(values, count)


def gaussian_around(
    problem: Problem,
    variables: Variables,
    data: Split,
    plan: Plan,
    *,
    rank: int | None,
    memory: float,
    curvature: str,
    temperature: float,
    prior_precision: float | str,
    noise: bool,
) -> tuple[LaplaceGaussian, tuple[Factor, ...], float]:
    """One mode's Gaussian, its factors, and how far its network is from the mode."""
    blocks = curvature_blocks(
        problem, variables, data, plan, rank=rank, memory=memory, curvature=curvature
    )
    weights = problem.weights(variables.params)
    fit = fit_of(without_prior(problem), variables, plan.names, data)
    count = len(data) * plan.outputs if problem.likelihood.has_one_noise else 0
    likelihood = np.array([fit.varying, fit.constant, count])

    def gaussian(priors, factor) -> LaplaceGaussian:
        factor, own = np.asarray(factor, np.float64), np.asarray(temperature, np.float64)
        arrays = tuple(np.asarray(p, np.float64) for p in priors)
        return LaplaceGaussian(blocks, arrays, factor, own, likelihood)

    prior = None if prior_precision in ("evidence", "by_layer") else prior_precision
    if prior == "problem":
        assert isinstance(problem.prior, GaussianPrior)
        prior = problem.prior.precision_for(len(data))
    tuned = tune(
        gaussian((), 1.0).evidence(plan, weights),
        by_block=prior_precision == "by_layer",
        noise=noise,
        prior=None if prior is None else float(prior),
    )
    made = gaussian(*tuned)
    factors = made.factors(jax.tree.leaves(variables.params)[0].dtype)
    away = distance_from_mode(problem, weights, fit.gradient, factors, plan, len(data))
    return made, factors, away


def distance_from_mode(
    problem: Problem,
    weights: PyTree,
    gradient: dict[str, np.ndarray],
    factors: tuple[Factor, ...],
    plan: Plan,
    num_data: int,
) -> float:
    """``sqrt(gᵀ Σ g / P)``: the Newton decrement per weight, in posterior standard deviations.

    ``gradient`` is that of the log-likelihood; the problem's own prior is added to it.
    """
    arrays = named(weights)

    def penalty(weights) -> Any:
        return num_data * problem.prior.penalty(weights, num_data=num_data)

    prior = named(jax.grad(penalty)(weights))
    joint = dict(arrays)
    for name, likelihood in gradient.items():
        slope = likelihood.reshape(arrays[name].shape) - np.asarray(prior[name], np.float64)
        joint[name] = jnp.asarray(slope, arrays[name].dtype)
    tree = jax.tree.unflatten(jax.tree.structure(weights), list(joint.values()))
    halves = [f.half(v) for f, v in zip(factors, plan.vectors(tree), strict=True)]
    total = sum(float(jnp.sum(jnp.square(half))) for half in halves)
    return float(np.sqrt(total / sum(piece.size for piece in plan.pieces)))


def check_modes(modes: tuple[int, ...], distances: list[float]) -> None:
    """Warn about networks that have not converged."""
    far = {m: d for m, d in zip(modes, distances, strict=True) if not d <= FAR}
    if far:
        worst = max(far.values())
        warnings.warn(
            f"the networks of modes {list(far)} have not converged: Newton "
            f"decrement {worst:.3g} per weight (at most {FAR:g} is expected), so the Gaussian is "
            "not centred on a mode of the posterior; train longer, or let the learning rate fall",
            NotConverged,
            stacklevel=5,
        )
