"""A posterior as one compiled program that plain jax loads: for servers without credax."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import export as jax_export

from credax.errors import InputError, MissingExtra
from credax.files import write_atomic

if TYPE_CHECKING:
    from credax.posterior import Posterior

PLATFORMS = ("cpu", "cuda", "tpu")
"""Where the program runs by default."""
KNOWN = ("cpu", "cuda", "rocm", "tpu")


def export(
    posterior: "Posterior",
    path: str | Path,
    *,
    platforms: Sequence[str] = PLATFORMS,
    transform: Callable[[Any], Any] | None = None,
    description: dict[str, Any] | None = None,
) -> Path:
    """Write a posterior's prediction as StableHLO, weights and units inside; returns the path.

    The program takes raw inputs ``[batch, ...]`` of any number of rows and returns a dictionary of
    arrays, the prediction's `summary`. It is read back with jax alone, no credax::

        program = jax.export.deserialize(pathlib.Path("model.export").read_bytes())
        jax.jit(program.call)(x)["probs"]

    Beside it a file of the same name ending in ``.json`` says what goes in and what comes out.
    jax keeps such files readable for six months. ``transform`` maps the prediction before it is
    summarised, such as a calibrator.

    Args:
        posterior: what `credax.fit` or `credax.load` returned.
        path: the file to write; it must not exist.
        platforms: any of "cpu", "cuda", "rocm", "tpu".
        transform: a traceable function of the prediction.
        description: more entries for the ``.json`` file, such as class names.
    """
    path = Path(path)
    if path.suffix == ".json":
        raise InputError(
            f"path is {path}; give another ending, such as .export: a .json describes it"
        )
    for file in (path, _beside(path)):
        if file.exists():
            raise InputError(f"path is {file}, which exists; choose another name or remove it")
    if not platforms or not {*platforms} <= {*KNOWN}:
        raise InputError(f"platforms is {list(platforms)}; give some of {', '.join(KNOWN)}")
    function = posterior.predict_fn()

    def summary(x):
        prediction = function(x)
        return (prediction if transform is None else transform(prediction)).summary()

    program = _exported(summary, posterior, platforms)
    outputs = jax.tree.unflatten(program.out_tree, program.out_avals)
    content = {
        "format": "jax.export",
        "jax": jax.__version__,
        "platforms": list(program.platforms),
        "input": _shape(program.in_avals[0]),
        "outputs": {name: _shape(value) for name, value in outputs.items()},
        "members": posterior.num_members,
        **(description or {}),
    }
    write_atomic(path, _serialised(program))
    write_atomic(_beside(path), json.dumps(content, indent=2) + "\n")
    return path


def _exported(function: Any, posterior: Any, platforms: Sequence[str]) -> Any:
    shape = ("batch", *map(str, posterior.input_shape))
    dtype = jax.dtypes.canonicalize_dtype(np.dtype(posterior.input_dtype))
    row = jax.ShapeDtypeStruct(jax_export.symbolic_shape(", ".join(shape)), dtype)
    return jax_export.export(jax.jit(function), platforms=tuple(platforms))(row)


def _serialised(program: Any) -> bytes:
    try:
        return bytes(program.serialize())
    except ImportError as error:
        raise MissingExtra("flatbuffers", "export", "writing an exported program") from error


def _beside(path: Path) -> Path:
    return path.with_suffix(".json")


def _shape(value: Any) -> dict[str, Any]:
    return {
        "shape": [size if isinstance(size, int) else str(size) for size in value.shape],
        "dtype": str(value.dtype),
    }
