"""Why a row is asked for, in words that a person who labels it can use."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from credax.prediction import ClassPrediction

_SHOWN = 3


def reasons(prediction: Any, classes: Sequence[str]) -> tuple[list[str], list[str]]:
    """For every row: what the members say in words, and the guess that an answer is checked by.

    >>> probs = np.array([[[0.9, 0.1]], [[0.8, 0.2]], [[0.3, 0.7]]])
    >>> reasons(ClassPrediction.from_probs(probs), ["cat", "dog"])
    (['votes: 2 cat, 1 dog; mean probability: cat 0.67, dog 0.33'], ['cat'])
    """
    if isinstance(prediction, ClassPrediction):
        return _of_classes(prediction, classes)
    mean, std = (np.asarray(a).reshape(-1) for a in (prediction.mean, prediction.std))
    spread = np.asarray(prediction.epistemic).reshape(-1)
    words = [
        f"predicted {m:.4g}, standard deviation {s:.3g}, of which members disagree by "
        f"{np.sqrt(max(e, 0.0)):.3g}"
        for m, s, e in zip(mean, std, spread, strict=True)
    ]
    return words, [f"{m:.6g}" for m in mean]


def _of_classes(prediction: ClassPrediction, classes: Sequence[str]) -> tuple[list[str], list[str]]:
    probs = np.asarray(prediction.probs)
    votes = np.asarray(prediction.log_probs).argmax(-1)
    words, guesses = [], []
    for row in range(len(probs)):
        counts = Counter(classes[vote] for vote in votes[:, row]).most_common(_SHOWN)
        likely = np.argsort(-probs[row], kind="stable")[:_SHOWN]
        voted = ", ".join(f"{count} {name}" for name, count in counts)
        mean = ", ".join(f"{classes[k]} {probs[row, k]:.2f}" for k in likely)
        words.append(f"votes: {voted}; mean probability: {mean}")
        guesses.append(classes[likely[0]])
    return words, guesses
