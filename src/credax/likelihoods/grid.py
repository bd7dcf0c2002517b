"""One target per position of a grid: pixels of a picture, points in time, voxels of a volume."""

import math
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credax.errors import InputError
from credax.likelihoods.base import Likelihood
from credax.network import Network
from credax.prediction import Prediction

_OWN_COLUMNS = 16


class PerPixel(Likelihood):
    """Any likelihood at every position of a grid, such as the pixels of a picture.

    Outputs are ``[rows, height, width, channels]`` and targets ``[rows, height, width]``, with a
    last axis where a pixel has several. A row's log-density is

    ``log p(y | outputs) = (n / P) Σ_p w_p log p(y_p | outputs_p)``

    over its ``P`` pixels, with ``n = observations``: by default 1, so that a picture counts as
    one observation, the mean loss is the usual mean over pixels, and a learning rate does not
    depend on the size. Pixels of one picture depend on each other, so the posterior of ``n = P``
    (``observations=None``, independent pixels) is far too narrow.

    Pixels whose label is ``ignore_label``, or whose target is NaN in a regression, have ``w_p = 0``
    and change nothing, whatever ``P``. With ``weighted`` the last axis of ``y`` holds the targets
    followed by the weight ``w_p`` (not negative; the target where it is 0 may be anything).
    ``axes`` is the number of axes of the grid: 1 for sequences, 3 for volumes. Costs what the
    likelihood costs for ``rows x P`` rows.

    >>> from credax.likelihood import Categorical
    >>> y = jnp.array([[[2, 255]]])
    >>> pixels = PerPixel(Categorical(), ignore_label=255)
    >>> float(pixels.log_prob(jnp.zeros((1, 1, 2, 4)), y)[0])  # log(1/4) over two pixels
    -0.6931471824645996
    """

    likelihood: Likelihood
    ignore_label: int | None = eqx.field(default=None, static=True)
    weighted: bool = eqx.field(default=False, static=True)
    observations: float | None = eqx.field(default=1.0, static=True)
    axes: int = eqx.field(default=2, static=True)

    def __check_init__(self):
        if not isinstance(self.likelihood, Likelihood) or isinstance(self.likelihood, PerPixel):
            raise InputError(
                f"likelihood is {self.likelihood!r:.60}; give that of one pixel, such as "
                "Categorical()"
            )
        if self.observations is not None and not 0 < self.observations < math.inf:
            raise InputError(
                f"observations is {self.observations}; give a positive number, or None for one "
                "per pixel"
            )
        if self.axes < 1:
            raise InputError(f"axes is {self.axes}; a grid has at least one")

    # What the likelihood of one pixel says; class variables there, so properties here.

    @property
    def task(self) -> Literal["classification", "regression"]:  # pyright: ignore
        """Whether a pixel has a class or numbers."""
        return self.likelihood.task

    @property
    def raw_targets(self) -> bool:  # pyright: ignore
        """Weights beside targets must stay as they are."""
        return self.weighted or self.likelihood.raw_targets

    @property
    def no_posterior(self) -> str | None:  # pyright: ignore
        """As for one pixel."""
        return self.likelihood.no_posterior

    @property
    def has_logits(self) -> bool:  # pyright: ignore
        """As for one pixel."""
        return self.likelihood.has_logits

    @property
    def grid_axes(self) -> int:
        """The axes between rows and channels."""
        return self.axes

    @property
    def outside(self) -> float | None:
        """The label to ignore, NaN in a regression, a weight of 0 where there are weights."""
        if self.weighted:
            return 0.0
        return math.nan if self.task == "regression" else self.ignore_label

    @property
    def learns(self) -> bool:
        """As for one pixel."""
        return self.likelihood.learns

    def num_outputs(self, targets: int) -> int:
        """Channels for so many classes or targets of a pixel."""
        return self.likelihood.num_outputs(targets)

    def num_targets(self, outputs: int) -> int:
        """Targets of a pixel."""
        return self.likelihood.num_targets(outputs)

    def traced(self) -> "PerPixel":
        """With arrays for the numbers of the likelihood."""
        return eqx.tree_at(lambda p: p.likelihood, self, self.likelihood.traced())

    def adapt(self, network: Network) -> Network:
        """With the parameters that the likelihood of a pixel learns, shared by all pixels."""
        return self.likelihood.adapt(network)

    def all_outputs(self, params, outputs):
        """As for one pixel."""
        return self.likelihood.all_outputs(params, outputs)

    def network_outputs(self, outputs):
        """As for one pixel."""
        return self.likelihood.network_outputs(outputs)

    def with_floor(self, outputs, floor):
        """As for one pixel."""
        return self.likelihood.with_floor(outputs, floor)

    # What a grid is.

    def log_prob(self, outputs: Float[Array, "batch *grid channels"], y: Array) -> Array:
        """Log-density of each row: the weighted sum over its pixels."""
        each, weight = self._pixels(outputs, y)
        return self._scale(each.shape[1]) * jnp.sum(jnp.where(weight > 0, weight * each, 0), 1)

    def predict(self, outputs: Float[Array, "members batch *grid channels"]) -> Prediction:
        """The mixture at every pixel."""
        return self.likelihood.predict(outputs)

    def check_shapes(self, y: np.ndarray, shape: tuple[int, ...]) -> None:
        """A grid of outputs, a target for every position of it, and one that counts."""
        if len(shape) != 2 + self.axes or shape[0] != 1:
            raise InputError(
                f"the network gives outputs of shape {shape} for one row; PerPixel needs "
                f"[rows, {self.axes} axes of the grid, channels]: use a network such as UNet, or "
                "leave PerPixel out"
            )
        grid = shape[1:-1]
        if y.shape[1 : 1 + self.axes] != grid:
            raise InputError(
                f"y has shape {y.shape} and the network gives a grid of {grid} per row; targets "
                "need the size of the pictures"
            )
        counted = self.counted(y)
        if not len(counted):
            raise InputError(
                f"y has no pixel that counts: all {math.prod(y.shape[: 1 + self.axes])} are "
                "ignored; check ignore_label and the masks"
            )
        self.likelihood.check(counted, shape[-1])

    def counted(self, y: np.ndarray) -> np.ndarray:
        """The targets of the pixels that count, pixel after pixel."""
        y, weight = self._split(y, np)
        pixels = y.reshape(-1, *y.shape[1 + self.axes :])
        return pixels[weight.reshape(-1) > 0]

    def compared(self, outputs, *, raw):
        """What is compared at a pixel, of all pixels of a row in one vector."""
        each = self.likelihood.compared(outputs, raw=raw)
        return each.reshape(*each.shape[: -1 - self.axes], -1)

    def centres(self, outputs, y):
        """The sum over counted pixels of what is the centre there, such as the label's logit."""
        rows = outputs.shape[0]
        y, weight = self._split(y, jnp)
        pixels = y.reshape(-1, *y.shape[1 + self.axes :])
        each = self.likelihood.centres(outputs.reshape(-1, outputs.shape[-1]), pixels)
        each = each.reshape(rows, -1, each.shape[-1])
        weight = weight.reshape(rows, -1, 1)
        return jnp.sum(jnp.where(weight > 0, weight * each, 0), axis=1)

    def curvature_root(self, params, outputs, y):
        """``S`` of all pixels of a row: outputs ``[pixels x channels]``, a block for each pixel.

        Of at most 16 pixels the blocks have columns of their own. Of more they share them, each
        with a random sign: ``E[S Sᵀ]`` is the curvature, and the Kronecker factors of the last
        layer, which sees one pixel at a time, are exact.
        """
        targets, weight = self._split(jnp.asarray(y)[None], jnp)
        weight = weight.reshape(-1)
        pixels, outputs = len(weight), outputs.reshape(len(weight), -1)
        targets = targets.reshape(pixels, *targets.shape[1 + self.axes :])
        blocks = jax.vmap(lambda o, t: self.likelihood.curvature_root(params, o, t))(
            outputs, targets
        )
        blocks = blocks * jnp.sqrt(self._scale(pixels) * weight)[:, None, None].astype(blocks.dtype)
        channels, columns = blocks.shape[1:]
        if pixels <= _OWN_COLUMNS:
            own = jnp.eye(pixels, dtype=blocks.dtype)[:, None, :, None] * blocks[:, :, None, :]
            return own.reshape(pixels * channels, pixels * columns)
        # Another sign in every row, so that their errors cancel.
        number = jax.lax.bitcast_convert_type(jnp.sum(outputs).astype(jnp.float32), jnp.uint32)
        key = jax.random.fold_in(jax.random.key(0), number)
        signs = jax.random.rademacher(key, (pixels, 1, 1), blocks.dtype)
        return (signs * blocks).reshape(pixels * channels, columns)

    def _pixels(self, outputs: Array, y: Array) -> tuple[Array, Array]:
        """Log-densities and weights, ``[rows, pixels]``."""
        rows = outputs.shape[0]
        y, weight = self._split(y, jnp)
        pixels = y.reshape(-1, *y.shape[1 + self.axes :])
        each = self.likelihood.log_prob(outputs.reshape(-1, outputs.shape[-1]), pixels)
        return each.reshape(rows, -1), weight.reshape(rows, -1)

    def _split(self, y: Any, xp: Any) -> tuple[Any, Any]:
        """Targets, 0 where they do not count, and weights ``[rows, *grid]``."""
        y = xp.asarray(y)
        weight = xp.ones(y.shape[: 1 + self.axes], y.dtype if y.dtype.kind == "f" else xp.float32)
        if self.weighted:
            y, weight = y[..., :-1], y[..., -1]
            y = y[..., 0] if y.shape[-1] == 1 else y
            weight = xp.where(xp.isfinite(weight), weight, 0)
            if self.task == "classification":
                y = xp.where(weight > 0, y, 0).astype(xp.int32)
        counts = weight > 0
        if self.ignore_label is not None:
            counts &= y != self.ignore_label
        if y.dtype.kind == "f":
            missing = xp.isnan(y)
            counts &= ~(missing.any(-1) if y.ndim > 1 + self.axes else missing)
        whole = counts[..., None] if y.ndim > 1 + self.axes else counts
        return xp.where(whole, y, xp.zeros_like(y)), xp.where(counts, weight, 0)

    def _scale(self, pixels: int) -> float:
        return 1.0 if self.observations is None else self.observations / pixels


def pixel_weights(y: Any, weight: Any) -> np.ndarray:
    """Targets ``[rows, *grid]`` or ``[rows, *grid, targets]`` with a weight for each pixel.

    What ``PerPixel(..., weighted=True)`` takes: the weight is the last entry of the last axis.

    >>> pixel_weights(np.array([[[1, 2]]]), np.array([[[1.0, 0.5]]])).tolist()
    [[[[1.0, 1.0], [2.0, 0.5]]]]
    """
    y, weight = np.asarray(y), np.asarray(weight, np.float32)
    y = y[..., None] if y.ndim == weight.ndim else y
    if y.shape[:-1] != weight.shape:
        raise InputError(
            f"weight has shape {weight.shape} and y {y.shape}; give one weight per pixel"
        )
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise InputError("weight holds a number that is negative or not finite; weights are >= 0")
    return np.concatenate([y.astype(np.float32), weight[..., None]], axis=-1)


def refuse_grid(likelihood: Likelihood, title: str) -> None:
    """Raise an error if a method that sees one vector of outputs per row is given a grid."""
    if likelihood.grid_axes:
        raise InputError(
            f"likelihood is {type(likelihood).__name__} and the outputs lie on a grid; {title} "
            "needs one vector of outputs per row: use an ensemble, MC dropout, SWAG or Laplace"
        )
