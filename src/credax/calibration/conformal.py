"""Split conformal prediction: sets and intervals with a coverage that holds in finite samples."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np

from credax.calibration.conformal_quantiles import as_alpha
from credax.calibration.intervals import CQR, ConformalIntervals, Normalised, Residual
from credax.calibration.protocol import as_key, generator
from credax.calibration.sets import APS, RAPS, ConformalSets, Threshold
from credax.calibration.temperature import Temperature
from credax.errors import InputError, unknown
from credax.metrics.checks import check
from credax.prediction import ClassPrediction

CLASS_SCORES = {"threshold": Threshold, "aps": APS, "raps": RAPS}
INTERVAL_SCORES = {"residual": Residual, "normalised": Normalised, "cqr": CQR}
_ALIASES = {"thr": "threshold", "lac": "threshold", "normalized": "normalised"}


class Mondrian(eqx.Module):
    """A conformal quantile for each group of rows: the coverage holds within every group.

    Classification without ``groups`` takes the label itself (class-conditional: rare classes are
    covered as often as common ones); regression needs ``groups``, one whole number per row. Groups
    with fewer than ``ceil(1/alpha) - 1`` rows get full sets and are named in a warning.
    Reference: V. Vovk, A. Gammerman and G. Shafer, 2005, chapter 4.
    """

    alpha: float = eqx.field(default=0.1, converter=as_alpha)
    score: str = "threshold"

    def __check_init__(self):
        _score(self.score)

    def fit(
        self, prediction: Any, y: Any, *, key: Any = None, groups: Any = None
    ) -> ConformalSets | ConformalIntervals:
        """The quantiles for labels or targets ``y``; see `conformalise`."""
        if groups is None and not isinstance(prediction, ClassPrediction):
            raise InputError("groups is missing; regression has no classes to group rows by")
        score = _score(self.score)(alpha=self.alpha)
        return score.fit(prediction, y, key=key, groups="class" if groups is None else groups)


def conformalise(
    prediction: Any,
    y: Any,
    *,
    alpha: Any = 0.1,
    method: str = "threshold",
    key: Any = None,
    groups: Any = None,
    temperature: bool = False,
    **settings: Any,
) -> ConformalSets | ConformalIntervals:
    """Sets or intervals with coverage at least ``1 - alpha``, from calibration rows.

    ``q`` is the ``k``-th smallest of the ``n`` calibration scores, ``k = ceil((n+1)(1-alpha))``;
    too few rows (``k > n``) give full sets and a warning. ``method`` is ``threshold`` (``lac``),
    ``aps``, ``raps`` or ``mondrian`` for classes, and ``residual``, ``normalised`` or ``cqr`` for
    regression. ``groups`` is ``"class"`` or one whole number per row. ``temperature=True`` first
    fits a temperature on a random half of the rows (drawn by ``key``) and calibrates on the other
    half: never both on the same rows. Other ``settings`` go to the method's record.

    >>> p = ClassPrediction.from_probs([[[0.5, 0.3, 0.2]] * 9])
    >>> sets = conformalise(p, np.array([0, 0, 0, 1, 1, 1, 1, 0, 0]), alpha=0.1)
    >>> sets.predict_set(p)[0].tolist()
    [True, True, False]
    """
    name = _ALIASES.get(method, method)
    record = Mondrian if name == "mondrian" else _score(name)
    score = record(alpha=alpha, **settings)
    if not temperature:
        return score.fit(prediction, y, key=key, groups=groups)
    if not isinstance(prediction, ClassPrediction):
        raise InputError("temperature is True; only predictions of classes have a temperature")
    y = np.asarray(y)
    check(prediction, y)
    order = generator(key).permutation(len(y))
    first, second = np.sort(order[: len(y) // 2]), np.sort(order[len(y) // 2 :])
    before = Temperature().fit(prediction.select(first), y[first])
    own = groups if groups is None or isinstance(groups, str) else np.asarray(groups)[second]
    key = None if key is None else jax.random.fold_in(as_key(key), 2)
    fitted = score.fit(before(prediction.select(second)), y[second], key=key, groups=own)
    return dataclasses.replace(fitted, before=before)


def _score(name: str):
    known = {**CLASS_SCORES, **INTERVAL_SCORES}
    if name not in known:
        raise unknown("conformal method", name, [*known, "mondrian"])
    return known[name]
