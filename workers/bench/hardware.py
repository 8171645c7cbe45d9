"""The device, memory and software of the machine a worker runs on, without importing torch."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

Device = Literal["cpu", "gpu"]

MIB = 2**20
PACKAGES = ("torch", "numpy", "transformers", "triton")


class NoDeviceError(Exception):
    """The machine lacks the device that the worker is to serve."""


@dataclass(frozen=True)
class Machine:
    """A device class, the device's name, the memory one run may use, and the software on it."""

    device: Device
    device_name: str
    memory_mib: int
    versions: dict[str, str]


def describe(device: Device, memory_mib: int = 0) -> Machine:
    """This machine as a server of `device` ("cpu" or "gpu").

    `memory_mib` caps what a run may use; 0 means all but a quarter of main memory. Raises
    NoDeviceError where there is no GPU to serve.
    """
    main = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MIB
    memory = memory_mib or min(_cgroup_mib() or main, main) * 3 // 4
    versions = {"python": platform.python_version(), **_packages()}
    if device == "cpu":
        return Machine("cpu", _processor(), memory, versions)
    versions["driver"] = _nvidia_smi("driver_version")
    return Machine("gpu", _nvidia_smi("name"), memory, versions)


def gpu_used_mib() -> int:
    """Memory in use on the GPU a worker serves, by anyone. Raises NoDeviceError."""
    return int(_nvidia_smi("memory.used"))


def oom_kills() -> int:
    """How often the kernel has killed for memory in this control group, where it counts."""
    try:
        lines = Path("/sys/fs/cgroup/memory.events").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def _nvidia_smi(field: str) -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        raise NoDeviceError("nvidia-smi is not on PATH: this machine has no NVIDIA driver")
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
    query = [program, f"--query-gpu={field}", "--format=csv,noheader,nounits", f"--id={chosen}"]
    done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    if done.returncode or not done.stdout.strip():
        raise NoDeviceError(f"nvidia-smi: {(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            name = " ".join(line.partition(":")[2].split())
            return f"{name} ({len(os.sched_getaffinity(0))} threads)"
    return platform.machine()


def _cgroup_mib() -> int:
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return 0
    return int(limit) // MIB if limit.isdigit() else 0


def _packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # a worker may lack what none of its methods needs
    return found
