"""What a zoo is, as ``zoo.json`` says it."""

import dataclasses
import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from credax import networks
from credax.data.about import DIGESTED
from credax.errors import DamagedFile, InputError, unknown
from credax.files import read_json, tree_names, write_json
from credax.likelihood import BY_NAME
from credax.network import Network
from credax.problem import Problem
from credax.reading import check_name, check_record, damage, open_regular, read_json_lines, tensors
from credax.reading.records import (
    COUNT,
    DTYPE,
    OBJECT,
    SHAPE,
    TEXT,
    WHOLE,
    Optional,
    list_of,
    map_of,
    one_of,
    record,
)
from credax.standardise import Standardise, check_units
from credax.training.config import Training
from credax.training.describe import compared, describe_training

SCHEMA = 1
FILE = "zoo.json"
JOURNAL = "members.jsonl"
UNREADABLE = "unreadable"
"""Status of a member whose record is damaged or lost."""
MOST_RECORDS = 2**24
LARGEST_HALF = 65504.0
LIKELIHOODS: dict[str, Any] = BY_NAME
Storage = Literal["float32", "float16"]
_NETWORK = {"name": TEXT, "options": OBJECT, "outputs": COUNT}
_SHARD = {"file": TEXT, "members": COUNT, "sha256": TEXT}
_FIELDS = {
    "network": OBJECT,
    "likelihood": one_of(*LIKELIHOODS),
    "shapes": map_of(SHAPE),
    "input_shape": SHAPE,
    "input_dtype": DTYPE,
    "units": OBJECT,
    "origin": OBJECT,
    "storage": one_of("float32", "float16"),
    "shard_members": COUNT,
    "shards": list_of(record(_SHARD)),
}
_RECORD = {
    "index": WHOLE,
    "status": TEXT,
    "digest": TEXT,
    "name": Optional(TEXT),
    "problem": Optional(TEXT),
}


@dataclass(frozen=True)
class Shard:
    """One file of members and its digest."""

    file: str
    members: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Everything about a zoo but the members themselves.

    ``network`` is ``{"name", "options", "outputs"}`` of `credax.networks`, or ``{"description"}``
    for others; ``shapes`` are those of one member's arrays; ``origin`` says where the members come
    from (data, training, licence).
    """

    network: dict[str, Any]
    likelihood: str
    shapes: dict[str, tuple[int, ...]]
    input_shape: tuple[int, ...]
    input_dtype: str
    units: dict[str, Any]
    origin: dict[str, Any] = field(default_factory=dict)
    storage: Storage = "float32"
    shard_members: int = 1024
    shards: tuple[Shard, ...] = ()

    def __post_init__(self):
        if self.storage not in ("float32", "float16"):
            raise unknown("storage", self.storage, ["float32", "float16"])
        if self.shard_members < 1:
            raise InputError(f"shard_members is {self.shard_members}; give at least 1")

    @property
    def dtype(self) -> np.dtype:
        """The type of stored numbers."""
        return np.dtype(self.storage)

    @classmethod
    def of(cls, problem: Problem, x: Any, network: dict[str, Any], likelihood: str, **rest):
        """For networks of a problem on raw inputs shaped like ``x``."""
        example = jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype)
        tree = jax.eval_shape(problem.init, jax.random.key(0), example)
        leaves = jax.tree.leaves(tree)
        shapes = {n: tuple(leaf.shape) for n, leaf in zip(tree_names(tree), leaves, strict=True)}
        units = {"inputs": problem.inputs, "targets": problem.targets}
        plain = {name: unit and unit.to_lists() for name, unit in units.items()}
        shape, dtype = tuple(x.shape[1:]), str(np.dtype(x.dtype))
        return cls(network, likelihood, shapes, shape, dtype, plain, **rest)

    def header(self, members: int) -> tuple[bytes, int]:
        """The header of a shard of so many members, and the bytes of its data."""
        return tensors.layout({n: (self.dtype, (members, *s)) for n, s in self.shapes.items()})

    def same_kind(self, other: "Manifest") -> bool:
        """Whether members of both belong into one zoo."""
        return self._compared() == other._compared()

    def _compared(self) -> str:
        """All but the files, and what changes no number; older zoos say less of their rows."""
        content = dataclasses.asdict(dataclasses.replace(self, shards=()))
        origin = compared(content["origin"])
        if isinstance(origin.get("training"), dict):
            # A zoo written before a setting existed had what is now its default.
            default = compared({"training": describe_training(Training())})["training"]
            origin["training"] = {**default, **origin["training"]}
        rows = origin.get("rows")
        if isinstance(rows, dict):
            origin["rows"] = {name: rows.get(name) for name in DIGESTED}
        return json.dumps({**content, "origin": origin}, sort_keys=True)

    def problem(self) -> Problem:
        """Network, likelihood and units, from the names written down."""
        if "name" not in self.network:
            raise InputError(
                "this zoo's network has no name in credax.networks; pass problem= with the network "
                "it was made with"
            )
        check_record(self.network, _NETWORK, f"the network of {FILE}")
        options = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in self.network["options"].items()
        }
        with damage(f"the network of {FILE}", "restore the file", problem="cannot be made"):
            network: Network = networks.build(
                self.network["name"], self.network["outputs"], **options
            )
        units = {name: unit and Standardise(**unit) for name, unit in self.units.items()}
        return Problem(network, LIKELIHOODS[self.likelihood]()).with_units(**units)

    def write(self, folder: Path) -> None:
        """Keep it with its digest, atomically."""
        content = dataclasses.asdict(self)
        whole = {"schema": SCHEMA, **content, "digest": _content_digest(content)}
        write_json(folder / FILE, whole)

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read a folder's ``zoo.json``."""
        if not (folder / FILE).exists():
            raise InputError(f"{folder} is not a zoo: it has no {FILE}; see: credax zoo train")
        path = folder / FILE
        content = check_record(read_json(path), {}, path, extra=True)
        if content.pop("schema", None) != SCHEMA:
            raise InputError(f"{path} is of another version of credax; use that one")
        digest = content.pop("digest", None)  # older zoos have none
        if digest is not None and digest != _content_digest(content):
            raise DamagedFile(
                f"{path} is not what was written: its digest differs; restore it from a copy"
            )
        check_record(content, _FIELDS, path)
        check_units(content["units"], tuple(content["input_shape"]), path)
        for shard in content["shards"]:
            check_name(shard["file"], f"{path}: the file of a shard")
        content["shapes"] = {name: tuple(shape) for name, shape in content["shapes"].items()}
        content["input_shape"] = tuple(content["input_shape"])
        content["shards"] = tuple(Shard(**shard) for shard in content["shards"])
        return cls(**content)


def _content_digest(content: dict[str, Any]) -> str:
    """SHA-256 of what ``zoo.json`` holds beside the digest, independent of its layout."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_journal(folder: Path, stored: int = 0) -> list[dict[str, Any]]:
    """The members' records; a last line cut off by a crash is left out.

    A record that cannot be read, or is missing among the first ``stored``, has status "unreadable":
    its member is not used, and all others are.
    """
    found: dict[int, dict[str, Any]] = {}
    for number, line in read_json_lines(folder / JOURNAL):
        with suppress(DamagedFile):
            check_record(line, _RECORD, f"line {number}", extra=True)
            found.setdefault(line["index"] if line is not None else -1, line or {})
    count = max([stored, *(index + 1 for index in found)])
    if count > MOST_RECORDS:
        raise DamagedFile(f"{folder / JOURNAL} has a record of member {count}; restore the file")
    return [found.get(i, {"index": i, "status": UNREADABLE, "digest": ""}) for i in range(count)]


def member_digest(arrays: Any) -> str:
    """A digest of one member's stored bytes, array after array."""
    digest = hashlib.blake2b(digest_size=12)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
