"""What the loop writes down: numbers of each member, and which members are finite."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def entries(name: str, value: np.ndarray, alive: np.ndarray) -> dict[str, Any]:
    """A recorded quantity: one number per member gives mean and list, others stay as they are."""
    if value.size != alive.size or value.ndim > 2:
        return {name: json.loads(json.dumps(value.tolist()), parse_constant=lambda _: None)}
    flat = value.reshape(-1)
    return {
        name: number(flat[alive].mean()),
        f"member_{name}": [number(entry) for entry in flat],
    }


def number(value: Any) -> float | None:
    """A finite number, else None: JSON has no NaN."""
    return float(value) if np.isfinite(value) else None


def finite_members(variables: Any) -> np.ndarray:
    """Which members have finite numbers only."""
    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(variables)]
    checks = [_finite(array).reshape(len(array), -1).all(1) for array in arrays]
    return np.asarray(np.stack(checks).all(0))


def _finite(array: np.ndarray) -> np.ndarray:
    # NumPy alone does not know what is finite among the small types of accelerators.
    return np.isfinite(array) if array.dtype.kind in "biufc" else np.asarray(jnp.isfinite(array))
