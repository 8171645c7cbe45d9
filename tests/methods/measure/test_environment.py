"""The environment is told as far as it can be known, and never fails to be told."""

import os
import subprocess
import types
from pathlib import Path

import pytest
import torch

from methods.measure import environment
from methods.protocol import Environment
from tests.processes import ROOT


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_this_machine_is_described() -> None:
    found = environment.collect()
    assert found.processor
    assert found.hardware.startswith(found.processor)
    assert found.threads == torch.get_num_threads()
    assert found.cores == len(os.sched_getaffinity(0))
    assert found.memory_bytes > 2**28
    assert found.versions["torch"] == torch.__version__
    assert found.gpu is None
    assert Environment.model_validate_json(found.model_dump_json()) == found


def test_commit_lock_and_dirt_are_the_repositorys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    (tmp_path / "methods").mkdir()
    code = tmp_path / "methods" / "code.py"
    code.write_text("x = 1\n")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "first")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    found = environment.collect()
    assert (found.commit, found.dirty) == (git("rev-parse", "HEAD"), False)
    code.write_text("x = 2\n")
    assert environment.collect().dirty is True
    assert len(found.lock_sha256) == 64
    assert environment.LOCK == ROOT / "requirements" / "ml.txt"


def test_what_others_took_is_what_was_busy_less_our_own_work(monkeypatch) -> None:
    began = environment.CpuTimes(busy=100, stolen=1, total=1000, ours=10, throttled=0)
    ended = environment.CpuTimes(busy=108, stolen=1.5, total=1020, ours=15, throttled=0.25)
    monkeypatch.setattr(environment.CpuTimes, "now", lambda: ended)
    found = environment.machine_state(since=began)
    shares = found.cpu_elsewhere, found.cpu_stolen, found.cpu_throttled_s
    assert shares == pytest.approx(((8 - 5) / 20, 0.5 / 20, 0.25))


def test_our_own_time_is_that_of_our_children_too(monkeypatch) -> None:
    spent = types.SimpleNamespace(user=1.0, system=2.0, children_user=4.0, children_system=8.0)
    monkeypatch.setattr(environment.os, "times", lambda: spent)
    found = environment.CpuTimes.now()
    if found is None:
        pytest.fail("this system does not tell processor times")
    assert found.ours == 15


def test_without_git_or_nvidia_smi_less_is_said_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(environment, "LOCK", tmp_path / "none.txt")
    found = environment.collect()
    assert (found.commit, found.dirty, found.lock_sha256) == ("", None, "")
    monkeypatch.setattr(environment, "_gpu_id", lambda: "GPU-0")
    assert environment.machine_state("cuda").gpu_mhz is None


def test_a_gpus_readings_are_those_of_nvidia_smi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(
        tmp_path / "nvidia-smi",
        f'case "$1" in *compute-apps*) echo {os.getpid()}; echo 4242;;\n'
        '*) echo "1980, 3201, 41, [N/A], 0x0000000000000044";; esac',
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(environment, "_gpu_id", lambda: "GPU-0")
    found = environment.machine_state("cuda")
    assert (found.gpu_mhz, found.gpu_memory_mhz, found.gpu_celsius) == (1980, 3201, 41)
    assert found.gpu_watts is None
    assert found.gpu_throttled is True
    assert found.gpu_other_processes == 1


@pytest.mark.parametrize("text", ["exit 1", "echo", "echo 'No devices were found'"])
def test_an_nvidia_smi_that_fails_is_as_none(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "nvidia-smi", text)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(environment, "_gpu_id", lambda: "GPU-0")
    found = environment.machine_state("cuda")
    assert found.gpu_mhz is None
    assert found.gpu_throttled is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_real_gpu_is_described() -> None:
    found = environment.collect("cuda")
    assert found.gpu is not None
    assert found.hardware == found.gpu.name == torch.cuda.get_device_name()
    assert found.before.gpu_mhz
