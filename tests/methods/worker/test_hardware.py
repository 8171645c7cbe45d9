"""Detection of a worker's machine."""

from __future__ import annotations

import pytest

from methods.measure import environment
from methods.worker import hardware


def test_the_machine_describes_itself() -> None:
    here = hardware.describe("cpu", 512)
    assert here.memory_bytes == 512 * hardware.MIB
    assert here.device_name == environment.collect().hardware  # results are compared within it
    assert here.versions["python"]
    assert hardware.describe("cpu").memory_bytes > 256 * hardware.MIB


def test_no_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(hardware.NoDeviceError, match="nvidia-smi"):
        hardware.describe("gpu")
