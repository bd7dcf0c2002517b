"""Pools of near duplicates, and how many of them were bought."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Int64

from credax.data.dataset import Dataset, Split
from credax.description import digest
from credax.errors import InputError


def repeated(data: Dataset, times: int, noise: float = 0.1, seed: int = 0) -> Dataset:
    """The data set with every training row so many times in a row, each with its own noise.

    ``noise`` is its standard deviation over that of the inputs. Row ``i`` of the new pool comes
    from row ``i // times``. Reference: the Repeated MNIST of Kirsch et al. 2019.
    """
    if times < 1:
        raise InputError(f"repeat is {times}; give at least 1")
    if times == 1:
        return data
    x = np.repeat(np.asarray(data.train.x, np.float32), times, axis=0)
    # Wide noise at once would need as much memory again.
    generator, scale = np.random.default_rng(seed), noise * float(x.std())
    for start in range(0, len(x), 4096):
        block = x[start : start + 4096]
        block += scale * generator.standard_normal(block.shape, np.float32)
    train = Split(x, np.repeat(data.train.y, times), data.train.inputs, data.train.targets)
    parts: Any = {"test": data.test, "validation": data.validation}
    floats = {
        name: dataclasses.replace(part, x=np.asarray(part.x, np.float32))
        for name, part in parts.items()
        if part is not None
    }
    return dataclasses.replace(data, train=train, **floats)


def origins(x: np.ndarray, purchases: np.ndarray, times: int = 1) -> Int64[np.ndarray, " bought"]:
    """A number for each purchase, equal for copies: of one row, or rows that are equal.

    >>> origins(np.array([[1.0], [2.0], [1.0]]), np.array([0, 1, 2])).tolist()
    [0, 1, 0]
    """
    if times > 1:
        return np.asarray(purchases) // times
    seen: dict[str, int] = {}
    texts = [digest(np.ascontiguousarray(x[row]).tobytes()) for row in purchases]
    return np.array([seen.setdefault(text, len(seen)) for text in texts], np.int64)


def duplicates(found: np.ndarray, initial: int = 0) -> int:
    """Purchases after the initial ones that are copies of an earlier one.

    >>> duplicates(np.array([0, 1, 0, 2, 2]), initial=2)
    2
    """
    earlier: set[int] = set()
    count = 0
    for place, origin in enumerate(found.tolist()):
        count += origin in earlier and place >= initial
        earlier.add(origin)
    return count
