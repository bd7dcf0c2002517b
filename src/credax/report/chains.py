"""Chains of samplers: traces and ranks of the log joint, and how well they have mixed."""

from typing import Any

import numpy as np
from scipy.stats import rankdata

from credax.report.markup import Markup, element
from credax.report.numbers import short
from credax.report.parts import key, key_line, numbers, panel, panels, plain_table, section
from credax.report.result import Comparison
from credax.report.svg import COLOURS, Axis, Frame, drawing

BINS = 20
_MOST_CHAINS = COLOURS
_HEADER = [
    "method",
    "R-hat of predictions",
    "bulk ESS",
    "tail ESS",
    "R-hat of log joint",
    "largest R-hat within a mode",
    "divergences",
    "smallest E-BFMI",
    "energy error",
]


def chains_section(comparison: Comparison) -> Markup | None:
    """Diagnostics of every method that has chains; of the first seed's chains, traces and ranks."""
    found = {m: d for m in comparison.methods if (d := _diagnostics(comparison, m)) is not None}
    if not found:
        return None
    drawn = [
        part for method, own in found.items() for part in (_trace(method, own), _ranks(method, own))
    ]
    return section(
        "chains",
        "Have the chains mixed?",
        "Rank-normalised R-hat should be below 1.01 and effective sample sizes (ESS) above 400. "
        "They are of the network's outputs at training rows and of the log joint, not of weights, "
        "which are not identified. Across modes R-hat is large where chains stay in modes with "
        "different functions; within a mode it compares the halves of one chain. Traces should "
        "look stationary, and the ranks of every chain should fill all bins alike (dashed line). "
        "Of the first seed.",
        plain_table(_HEADER, [_row(method, own) for method, own in found.items()], "chains"),
        panels(drawn),
        key(key_line("reference", "equal shares")),
        numbers(
            "Numbers: log joint of each chain",
            ["method and chain", "mean", "standard deviation", "first", "last"],
            [_summary(m, i, chain) for m, own in found.items() for i, chain in _traces(own)],
        ),
    )


def rank_counts(samples: np.ndarray, bins: int = BINS) -> np.ndarray:
    """How many draws of each chain ``[chains, draws]`` fall into each bin of all ranks.

    Returns ``[chains, bins]``: chains of one distribution have ``draws / bins`` in each.

    >>> rank_counts(np.arange(8.0).reshape(2, 4), bins=2)
    array([[4., 0.],
           [0., 4.]])
    """
    chains, draws = samples.shape
    ranks = rankdata(samples, method="ordinal").reshape(chains, draws) - 1
    places = (ranks * bins // (chains * draws)).astype(int)
    return np.stack([np.bincount(row, minlength=bins) for row in places]).astype(float)


def _diagnostics(comparison: Comparison, method: str) -> dict[str, Any] | None:
    found = [r.diagnostics for r in comparison.of(method) if r.diagnostics.get("traces")]
    return found[0] if found else None


def _traces(found: dict[str, Any]) -> list[tuple[str, np.ndarray]]:
    """The log joints of each chain, by the chain's number."""
    return [
        (mode, np.asarray(chain, float))
        for mode, chain in zip(found["by_mode"], found["traces"], strict=True)
    ]


def _row(method: str, found: dict[str, Any]) -> list[str]:
    predictions, joint = found["predictions"], found["log_joint"]
    within = [own["predictions"]["r_hat"] for own in found["by_mode"].values()]
    return [
        method,
        *(short(predictions[name]) for name in ("r_hat", "bulk", "tail")),
        short(joint["r_hat"]),
        short(max((v for v in within if v is not None), default=None)),
        short(found.get("divergences")),
        short(min((v for v in found.get("e_bfmi", ()) if v is not None), default=None)),
        short(found.get("energy_error")),
    ]


def _trace(method: str, found: dict[str, Any]) -> Markup:
    chains = [chain for _, chain in _traces(found)][:_MOST_CHAINS]
    draws = np.arange(1, len(chains[0]) + 1)
    shown = np.linspace(1, found["draws"], len(draws))
    frame = Frame(Axis.around(shown, "draw", pad=0.0), Axis.around(chains, "log joint"), left=56)
    lines = [frame.line(shown, chain, i, markers=False) for i, chain in enumerate(chains)]
    words = f"Log joint of the draws of {method}, one line per chain"
    return panel(f"{method}: trace", drawing(words, frame.axes(), lines))


def _ranks(method: str, found: dict[str, Any]) -> Markup:
    chains = np.stack([chain for _, chain in _traces(found)])
    bins = min(BINS, chains.shape[1])
    counts = rank_counts(chains, bins)[:_MOST_CHAINS]
    edges = np.linspace(0, 1, bins + 1)
    frame = Frame(Axis(0, 1, "rank among all chains"), Axis.around(counts, "draws", zero=True))
    equal = chains.shape[1] / bins
    (left, right), (level, _) = frame.at([0, 1], [equal, equal])
    lines = [frame.steps(edges, row, f"line s{i % COLOURS}") for i, row in enumerate(counts)]
    level = element("path", class_="reference", d=f"M{left:.1f} {level:.1f}H{right:.1f}")
    words = f"Ranks of the log joint of {method}, one outline per chain"
    return panel(f"{method}: ranks", drawing(words, frame.axes(), lines, level))


def _summary(method: str, number: str, chain: np.ndarray) -> list[str]:
    values = chain.mean(), chain.std(), chain[0], chain[-1]
    return [f"{method}, {number}", *(short(float(value)) for value in values)]
