"""Decoded pictures: in memory, or in a file of the user's cache folder where there are many."""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from credax.data.pictures import Pictures, sentence
from credax.data.places import root_folder
from credax.errors import DamagedFile, InputError
from credax.files import write_json
from credax.reading import check_record, read_json
from credax.reading.records import TEXT, WHOLE, list_of, map_of

LARGE = 2**29
"""Bytes of decoded pictures that are kept in memory; more lie in a file."""
_BLOCK = 256
_FIELDS = {"y": map_of(list_of(WHOLE)), "damaged": list_of(TEXT)}

Parts = dict[str, tuple[np.ndarray, np.ndarray]]
Divided = Callable[[list[Any]], tuple[dict[str, np.ndarray], np.ndarray]]


def stored_pictures(
    folder: Path, found: list[Any], shape: Pictures, divided: Divided, settings: dict[str, Any]
) -> tuple[Parts, list[str]]:
    """Pictures and labels of every split, and a sentence for each file that cannot be read.

    ``found`` are files (``path``) with their classes; ``divided`` gives the positions of each split
    and the labels of those that could be read.
    """
    paths = [each.path for each in found]
    each = shape.height * shape.width * shape.channels
    if len(paths) * each <= LARGE:
        read = shape.read(paths)
        rows = _kept(found, read.paths, read.damaged, folder)
        parts, y = divided(rows)
        return {name: (read.x[index], y[index]) for name, index in parts.items()}, read.damaged
    place = root_folder() / "pictures" / _key(folder, found, shape, settings)
    if not (place / "rows.json").exists():
        _store(place, folder, found, shape, divided)
    return _stored(place, (shape.height, shape.width, shape.channels))


def _kept(found: list[Any], paths: list[Path], damaged: list[str], folder: Path) -> list[Any]:
    if not paths:
        raise InputError(f"{folder}: {sentence(damaged, len(found))}; none is left")
    read = set(paths)
    return [each for each in found if each.path in read]


def _key(folder: Path, found: list[Any], shape: Pictures, settings: dict[str, Any]) -> str:
    """A digest of the files' names, sizes and times, and of what is done with them."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps([str(folder.resolve()), shape.to_json(), settings]).encode())
    for each in found:
        stat = os.stat(each.path)
        digest.update(f"{each.path}|{stat.st_size}|{stat.st_mtime_ns}\n".encode(errors="replace"))
    return digest.hexdigest()


def _store(place: Path, folder: Path, found: list[Any], shape: Pictures, divided: Divided) -> None:
    """Decode once in the order of the files, then write split after split."""
    size = (len(found), shape.height, shape.width, shape.channels)
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place) as scratch:
            first = np.memmap(Path(scratch) / "all", np.uint8, "w+", shape=size)
            read = shape.read([each.path for each in found], first)
            rows = _kept(found, read.paths, read.damaged, folder)
            parts, y = divided(rows)
            order = np.concatenate(list(parts.values()))
            final = np.memmap(Path(scratch) / "rows", np.uint8, "w+", shape=(len(order), *size[1:]))
            for start in range(0, len(order), _BLOCK):
                final[start : start + _BLOCK] = read.x[order[start : start + _BLOCK]]
            final.flush()
            os.replace(Path(scratch) / "rows", place / "rows.bytes")
    except OSError as error:
        raise InputError(
            f"{place} cannot hold {np.prod(size) / 1e9:.1f} GB of pictures ({error.strerror}); "
            "free some space, set CREDAX_DATA to another folder, or give a smaller --size"
        ) from error
    labels = {name: y[index].tolist() for name, index in parts.items()}
    write_json(place / "rows.json", {"y": labels, "damaged": read.damaged})


def _stored(place: Path, shape: tuple[int, int, int]) -> tuple[Parts, list[str]]:
    content = check_record(read_json(place / "rows.json"), _FIELDS, place / "rows.json")
    total = sum(len(labels) for labels in content["y"].values())
    file = place / "rows.bytes"
    if not file.is_file() or file.stat().st_size != total * int(np.prod(shape)):
        raise DamagedFile(f"{file} is cut short; remove the folder {place} to decode again")
    x = np.memmap(file, np.uint8, "r", shape=(total, *shape))
    parts, start = {}, 0
    for name, labels in content["y"].items():
        parts[name] = (x[start : start + len(labels)], np.array(labels, np.int32))
        start += len(labels)
    return parts, content["damaged"]
