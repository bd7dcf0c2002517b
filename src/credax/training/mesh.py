"""Which devices a training uses: their layout into axes for members and for rows of a batch."""

import os
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from credax.errors import InputError

AXES = ("members", "data")
MODEL = "model"
"""A third axis, over which the arrays of one member are divided."""
SWITCH = "CREDAX_DEVICES"
"""Environment variable: at most so many devices of a process for ``strategy="auto"``."""
LEAST_ROWS = 8
"""Rows of a batch per device, below which a data axis costs more than it saves."""


class Layout(NamedTuple):
    """How many devices along each axis of a mesh."""

    members: int
    data: int

    @property
    def devices(self) -> int:
        """Devices of the mesh."""
        return self.members * self.data


def choose_layout(
    members: int, batch_size: int, devices: int, *, coupled: bool = False, all_used: bool = False
) -> Layout:
    """The layout of a training on at most so many devices.

    First as few members per device as possible, then as long a data axis as divides the batch into
    at least `LEAST_ROWS` rows each, then as few devices. Members that are ``coupled`` are never
    padded: their axis divides them. With ``all_used``, which several processes need, no device is
    left out.

    >>> choose_layout(5, 128, 8), choose_layout(2, 128, 8), choose_layout(10, 128, 8)
    (Layout(members=5, data=1), Layout(members=2, data=4), Layout(members=5, data=1))
    """
    layouts = [
        Layout(across, data)
        for across in range(1, devices + 1)
        for data in range(1, devices // across + 1)
        if batch_size % data == 0 and (data == 1 or batch_size // data >= LEAST_ROWS)
    ]
    if coupled:
        layouts = [layout for layout in layouts if members % layout.members == 0]
    if all_used:
        layouts = [layout for layout in layouts if layout.devices == devices]
    if not layouts:
        raise InputError(
            f"{members} members that see each other and a batch_size of {batch_size} do not divide "
            f"over the {devices} devices of all processes; choose members that are a multiple of "
            f"{devices}, a batch_size that is a multiple of {devices} and at least "
            f"{LEAST_ROWS * devices}, or other devices"
        )
    return min(layouts, key=lambda one: (-(-members // one.members), -one.data, one.members))


def devices_at_hand() -> int:
    """Devices that ``strategy="auto"`` may use: all, or as many as `SWITCH` says."""
    count, text = jax.device_count(), os.environ.get(SWITCH, "")
    if not text or jax.process_count() > 1:
        return count
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"{SWITCH} is {text!r}; give a number of devices, such as 1, or unset it")
    return min(count, int(text))


def mesh_of(layout: Layout) -> Mesh:
    """The first devices in this layout; axes that the compiler partitions by itself."""
    if layout.devices == jax.device_count():
        return jax.make_mesh(layout, AXES)
    return Mesh(np.array(jax.devices()[: layout.devices]).reshape(layout), AXES)


def automatic(mesh: Mesh) -> Mesh:
    """The same devices with axes that the compiler partitions by itself."""
    if set(mesh.axis_names) not in (set(AXES), {*AXES, MODEL}):
        raise InputError(
            f"the mesh has axes {mesh.axis_names}; give jax.make_mesh(shape, ('members', 'data'))"
        )
    return Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))


def check_layout(layout: Layout, members: int, batch_size: int, coupled: bool) -> None:
    """Raise an error if a batch, or members that see each other, do not divide over the mesh."""
    checked = [("batch_size", batch_size, "data", layout.data)]
    if coupled:
        checked.append(("members", members, "members", layout.members))
    for what, count, axis, devices in checked:
        if count % devices:
            raise InputError(
                f"{what} is {count} and the mesh has {devices} devices along '{axis}'; choose "
                f"{_nearest(count, devices)}, another mesh, or strategy='vmap'"
            )


def _nearest(count: int, devices: int) -> str:
    below = count - count % devices
    return f"{below} or {below + devices}" if below else str(devices)
