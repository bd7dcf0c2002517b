"""The 8 by 8 handwritten digits that come with scikit-learn."""

import numpy as np

from credax.data.dataset import Dataset, Split
from credax.data.holdout import hold_out
from credax.data.source import Source
from credax.errors import MissingExtra
from credax.standardise import Standardise

TEST_ROWS = 597


def read() -> Dataset:
    """1797 digits in a fixed split, 1200 to train and 597 to test, classes in proportion.

    ``x`` is ``[rows, 8, 8, 1]`` of bytes from 0 to 16, standardised by one mean and one deviation
    over all training pixels.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingExtra("scikit-learn", "data", "the data set 'digits'") from None
    images, labels = load_digits(return_X_y=True)
    x = np.asarray(images, np.uint8).reshape(-1, 8, 8, 1)
    y = np.asarray(labels, np.int32)
    held = hold_out(y, TEST_ROWS, stratify=True)
    inputs = Standardise.of(x[~held], axis=(0, 1, 2, 3))
    return Dataset(
        "digits",
        Split(x[~held], y[~held], inputs),
        Split(x[held], y[held], inputs),
        class_names=tuple("0123456789"),
    )


SOURCES = (
    Source(
        "digits",
        "8 by 8 handwritten digits of scikit-learn, 1200 + 597",
        "classification",
        (8, 8, 1),
        read,
        requires="sklearn",
    ),
)
