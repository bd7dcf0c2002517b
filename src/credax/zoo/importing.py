"""Published checkpoints into a zoo and back; what cannot be read is named and left out."""

import os
import tarfile
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import jax
import numpy as np

from credax.errors import InputError
from credax.files import DamagedFile
from credax.problem import Problem
from credax.reading import check_name, tensors
from credax.standardise import Standardise
from credax.zoo.checkpoints import ARCHIVES, Checkpoint, read_checkpoints
from credax.zoo.manifest import LIKELIHOODS, Manifest, Storage
from credax.zoo.names import NameMap, guess, name_map
from credax.zoo.reader import Zoo
from credax.zoo.writer import ZooWriter

FLUSH_SECONDS = 2.0


def import_checkpoints(
    place: str | Path,
    folder: str | Path,
    *,
    architecture: str | None = None,
    storage: Storage = "float16",
    units: Standardise | None = None,
    origin: dict[str, Any] | None = None,
    shard_members: int = 1024,
    progress: Callable[[int, str], None] | None = None,
) -> Zoo:
    """Read a published collection into a zoo; the same call resumes, with the same bytes.

    Args:
        place: a folder of safetensors files or an archive of them.
        folder: the zoo.
        architecture: a name of `credax.zoo.MAPS`; by default read off the file's name.
        storage: the published weights are float16, which is kept bit for bit.
        units: how inputs were standardised in training, for predictions.
        origin: what to write down of where it came from, such as the licence.
        shard_members: members a shard.
        progress: told the number of members done and the last one's name.

    A damaged file, other arrays than the architecture's, or numbers that are not finite: the member
    gets a record with status ``corrupt`` and the reason, and the import goes on. Memory: one
    network and, on disk, one open shard.
    """
    table = name_map(architecture) if architecture else guess(Path(place).name)
    writer = None
    try:
        for checkpoint in read_checkpoints(place):
            if writer is None:
                if checkpoint.arrays is None:
                    manifest = _known_manifest(Path(folder), checkpoint)
                else:
                    options = {"storage": storage, "shard_members": shard_members}
                    manifest = _manifest(table, checkpoint, units, place, origin, **options)
                writer = _Import(ZooWriter(folder, manifest), table, progress)
            writer.add(checkpoint)
        if writer is None:
            raise InputError(f"{place} holds no .safetensors files")
        writer.writer.finish()
    finally:
        if writer is not None:
            writer.writer.flush()
            writer.writer.__exit__()
    return Zoo.open(folder)


class _Import:
    """One import: members already in the zoo are passed over by their names."""

    def __init__(self, writer: ZooWriter, table: NameMap, progress):
        self.writer = writer
        self.table = table
        self.progress = progress
        self.done = {record.get("name") for record in writer.records}
        self._flushed = time.monotonic()

    def add(self, checkpoint: Checkpoint) -> None:
        if checkpoint.name in self.done:
            return
        arrays, problem = None, checkpoint.problem
        if checkpoint.arrays is not None:
            try:
                arrays = self.table.ours(checkpoint.arrays, self.writer.manifest.shapes)
                bad = [name for name, array in arrays.items() if not np.isfinite(array).all()]
                if bad:
                    arrays, problem = None, f"{bad[0]} holds NaN or infinity"
            except DamagedFile as error:
                problem = str(error)
        record: dict[str, Any] = {"name": checkpoint.name}
        if problem:
            record |= {"status": "corrupt", "problem": problem}
        self.writer.append(arrays, record)
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.writer.flush()
            self._flushed = time.monotonic()
        if self.progress is not None:
            self.progress(self.writer.count, checkpoint.name)


def _known_manifest(folder: Path, checkpoint: Checkpoint) -> Manifest:
    try:
        return Manifest.read(folder)
    except InputError:
        raise InputError(
            f"the first network cannot be read ({checkpoint.problem}), so that the number of "
            "outputs is not known; put a whole one first"
        ) from None


def _manifest(table: NameMap, checkpoint: Checkpoint, units, place, origin, **options) -> Manifest:
    assert checkpoint.arrays is not None
    outputs = table.outputs(checkpoint.arrays)
    likelihood = LIKELIHOODS["categorical"]()
    problem = Problem(table.build(outputs), likelihood, inputs=units)
    network = {**table.config, "outputs": outputs}
    example = jax.ShapeDtypeStruct((1, *table.input_shape), "float32")
    origin = {"source": Path(place).name, "architecture": table.name, **(origin or {})}
    return Manifest.of(problem, example, network, "categorical", origin=origin, **options)


def export_checkpoints(zoo: Zoo, place: str | Path, *, architecture: str | None = None) -> None:
    """The members as safetensors files under the published names, in a folder or a ``.tgz``."""
    table = name_map(architecture or zoo.manifest.origin.get("architecture", ""))
    place = Path(place)
    if place.exists():
        raise InputError(f"{place} exists; choose another name")
    packed = place.name.endswith(ARCHIVES)
    partial = place.with_name(f".{place.name}.part")
    if packed:
        with tarfile.open(partial, "w" if place.suffix == ".tar" else "w:gz") as archive:
            for name, content in _members(zoo, table):
                entry = tarfile.TarInfo(f"{place.name.split('.')[0]}/{name}.safetensors")
                entry.size = len(content)
                archive.addfile(entry, BytesIO(content))
        os.replace(partial, place)
        return
    partial.mkdir(parents=True)
    for name, content in _members(zoo, table):
        (partial / f"{name}.safetensors").write_bytes(content)
    os.replace(partial, place)


def _members(zoo: Zoo, table: NameMap):
    for position, index in enumerate(zoo.chosen):
        here = slice(position, position + 1)
        ours = {entry.ours: zoo[here, entry.ours][0] for entry in table.entries}
        arrays = table.theirs(ours)
        shapes = {name: (array.dtype, array.shape) for name, array in arrays.items()}
        content = tensors.layout(shapes)[0] + b"".join(a.tobytes() for a in arrays.values())
        name = zoo.records[index].get("name", f"member-{index:06d}")
        yield check_name(name, f"the name of member {index}"), content
