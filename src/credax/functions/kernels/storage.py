"""Kernels as plain data, by name and by value, so that a run's folder needs no code of its own."""

import dataclasses
import math
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from credax.errors import DamagedFile, InputError, unknown
from credax.functions.kernels import adapted, base, closed
from credax.functions.kernels.base import Kernel

KERNELS: dict[str, type[Kernel]] = {
    "rbf": closed.RBF,
    "matern12": closed.Matern12,
    "matern32": closed.Matern32,
    "matern52": closed.Matern52,
    "rational-quadratic": closed.RationalQuadratic,
    "periodic": closed.Periodic,
    "linear": closed.Linear,
    "constant": closed.Constant,
    "white": closed.White,
    "sum": base.Sum,
    "product": base.Product,
}
NAMES = tuple(name for name in KERNELS if name not in ("sum", "product"))
"""What an expression may name."""
LAYERS = {
    "InfiniteDense": "layers",
    "Flatten": "layers",
    "LayerNorm": "layers",
    "Nonlinearity": "activations",
    "InfiniteConv": "spatial",
    "AveragePool": "spatial",
    "GlobalAveragePool": "spatial",
    "Serial": "net",
    "Sum": "net",
}
TINYGP = {
    **dict.fromkeys(("Sum", "Product", "Constant", "DotProduct", "Polynomial"), "kernels.base"),
    **dict.fromkeys(
        ("Exp", "ExpSquared", "Matern32", "Matern52", "Cosine", "ExpSineSquared"),
        "kernels.stationary",
    ),
    "RationalQuadratic": "kernels.stationary",
    "L1Distance": "kernels.distance",
    "L2Distance": "kernels.distance",
}


def named_kernel(expression: str, columns: int, ard: bool = True) -> Kernel:
    """A kernel from its name, or names with ``+`` and ``*``, for standardised inputs.

    Length-scales begin at ``√columns``, the size of a distance in standard units; with ``ard``
    there is one for each column.

    >>> type(named_kernel("rbf + linear", columns=3)).__name__
    'Sum'
    """
    total: Any = None
    for term in expression.split("+"):
        product: Any = None
        for name in term.split("*"):
            factor = _start(name.strip().lower(), columns, ard)
            product = factor if product is None else product * factor
        total = product if total is None else total + product
    return total


def _start(name: str, columns: int, ard: bool) -> Kernel:
    if name not in NAMES:
        raise unknown("kernel", name, NAMES)
    kind = KERNELS[name]
    each = np.ones(columns) if ard and columns > 1 else 1.0
    if issubclass(kind, closed.Stationary):
        return kind(lengthscale=each * math.sqrt(columns))
    if kind is closed.Periodic:
        return closed.Periodic(lengthscale=each, period=each)
    if kind is closed.Linear:
        return closed.Linear(variance=each / columns)
    # Noise that belongs to the function begins below the noise of the observations.
    return closed.White(0.1) if kind is closed.White else kind()


def to_data(kernel: Kernel) -> dict[str, Any]:
    """The kernel as JSON data; `from_data` gives it back to the bit."""
    if isinstance(kernel, adapted.InfiniteKernel):
        net = _record(kernel.net, LAYERS, "a layer of credax.infinite with a closed form")
        return {"name": "infinite", "net": net, "kind": kernel.kind, "shape": list(kernel.shape)}
    if isinstance(kernel, adapted.TinygpKernel):
        return {"name": "tinygp", "value": _record(kernel.inner, TINYGP, "a kernel of tinygp")}
    name = next((name for name, kind in KERNELS.items() if type(kernel) is kind), None)
    if name is None:
        raise InputError(
            f"the kernel {type(kernel).__name__} is not one of {', '.join(NAMES)}, so a run's "
            "folder cannot keep it; build it of those, by sums and products"
        )
    values = {f.name: getattr(kernel, f.name) for f in dataclasses.fields(kernel)}
    return {"name": name} | {
        field: to_data(value) if isinstance(value, Kernel) else np.asarray(value).tolist()
        for field, value in values.items()
    }


def from_data(data: Any, where: Any = "the kernel", depth: int = 16) -> Kernel:
    """What `to_data` wrote, or an error that the file is damaged."""
    if not isinstance(data, dict) or depth == 0:
        raise DamagedFile(f"{where} does not hold a kernel; restore it from a copy")
    name, fields = data.get("name"), {k: v for k, v in data.items() if k != "name"}
    try:
        if name == "infinite":
            net = _build(fields["net"], LAYERS, "credax.infinite")
            return adapted.InfiniteKernel(net, fields["kind"], tuple(fields["shape"]))
        if name == "tinygp":
            adapted.require_tinygp()
            return adapted.TinygpKernel(_build(fields["value"], TINYGP, "tinygp"))
        kind = KERNELS[name]  # pyright: ignore[reportArgumentType]
        if fields.keys() != {f.name for f in dataclasses.fields(kind)}:
            raise ValueError("fields")
        if kind in (base.Sum, base.Product):
            return kind(*(from_data(fields[n], where, depth - 1) for n in ("first", "second")))
        logs = {n: np.asarray(v, np.float64) for n, v in fields.items()}
        if not all(np.isfinite(v).all() and v.ndim <= 1 for v in logs.values()):
            raise ValueError("numbers")
        kernel = object.__new__(kind)
        for field, value in logs.items():
            object.__setattr__(kernel, field, value)
        return kernel
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, DamagedFile):
            raise
        raise DamagedFile(
            f"{where} holds a kernel {name!r:.40} that cannot be built ({error!s:.60}); restore it "
            "from a copy"
        ) from error


def _record(value: Any, known: dict[str, str], what: str) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_record(entry, known, what) for entry in value]
    if isinstance(value, np.ndarray | jax.Array):
        return {"array": np.asarray(value).tolist()}
    kind = type(value).__name__
    if kind not in known or not dataclasses.is_dataclass(value):
        raise InputError(
            f"the kernel holds a {kind}, which is not {what} that a run's folder can keep; use one "
            f"of {', '.join(sorted(known))}"
        )
    fields = dataclasses.fields(value)
    return {"class": kind} | {
        f.name: _record(getattr(value, f.name), known, what) for f in fields if f.init
    }


def _build(data: Any, known: dict[str, str], package: str, depth: int = 32) -> Any:
    if depth == 0:
        raise ValueError("nested too deep")
    if isinstance(data, list):
        return tuple(_build(entry, known, package, depth - 1) for entry in data)
    if not isinstance(data, dict):
        return data
    if data.keys() == {"array"}:
        return jnp.asarray(np.asarray(data["array"], np.float64))
    kind = getattr(import_module(f"{package}.{known[data['class']]}"), data["class"])
    fields = {k: _build(v, known, package, depth - 1) for k, v in data.items() if k != "class"}
    return kind(**fields)
