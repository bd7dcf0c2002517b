"""What a training would cost on so many devices: a projection from two steps taken here."""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from credax.data.dataset import Split
from credax.errors import InputError
from credax.problem import Problem
from credax.training import Training
from credax.training.engine import build_program
from credax.training.mesh import choose_layout
from credax.training.program import Rows, advance, initialise
from credax.training.supply import narrow

BYTES_PER_SECOND = 1e10
"""Between two devices, where rows of a batch are divided: gradients are summed at every step."""


def check_devices(devices: int | None, speed: float | None, dry_run: bool) -> None:
    """Raise an error if the numbers cannot be used."""
    for name, value in (("devices", devices), ("device_speed", speed)):
        if value is None:
            continue
        if not dry_run:
            raise InputError(f"{name} is {value} without --dry-run; it says what to project on")
        if value <= 0:
            raise InputError(f"{name} is {value}; give a positive number")
    if speed is not None and devices is None:
        raise InputError(f"device_speed is {speed} without --devices; say on how many devices")


def projected(
    problem: Problem,
    dynamics: Any,
    training: Training,
    data: Split,
    params: int,
    devices: int,
    speed: float,
) -> dict[str, Any]:
    """Layout, hours and memory of a training on so many devices.

    ``hours = steps · (⌈replicas / m⌉ · s / (v · d) + 8 · params · ⌈replicas / m⌉ / b)`` with ``m``
    devices along members and ``d`` along the batch, ``s`` seconds of one step of one replica here,
    ``v`` the speed of a device over that of this machine, and ``b`` bytes per second between
    devices, which count where ``d > 1``. Validation, checkpoints and what a method computes after
    the training are not counted.
    """
    replicas = dynamics.replicas.count
    layout = choose_layout(replicas, training.batch_size, devices, coupled=dynamics.coupled)
    each = -(-replicas // layout.members)
    seconds = _seconds_of_a_step(problem, dynamics, training, data)
    step = each * seconds / (speed * layout.data)
    if layout.data > 1:
        step += 8 * params * each / BYTES_PER_SECOND
    steps = training.epochs * training.steps_per_epoch(len(data))
    hours = steps * step / 3600
    return {
        "given": devices,
        "used": layout.devices,
        "along members": layout.members,
        "along data": layout.data,
        "replicas per device": each,
        "rows per device and step": training.batch_size // layout.data,
        "members x parameters x steps": f"{replicas} x {params} x {steps}",
        "seconds per step of a replica here": float(f"{seconds:.3g}"),
        "speed of a device over this machine": speed,
        "hours": float(f"{hours:.3g}"),
        "device hours": float(f"{hours * layout.devices:.3g}"),
        "kind": "a projection from one step here, not a measurement",
    }


def _seconds_of_a_step(problem: Problem, dynamics: Any, training: Training, data: Split) -> float:
    """Of one replica, on average, without compiling; replicas take turns, to spare memory."""
    in_turn = training.replace(strategy="map", members_at_once=1, placement="device")
    program = build_program(problem, dynamics, in_turn, data, jax.random.key(0))
    given = jax.device_put(Rows(np.asarray(data.x), narrow(data.y)))
    carry = initialise(program, Rows(np.asarray(data.x[:1]), narrow(data.y[:1])))
    best = np.inf
    for step in range(4):  # the first one compiles
        began = time.monotonic()
        inputs = (program, given, jnp.int32(step), jnp.int32(step + 1), None)
        carry = jax.block_until_ready(advance(inputs, carry))
        best = min(best, time.monotonic() - began) if step else best
    return float(best) / dynamics.replicas.count
