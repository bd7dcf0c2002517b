"""Where training rows are: all on the device, or streamed from the host a chunk at a time."""

from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from credax.data.dataset import Split
from credax.training.members import Shard, on_host
from credax.training.program import Program, Rows, order_of

STREAM_BYTES = 256 * 2**20
DEVICE_BYTES = 8 * 2**30


def should_stream(split: Split, placement: str) -> bool:
    """Stream what is asked for, what lies in a file, and what would not fit on the device."""
    if placement != "auto":
        return placement == "stream"
    if isinstance(split.x, np.memmap):
        return True
    statistics = jax.local_devices()[0].memory_stats() or {}
    room = statistics.get("bytes_limit", 4 * DEVICE_BYTES) // 4
    return split.x.nbytes > min(room, DEVICE_BYTES)


def narrow(y: np.ndarray) -> np.ndarray:
    """Labels as int32 and targets as the default float, whatever they came as."""
    return np.asarray(y, np.int32 if y.dtype.kind in "iub" else jnp.zeros(0).dtype)


class Supply(Protocol):
    """Where the loop takes rows from."""

    def end(self, step: int, total: int) -> int:
        """The step up to which one call of the program may go from here."""
        ...

    def __call__(self, program: Program, step: int) -> Rows:
        """The rows of the next steps."""
        ...


class DeviceSupply:
    """All rows on the device, once; a chunk may be of any length."""

    def __init__(self, split: Split, program: Program):
        rows = (np.asarray(split.x), narrow(split.y))
        mesh = program.strategy if isinstance(program.strategy, Shard) else None
        self._rows = Rows(*(mesh.place(rows, None) if mesh else jax.device_put(rows)))

    def end(self, step: int, total: int) -> int:
        """Of the training."""
        return total

    def __call__(self, program: Program, step: int) -> Rows:
        """The same rows for every chunk."""
        return self._rows


class StreamSupply:
    """Ready batches of the next steps, gathered on the host while the device computes.

    The order of rows is the one the device would use, so streaming changes no number. Memory:
    two chunks of at most 256 MiB. Over a mesh, each process reads the rows of its own devices.
    """

    def __init__(self, split: Split, program: Program):
        self._x, self._y = split.x, narrow(split.y)
        strategy = program.strategy
        self._mesh = strategy.mesh if isinstance(strategy, Shard) else None
        replicas = program.dynamics.replicas
        orders = 1 if replicas.shared_batches else replicas.count
        row = int(np.prod(split.x.shape[1:], dtype=int)) * split.x.dtype.itemsize
        size = max(1, orders * program.training.batch_size * row)
        self.longest = int(np.clip(STREAM_BYTES // size, 1, program.per_epoch))
        self._worker = ThreadPoolExecutor(max_workers=1)
        self._ready: dict[int, Future] = {}
        self._orders: dict[int, np.ndarray] = {}

    def end(self, step: int, total: int) -> int:
        """Of the chunk that is at hand."""
        return min(total, (step // self.longest + 1) * self.longest)

    def __call__(self, program: Program, step: int) -> Rows:
        """The chunk of ``longest`` steps that the step is in; the next one is begun too."""
        first = step // self.longest * self.longest
        following = first + self.longest
        wanted = [first, following] if following < program.total else [first]
        self._ready = {
            start: self._ready.get(start) or self._submit(program, start) for start in wanted
        }
        return self._ready[first].result()._replace(first=jnp.int32(first))

    def _submit(self, program: Program, start: int) -> Future:
        index = np.stack([self._index(program, t) for t in range(start, start + self.longest)])
        return self._worker.submit(self._gather, index)

    def _index(self, program: Program, step: int) -> np.ndarray:
        epoch, size = step // program.per_epoch, program.training.batch_size
        if epoch not in self._orders:
            self._orders = {e: o for e, o in self._orders.items() if e >= epoch - 1}
            self._orders[epoch] = np.asarray(on_host(order_of(program, jnp.int32(epoch))))
        first = (step % program.per_epoch) * size
        return self._orders[epoch][..., first : first + size]

    def _gather(self, index: np.ndarray) -> Rows:
        if self._mesh is None:
            return Rows(*jax.device_put(self._read(index)))
        axes = (None, "members", "data") if index.ndim == 3 else (None, "data")
        return self._sharded(index, NamedSharding(self._mesh, PartitionSpec(*axes)))

    def _sharded(self, index: np.ndarray, sharding: NamedSharding) -> Rows:
        """Each process reads the rows of its own devices, and a part that several have once."""
        read: dict[str, tuple[np.ndarray, np.ndarray]] = {}

        def part(where: Any, name: int) -> np.ndarray:
            key = str(where[: index.ndim])
            if key not in read:
                read[key] = self._read(index[where[: index.ndim]])
            return read[key][name]

        arrays = [
            jax.make_array_from_callback(
                (*index.shape, *array.shape[1:]), sharding, partial(part, name=name)
            )
            for name, array in enumerate((self._x, self._y))
        ]
        return Rows(*arrays)

    def _read(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # Sorted unique rows: a file on disk is then read once and forwards.
        unique, inverse = np.unique(index, return_inverse=True)
        inverse = inverse.reshape(index.shape)
        return np.asarray(self._x[unique])[inverse], self._y[unique][inverse]
