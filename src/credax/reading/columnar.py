"""Parquet and feather files by pyarrow, bounded before they are expanded."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from credax.errors import DamagedFile, InputError, MissingExtra
from credax.reading.regular import damage, open_regular, read_bytes

MOST_CELLS = 2**28
"""Rows times columns: run-length coding can declare any number of rows in a few bytes."""


def read_columnar(path: str | os.PathLike[str]) -> Any:
    """A ``.parquet`` or ``.feather`` file as a ``pyarrow.Table``."""
    path = Path(path)
    try:
        from pyarrow import BufferReader, feather, parquet
    except ImportError:
        raise MissingExtra("pyarrow", "data", f"reading {path.suffix} files") from None
    source = BufferReader(read_bytes(path))
    problem = f"is not a readable {path.suffix} file"
    try:
        with damage(path, "write it again", problem=problem):
            if path.suffix.lower() == ".parquet":
                file = parquet.ParquetFile(source)
                _check(path, file.metadata.num_rows, file.metadata.num_columns)
                table = file.read(use_threads=False)
            else:
                table = feather.read_table(source, use_threads=False)
                _check(path, table.num_rows, table.num_columns)
            table.validate(full=True)  # offsets may point outside the file
            return table
    except DamagedFile as error:
        if not isinstance(error.__cause__, MemoryError):
            raise
    # A damaged length: nothing was allocated, so memory is not what is short.
    raise DamagedFile(f"{path} {problem} (a length is too large); write it again")


def _check(path: Path, rows: int, columns: int) -> None:
    if rows * columns > MOST_CELLS:
        raise InputError(
            f"{path} has {rows} rows of {columns} columns; at most {MOST_CELLS} cells are read"
        )


Batches = Iterator[dict[str, np.ndarray]]


@contextmanager
def column_batches(
    path: str | os.PathLike[str], size: int
) -> Iterator[tuple[int, list[str], Batches]]:
    """Rows and columns of a ``.parquet`` file, and the columns' arrays, ``size`` rows at a time.

    Missing numbers are NaN. Memory: a group of rows of the file.
    """
    path = Path(path)
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("pyarrow", "data", "reading .parquet files") from None
    problem = "is not a readable .parquet file"
    with open_regular(path) as source:
        with damage(path, "write it again", problem=problem):
            file = parquet.ParquetFile(source)

        def batches() -> Batches:
            with damage(path, "write it again", problem=problem):
                for batch in file.iter_batches(size, use_threads=False):
                    batch.validate(full=True)
                    columns = zip(batch.schema.names, batch.columns, strict=True)
                    yield {name: each.to_numpy(zero_copy_only=False) for name, each in columns}

        yield file.metadata.num_rows, list(file.schema_arrow.names), batches()
