"""Reading a zoo: slices by memory map, populations, and functions of all members in batches."""

import dataclasses
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from credax.errors import InputError
from credax.files import DamagedFile, load_arrays, save_tree, tree_names
from credax.posterior import Population
from credax.problem import Problem
from credax.reading import damage, not_finite, open_regular, tensors
from credax.zoo.manifest import (
    JOURNAL,
    UNREADABLE,
    Manifest,
    file_digest,
    member_digest,
    read_journal,
)


class DamagedMember(UserWarning):
    """A member's stored bytes are not what was written; it is left out."""


@dataclass(frozen=True)
class Zoo:
    """A population on disk. It is `credax.quality.Blocks`: comparisons stream it.

    ``chosen`` are the members it stands for, by index; at first all whose status is ok. Opening
    reads ``zoo.json`` and the records only. Memory: what is asked for.
    """

    folder: Path
    manifest: Manifest
    records: tuple[dict[str, Any], ...]
    chosen: tuple[int, ...]

    @classmethod
    def open(cls, folder: str | Path, *, verify: bool = False) -> "Zoo":
        """Open a folder; with ``verify`` all bytes are checked and damaged members left out."""
        folder = Path(folder)
        manifest = Manifest.read(folder)
        stored = sum(shard.members for shard in manifest.shards)
        records = tuple(read_journal(folder, stored)[:stored])
        usable = tuple(i for i, record in enumerate(records) if record["status"] == "ok")
        zoo = cls(folder, manifest, records, usable)
        damage = zoo.damage() if verify else zoo.without_record()
        for reason in list(damage.values())[:10]:
            warnings.warn(f"{reason}; it is left out", DamagedMember, stacklevel=2)
        zoo = dataclasses.replace(zoo, chosen=tuple(i for i in usable if i not in damage))
        if not zoo.chosen:
            raise InputError(f"{folder} has no usable members yet; see: credax zoo info {folder}")
        return zoo

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def members(self) -> int:
        """How many members it stands for."""
        return len(self.chosen)

    @property
    def paths(self) -> dict[str, int]:
        """The learned arrays by name with their number of coordinates."""
        shapes = self.manifest.shapes.items()
        return {
            name.removeprefix("params/"): int(np.prod(shape, dtype=int))
            for name, shape in shapes
            if name.startswith("params/")
        }

    def take(self, positions: Sequence[int] | np.ndarray | slice) -> "Zoo":
        """Some of the members, by position; they stay in the order of their indices."""
        chosen = np.unique(np.asarray(self.chosen)[positions])
        return dataclasses.replace(self, chosen=tuple(int(i) for i in chosen))

    def __getitem__(self, what: tuple[slice, str]) -> np.ndarray:
        """``zoo[i:j, "path"]``: one array of some members; a memory map where one shard has it."""
        rows, path = what
        parts = [self._view(shard, path)[rows] for shard, rows in self._rows(self.chosen[rows])]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def read(self, path: str, coordinates: slice) -> np.ndarray:
        """Some coordinates of one array for all members; float16 becomes float32."""
        parts = []
        for shard, rows in self._rows(self.chosen):
            view = self._view(shard, path)
            part = view.reshape(len(view), -1)[rows, coordinates]
            parts.append(part.astype(np.float32) if part.dtype == np.float16 else part)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @property
    def arrays(self) -> "Mapping[str, np.ndarray]":
        """The learned arrays of all members by name, each read when asked for."""
        return _Arrays(self)

    def values(self, name: str) -> np.ndarray:
        """A number of the members' records, such as ``"test_accuracy"``."""
        found: list[Any] = [self.records[i].get(name) for i in self.chosen]
        if any(type(value) not in (int, float) for value in found):
            known = sorted({key for i in self.chosen for key in self.records[i]})
            raise InputError(f"records have no {name!r} for every member; they have {known}")
        odd = next((i for i, v in zip(self.chosen, found, strict=True) if not np.isfinite(v)), None)
        if odd is not None:
            warnings.warn(f"{name} of member {odd} is not finite", UserWarning, stacklevel=2)
        return np.asarray(found)

    def population(
        self,
        positions: Sequence[int] | np.ndarray | slice | None = None,
        *,
        problem: Problem | None = None,
    ) -> Population:
        """Members in memory, ready to predict; all of them unless ``positions`` are given."""
        zoo = self if positions is None else self.take(positions)
        problem = problem or self.manifest.problem()
        shape, dtype = self.manifest.input_shape, self.manifest.input_dtype
        example = jax.ShapeDtypeStruct((1, *shape), dtype)
        remedy = "pass problem= with the network it was made with"
        with damage(self.folder, remedy, problem=f"is no zoo of inputs of shape {shape}"):
            template = jax.eval_shape(problem.init, jax.random.key(0), example)
        names, expected = tree_names(template), jax.tree.leaves(template)
        shapes = {name: tuple(leaf.shape) for name, leaf in zip(names, expected, strict=True)}
        if shapes != self.manifest.shapes:
            raise InputError(f"{self.folder} holds other arrays than its network has; {remedy}")
        stored = zoo._checked(names)
        leaves = [
            jnp.asarray(np.asarray(stored[name], np.float32), leaf.dtype)
            for name, leaf in zip(names, expected, strict=True)
        ]
        variables = jax.tree.unflatten(jax.tree.structure(template), leaves)
        return Population(problem, variables, zoo.chosen, shape, dtype)

    def map(
        self,
        function: Callable[[Population], Mapping[str, Any]],
        *,
        batch_size: int = 64,
        folder: str | Path | None = None,
        problem: Problem | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> dict[str, np.ndarray]:
        """``function`` of populations of ``batch_size`` members, its arrays joined over members.

        With ``folder`` every batch's result is kept there and not computed again; the folder
        belongs to this function, these members and this batch size. ``progress`` is told how many
        members are done.
        """
        results = []
        for start in range(0, self.members, batch_size):
            stop = min(start + batch_size, self.members)
            part = self.take(slice(start, stop))
            results.append(_kept(part, function, folder, start, problem))
            if progress is not None:
                progress(stop)
        return {name: np.concatenate([r[name] for r in results]) for name in results[0]}

    def without_record(self) -> dict[int, str]:
        """Members that are stored and whose records are damaged or lost, with a sentence each."""
        return {
            i: f"member {i} is stored and has no readable record in {JOURNAL}"
            for i, record in enumerate(self.records)
            if record["status"] == UNREADABLE
        }

    def damage(self) -> dict[int, str]:
        """Members whose bytes or records are not what was written, each with a sentence."""
        found, first = self.without_record(), 0
        for number, shard in enumerate(self.manifest.shards):
            members = range(first, first + shard.members)
            path = self.folder / shard.file
            first += shard.members
            try:
                views = [self._view(number, name) for name in self.manifest.shapes]
                if file_digest(path) == shard.sha256:
                    continue
            except InputError as error:
                found |= {i: f"member {i} is lost with its shard ({error})" for i in members}
                continue
            # The header is as it was written (`_Headers`); members' digests cover all the rest.
            for row, index in enumerate(members):
                if index in found:
                    continue
                if member_digest(view[row] for view in views) != self.records[index]["digest"]:
                    named = self.records[index].get("name", f"in {shard.file}")
                    found[index] = f"member {index} ({named}) is damaged"
        return found

    def _checked(self, names: Sequence[str]) -> dict[str, np.ndarray]:
        """These arrays of all members, each member compared with its digest."""
        stored = {name: self[slice(None), name] for name in self.manifest.shapes}
        for row, index in enumerate(self.chosen):
            if member_digest(a[row] for a in stored.values()) != self.records[index]["digest"]:
                raise DamagedFile(
                    f"member {index} of {self.folder} is damaged; open the zoo with verify=True to "
                    "leave it out, or restore its shard"
                )
            bad = next((n for n, a in stored.items() if not_finite(a[row]) is not None), None)
            if bad is not None:
                raise DamagedFile(f"member {index} of {self.folder} holds NaN or infinity in {bad}")
        return {name: stored[name] for name in names}

    def _rows(self, indices: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Which rows of which shards hold these members: a slice where they are neighbours."""
        ends = np.cumsum([0] + [shard.members for shard in self.manifest.shards])
        wanted = np.asarray(indices, int)
        for shard in range(len(self.manifest.shards)):
            inside = wanted[(wanted >= ends[shard]) & (wanted < ends[shard + 1])] - ends[shard]
            if not len(inside):
                continue
            steady = len(inside) == inside[-1] - inside[0] + 1 and (np.diff(inside) == 1).all()
            yield shard, slice(inside[0], inside[-1] + 1) if steady else inside

    def _view(self, shard: int, path: str) -> np.memmap:
        name = path if path in self.manifest.shapes else f"params/{path}"
        if name not in self.manifest.shapes:
            raise InputError(f"this zoo has no array {path!r}; it has {list(self.paths)[:6]} ...")
        file = self.folder / self.manifest.shards[shard].file
        layout = self._headers[shard]
        tensor = layout.tensors[name]
        dtype = tensors.DTYPES[tensor.kind]
        return np.memmap(file, dtype, "r", layout.start + tensor.start, tensor.shape)

    @cached_property
    def _headers(self) -> "_Headers":
        return _Headers(self.folder, self.manifest)


class _Headers(dict):
    """The headers of shards, each read when first needed."""

    def __init__(self, folder: Path, manifest: Manifest):
        super().__init__()
        self._folder, self._manifest = folder, manifest

    def __missing__(self, shard: int) -> tensors.Layout:
        path = self._folder / self._manifest.shards[shard].file
        expected = self._manifest.header(self._manifest.shards[shard].members)[0]
        with open_regular(path) as file, damage(path):
            if file.read(len(expected)) != expected:
                raise DamagedFile(f"{path} has another header than was written; restore it")
            self[shard] = tensors.check_layout(expected, os.fstat(file.fileno()).st_size, str(path))
        return self[shard]


class _Arrays(Mapping):
    def __init__(self, zoo: Zoo):
        self._zoo = zoo

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(self._zoo[slice(None), name])

    def __iter__(self):
        return iter(self._zoo.paths)

    def __len__(self) -> int:
        return len(self._zoo.paths)


def _kept(zoo: Zoo, function, folder, start: int, problem) -> dict[str, np.ndarray]:
    path = None if folder is None else Path(folder) / f"batch-{start:06d}.safetensors"
    if path is not None and path.exists():
        arrays, metadata = load_arrays(path, finite=False)
        if metadata.get("members") != list(zoo.chosen):
            raise InputError(f"{folder} holds results of other members; choose another folder")
        return arrays
    result = {k: np.asarray(v) for k, v in function(zoo.population(problem=problem)).items()}
    for name, array in result.items():
        if array.ndim == 0 or len(array) != zoo.members:
            raise InputError(
                f"function gave {name!r} of shape {array.shape} for {zoo.members} members; the "
                "first axis must be members"
            )
    if path is not None:
        save_tree(path, result, {"members": list(zoo.chosen)})
    return result
