"""An affine change of units, kept with the model so that users pass and receive raw units."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from credax.errors import DamagedFile
from credax.reading import check_record
from credax.reading.records import NUMBERS, maybe, record

_UNIT = maybe(record({"mean": NUMBERS, "scale": NUMBERS}))


def _float32(a: ArrayLike) -> np.ndarray:
    return np.asarray(a, np.float32)


class Standardise(eqx.Module):
    """``(x - mean) / scale``: raw pixels or targets to the units a network is trained in.

    ``mean`` and ``scale`` broadcast against the trailing axes of ``x`` (one number, one per
    channel, one per feature). Integer pixels stay integers in memory and become floats here, batch
    by batch.

    >>> Standardise.of(np.array([[0.0, 2.0], [2.0, 6.0]]))(np.array([[1.0, 8.0]])).tolist()
    [[0.0, 2.0]]
    """

    mean: Float[np.ndarray | Array, "..."] = eqx.field(converter=_float32)
    scale: Float[np.ndarray | Array, "..."] = eqx.field(converter=_float32)

    @classmethod
    def of(cls, x: np.ndarray, axis: int | tuple[int, ...] = 0) -> "Standardise":
        """Mean and standard deviation of ``x`` over ``axis``; a constant column keeps scale one."""
        deviation = np.std(x, axis=axis, dtype=np.float64)
        return cls(np.mean(x, axis=axis, dtype=np.float64), np.where(deviation > 0, deviation, 1.0))

    def __call__(self, x):
        """Raw units to standard units."""
        return (jnp.asarray(x, _float_dtype(x)) - self.mean) / self.scale

    def inverse(self, z):
        """Standard units to raw units."""
        return z * self.scale + self.mean

    def same_as(self, other: "Standardise") -> bool:
        """Whether both give the same numbers."""
        return np.array_equal(self.mean, other.mean) and np.array_equal(self.scale, other.scale)

    def to_lists(self) -> dict[str, list]:
        """Plain numbers for a JSON header; ``Standardise(**lists)`` gives it back exactly."""
        return {"mean": np.asarray(self.mean).tolist(), "scale": np.asarray(self.scale).tolist()}


def check_units(units: Any, input_shape: tuple[int, ...], where: Any) -> None:
    """Refuse units read from a file that do not fit inputs of a shape, or are not finite."""
    check_record(units, {"inputs": _UNIT, "targets": _UNIT}, f"{where}, units,")
    for name, unit in units.items():
        if unit is None:
            continue
        try:
            with np.errstate(over="ignore", under="ignore"):
                mean, scale = _float32(unit["mean"]), _float32(unit["scale"])
            shape = np.broadcast_shapes(mean.shape, scale.shape)
            whole = shape[:1] if name == "targets" else input_shape
            fits = np.broadcast_shapes(shape, whole) == whole
        except ValueError:  # lists of different lengths
            fits = False
        else:
            fits &= bool(np.isfinite(mean).all() and np.isfinite(scale).all() and (scale > 0).all())
        if not fits:
            raise DamagedFile(
                f"{where} has units of {name} that do not fit, or are not finite and positive; "
                "restore it from a copy"
            )


def _float_dtype(x):
    dtype = jnp.result_type(x)
    return dtype if jnp.issubdtype(dtype, jnp.floating) else jnp.float32
