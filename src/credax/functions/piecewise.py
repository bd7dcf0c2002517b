"""Implicit processes of broken lines: piecewise constant and piecewise linear functions."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from credax.errors import InputError
from credax.functions.implicit import ImplicitProcess


class PiecewiseConstant(ImplicitProcess):
    """Steps: a Poisson number of jumps at uniform places, heights of ``N(0, scale²)``.

    The function is one of the sum of the columns, as a random direction has it, so that it is
    defined for any number of them. Sun et al. 2019 use such priors on a line.

    >>> import numpy as np
    >>> PiecewiseConstant().functions(0, 3, np.zeros((4, 1), np.float32)).shape
    (3, 4, 1)
    """

    outputs: int = eqx.field(default=1, static=True)
    jumps: float = 3.0
    """Expected number of jumps."""
    reach: float = 3.0
    """Jumps lie in ``[-reach, reach]``, in standard units."""
    scale: float = 1.0
    """Standard deviation of the heights."""
    most: int = eqx.field(default=20, static=True)
    """Places that are kept: a larger number of jumps is cut."""

    def __check_init__(self):
        check_pieces(self.outputs, self.jumps, self.reach, self.scale, self.most)

    def at(self, key: Key[Array, ""], x: Array):
        """The height of the piece in which a point lies."""
        place, heights = pieces(key, self, x)
        position, knots = place
        piece = jnp.sum(position[:, None] > knots, axis=1)
        return self.scale * heights[piece]


class PiecewiseLinear(ImplicitProcess):
    """Broken lines: a Poisson number of knots at uniform places, values of ``N(0, scale²)``.

    Between knots the function is linear, beyond the last ones it is constant.
    """

    outputs: int = eqx.field(default=1, static=True)
    jumps: float = 3.0
    """Expected number of knots between the ends."""
    reach: float = 3.0
    """Knots lie in ``[-reach, reach]``, in standard units."""
    scale: float = 1.0
    """Standard deviation of the values at knots."""
    most: int = eqx.field(default=20, static=True)
    """Knots that are kept: a larger number is cut."""

    def __check_init__(self):
        check_pieces(self.outputs, self.jumps, self.reach, self.scale, self.most)

    def at(self, key: Key[Array, ""], x: Array):
        """Linear between the knots, with one at each end."""
        (position, knots), heights = pieces(key, self, x)
        # Knots that are not there lie beyond the right end, where all have the last one's value.
        ends = jnp.concatenate([jnp.array([-self.reach], x.dtype), jnp.sort(knots)])
        last = jnp.sum(knots < self.reach)
        own = heights[jnp.minimum(jnp.arange(len(ends)), last + 1)]
        ends = jnp.append(jnp.minimum(ends, self.reach), self.reach)
        own = jnp.concatenate([own, own[-1:]])
        line = jax.vmap(lambda v: jnp.interp(position, ends, v), in_axes=1, out_axes=1)
        return self.scale * line(own)


def pieces(key: Key[Array, ""], process, x: Array):
    """The position of every point and the knots, and heights of the pieces, of one key."""
    number, places, values, direction = jax.random.split(key, 4)
    count = jax.random.poisson(number, process.jumps)
    knots = jax.random.uniform(
        places, (process.most,), x.dtype, minval=-process.reach, maxval=process.reach
    )
    knots = jnp.where(jnp.arange(process.most) < count, knots, 1e9)
    rows = x.reshape(len(x), -1)
    axis = jax.random.normal(direction, rows.shape[1:], x.dtype)
    # On a line the direction is the axis itself.
    axis = jnp.ones_like(axis) if rows.shape[1] == 1 else axis / jnp.linalg.norm(axis)
    heights = jax.random.normal(values, (process.most + 2, process.outputs), x.dtype)
    return (rows @ axis, knots), heights


def check_pieces(outputs: int, jumps: float, reach: float, scale: float, most: int) -> None:
    """Raise an error if these do not describe broken lines."""
    for name, value, least in (("outputs", outputs, 1), ("most", most, 1)):
        if value < least:
            raise InputError(f"{name} is {value}; it is at least {least}")
    for name, value in (("jumps", jumps), ("reach", reach), ("scale", scale)):
        if not value > 0:
            raise InputError(f"{name} is {value}; give a positive number")
