"""Corrupting batches of images: one compiled program per corruption and image shape."""

import dataclasses
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Key, Shaped

from credax.data.corruptions import registry
from credax.data.corruptions.registry import SEVERITIES, Corruption
from credax.data.dataset import Split
from credax.errors import InputError

# Pixels a program works on at once, so that its intermediate results stay in the cache.
_PIXELS = 2**17
_MOST_ROWS = 128
_WHITES = (1, 16, 255, 65535)


def corrupt(
    x: ArrayLike,
    kind: str | Corruption,
    severity: int,
    *,
    key: int | Key[Array, ""],
    ids: ArrayLike | None = None,
    maximum: float | None = None,
) -> Shaped[np.ndarray, "rows height width channels"]:
    """Images changed so that their label stays the same.

    Row ``i`` is drawn under ``fold_in(fold_in(fold_in(key, kind), severity), ids[i])`` and depends
    on nothing else: not on the other rows, their number or their order.

    **Arguments**

    - ``x`` ``[rows, height, width, channels]``: integers, or floats.
    - ``kind``: a name of `names`, or a `Corruption`.
    - ``severity``: 1 to 5; 0 returns ``x``.
    - ``key``: a seed or a key.
    - ``ids`` ``[rows]``: a whole number for each image; row numbers if left out.
    - ``maximum``: the value of white; if left out, 255 for ``uint8`` and 1 for floats. Handwritten
      digits of 0 to 16 need ``maximum=16``.

    Values come back in the same units and type, within ``[0, maximum]``, integers rounded.

    >>> x = np.full((1, 4, 4, 1), 100, np.uint8)
    >>> corrupt(x, "brightness", 4, key=0)[0, 0].ravel().tolist()
    [151, 151, 151, 151]
    """
    record = registry.describe(kind) if isinstance(kind, str) else kind
    x = np.asarray(x)
    white = _white(x, maximum)
    _check_pictures(x, record)
    ids = _check_ids(ids, len(x))
    severity = _check_severity(severity)
    if severity == 0:
        return x
    parameters = np.asarray(record.severities[severity - 1], np.float32)
    changed = np.empty_like(x)
    step = _rows_at_once(x.shape)
    # The same images whether or not the caller works in double precision.
    with jax.enable_x64(False):
        key = jax.random.key(key) if isinstance(key, int | np.integer) else key
        number = np.uint32(zlib.crc32(record.name.encode()))
        key = jax.random.fold_in(jax.random.fold_in(key, number), severity)
        for start in range(0, len(x), step):
            # A last, shorter batch repeats its rows up to the full step: never a second program.
            rows = np.resize(np.arange(start, min(start + step, len(x))), step)
            batch = _program(record.function, x[rows], parameters, key, ids[rows], white)
            changed[start : start + step] = np.asarray(batch)[: len(x) - start]
    return changed


def corrupted(
    split: Split,
    kinds: str | Corruption | Iterable[str | Corruption] = "standard",
    severities: Iterable[int] = SEVERITIES,
    key: int | Key[Array, ""] = 0,
    *,
    ids: ArrayLike | None = None,
    maximum: float | None = None,
) -> Iterator[tuple[tuple[str, int], Split]]:
    """A split under every kind and severity, one ``((kind, severity), Split)`` at a time.

    ``kinds`` is a suite (see `names`), a corruption, or several of them. A suite leaves out what
    images of one channel cannot show (saturation). Inputs stay in the split's raw units and type,
    targets and standardisation are kept. ``maximum`` is the value of white; if left out, it is the
    smallest of 1, 16, 255 and 65535 that no pixel of the split exceeds. Results on such data are
    results on *generated corruptions*, not on published files.

    >>> split = Split(np.zeros((3, 8, 8, 1), np.uint8), np.arange(3))
    >>> [cell for cell, _ in corrupted(split, "contrast", (1, 5), maximum=16)]
    [('contrast', 1), ('contrast', 5)]
    """
    records = _records(kinds, split.x.shape)
    steps = [_check_severity(severity) for severity in severities]
    white = white_of(split.x) if maximum is None else maximum
    # Everything is checked here, before a caller starts on the first of many cells.
    for record in records:
        _check_pictures(split.x, record)
    _white(split.x, white)
    change = partial(corrupt, key=key, ids=_check_ids(ids, len(split)), maximum=white)
    return (
        ((record.name, severity), dataclasses.replace(split, x=change(split.x, record, severity)))
        for record in records
        for severity in steps
    )


def white_of(x: Shaped[np.ndarray, "..."]) -> float:
    """The smallest of the customary whites 1, 16, 255 and 65535 that no value exceeds.

    >>> white_of(np.array([0, 16], np.uint8)), white_of(np.array([0.0, 1.0]))
    (16, 1)
    """
    largest = x.max(initial=0)
    if not largest <= _WHITES[-1]:
        raise InputError(
            f"x reaches {largest}; images have values from 0 to 1, 16, 255 or 65535: "
            "give the value of white as maximum"
        )
    return next(white for white in _WHITES if largest <= white)


@partial(jax.jit, static_argnums=0)
def _program(function, x: Array, parameters: Array, key: Key[Array, ""], ids: Array, white) -> Any:
    images = x.astype(jnp.float32) / white
    keys = jax.vmap(partial(jax.random.fold_in, key))(ids)
    changed = jax.vmap(function, in_axes=(0, 0, None))(keys, images, parameters)
    changed = jnp.clip(changed, 0.0, 1.0) * white
    return (jnp.round(changed) if jnp.issubdtype(x.dtype, jnp.integer) else changed).astype(x.dtype)


def _rows_at_once(shape: tuple[int, ...]) -> int:
    _, height, width, _ = shape
    return max(1, min(_MOST_ROWS, _PIXELS // (height * width)))


def _white(x: np.ndarray, maximum: float | None) -> np.float32:
    if x.dtype.kind not in "iuf":
        raise InputError(f"x has type {x.dtype}; give images of integers or floats")
    if maximum is None:
        if x.dtype.kind != "f" and x.dtype != np.uint8:
            raise InputError(
                f"x has type {x.dtype}, which does not say what white is; give it as maximum"
            )
        maximum = 255.0 if x.dtype == np.uint8 else 1.0
    whole = x.dtype.kind == "f" or (maximum % 1 == 0 and maximum <= np.iinfo(x.dtype).max)
    if not (0 < maximum < np.inf and whole):
        raise InputError(
            f"maximum is {maximum}; give the value of white in x of type {x.dtype}, above 0"
        )
    if x.size and not (x.min() >= 0 and x.max() <= maximum):
        raise InputError(
            f"x goes from {x.min()} to {x.max()}; give values from 0 to maximum, which is "
            f"{maximum:g}, or another maximum"
        )
    return np.float32(maximum)


def _check_ids(ids: ArrayLike | None, rows: int) -> np.ndarray:
    numbers = np.arange(rows) if ids is None else np.asarray(ids)
    if numbers.shape != (rows,) or numbers.dtype.kind not in "iu":
        raise InputError(
            f"ids has shape {numbers.shape} and type {numbers.dtype}; "
            f"give one whole number for each of the {rows} images"
        )
    if rows and not 0 <= numbers.min() <= numbers.max() < 2**32:
        raise InputError(
            f"ids goes from {numbers.min()} to {numbers.max()}; give numbers from 0 to 2**32 - 1"
        )
    return numbers.astype(np.uint32)


def _check_severity(severity: int) -> int:
    if severity not in (0, *SEVERITIES):
        raise InputError(f"severity is {severity}; give 1 to 5, or 0 for clean images")
    return int(severity)


def _check_pictures(x: np.ndarray, record: Corruption) -> None:
    if x.ndim != 4 or 0 in x.shape[1:]:
        raise InputError(f"x has shape {x.shape}; give images [rows, height, width, channels]")
    if min(x.shape[1:3]) < 4:
        raise InputError(
            f"x has images of {x.shape[1]} by {x.shape[2]} pixels; give at least 4 by 4"
        )
    if record.coloured and x.shape[-1] == 1:
        raise InputError(
            f"{record.name} changes colours and x has one channel; leave this corruption out"
        )


def _records(
    kinds: str | Corruption | Iterable[str | Corruption], shape: tuple[int, ...]
) -> list[Corruption]:
    if isinstance(kinds, str) and kinds in registry.SUITES:
        suite = [registry.describe(name) for name in registry.names(kinds)]
        return [record for record in suite if not record.coloured or shape[-1] > 1]
    several = [kinds] if isinstance(kinds, str | Corruption) else kinds
    return [registry.describe(kind) if isinstance(kind, str) else kind for kind in several]
