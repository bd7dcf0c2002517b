"""Analyses of a zoo: equality of distributions, exchangeability of units, functional diversity."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from credax.errors import InputError
from credax.quality import (
    Association,
    Discrepancy,
    Exchangeability,
    PairMatrix,
    association,
    compare_units,
    maximum_mean_discrepancy,
    pairwise_disagreement,
    pairwise_mutual_information,
    pairwise_weight_cosine,
)
from credax.zoo.reader import Zoo

CHUNK_ENTRIES = 2**23


@dataclass(frozen=True)
class Analysis:
    """Results of `analyse`; `summary` has the numbers."""

    members: int
    scores: dict[str, np.ndarray]
    halves: Discrepancy
    units: Exchangeability | None
    cosine: PairMatrix
    information: PairMatrix | None = None
    disagreement: PairMatrix | None = None
    information_out: PairMatrix | None = None
    in_and_out: Association | None = None

    def summary(self) -> dict[str, Any]:
        """Plain numbers, for a table or JSON."""
        interval = self.halves.interval
        result: dict[str, Any] = {
            "members": self.members,
            "halves_mmd_tenths": round(self.halves.tenths, 5),
            "halves_interval_tenths": interval and [10 * interval.low, 10 * interval.high],
            "halves_p_value": self.halves.p_value,
            "weight_cosine": _spread(self.cosine.values),
        }
        result |= {name: _spread(values) for name, values in self.scores.items()}
        if self.units is not None:
            result["units_p_values"] = self.units.adjusted
            result["index_p_values"] = {n: t.p_value for n, t in self.units.index.items()}
        for name in ("information", "disagreement", "information_out"):
            pairs = getattr(self, name)
            if pairs is not None:
                ends = list(pairs.mean_interval()[1:])
                result[name] = {**_spread(pairs.values), "interval_of_mean": ends}
        if self.in_and_out is not None:
            result["in_and_out"] = dataclasses.asdict(self.in_and_out)
        return result


def analyse(
    zoo: Zoo,
    x: np.ndarray | None = None,
    x_out: np.ndarray | None = None,
    *,
    inputs: int | None = 1000,
    permutations: int = 999,
    seed: int = 0,
    checkpoint: str | Path | None = None,
) -> Analysis:
    """Compare a zoo with itself: two halves by MMD, units of each layer, functions of all pairs.

    Args:
        zoo: members trained independently.
        x: raw test inputs, for mutual information and disagreement of all pairs (classes only).
        x_out: inputs from elsewhere, of the same shape.
        inputs: use at most so many of each, drawn at random; the pairs then have standard errors.
        permutations: of the tests.
        seed: of everything random.
        checkpoint: a folder for the sums of pairs, which are then not begun again.

    Memory: ``72 members²`` bytes for the MMD (72 MB for 1000), 200 MB for the tests of units, the
    largest single array of all members, and a chunk of predictions of 2²³ numbers; the networks
    are read from disk as they are needed.
    """
    if zoo.members < 4:
        raise InputError(f"the zoo has {zoo.members} usable members; halves need at least four")
    order = np.random.default_rng(seed).permutation(zoo.members)
    half = zoo.members // 2
    halves = maximum_mean_discrepancy(
        zoo.take(order[:half]), zoo.take(order[half:]), permutations=permutations, seed=seed
    )
    try:
        units = compare_units(zoo, permutations=permutations, seed=seed)
    except InputError:  # no layer of hidden units under credax's own names
        units = None
    names = {n for i in zoo.chosen for n in zoo.records[i] if n.endswith(("_accuracy", "_nll"))}
    scores = {name: zoo.values(name) for name in sorted(names)}
    found = Analysis(zoo.members, scores, halves, units, pairwise_weight_cosine(zoo))
    if x is None:
        return found
    folder = None if checkpoint is None else Path(checkpoint)

    def pairs(kind, rows, name):
        place = None if folder is None else folder / f"{name}.safetensors"
        return kind(_chunks(zoo, _some(rows, inputs, seed)), checkpoint=place)

    information = pairs(pairwise_mutual_information, x, "information")
    disagreement = pairs(pairwise_disagreement, x, "disagreement")
    found = dataclasses.replace(found, information=information, disagreement=disagreement)
    if x_out is None:
        return found
    out = pairs(pairwise_mutual_information, x_out, "information_out")
    both = association(information, out, seed=seed)
    return dataclasses.replace(found, information_out=out, in_and_out=both)


def _chunks(zoo: Zoo, x: np.ndarray, at_once: int = 256):
    """Log-probabilities of all members for some inputs at a time, members read in groups."""
    problem = zoo.manifest.problem()
    outputs = zoo.manifest.network["outputs"]
    size = max(1, min(len(x), CHUNK_ENTRIES // (zoo.members * outputs)))
    for start in range(0, len(x), size):
        rows = x[start : start + size]
        groups = range(0, zoo.members, at_once)
        parts: list[Any] = [
            zoo.population(slice(first, first + at_once), problem=problem).predict(rows)
            for first in groups
        ]
        yield np.concatenate([np.asarray(part.log_probs) for part in parts])


def _some(x: np.ndarray, inputs: int | None, seed: int) -> np.ndarray:
    if inputs is None or inputs >= len(x):
        return x
    return x[np.sort(np.random.default_rng(seed).choice(len(x), inputs, replace=False))]


def _spread(values: np.ndarray) -> dict[str, float]:
    low, middle, high = np.quantile(values, [0.025, 0.5, 0.975])
    return {
        "mean": float(np.mean(values)),
        "low": float(low),
        "median": float(middle),
        "high": float(high),
    }
