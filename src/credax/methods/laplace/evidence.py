"""The evidence of a local Gaussian, and the prior precision and noise that maximise it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.optimize

from credax.methods.laplace.blocks import Block

_RANGE = (-16.0, 16.0)  # natural logarithms of precisions and noise factors


class Evidence(NamedTuple):
    """What the evidence is made of, for one mode; everything is a sum over all rows.

    ``varying`` and ``constant`` are the parts of ``log p(D | θ*)``, ``values`` the number of target
    values that the noise level covers, ``squares`` is ``|θ*|²`` of each block (each entry, where
    priors differ within a block).
    """

    blocks: tuple[Block, ...]
    varying: float
    constant: float
    values: int
    squares: tuple[np.ndarray, ...]
    temperature: float = 1.0

    def scale(self, noise: float) -> float:
        """What the curvature is multiplied with: one over temperature and noise factor."""
        return 1 / (self.temperature * noise)

    def log_likelihood(self, noise: float = 1.0) -> float:
        """``log p(D | θ*)`` with variances times ``noise``, its varying part tempered."""
        part = self.varying * self.scale(noise) + self.constant
        return part - 0.5 * self.values * float(np.log(noise))

    def log_det_ratio(self, priors: Sequence, noise: float = 1.0) -> float:
        """``log det(H + P₀) - log det P₀``."""
        total = 0.0
        for block, squares, prior in zip(self.blocks, self.squares, priors, strict=True):
            entries = np.broadcast_to(prior, squares.shape)
            total += block.log_det(self.scale(noise), prior) - float(np.sum(np.log(entries)))
        return total

    def scatter(self, priors: Sequence) -> float:
        """``θ*ᵀ P₀ θ*``."""
        return float(sum(np.sum(p * s) for p, s in zip(priors, self.squares, strict=True)))

    def log_evidence(self, priors: Sequence, noise: float = 1.0) -> float:
        """``log p(D|θ*) - 1/2 [θ*ᵀ P₀ θ* + log det(H + P₀) - log det P₀]``."""
        penalty = self.scatter(priors) + self.log_det_ratio(priors, noise)
        return self.log_likelihood(noise) - 0.5 * penalty


def tune(
    evidence: Evidence, *, by_block: bool, noise: bool, prior: float | None = None
) -> tuple[list[float], float]:
    """Prior precisions (one for all blocks, or one each) and noise factor of greatest evidence.

    L-BFGS on their logarithms with exact gradients; the mode and the curvature stay as they are.
    A ``prior`` that is given stays too, and only the noise is tuned.
    """
    if prior is not None and not noise:
        return [float(prior)] * len(evidence.blocks), 1.0
    spectra = [block.spectrum() for block in evidence.blocks]
    squares = [float(np.sum(s)) for s in evidence.squares]
    groups = list(range(len(spectra))) if by_block else [0] * len(spectra)
    free = 0 if prior is not None else max(groups) + 1

    def objective(point):
        precisions = [prior if prior is not None else np.exp(point[g]) for g in groups]
        factor = np.exp(point[-1]) if noise else 1.0
        scale = evidence.scale(factor)
        value, slope = evidence.log_likelihood(factor), np.zeros(len(point))
        if noise:
            slope[-1] = -evidence.varying * scale - 0.5 * evidence.values
        for group, spectrum, square, delta in zip(
            groups, spectra, squares, precisions, strict=True
        ):
            total = scale * spectrum + delta
            value -= 0.5 * (delta * square + np.sum(np.log(total / delta)))
            if free:
                slope[group] -= 0.5 * (delta * square + np.sum(delta / total - 1))
            if noise:
                slope[-1] += 0.5 * np.sum(scale * spectrum / total)
        return -value, -slope

    start = np.zeros(free + noise)
    # Where the curvature lies: from a start far off, the flat side of the evidence is left slowly.
    for group in range(free):
        own = [i for i, g in enumerate(groups) if g == group]
        size, square = sum(spectra[i].size for i in own), sum(squares[i] for i in own)
        start[group] = np.clip(np.log(size / max(square, 1e-12)), *_RANGE)
    found = scipy.optimize.minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[_RANGE] * len(start),
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 500},
    )
    precisions = [prior if prior is not None else float(np.exp(found.x[g])) for g in groups]
    return precisions, float(np.exp(found.x[-1])) if noise else 1.0
