"""Groups acting on pictures and lattices: exact quarter turns, flips and shifts; interpolation."""

from typing import Literal

import numpy as np

from credax.errors import InputError, unknown
from credax.groups.action import Gather
from credax.groups.group import Group

Interpolation = Literal["nearest", "bilinear"]
INTERPOLATIONS = ("nearest", "bilinear")


def quarter_turns(size: int, *, flips: bool = False, channels: int | None = None) -> Gather:
    """Quarter turns of square pictures, counter-clockwise with rows downwards, and mirrored ones.

    The group is C4, or D4 with ``flips`` (element ``k + 4 f`` mirrors left to right ``f`` times,
    then turns ``k`` times). Exact: pixels are permuted. ``channels`` adds a last axis.
    """
    _check_size(size)
    pixels = np.arange(size * size).reshape(size, size)
    starts = [pixels, pixels[:, ::-1]] if flips else [pixels]
    indices = np.stack([np.rot90(p, k).reshape(-1) for p in starts for k in range(4)])
    group = Group.dihedral(4) if flips else Group.cyclic(4)
    return _permutation(group, indices, (size, size), channels)


def shifts(height: int, width: int, *, channels: int | None = None) -> Gather:
    """All periodic shifts of a lattice."""
    pixels = np.arange(height * width).reshape(height, width)
    moves = np.ndindex(height, width)
    indices = np.stack([np.roll(pixels, move, (0, 1)).reshape(-1) for move in moves])
    return _permutation(Group.translations(height, width), indices, (height, width), channels)


def turns_and_shifts(size: int, *, flips: bool = True, channels: int | None = None) -> Gather:
    """Quarter turns (and flips) after all periodic shifts of a square lattice: one large group."""
    turns = quarter_turns(size, flips=flips).indices[:, :, 0]
    moves = shifts(size, size).indices[:, :, 0]
    indices = np.array([move[turn] for turn in turns for move in moves])
    place = {row.tobytes(): number for number, row in enumerate(indices)}
    if len(place) < len(indices):
        raise InputError(f"size is {size}; on so small a lattice turns and shifts coincide")
    # First h, then g: the result at p is x[h[g[p]]].
    table = [[place[h[g].tobytes()] for h in indices] for g in indices]
    return _permutation(Group(np.array(table)), indices, (size, size), channels)


def picture_rotations(
    size: int, order: int, *, interpolation: Interpolation = "bilinear", channels: int = 1
) -> Gather:
    """Turns of square pictures by multiples of ``2π / order``, interpolated between pixels.

    Multiples of a quarter turn permute pixels; the others blur or lose some, so that for orders
    other than 1, 2 and 4 this is no representation: ask `credax.groups.defects`. Outside the
    picture there are zeros.
    """
    if interpolation not in INTERPOLATIONS:
        raise unknown("interpolation", interpolation, INTERPOLATIONS)
    if order < 1:
        raise InputError(f"order is {order}; give at least 1 turn")
    indices = np.zeros((order, size * size, 4), int)
    weights = np.zeros((order, size * size, 4))
    exact = quarter_turns(size).indices[:, :, 0]
    for element in range(order):
        if 4 * element % order == 0:
            indices[element, :, 0] = exact[4 * element // order % 4]
            weights[element, :, 0] = 1
        else:
            angle = 2 * np.pi * element / order
            indices[element], weights[element] = _interpolated(size, angle, interpolation)
    kind = "permutation" if order in (1, 2, 4) else "approximate"
    return Gather(Group.cyclic(order), kind, (size, size, channels), indices, weights)


def _interpolated(size: int, angle: float, interpolation: Interpolation):
    """Which pixels, and how much of each, make a turned picture."""
    centre = (size - 1) / 2
    row, column = np.divmod(np.arange(size * size), size)
    x, y = column - centre, centre - row
    # The value at a place comes from the place turned back.
    r = centre - (np.cos(angle) * y - np.sin(angle) * x)
    c = centre + np.cos(angle) * x + np.sin(angle) * y
    if interpolation == "nearest":
        rows, columns = np.rint(r)[:, None], np.rint(c)[:, None]
        weights = np.ones((size * size, 1))
    else:
        top, left = np.floor(r), np.floor(c)
        down, right = r - top, c - left
        rows = np.stack([top, top, top + 1, top + 1], -1)
        columns = np.stack([left, left + 1, left, left + 1], -1)
        weights = np.stack(
            [(1 - down) * (1 - right), (1 - down) * right, down * (1 - right), down * right], -1
        )
    inside = (rows >= 0) & (rows < size) & (columns >= 0) & (columns < size)
    taps = rows.shape[1]
    indices, shares = np.zeros((size * size, 4), int), np.zeros((size * size, 4))
    indices[:, :taps] = np.where(inside, rows * size + columns, 0).astype(int)
    shares[:, :taps] = weights * inside
    return indices, shares


def _permutation(group, indices, size: tuple[int, int], channels: int | None) -> Gather:
    shape = size if channels is None else (*size, channels)
    return Gather(group, "permutation", shape, indices[:, :, None])


def _check_size(size: int) -> None:
    if size < 1:
        raise InputError(f"size is {size}; a picture has at least 1 pixel per side")


def soft_mask(size: int, margin: float = 0.0, softness: float = 2.0) -> np.ndarray:
    """One inside the inscribed disc, falling smoothly outside: corners that turns cannot keep."""
    _check_size(size)
    if not (0 <= margin < 1 and softness > 0):
        raise InputError(
            f"margin is {margin} and softness {softness}; give a share in [0, 1) and pixels above 0"
        )
    centre = (size - 1) / 2
    row, column = np.divmod(np.arange(size * size), size)
    squared = (row - centre) ** 2 + (column - centre) ** 2
    edge = (centre * (1 - margin)) ** 2
    mask = np.where(squared <= edge, 1.0, np.exp(-np.maximum(squared - edge, 0) / softness**2))
    return mask.reshape(size, size)
