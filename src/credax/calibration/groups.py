"""Conformal quantiles group by group (Mondrian): coverage within every group, not on average."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from credax.calibration.rank import conformal_quantile, warn_if_too_few
from credax.errors import InputError


def group_quantiles(
    scores: Float[np.ndarray, "rows *targets"],
    alpha: Any,
    groups: Any,
    label: str = "group",
    names: np.ndarray | None = None,
) -> tuple[
    Float[np.ndarray, "groups *targets"], Int[np.ndarray, " groups"], Int[np.ndarray, " groups"]
]:
    """Quantile, number of rows and name of every group; groups None is one group of all rows."""
    if groups is None:
        warn_if_too_few({"all": len(scores)}, alpha)
        return conformal_quantile(scores, alpha)[None], np.array([len(scores)]), np.array([0])
    groups = _checked(groups, len(scores))
    names = np.unique(groups) if names is None else names
    members = [groups == name for name in names]
    counts = np.array([member.sum() for member in members])
    warn_if_too_few(
        {f"{label} {name}": int(n) for name, n in zip(names, counts, strict=True)}, alpha
    )
    quantiles = [conformal_quantile(scores[member], alpha) for member in members]
    return np.stack(quantiles), counts, names


def rows_of_groups(groups: Any, names: np.ndarray, rows: int) -> Int[np.ndarray, " rows"]:
    """Where each row's group stands among the calibrated ones."""
    if groups is None:
        raise InputError(
            "groups is missing; this calibrator has a quantile for each group: "
            "pass the group of every row"
        )
    groups = _checked(groups, rows)
    strange = np.setdiff1d(groups, names)
    if strange.size:
        raise InputError(
            f"group {strange[0]} was not among the calibration rows; calibrate with rows of it, "
            "or without groups"
        )
    return np.searchsorted(names, groups)


def _checked(groups: Any, rows: int) -> np.ndarray:
    groups = np.asarray(groups)
    if groups.shape != (rows,) or not np.issubdtype(groups.dtype, np.integer):
        raise InputError(
            f"groups has shape {groups.shape} and type {groups.dtype}; give one whole number a "
            f"row, shape ({rows},), or 'class' for sets of classes"
        )
    return groups
