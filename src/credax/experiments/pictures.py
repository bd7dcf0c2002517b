"""Made-up images with classes, for trying a program where the real ones are not at hand."""

import numpy as np

from credax.data import Dataset, Split
from credax.standardise import Standardise

_WAVES = 3


def generated_pictures(
    name: str, input_shape: tuple[int, ...], classes: int, train_rows: int, test_rows: int
) -> Dataset:
    """Smooth coloured patterns, one per class, under noise: bytes, the same every time.

    >>> data = generated_pictures("a", (8, 8, 3), 4, 20, 10)
    >>> data.train.x.shape, data.train.x.dtype.name, data.num_classes
    ((20, 8, 8, 3), 'uint8', 4)
    """
    height, width, channels = input_shape
    rng = np.random.default_rng(0)
    rows, columns = np.meshgrid(np.linspace(0, 1, height), np.linspace(0, 1, width), indexing="ij")
    waves = rng.integers(0, _WAVES, (classes, channels, 2))
    phase = rng.uniform(0, 2 * np.pi, (classes, channels))
    angle = waves[..., 0, None, None] * rows + waves[..., 1, None, None] * columns
    patterns = np.sin(2 * np.pi * angle + phase[..., None, None]).transpose(0, 2, 3, 1)

    def split(count: int) -> tuple[np.ndarray, np.ndarray]:
        y = (np.arange(count) % classes).astype(np.int32)
        noise = rng.standard_normal((count, *input_shape), np.float32)
        x = 128 + 40 * patterns[y].astype(np.float32) + 40 * noise
        return np.clip(x, 0, 255).astype(np.uint8), y

    train, test = split(train_rows), split(test_rows)
    inputs = Standardise.of(train[0], axis=(0, 1, 2))
    names = tuple(f"pattern {number}" for number in range(classes))
    return Dataset(name, Split(*train, inputs), Split(*test, inputs), class_names=names)
