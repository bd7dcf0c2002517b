"""Names and layouts of published networks, and ours: one table an architecture.

Theirs: convolutions ``[out, in, rows, columns]``, dense ``[out, in]``. Ours: ``[rows, columns, in,
out]`` and ``[in, out]``. Counters of batches are dropped; batch statistics are taken as settled.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from credax.errors import InputError, unknown
from credax.files import DamagedFile
from credax.network import Network
from credax.networks import OptuNet, ResNet18, ResNet20

Shapes = Mapping[str, tuple[int, ...]]
_DROPPED = "num_batches_tracked"
_TURNED = {"conv": ((2, 3, 1, 0), (3, 2, 0, 1)), "dense": ((1, 0), (1, 0))}


class Entry(NamedTuple):
    """One of our arrays, theirs, and how to turn theirs into ours."""

    ours: str
    theirs: str
    kind: str


@dataclass(frozen=True)
class NameMap:
    """A published architecture: how to build it, its inputs, and the names of its arrays."""

    name: str
    build: Callable[[int], Network]
    input_shape: tuple[int, ...]
    entries: tuple[Entry, ...]
    config: dict[str, Any]

    def outputs(self, arrays: Mapping[str, np.ndarray]) -> int:
        """How many outputs a checkpoint has, by its head."""
        head = self.entries[-1].theirs
        if head not in arrays:
            raise self._odd(arrays)
        return len(arrays[head])

    def ours(self, arrays: Mapping[str, np.ndarray], shapes: Shapes) -> dict[str, np.ndarray]:
        """A checkpoint under our names; unknown, missing or misshapen arrays are named."""
        given = {name for name in arrays if not name.endswith(_DROPPED)}
        if given != {entry.theirs for entry in self.entries}:
            raise self._odd(arrays)
        result = {}
        for entry in self.entries:
            array = arrays[entry.theirs]
            if entry.kind in _TURNED and array.ndim == len(_TURNED[entry.kind][0]):
                array = array.transpose(_TURNED[entry.kind][0])
            elif entry.kind == "channels":
                array = array.reshape(-1)
            if tuple(array.shape) != tuple(shapes[entry.ours]):
                raise DamagedFile(
                    f"array {entry.theirs!r} has shape {tuple(arrays[entry.theirs].shape)}, which "
                    f"does not fit {entry.ours} of shape {tuple(shapes[entry.ours])}"
                )
            result[entry.ours] = array
        for name in shapes:  # the average over batches has settled
            if name not in result:
                result[name] = np.ones(shapes[name], np.float32)
        return {name: result[name] for name in shapes}

    def theirs(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """One of our networks under their names, the inverse of `ours`."""
        result = {}
        for entry in self.entries:
            array = np.asarray(arrays[entry.ours])
            if entry.kind in _TURNED:
                array = array.transpose(_TURNED[entry.kind][1])
            elif entry.kind == "channels":
                array = array.reshape(1, -1, 1, 1)
            result[entry.theirs] = np.ascontiguousarray(array)
        return result

    def _odd(self, arrays: Mapping[str, np.ndarray]) -> DamagedFile:
        given = {name for name in arrays if not name.endswith(_DROPPED)}
        known = {entry.theirs for entry in self.entries}
        missing, unexpected = sorted(known - given), sorted(given - known)
        return DamagedFile(
            f"this is not a {self.name}: missing {', '.join(missing[:4]) or 'nothing'}; not known "
            f"{', '.join(unexpected[:4]) or 'nothing'}"
        )


def _norm(kind: str, ours: str, theirs: str) -> list[Entry]:
    if kind == "batch":
        names = {"scale": "weight", "shift": "bias"}
        state = {"mean": "running_mean", "variance": "running_var"}
        return [
            *(
                Entry(f"params/{ours}_batch_norm/{a}", f"{theirs}.{b}", "")
                for a, b in names.items()
            ),
            *(Entry(f"state/{ours}_batch_norm/{a}", f"{theirs}.{b}", "") for a, b in state.items()),
        ]
    names = {"scale": "gamma", "shift": "beta", "threshold": "tau"}
    prefix = f"params/{ours}_filter_response_norm"
    return [Entry(f"{prefix}/{a}", f"{theirs}.{b}", "channels") for a, b in names.items()]


def _resnet(blocks: tuple[int, ...], norm: str) -> tuple[Entry, ...]:
    """A stem, stages of basic blocks with projections where a stage begins, a head."""
    entries = [Entry("params/00_conv/kernel", "conv1.weight", "conv"), *_norm(norm, "01", "bn1")]
    position = 2
    for stage, count in enumerate(blocks, start=1):
        for block in range(count):
            ours, theirs = f"{position:02d}_residual", f"layer{stage}.{block}"
            for number, place in ((1, 0), (2, 2)):
                kernel = f"params/{ours}/body/{place}_conv/kernel"
                entries.append(Entry(kernel, f"{theirs}.conv{number}.weight", "conv"))
                entries += _norm(norm, f"{ours}/body/{place + 1}", f"{theirs}.bn{number}")
            if stage > 1 and block == 0:
                kernel = f"params/{ours}/shortcut/0_conv/kernel"
                entries.append(Entry(kernel, f"{theirs}.shortcut.0.weight", "conv"))
                entries += _norm(norm, f"{ours}/shortcut/1", f"{theirs}.shortcut.1")
            position += 1
    head = f"params/{position:02d}_dense"
    entries.append(Entry(f"{head}/kernel", "linear.weight", "dense"))
    return (*entries, Entry(f"{head}/bias", "linear.bias", ""))


_OPTUNET = (
    Entry("params/0_conv/kernel", "conv1.weight", "conv"),
    Entry("params/1_conv/kernel", "conv2.weight", "conv"),
    Entry("params/2_dense/kernel", "fc1.weight", "dense"),
    Entry("params/2_dense/bias", "fc1.bias", ""),
    Entry("params/3_dense/kernel", "fc2.weight", "dense"),
    Entry("params/3_dense/bias", "fc2.bias", ""),
)
_18: dict[str, Any] = {"padding": "CENTRED"}
_20: dict[str, Any] = {
    "norm": "frn",
    "activation": "silu",
    "padding": "CENTRED",
    "padded_shortcuts": False,
}
MAPS = {
    "resnet18": NameMap(
        "resnet18",
        lambda outputs: ResNet18(outputs, **_18),
        (32, 32, 3),
        _resnet((2, 2, 2, 2), "batch"),
        {"name": "resnet18", "options": _18},
    ),
    "resnet20-frn-silu": NameMap(
        "resnet20-frn-silu",
        lambda outputs: ResNet20(outputs, **_20),
        (32, 32, 3),
        _resnet((3, 3, 3), "frn"),
        {"name": "resnet20", "options": _20},
    ),
    "optunet": NameMap(
        "optunet", OptuNet, (28, 28, 1), _OPTUNET, {"name": "optunet", "options": {}}
    ),
}


def name_map(name: str) -> NameMap:
    """The table of a published architecture."""
    if name not in MAPS:
        raise unknown("architecture", name, MAPS)
    return MAPS[name]


def guess(place: str) -> NameMap:
    """The architecture that a published file name ends in, such as ``cifar100-resnet18-0-1023``."""
    for name in sorted(MAPS, key=len, reverse=True):
        if name in place.lower():
            return MAPS[name]
    raise InputError(
        f"{place} does not name an architecture; say which with --architecture, one of: "
        + ", ".join(MAPS)
    )
