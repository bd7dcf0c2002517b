"""The same numbers as MAPIE 1.6.0, recorded from it on the inputs made here (float64).

`SplitConformalClassifier` (lac, aps with include_last_label="randomized", random_state 7: it draws
its uniform numbers from numpy's legacy generator with that seed, for the calibration rows and again
for the test rows), the regularised scores of its RAPS at lambda 0.1 and k 1, and, all prefit,
`SplitConformalRegressor` and `ConformalizedQuantileRegressor` with symmetric_correction.
"""

import numpy as np
import pytest
from calibration_cases import labels_of, mixed, simplex
from scipy.special import ndtri

from credax.calibration import APS, RAPS, Threshold, conformal_quantile, conformalise
from credax.prediction import GaussianPrediction

pytestmark = pytest.mark.slow

ROWS, CLASSES, NEW = 40, 4, 8
CASES = [
    (Threshold(), 0.2, 0.8378304977220276, "1011 1111 1011 0010 1101 0010 0110 1110"),
    (Threshold(), 0.1, 0.9554628835361143, "1111 1111 1011 1010 1101 0111 0110 1110"),
    (APS(), 0.2, 0.8288487966994345, "1001 1011 0011 0010 1101 0010 0110 1010"),
    (APS(), 0.1, 0.974496918869865, "1011 1111 1011 1011 1101 0111 1110 1110"),
    (RAPS(), 0.2, 1.0194226660666426, None),
    (RAPS(), 0.1, 1.2744969188698652, None),
]


@pytest.mark.parametrize(("score", "alpha", "quantile", "sets"), CASES)
def test_sets_equal_mapie(score, alpha, quantile, sets):
    cal, new = simplex(ROWS, CLASSES, 1), simplex(NEW, CLASSES, 2)
    y = labels_of(cal, mixed(ROWS, seed=3))
    uniform = np.random.RandomState(7).uniform(size=ROWS)
    found = conformal_quantile(score.scores(cal, uniform)[np.arange(ROWS), y], alpha)
    assert found == pytest.approx(quantile, abs=1e-12)
    if sets is not None:
        inside = score.scores(new, np.random.RandomState(7).uniform(size=NEW)) <= found
        assert " ".join("".join(map(str, row)) for row in inside.astype(int)) == sets


@pytest.mark.parametrize(
    ("method", "alpha", "expected"),
    [
        ("residual", 0.2, 1.688693196883439),
        ("residual", 0.1, 2.5547161642381853),
        ("cqr", 0.2, [[-0.7007497905, 1.7125749534], [0.2227783332, 4.490470959]]),
        ("cqr", 0.1, [[-0.9488734088, 1.9606985717], [-0.2881890489, 5.0014383412]]),
    ],
)
def test_intervals_equal_mapie(method, alpha, expected, float64):
    mean, deviation = 4 * mixed(ROWS + NEW, seed=4), 0.5 + mixed(ROWS + NEW, seed=5)
    y = mean[:ROWS] + 1.5 * deviation[:ROWS] * ndtri(0.98 * mixed(ROWS, seed=6) + 0.01)
    p = GaussianPrediction(mean.reshape(1, -1, 1), deviation.reshape(1, -1, 1) ** 2)
    fitted = conformalise(p.select(slice(0, ROWS)), y, alpha=alpha, method=method)
    low, high = fitted.predict_interval(p.select(slice(ROWS, None)))
    if method == "residual":
        np.testing.assert_allclose((high - low) / 2, expected, atol=1e-12)
    else:
        np.testing.assert_allclose(np.stack([low, high], axis=1)[:2], expected, atol=1e-9)
