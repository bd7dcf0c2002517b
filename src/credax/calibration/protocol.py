"""What every calibrator is, and the warning they share."""

from typing import Any, Literal, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from credax.errors import InputError

ApplyTo = Literal["members", "mixture"]


class CalibrationWarning(UserWarning):
    """A calibrator was fitted, but its data could not determine it well; the message says why."""


@runtime_checkable
class Fitted(Protocol):
    """A fitted calibrator: a frozen record of arrays that maps a prediction to a better one.

    Conformal calibrators return prediction sets or intervals instead. Any fitted calibrator is
    saved by `credax.calibration.save` and read back by `credax.calibration.load`.
    """

    def __call__(self, prediction: Any) -> Any:
        """The calibrated prediction (or the sets or intervals) of new rows."""
        ...


@runtime_checkable
class Calibrator(Protocol):
    """A frozen record of settings whose `fit` learns a map from rows of its own.

    The rows must be neither those the network was trained on nor those it is evaluated on:
    `credax.calibration.refuse_training_rows` checks it.
    """

    def fit(self, prediction: Any, y: Any, *, key: Any = None) -> Fitted:
        """Learn the map from a prediction of rows and their labels or targets ``y``."""
        ...


def as_apply_to(apply_to: Any) -> ApplyTo:
    """``apply_to`` if it is one of the two allowed words."""
    if apply_to not in ("members", "mixture"):
        raise InputError(f"apply_to is {apply_to!r}; give 'members' or 'mixture'")
    return apply_to


def as_key(key: Any):
    """A typed key from a key or a whole number."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return jax.random.key(int(key))
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key
    raise InputError(f"key is {key!r}; give a whole number or jax.random.key(0)")


def generator(key: Any) -> np.random.Generator:
    """A host generator seeded by a key; no key means key 0, so that equal calls agree."""
    data = jax.random.key_data(as_key(0 if key is None else key))
    return np.random.default_rng(np.asarray(data).ravel().tolist())
