"""The table of distances from a reference population, where one was given."""

from statistics import fmean

from credax.report.markup import Markup
from credax.report.numbers import MISSING, fixed, short
from credax.report.parts import plain_table, section
from credax.report.result import Comparison, Result

_ROWS = {"mmd": "MMD²", "ns": "NS", "ns_balanced": "NS, balanced"}


def distance_section(comparison: Comparison) -> Markup | None:
    """MMD and NS in tenths with their intervals and p-values, mean over seeds."""
    evaluated = {
        method: results
        for method in comparison.methods
        if (results := [r for r in comparison.of(method) if "weights/mmd_tenths" in r.metrics])
    }
    if not evaluated:
        return None
    header = ["method"]
    for label in _ROWS.values():
        header += [f"{label}, 10⁻¹", f"{label}: p"]
    rows = [
        [method, *(cell for name in _ROWS for cell in _cells(results, name))]
        for method, results in evaluated.items()
    ]
    (networks, *_) = [
        r.metrics["weights/reference_networks"] for rs in evaluated.values() for r in rs
    ]
    return section(
        "distance",
        "How far is the weight distribution from the reference?",
        f"Squared maximum mean discrepancy of the weights from those of {short(networks)} networks "
        "trained independently, unbiased, so that it may be below zero; NS is what is left of it "
        "after scaling and permutation symmetries are removed, by unit norms or (balanced) by "
        "least mass. In brackets a 95 % interval over runs and reference networks; p takes "
        "networks as exchangeable, which draws of one run are not. Means over seeds.",
        plain_table(header, rows, "distances"),
    )


def _cells(results: list[Result], name: str) -> tuple[str, str]:
    def mean(key: str) -> float | None:
        values = [r.metrics[k] for r in results if (k := f"weights/{name}_{key}") in r.metrics]
        return fmean(values) if values else None

    value, low, high, p_value = (mean(key) for key in ("tenths", "low", "high", "p_value"))
    if value is None:
        return MISSING, MISSING
    between = "" if low is None or high is None else f" [{fixed(low, 3)}, {fixed(high, 3)}]"
    return fixed(value, 3) + between, MISSING if p_value is None else short(p_value)
