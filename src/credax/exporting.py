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

ONNX = ".onnx"
PLATFORMS = ("cpu", "cuda", "tpu")
"""Where the program runs by default."""
KNOWN = ("cpu", "cuda", "rocm", "tpu")


def export(
    posterior: "Posterior",
    path: str | Path,
    *,
    platforms: Sequence[str] = PLATFORMS,
    batch_size: int | None = None,
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

    A path that ends in ``.onnx`` is written by jax2onnx (extra ``onnx``) for any ONNX runtime.
    Networks with convolutions, and regression, need a ``batch_size`` there.

    Args:
        posterior: what `credax.fit` or `credax.load` returned.
        path: the file to write; it must not exist.
        platforms: any of "cpu", "cuda", "rocm", "tpu"; ONNX has none.
        batch_size: rows of every call; None is any number.
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

    example = _example(posterior, batch_size)
    onnx = path.suffix == ONNX
    content = {
        "format": "onnx" if onnx else "jax.export",
        "jax": jax.__version__,
        "platforms": [] if onnx else list(platforms),
        "input": _shape(example),
        "outputs": {n: _shape(value) for n, value in jax.eval_shape(summary, example).items()},
        "members": posterior.num_members,
        **(description or {}),
    }
    written = _onnx(summary, example) if onnx else _stable_hlo(summary, example, platforms)
    write_atomic(path, written)
    write_atomic(_beside(path), json.dumps(content, indent=2) + "\n")
    return path


def _example(posterior: Any, batch_size: int | None) -> jax.ShapeDtypeStruct:
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size is {batch_size}; give at least 1, or leave it out for any")
    rows = "batch" if batch_size is None else str(batch_size)
    shape = jax_export.symbolic_shape(", ".join((rows, *map(str, posterior.input_shape))))
    dtype = jax.dtypes.canonicalize_dtype(np.dtype(posterior.input_dtype))
    return jax.ShapeDtypeStruct(shape, dtype)


def _stable_hlo(function: Any, example: Any, platforms: Sequence[str]) -> bytes:
    program = jax_export.export(jax.jit(function), platforms=tuple(platforms))(example)
    try:
        return bytes(program.serialize())
    except ImportError as error:
        raise MissingExtra("flatbuffers", "export", "writing an exported program") from error


def _onnx(function: Any, example: Any) -> bytes:
    try:
        from jax2onnx import to_onnx  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtra("jax2onnx", "onnx", "writing an .onnx file") from error
    names = sorted(jax.eval_shape(function, example))
    rows = [size if isinstance(size, int) else "B" for size in example.shape]
    given = [jax.ShapeDtypeStruct(tuple(rows), example.dtype)] if rows[0] != "B" else [tuple(rows)]

    def in_order(x):
        found = function(x)
        return tuple(found[name] for name in names)

    try:
        model = to_onnx(in_order, given, input_names=["x"], output_names=names)
    except Exception as error:  # the converter raises whatever its rules meet
        raise InputError(
            f"jax2onnx cannot convert this posterior ({type(error).__name__}: "
            f"{str(error).strip().splitlines()[0]}); give a batch_size, or export to another "
            "ending, which jax itself writes"
        ) from error
    return model.SerializeToString()


def _beside(path: Path) -> Path:
    return path.with_suffix(".json")


def _shape(value: Any) -> dict[str, Any]:
    return {
        "shape": [size if isinstance(size, int) else str(size) for size in value.shape],
        "dtype": str(value.dtype),
    }
