"""How hard to penalise the far classes in RAPS, from rows of its own."""

from typing import Any

import jax
import numpy as np

from credax.calibration.fitted_sets import normalised
from credax.calibration.protocol import as_key, generator
from credax.calibration.rank import conformal_quantile
from credax.calibration.sets import RAPS, class_ranks
from credax.errors import InputError
from credax.metrics.checks import check
from credax.prediction import ClassPrediction


def tune_raps(
    prediction: ClassPrediction,
    y: Any,
    *,
    alpha: float = 0.1,
    key: Any,
    penalties: tuple[float, ...] = (0.001, 0.01, 0.1, 0.2, 0.5),
) -> RAPS:
    """The `RAPS` record with the smallest sets; calibrate it on other rows than these.

    ``free`` is the conformal quantile of the true classes' ranks. The penalty is the one whose
    sets, calibrated on a random half of these rows, are smallest on the other half.
    Reference: A. Angelopoulos et al., ICLR 2021.
    """
    y = np.asarray(y)
    check(prediction, y)
    if len(y) < 2 or not penalties:
        raise InputError(
            f"there are {len(y)} rows and {len(penalties)} penalties; tuning takes at least two "
            "rows and one penalty"
        )
    ranks = class_ranks(normalised(prediction))
    quantile = conformal_quantile(ranks[np.arange(len(y)), y].astype(np.float64), alpha)
    free = int(min(quantile, ranks.shape[1]))
    order = generator(key).permutation(len(y))
    one, two = order[: len(y) // 2], order[len(y) // 2 :]
    calibrate, predict = jax.random.split(as_key(key))

    def size(penalty):
        fitted = RAPS(alpha=alpha, penalty=penalty, free=free).fit(
            prediction.select(one), y[one], key=calibrate
        )
        return fitted.predict_set(prediction.select(two), key=predict).sum()

    return RAPS(alpha=alpha, penalty=min(penalties, key=size), free=free)
