"""Images drawn by formula: a shaded ground, a disc of another colour, fine stripes."""

import numpy as np


def pictures(rows, side=16, channels=3, seed=0):
    rng = np.random.default_rng(seed)
    down, right = np.mgrid[:side, :side, :1][:2] / side
    drawn = []
    for _ in range(rows):
        tilt, turn = rng.uniform(-1, 1, 2)
        ground = rng.uniform(0.2, 0.6, channels) + 0.2 * (tilt * down + turn * right)
        centre, radius = rng.uniform(0.3, 0.7, 2), rng.uniform(0.15, 0.35)
        disc = (down - centre[0]) ** 2 + (right - centre[1]) ** 2 < radius**2
        stripes = 0.08 * np.sin(2 * np.pi * rng.uniform(3, 8) * (tilt * down + turn * right))
        drawn.append(np.where(disc, rng.uniform(0, 1, channels), ground) + stripes)
    return np.round(255 * np.clip(drawn, 0, 1)).astype(np.uint8)


def flat(level, rows=128, side=16, channels=3):
    return np.full((rows, side, side, channels), level, np.uint8)


def assert_rounds(changed, truth):
    """The bytes are the true values, within [0, 255], rounded (either way at a half)."""
    np.testing.assert_allclose(
        changed.astype(float), np.clip(truth, 0, 255), rtol=0, atol=0.5 + 1e-3
    )
