"""Writing so that nothing is ever half written, and pytrees of arrays as safetensors."""

import errno
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save as safetensors_bytes

from credax.errors import DamagedFile as DamagedFile
from credax.errors import InputError
from credax.keys import wrap
from credax.reading import check_record, not_finite, open_regular, parse_json
from credax.reading import read_json as read_json
from credax.reading.records import OBJECT, TEXT
from credax.reading.tensors import COPY, Layout, read_layout, views


def write_atomic(path: str | Path, content: bytes | str) -> None:
    """Write under a temporary name, sync, rename: readers see the old file or the new one.

    A full disk or an unwritable folder raises an error, leaves the old file and no temporary
    one.
    """
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
        temporary = None
        _sync_folder(path.parent)
    except OSError as error:
        raise InputError(_reason(path, len(data), error)) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def _reason(path: Path, size: int, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"no room to write {path} ({size / 1e6:.1f} MB); free some space and run the same "
            "command again: it resumes from the last checkpoint"
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"cannot write {path}: no permission; choose another folder with --out"
    return f"cannot write {path}: {error.strerror or error}; choose another folder with --out"


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows has no handle of a folder to sync
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: str | Path, content: Any) -> None:
    """Write readable JSON atomically."""
    write_atomic(path, json.dumps(content, indent=2) + "\n")


def tree_names(tree: Any) -> list[str]:
    """A unique readable name for every leaf, from its path in the pytree."""
    paths = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in paths]


def save_tree(path: str | Path, tree: Any, metadata: dict[str, Any] | None = None) -> None:
    """Save a pytree of arrays with metadata and a digest of both, atomically; keys become data."""
    arrays = dict(zip(tree_names(tree), map(_to_numpy, jax.tree.leaves(tree)), strict=True))
    metadata = metadata or {}
    description = {"metadata": metadata, "digest": _digest(arrays, metadata)}
    # One key only: safetensors writes several in no fixed order, and equal runs give equal bytes.
    header = {"credax": json.dumps(description, sort_keys=True)}
    write_atomic(path, safetensors_bytes(arrays, metadata=header))


def load_tree(
    path: str | Path, template: Any, *, finite: bool = True
) -> tuple[Any, dict[str, Any]]:
    """Load what `save_tree` saved into the structure of ``template`` (arrays or their shapes).

    The digest is checked: a truncated or bit-flipped file raises `DamagedFile`. So do numbers that
    are not finite, unless ``finite`` is False.
    """
    arrays, metadata = load_arrays(path, finite=finite)
    return arranged(path, arrays, template), metadata


def arranged(path: str | Path, arrays: dict[str, np.ndarray], template: Any) -> Any:
    """The arrays of a file, from `load_arrays`, in the structure of ``template``."""
    names, (leaves, structure) = tree_names(template), jax.tree.flatten(template)
    if set(names) != set(arrays):
        odd = sorted(set(names) ^ set(arrays))
        raise InputError(
            f"{path} does not fit this problem: it differs at {', '.join(odd[:3])}; "
            "load it with the network and method it was saved with"
        )
    restored = []
    for name, leaf in zip(names, leaves, strict=True):
        array, is_key = arrays[name], _is_key(leaf)
        wanted = jax.eval_shape(jax.random.key_data, leaf) if is_key else leaf
        if tuple(array.shape) != tuple(wanted.shape):
            raise InputError(
                f"{path} does not fit this problem: {name} has shape {tuple(array.shape)} there "
                f"and {tuple(wanted.shape)} here"
            )
        if _group(array.dtype) != _group(wanted.dtype):
            raise InputError(
                f"{path} does not fit this problem: {name} has type {array.dtype} there and "
                f"{wanted.dtype} here"
            )
        restored.append(wrap(array) if is_key else array)
    return jax.tree.unflatten(structure, restored)


def load_arrays(
    path: str | Path, *, finite: bool = True, infinite: tuple[str, ...] = ()
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """All arrays of a file by name, and its metadata, the digest checked.

    NaN and infinities are refused if ``finite``; infinities are allowed in the arrays whose last
    names are among ``infinite``.
    """
    layout = read_layout(path)  # before there is memory for all that the file claims to hold
    with open_regular(path) as file:
        content = bytearray(os.fstat(file.fileno()).st_size)
        file.readinto(content)
    header, arrays = _description(path, layout), views(content, layout)
    for name, tensor in layout.tensors.items():
        if tensor.kind == "BF16":
            arrays[name] = arrays[name].view(jnp.bfloat16)
    if header["digest"] != _digest(arrays, header["metadata"]):
        raise DamagedFile(f"{path} is damaged (its digest does not match); {COPY}")
    for name, array in arrays.items() if finite else ():
        allowed = name.rpartition("/")[2] in infinite
        row = not_finite(np.where(np.isinf(array), 0, array) if allowed else array)
        if row is not None:
            raise DamagedFile(_named(path, name, array, row, header["metadata"]))
    return arrays, header["metadata"]


def _named(path: str | Path, name: str, array: np.ndarray, row: int, metadata: Any) -> str:
    """The sentence for a number that is not finite: which array, which member."""
    members = metadata.get("members")
    stacked = isinstance(members, list) and array.ndim and len(array) == len(members)
    whose = f" of member {members[row]}" if stacked else ""
    return f"{path} holds NaN or infinity in {name}{whose}; {COPY}, or train again"


def _description(path: str | Path, layout: Layout) -> dict[str, Any]:
    where = f"{path} is damaged: its description"
    content = parse_json(layout.metadata.get("credax", "nothing"), where, remedy=COPY)
    return check_record(content, {"metadata": OBJECT, "digest": TEXT}, where, remedy=COPY)


def _is_key(leaf) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _group(dtype) -> str:
    """Floating-point numbers of any width are one type here: files cross precisions.

    Unsigned numbers are words of keys, and those have one width.
    """
    if jnp.issubdtype(dtype, jnp.floating):
        return "floats"
    return "integers" if jnp.issubdtype(dtype, jnp.signedinteger) else str(dtype)


def _to_numpy(leaf) -> np.ndarray:
    if _is_key(leaf):
        leaf = jax.random.key_data(leaf)
    return np.asarray(jax.device_get(leaf), order="C")


def _digest(arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> str:
    digest = hashlib.blake2b(json.dumps(metadata, sort_keys=True).encode(), digest_size=16)
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}{array.dtype}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
