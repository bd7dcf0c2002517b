"""How equivariant a population is on orbits: agreement, variance, divergence, worst case.

Everything here takes the members' outputs on whole orbits, ``[members, points, group, outputs]``
with the identity first (`credax.groups.Orbit.fold`), and first averages members: their outputs by
default, as the theorem on ensembles says, or their softmax probabilities.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import log_softmax, logsumexp

from credax.errors import InputError, unknown

Average = Literal["outputs", "probabilities"]
ENOUGH = 8
"""From this many ensembles their standard deviation is known well enough to weight by."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
Outputs = Float[np.ndarray, "members points group outputs"]


def mixed(outputs: Any, average: Average = "outputs") -> Float[np.ndarray, "points group outputs"]:
    """The ensemble's outputs: the members' mean, or the log of their mean probabilities."""
    outputs = np.asarray(outputs, np.float64)
    if outputs.ndim != 4:
        raise InputError(
            f"outputs has shape {outputs.shape}; give [members, points, group, outputs], one "
            "member with a leading axis of length one"
        )
    if average not in ("outputs", "probabilities"):
        raise unknown("average", average, ("outputs", "probabilities"))
    if average == "outputs":
        return outputs.mean(0)
    return logsumexp(log_softmax(outputs, axis=-1), axis=0) - np.log(len(outputs))


def orbit_same_prediction(
    outputs: Any, *, majority: bool = False, average: Average = "outputs"
) -> Float[np.ndarray, " points"]:
    """How many elements of the orbit get the class of the untransformed input, itself included.

    Between 1 and the group's order; with ``majority`` the most that agree among themselves. Random
    labels give ``1 + (order - 1) / classes``.

    >>> orbit_same_prediction([[[[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]]]).tolist()
    [2.0]
    """
    labels = mixed(outputs, average).argmax(-1)
    if not majority:
        return (labels == labels[:, :1]).sum(1).astype(float)
    counts = labels[:, :, None] == labels[:, None]
    return counts.sum(2).max(1).astype(float)


def relative_orbit_standard_deviation(
    outputs: Any, *, relative_to: Literal["mean", "root mean square"] = "mean"
) -> Float[np.ndarray, " points"]:
    """Standard deviation over the orbit (the whole of it) over the size of the orbit's mean.

    Where the mean crosses zero it explodes: take the median over points, or divide by the root
    mean square over all points instead. Several outputs are averaged in square.
    """
    found = mixed(outputs)
    deviation = np.sqrt(np.mean(np.var(found, axis=1), axis=-1))
    size = np.sqrt(np.mean(np.square(found.mean(1)), axis=-1))
    if relative_to == "root mean square":
        size = np.full_like(size, np.sqrt(np.mean(np.square(found))))
    elif relative_to != "mean":
        raise unknown("relative_to", relative_to, ("mean", "root mean square"))
    with np.errstate(divide="ignore", invalid="ignore"):
        return deviation / size


def orbit_variance(outputs: Any) -> Float[np.ndarray, " points"]:
    """Variance over the orbit, averaged over outputs: what falls as one over the members."""
    return np.mean(np.var(mixed(outputs), axis=1), axis=-1)


def symmetric_kl(outputs: Any, *, average: Average = "outputs") -> Float[np.ndarray, " points"]:
    """Mean over the orbit of ``KL(p(x) ‖ p(gx)) + KL(p(gx) ‖ p(x))`` in nats, identity included.

    Quadratic in the deviation of the outputs, so it goes on falling where `orbit_same_prediction`
    is full. Zero exactly where the whole orbit has the same probabilities.
    """
    log_probs = log_softmax(mixed(outputs, average), axis=-1)
    gap = log_probs - log_probs[:, :1]
    change = np.exp(log_probs) - np.exp(log_probs[:, :1])
    return np.mean(np.sum(change * gap, axis=-1), axis=1)


def equivariance_error(
    outputs: Any,
    turns: Float[np.ndarray, "group outputs outputs"] | None = None,
    *,
    worst: bool = False,
    size: float | None = None,
) -> Float[np.ndarray, " points"]:
    """``mean_g ‖f(ρ_X(g) x) - ρ_Y(g) f(x)‖² / mean ‖f(x)‖²``; the largest ``g`` with ``worst``.

    ``turns`` are the matrices of ``ρ_Y``; without them outputs should not change (invariance).
    ``size`` is divided by in place of the mean squared output. Curves against members need one:
    the squared output of few members is mostly their variance, which falls as fast as the error.
    """
    found = mixed(outputs)
    start = found[:, 0]
    wanted = start[:, None] if turns is None else np.einsum("goc,pc->pgo", turns, start)
    gap = np.sum(np.square(found - wanted), axis=-1)
    if size is None:
        size = float(np.mean(np.sum(np.square(start), axis=-1)))
    elif not size > 0:
        raise InputError(f"size is {size}; give a positive number, such as a mean squared target")
    return (gap.max(1) if worst else gap.mean(1)) / size


class MemberTable(NamedTuple):
    """A metric's mean over points for the ensemble, and quantiles of its members' own."""

    ensemble: float
    quantiles: dict[float, float]


def beside_members(metric: Callable[..., np.ndarray], outputs: Any, **options: Any) -> MemberTable:
    """The ensemble's value beside the 5, 25, 50, 75 and 95 % quantiles of its members' values."""
    outputs = np.asarray(outputs)
    each = [float(np.mean(metric(member[None], **options))) for member in outputs]
    found = np.quantile(each, QUANTILES)
    value = float(np.mean(metric(outputs, **options)))
    return MemberTable(value, dict(zip(QUANTILES, map(float, found), strict=True)))


class Curve(NamedTuple):
    """A metric against the number of members: mean and standard deviation over ensembles."""

    members: tuple[int, ...]
    mean: Float[np.ndarray, " sizes"]
    deviation: Float[np.ndarray, " sizes"]
    ensembles: tuple[int, ...]


def against_members(
    metric: Callable[..., np.ndarray],
    outputs: Any,
    sizes: tuple[int, ...],
    seed: int = 0,
    **options: Any,
) -> Curve:
    """A metric of ensembles drawn from one pool: disjoint blocks of a random order.

    No member is in two ensembles of a size, so they are independent given the pool; drawing with
    replacement would add the pool's own variance, doubling the variance at its full size.
    """
    outputs = np.asarray(outputs)
    pool = len(outputs)
    if max(sizes) > pool or min(sizes) < 1:
        raise InputError(
            f"sizes is {sizes}; ensembles of a pool of {pool} have 1 to {pool} members"
        )
    order = np.random.default_rng(seed).permutation(pool)
    means, deviations, counts = [], [], []
    for size in sizes:
        blocks = [order[i : i + size] for i in range(0, pool - size + 1, size)]
        each = [float(np.mean(metric(outputs[block], **options))) for block in blocks]
        means.append(np.mean(each))
        deviations.append(np.std(each, ddof=1) if len(each) > 1 else np.nan)
        counts.append(len(each))
    return Curve(tuple(sizes), np.array(means), np.array(deviations), tuple(counts))


def slope(curve: Curve) -> float:
    """The slope of the curve in a double logarithmic plot: -1 for variances without a plateau."""
    return float(np.polyfit(np.log(curve.members), np.log(curve.mean), 1)[0])


class Plateau(NamedTuple):
    """``level + rate / members`` fitted to a variance: what stays with infinitely many members."""

    level: float
    rate: float
    error: float
    """Standard error of the level."""

    @property
    def significant(self) -> bool:
        """Whether something stays: the level is more than three standard errors above zero."""
        return self.level > 3 * self.error


def plateau(curve: Curve) -> Plateau:
    """Fit ``a + b / M`` to a variance curve, weighted by the standard deviation over ensembles.

    The standard deviation of fewer than 8 ensembles is poorly known, and a small one would dominate
    the fit; it is taken from the relative standard deviation of the other sizes. The sizes share
    one pool of members, so the error of the level is somewhat too small.
    """
    sizes, ensembles = np.asarray(curve.members, float), np.asarray(curve.ensembles)
    measured = np.isfinite(curve.deviation) & (curve.deviation > 0)
    if measured.sum() < 2 or len(sizes) < 3:
        raise InputError("curve needs at least 3 sizes, 2 of them with several ensembles")
    known = measured & (ensembles >= min(ENOUGH, np.sort(ensembles[measured])[-2]))
    relative = np.median(curve.deviation[known] / curve.mean[known])
    deviation = np.where(known, curve.deviation, relative * curve.mean)
    weights = np.sqrt(ensembles) / deviation
    design = np.stack([np.ones_like(sizes), 1 / sizes], -1) * weights[:, None]
    covariance = np.linalg.inv(design.T @ design)
    level, rate = covariance @ design.T @ (curve.mean * weights)
    return Plateau(float(level), float(rate), float(np.sqrt(covariance[0, 0])))


def evaluate_orbit(
    outputs: Any,
    *,
    classes: bool = True,
    turns: np.ndarray | None = None,
    average: Average = "outputs",
) -> dict[str, float]:
    """All of it as one table: means over points, worst points, and the members' medians."""
    outputs = np.asarray(outputs)
    table: dict[str, float] = {}
    if classes:
        same = orbit_same_prediction(outputs, average=average)
        table["orbit_same_prediction"] = float(same.mean())
        table["orbit_same_prediction_worst"] = float(same.min())
        most = orbit_same_prediction(outputs, majority=True, average=average)
        table["orbit_majority"] = float(most.mean())
        divergence = symmetric_kl(outputs, average=average)
        table["symmetric_kl"] = float(divergence.mean())
        table["symmetric_kl_worst"] = float(divergence.max())
        members = beside_members(orbit_same_prediction, outputs)
        table["orbit_same_prediction_member_median"] = members.quantiles[0.5]
        return table
    error = equivariance_error(outputs, turns)
    table["equivariance_error"] = float(error.mean())
    table["equivariance_error_worst"] = float(equivariance_error(outputs, turns, worst=True).max())
    members = beside_members(equivariance_error, outputs, turns=turns)
    table["equivariance_error_member_median"] = members.quantiles[0.5]
    if turns is None:
        relative = relative_orbit_standard_deviation(outputs)
        table["relative_orbit_standard_deviation"] = float(np.median(relative))
    return table
