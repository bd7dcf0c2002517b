"""Traces and ranks of a sampler's chains."""

from typing import Any

import numpy as np

from credax.errors import InputError
from credax.plot.axes import axes
from credax.report.chains import rank_counts


def trace(posterior: Any, *, ax: Any = None) -> Any:
    """The log joint of the draws of each chain, one line per chain; it should look stationary.

    ``posterior`` is what `credax.fit` returned for HMC, NUTS or MILE, or a result of
    `credax.quality.mixing`.
    """
    ax = axes(ax)
    for number, chain in _chains(posterior).items():
        ax.plot(np.arange(1, len(chain) + 1), chain, label=f"chain {number}", linewidth=0.8)
    ax.set(xlabel="draw", ylabel="log joint")
    return ax


def ranks(posterior: Any, *, bins: int = 20, ax: Any = None) -> Any:
    """Ranks of the log joint among all chains, one outline per chain; all bins should be alike.

    ``posterior`` as for `trace`. The dashed line is an equal share. Reference: Vehtari et al.,
    Rank-normalization, folding, and localization: an improved R-hat, 2021.
    """
    ax = axes(ax)
    chains = _chains(posterior)
    values = np.stack(list(chains.values()))
    if bins < 1:
        raise InputError(f"bins is {bins}; it is at least 1")
    bins = min(bins, values.shape[1])
    edges = np.linspace(0, 1, bins + 1)
    for number, counts in zip(chains, rank_counts(values, bins), strict=True):
        ax.stairs(counts, edges, label=f"chain {number}")
    ax.axhline(values.shape[1] / bins, color="0.4", linestyle="--", linewidth=1, gid="equal")
    ax.set(xlabel="rank among all chains", ylabel="draws")
    return ax


def _chains(source: Any) -> dict[str, np.ndarray]:
    """Log joints ``[draws]`` of each chain, by its number."""
    from credax.quality.chains import Mixing

    if isinstance(source, Mixing):
        pairs = zip(source.modes, source.draws.log_joint, strict=True)
    else:
        found = getattr(source, "diagnostics", {})
        if not found.get("traces"):
            raise InputError(
                f"posterior is a {type(source).__name__} without traces of chains; give what "
                "cx.fit returned for hmc, nuts or mile, or cx.quality.mixing(posterior, data)"
            )
        pairs = zip(found["by_mode"], found["traces"], strict=True)
    return {str(number): np.asarray(chain, float) for number, chain in pairs}
