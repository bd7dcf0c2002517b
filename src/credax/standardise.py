"""An affine change of units, kept with the model so that users pass and receive raw units."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float


def _float32(a: ArrayLike) -> np.ndarray:
    return np.asarray(a, np.float32)


class Standardise(eqx.Module):
    """``(x - mean) / scale``: raw pixels or targets to the units a network is trained in.

    ``mean`` and ``scale`` broadcast against the trailing axes of ``x`` (one number, one a channel,
    one a feature). Integer pixels stay integers in memory and become floats here, batch by batch.

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


def _float_dtype(x):
    dtype = jnp.result_type(x)
    return dtype if jnp.issubdtype(dtype, jnp.floating) else jnp.float32
