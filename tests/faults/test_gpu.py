"""A worker on a GPU: it names the device, measures on it, and sees its memory free again."""

from __future__ import annotations

import shutil

import pytest

from methods.worker import hardware
from tests.processes import wait_for
from tests.runs.asking import ended, request
from tests.runs.rig import Rig
from webapp.runs import submit
from webapp.runs.models import State, Worker

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _gpu() -> None:
    if shutil.which("nvidia-smi") is None:
        pytest.skip("needs an NVIDIA GPU and its driver")


def test_a_gpu_worker(rig: Rig) -> None:
    from django.contrib.auth.models import User

    extra = {"ASSAY_WORKER_NAME": "gpu", "ASSAY_WORKER_KEY": rig.key("gpu")}
    rig.start("gpu", "-A", "methods.worker.app", "worker", "-Q", "bench-gpu", **extra)
    heard = Worker.objects.filter(name="gpu", last_seen__isnull=False)
    wait_for(heard.exists, "a heartbeat")
    worker = heard.get()
    assert (worker.device, worker.device_name) == ("gpu", hardware.describe("gpu").device_name)
    assert worker.versions["driver"]
    before = hardware.gpu_used_mib()
    reader = User.objects.create_user("gpu-reader")
    run = submit.submit(reader, request(device="gpu"))
    ended(run)
    assert run.state == State.SUCCEEDED, run.reason
    assert run.environment.data["gpu"]["name"]
    assert hardware.gpu_used_mib() <= before + 64
    rig.kill("gpu")
