"""The machine and the software a number belongs to. Works without git and without nvidia-smi."""

import hashlib
import importlib
import importlib.metadata
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

import psutil

from assay_common import __version__
from assay_common.text import one_line

from ..protocol import Environment, Gpu, MachineState
from . import control_groups

ROOT = Path(__file__).resolve().parents[2]
CODE = ("methods", "assay_common")
LOCK = ROOT / "requirements" / "ml.txt"
PACKAGES = ("torch", "numpy", "transformers", "peft", "triton", "local-attention")
_TIMEOUT_S = 20
_GPU_STATE = (
    *("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw"),
    "clocks_throttle_reasons.active",
)
# Reasons nvidia-smi gives for holding the clock back: power, heat, an external brake.
_THROTTLED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80


# Memory that a call frees stays with the process: else every large tensor is mapped, filled with
# zeros and unmapped again, which slows some libraries by half and others not at all.
ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "2147483647"}


def collect(device: str = "cpu") -> Environment:
    """Everything about this machine that a measurement on ``device`` depends on."""
    gpu = _gpu() if device == "cuda" else None
    commit, dirty = _commit()
    return Environment(
        hardware=gpu.name if gpu else processors(),
        processor=_processor(),
        cores=cores(),
        threads=sys.modules["torch"].get_num_threads() if "torch" in sys.modules else 1,
        memory_bytes=int(psutil.virtual_memory().total),
        gpu=gpu,
        platform=platform.platform()[:200],
        versions=versions() | {"malloc": " ".join(map("=".join, ALLOCATOR.items()))},
        commit=commit,
        dirty=dirty,
        lock_sha256=hashlib.sha256(LOCK.read_bytes()).hexdigest() if LOCK.is_file() else "",
        before=machine_state(device),
    )


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds since boot on the processors that we may use, and our own."""

    busy: float
    stolen: float
    total: float
    ours: float
    throttled: float

    @classmethod
    def now(cls) -> Self | None:
        """Return the times as of now, or None where the system does not provide them."""
        try:
            allowed = os.sched_getaffinity(0)
            every = enumerate(psutil.cpu_times(percpu=True))
            rows = [processor for number, processor in every if number in allowed]
            idle = sum(row.idle + row.iowait for row in rows)
            stolen = sum(row.steal for row in rows)
        except (OSError, AttributeError):
            return None
        total = sum(sum(row[:8]) for row in rows)  # guests are counted in user
        if not total:
            return None
        own = os.times()
        return cls(
            busy=total - idle - stolen,
            stolen=stolen,
            total=total,
            ours=own.user + own.system + own.children_user + own.children_system,
            throttled=sum(control_groups.values("cpu.stat", "throttled_usec ")) / 1e6,
        )


def machine_state(device: str = "cpu", since: CpuTimes | None = None) -> MachineState:
    """Clocks, temperatures, power and load as they are now; None what cannot be read.

    With ``since``, also what others took of the processors from then to now.
    """
    now = CpuTimes.now() if since else None
    spent: dict[str, float] = {}
    if now and since and now.total > since.total:
        passed = now.total - since.total
        elsewhere = (now.busy - since.busy) - (now.ours - since.ours)
        spent = {
            "cpu_elsewhere": min(1.0, max(0.0, elsewhere / passed)),
            "cpu_stolen": (now.stolen - since.stolen) / passed,
            "cpu_throttled_s": now.throttled - since.throttled,
        }
    frequency = psutil.cpu_freq()
    gpu = nvidia_smi(_GPU_STATE, _gpu_id()) if device == "cuda" else {}
    reasons = gpu.get("clocks_throttle_reasons.active", "")
    return MachineState(
        **spent,
        cpu_mhz=float(frequency.current) if frequency else None,
        load=psutil.getloadavg()[0],
        gpu_mhz=_number(gpu.get("clocks.sm")),
        gpu_memory_mhz=_number(gpu.get("clocks.mem")),
        gpu_celsius=_number(gpu.get("temperature.gpu")),
        gpu_watts=_number(gpu.get("power.draw")),
        gpu_throttled=bool(int(reasons, 16) & _THROTTLED) if reasons.startswith("0x") else None,
        gpu_other_processes=_other_processes() if gpu else None,
    )


@cache
def _processor() -> str:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    match = re.search(r"(?im)^model name\s*:(.+)$", text)
    name = one_line(match[1]) if match else platform.processor() or platform.machine()
    return name[:150] or "unknown"


def cores() -> int:
    """Return the number of processors that we may use, by affinity and by the container's quota."""
    quota = control_groups.processor_quota()
    return max(1, math.ceil(min(len(os.sched_getaffinity(0)), quota)))


def processors() -> str:
    """The class of hardware that results on the CPU are compared within."""
    return f"{_processor()}, {cores()} cores"


def versions() -> dict[str, str]:
    """Python's, and those of the packages that a measurement depends on."""
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            installed[package] = importlib.metadata.version(package)
    if not (ROOT / "methods").is_dir():  # a checkout is known by its commit
        installed["assay-methods"] = __version__
    if "torch" in sys.modules and (cuda := sys.modules["torch"].version.cuda):
        installed["cuda"] = cuda
    return installed


def _commit() -> tuple[str, bool | None]:
    if not (ROOT / "methods").is_dir():
        return "", None  # installed: a repository around this folder would be another's
    commit = _output(["git", "-C", str(ROOT), "rev-parse", "HEAD"])
    if not commit:
        return "", None
    status = _output(["git", "-C", str(ROOT), "status", "--porcelain", "--", *CODE])
    return commit.strip(), None if status is None else bool(status.strip())


def _gpu_properties() -> Any:
    # By name: workers describe their machine without torch, and never call this.
    torch: Any = importlib.import_module("torch")
    return torch.cuda.get_device_properties(torch.cuda.current_device())


def _gpu() -> Gpu:
    properties = _gpu_properties()
    smi = nvidia_smi(("driver_version", "power.limit"), _gpu_id())
    return Gpu(
        name=properties.name,
        memory_bytes=int(properties.total_memory),
        driver=smi.get("driver_version", "")[:200],
        power_limit_watts=_number(smi.get("power.limit")),
        capability=f"{properties.major}.{properties.minor}",
        l2_bytes=int(properties.L2_cache_size),
    )


def nvidia_smi(fields: Sequence[str], gpu: str) -> dict[str, str]:
    """The fields that nvidia-smi reports of a GPU, by number or UUID; empty without it."""
    query = f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"
    text = _output(["nvidia-smi", *query, f"--id={gpu}"])
    values = text.splitlines()[0].split(",") if text else []
    return {field: value.strip() for field, value in zip(fields, values, strict=False)}


def _gpu_id() -> str:
    """The GPU as nvidia-smi knows it: its UUID, since CUDA_VISIBLE_DEVICES renumbers."""
    uuid = str(_gpu_properties().uuid)
    return uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"


def _other_processes() -> int | None:
    query = "--query-compute-apps=pid", "--format=csv,noheader", f"--id={_gpu_id()}"
    text = _output(["nvidia-smi", *query])
    if text is None:
        return None
    return sum(pid.strip() not in ("", str(os.getpid())) for pid in text.splitlines())


def _number(text: str | None) -> float | None:
    """Parse a number of nvidia-smi; None for anything else."""
    try:
        return float(text or "")
    except ValueError:
        return None


def _output(command: list[str]) -> str | None:
    """Return the output of a command; None if it is missing, fails or hangs."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
