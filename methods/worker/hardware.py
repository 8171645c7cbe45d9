"""The device, memory and software of the machine a worker runs on, without importing torch."""

import os
from dataclasses import dataclass
from typing import Literal

import psutil

from ..measure import control_groups, environment

Device = Literal["cpu", "gpu"]

MIB = 2**20


class NoDeviceError(Exception):
    """The machine lacks the device that the worker should serve."""


@dataclass(frozen=True)
class Machine:
    """A device class, the device's name, the memory that a run may use, and the software."""

    device: Device
    device_name: str
    memory_bytes: int
    versions: dict[str, str]


def describe(device: Device, memory_mib: int = 0) -> Machine:
    """This machine, as a worker for `device` ("cpu" or "gpu").

    `memory_mib` caps what a run may use; 0 means three quarters of main memory. Raises
    NoDeviceError if there is no GPU.
    """
    main = int(psutil.virtual_memory().total)
    main = min(control_groups.memory_limit() or main, main)
    memory = memory_mib * MIB or main * 3 // 4
    versions = environment.versions()
    if device == "cpu":
        return Machine("cpu", environment.processors(), memory, versions)
    versions["driver"] = _nvidia_smi("driver_version")
    return Machine("gpu", _nvidia_smi("name"), memory, versions)


def gpu_used_mib() -> int:
    """Memory in use on the GPU, by any process. Raises NoDeviceError."""
    return int(_nvidia_smi("memory.used"))


def oom_kills() -> int:
    """Count the processes of this control group that the kernel killed for memory, if it counts."""
    return next(iter(control_groups.values("memory.events", "oom_kill ")), 0)


def _nvidia_smi(field: str) -> str:
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
    value = environment.nvidia_smi([field], chosen).get(field)
    if not value:
        raise NoDeviceError(f"nvidia-smi is not on PATH, or does not report on GPU {chosen}.")
    return value
