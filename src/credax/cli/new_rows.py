"""New inputs for a run: tables by the names of their columns, pictures, arrays."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from credax.errors import InputError
from credax.reading import check_numbers, read_npy, read_npz

ARRAYS = (".npy", ".npz")


class NewRows(NamedTuple):
    """Inputs, the columns that say which row is which, and what is unusual about each row.

    ``flags`` are None where nothing is known of the training rows' values.
    """

    x: np.ndarray
    names: dict[str, np.ndarray]
    flags: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()


def new_rows(inputs: Sequence[str], about: Any, prepared: Any, keep: Sequence[str] = ()) -> NewRows:
    """The inputs that a user names, as the run's network takes them."""
    from credax.data.columns import Columns
    from credax.data.pictures import Pictures
    from credax.data.pixel_form import PixelForm
    from credax.data.tabular import TABLES

    if not inputs:
        raise InputError("input is missing; name a file or a folder after the run")
    paths = [Path(given) for given in inputs]
    for path in paths:
        if not path.exists():
            raise InputError(f"input is {path}, which does not exist")
    first = paths[0]
    prepared = prepared.pictures if isinstance(prepared, PixelForm) else prepared
    arrays = first.suffix.lower() in ARRAYS and not first.is_dir()
    if isinstance(prepared, Pictures) and not arrays:
        if keep:
            raise InputError("keep names columns, and the inputs are pictures; leave it out")
        return _pictures(paths, prepared)
    if len(paths) > 1:
        raise InputError(
            f"input names {len(paths)} files; the run was not trained on a folder of pictures, so "
            "give one file"
        )
    if first.is_dir():
        raise InputError(
            f"input is {first}, a folder, and the run was not trained on one; give a table, .npy "
            "or .npz file"
        )
    if isinstance(prepared, Columns) and first.suffix.lower() in TABLES:
        return _table(first, prepared, keep)
    if keep:
        raise InputError(f"keep is given and {first} has no columns that the run knows by name")
    x, unused = read_inputs(first, about)
    notes = (f"columns not used: {', '.join(unused)}",) if unused else ()
    return NewRows(x, _numbered(len(x)), None, notes)


def _numbered(rows: int) -> dict[str, np.ndarray]:
    return {"row": np.arange(1, rows + 1)}


def _table(path: Path, columns: Any, keep: Sequence[str]) -> NewRows:
    from credax.data.columns import flag_sentence
    from credax.data.tabular import read_frame

    frame = read_frame(path, (*columns.names, *keep), exact=keep)
    encoded = columns.encode(frame)
    names = _numbered(len(frame))
    for name in keep:
        names[name if name not in names else f"kept_{name}"] = np.array(frame[name].texts())
    told = (*columns.names, *keep, *columns.targets, *columns.ignored)
    unused = [name for name in frame.passed_over if name not in told]
    notes = [f"columns not used: {', '.join(unused)}"] if unused else []
    if odd := flag_sentence(frame, encoded.flags):
        notes.append(f"credax: warning: {odd}")
    return NewRows(encoded.x, names, tuple("; ".join(f) for f in encoded.flags), tuple(notes))


def _pictures(paths: list[Path], pictures: Any) -> NewRows:
    from credax.data.folder import pictures_below
    from credax.data.pictures import sentence

    found: list[Path] = []
    for path in paths:
        found += pictures_below(path) if path.is_dir() else [path]
    if not found:
        raise InputError(f"{paths[0]} holds no .png, .jpg, .webp or .bmp files")
    read = pictures.read(found)
    if not read.paths:
        raise InputError(f"{sentence(read.damaged, len(found))}; none is left")
    notes = (f"credax: warning: {sentence(read.damaged, len(found))}",) if read.damaged else ()
    return NewRows(read.x, {"path": np.array([str(path) for path in read.paths])}, None, notes)


def read_inputs(path: Path, about: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """Inputs of the run's columns or shape, and the names of columns that are not used."""
    if not path.exists():
        raise InputError(f"input is {path}, which does not exist")
    if path.suffix.lower() in (".csv", ".tsv"):
        from credax.data import table

        if len(about.input_shape) != 1:
            raise InputError(
                f"input is {path}, a table, and the run takes inputs of shape "
                f"{about.input_shape}; give them as .npy or .npz"
            )
        return table.read_inputs(path, about.feature_names, about.input_shape[0])
    if path.suffix.lower() not in ARRAYS:
        raise InputError(f"input is {path}; give a .csv, .tsv, .npy or .npz file")
    return _shaped(_read_array(path), about, path), ()


def _read_array(path: Path) -> np.ndarray:
    remedy = f"is it a {path.suffix} file?"
    if path.suffix.lower() == ".npy":
        return check_numbers(read_npy(path, remedy=remedy), path)
    arrays = read_npz(path, problem="cannot be read", remedy=remedy)
    if "x" not in arrays:
        raise InputError(f"{path} has no array x; it has {', '.join(arrays) or 'none'}")
    return check_numbers(arrays["x"], path)


def _shaped(x: np.ndarray, about: Any, path: Path) -> np.ndarray:
    """Rows of the run's shape; flat rows and images without their one channel will do."""
    shape = tuple(about.input_shape)
    size = int(np.prod(shape, dtype=int))
    flat = x.ndim == 2 and x.shape[1] == size
    bare = len(shape) > 1 and shape[-1] == 1 and x.shape[1:] == shape[:-1]
    if x.ndim == 0 or not (x.shape[1:] == shape or flat or bare) or len(x) == 0:
        raise InputError(
            f"{path} holds an array of shape {x.shape}; the run takes rows of shape {shape}, so "
            f"give [rows, {', '.join(map(str, shape))}]"
        )
    if x.dtype.kind not in "biuf":
        raise InputError(f"{path} holds {x.dtype}; give numbers")
    if about.input_dtype == "uint8" and x.dtype.kind == "f" and x.min() >= 0 and x.max() <= 1:
        print(
            f"credax: warning: {path} lies between 0 and 1 and the run was trained on bytes from 0 "
            "to 255; multiply by 255 if these are the same images",
            file=sys.stderr,
        )
    return x.reshape(len(x), *shape)
