"""Histogram binning and Bayesian binning into quantiles (BBQ)."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln

from credax.calibration.classwise import EDGE_ROUNDINGS, StepMaps, check_bins, padded, pairs
from credax.calibration.protocol import ApplyTo, as_apply_to
from credax.errors import InputError
from credax.prediction import ClassPrediction

# A bin centre of exactly 0 or 1 would be a prior that no label can change.
_CENTRE_MARGIN = 1e-9


class Histogram(eqx.Module):
    """The share of label ``k`` among the rows whose ``p_k`` falls in the same equal-width bin.

    One class against the rest, bins ``(b/B, (b+1)/B]`` with 0 in the first; an empty bin keeps its
    centre. Rows are then divided by their sum; a row that is zero everywhere is left as it was
    (`StepMaps.unchanged_rows` counts them). ``apply_to="members"`` learns one map from the rows of
    all members together and keeps them, which makes each member calibrated, not their mean: hence
    the default here is the mixture.
    Reference: B. Zadrozny and C. Elkan, ICML 2001.
    """

    bins: int = 15
    apply_to: ApplyTo = eqx.field(default="mixture", converter=as_apply_to)

    def __check_init__(self):
        check_bins(self.bins)

    def fit(self, prediction: ClassPrediction, y: Any, *, key: Any = None) -> StepMaps:
        """The bins' shares for labels ``y`` ``[batch]``; ``key`` is not needed."""
        del key
        probs, hits = pairs(prediction, y, self.apply_to, "'histogram'")
        edges = np.arange(self.bins + 1) / self.bins
        centres = (edges[:-1] + edges[1:]) / 2
        values = []
        for p, hit in zip(probs.T, hits.T, strict=True):
            n, m = _counts(p, hit, edges[1:-1])
            values.append(np.where(n > 0, m / np.maximum(n, 1), centres))
        inner = np.tile(edges[1:-1], (probs.shape[1], 1))
        return StepMaps(inner, np.stack(values), self.apply_to)


class BBQ(eqx.Module):
    """An average of equal-mass binnings, weighted by how probable they make the labels.

    For each class, binnings with 2 to ``bins`` bins. A bin with ``n`` rows, ``m`` of them of the
    class, and centre ``c`` has a Beta(``α = c N'/B``, ``β = (1-c) N'/B``) prior with ``N' = 2``: it
    predicts ``(m + α) / (n + N'/B)``, finite also when empty, and a binning weighs
    ``Π_b Γ(N'/B)/Γ(n+N'/B) · Γ(m+α)/Γ(α) · Γ(n-m+β)/Γ(β)``. Weights below 1e-9 of the largest are
    dropped. The average of step functions is one step function, which is what is kept.
    Reference: M. P. Naeini, G. Cooper and M. Hauskrecht, AAAI 2015.
    """

    bins: int = 15
    prior: float = 2.0
    apply_to: ApplyTo = eqx.field(default="mixture", converter=as_apply_to)

    def __check_init__(self):
        check_bins(self.bins, 2)
        if not 0 < self.prior < np.inf:
            raise InputError(f"prior is {self.prior}; give a positive number of imagined rows")

    def fit(self, prediction: ClassPrediction, y: Any, *, key: Any = None) -> StepMaps:
        """The averaged bins for labels ``y`` ``[batch]``; ``key`` is not needed."""
        del key
        probs, hits = pairs(prediction, y, self.apply_to, "'bbq'")
        steps = [
            average_binnings(p, hit, self.bins, self.prior)
            for p, hit in zip(probs.T, hits.T, strict=True)
        ]
        edges = padded([edge for edge, _ in steps], np.inf)
        return StepMaps(edges, padded([value for _, value in steps], None), self.apply_to)


def average_binnings(
    p: Float[np.ndarray, " rows"], hit: Int[np.ndarray, " rows"], bins: int, prior: float = 2.0
) -> tuple[Float[np.ndarray, " edges"], Float[np.ndarray, " steps"]]:
    """Edges and values of the step function that averages all binnings of 2 to ``bins`` bins."""
    ordered = np.sort(p).astype(np.float64)
    binnings = [score_binning(p, hit, _equal_mass(ordered, b), prior) for b in range(2, bins + 1)]
    logs = np.array([weight for weight, _, _ in binnings])
    weights = np.exp(logs - logs.max())
    weights = np.where(weights < 1e-9, 0.0, weights) / weights.sum()
    edges = np.unique(np.concatenate([edge for _, edge, _ in binnings]))
    # One probe inside each step: its right end, which belongs to it.
    probes = np.append(edges, np.inf)
    values = sum(
        w * value[np.searchsorted(edge, probes)]
        for w, (_, edge, value) in zip(weights, binnings, strict=True)
    )
    return edges, np.asarray(values)


def score_binning(
    p: Float[np.ndarray, " rows"],
    hit: Int[np.ndarray, " rows"],
    edges: Float[np.ndarray, " edges"],
    prior: float = 2.0,
) -> tuple[float, Float[np.ndarray, " edges"], Float[np.ndarray, " bins"]]:
    """Log weight, inner edges and smoothed predictions of one binning.

    >>> weight, _, value = score_binning(
    ...     np.array([0.1, 0.4, 0.6, 0.9]), np.array([0, 0, 1, 1]), np.array([0.5])
    ... )
    >>> round(weight, 6), value.round(6).tolist()
    (-0.842427, [0.083333, 0.916667])
    """
    n, m = _counts(p, hit, edges)
    ends = np.concatenate([[0.0], edges, [1.0]])
    centre = np.clip((ends[:-1] + ends[1:]) / 2, _CENTRE_MARGIN, 1 - _CENTRE_MARGIN)
    share = prior / len(n)
    alpha, beta = share * centre, share * (1 - centre)
    log_weight = (
        gammaln(share)
        - gammaln(n + share)
        + gammaln(m + alpha)
        - gammaln(alpha)
        + gammaln(n - m + beta)
        - gammaln(beta)
    )
    return float(log_weight.sum()), edges, (m + alpha) / (n + share)


def _equal_mass(ordered: np.ndarray, bins: int) -> np.ndarray:
    """Inner edges half-way between consecutive chunks whose sizes differ by at most one."""
    starts = np.cumsum([len(chunk) for chunk in np.array_split(ordered, bins) if len(chunk)])[:-1]
    return np.unique((ordered[starts - 1] + ordered[starts]) / 2)


def _counts(p: np.ndarray, hit: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and hits in each bin, with the same rule for edges as when the map is applied."""
    slack = 1 + EDGE_ROUNDINGS * np.finfo(p.dtype).eps
    index = np.searchsorted((edges * slack).astype(p.dtype), p)
    n = np.bincount(index, minlength=len(edges) + 1)
    return n, np.bincount(index, weights=hit, minlength=len(edges) + 1)
