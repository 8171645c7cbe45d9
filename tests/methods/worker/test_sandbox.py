"""The private directory, environment and limits of a benchmark."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from methods.worker import sandbox
from tests.methods.worker.jobs import JOB


def test_a_token_is_taken_once(tmp_path: Path) -> None:
    with sandbox.private_directory(tmp_path, "token") as private:
        assert private.stat().st_mode & 0o777 == 0o700
        (private / "file").touch()
        with pytest.raises(sandbox.TakenError), sandbox.private_directory(tmp_path, "token"):
            pass
    assert not private.exists()
    with pytest.raises(sandbox.TakenError), sandbox.private_directory(tmp_path, "token"):
        pass


def test_tidy_removes_what_a_killed_worker_left(tmp_path: Path) -> None:
    old, new = tmp_path / "taken" / "old", tmp_path / "taken" / "new"
    (tmp_path / "run-old" / "tmp").mkdir(parents=True)
    old.mkdir(parents=True)
    new.mkdir()
    os.utime(old, (0, 0))
    sandbox.remove_leftovers(tmp_path)
    assert not (tmp_path / "run-old").exists()
    assert not old.exists()
    assert new.exists()


def test_the_environment_is_an_allow_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("ASSAY_WORKER_KEY", "CELERY_BROKER_URL", "DATABASE_URL", "AWS_SECRET_ACCESS_KEY")
    for name in secrets:
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    found = sandbox.environment(tmp_path)
    assert "secret" not in found.values()
    assert found["OMP_NUM_THREADS"] == "3"
    assert found["HOME"] == str(tmp_path)
    assert found["HF_HUB_OFFLINE"] == "1"


def test_the_command_is_an_argument_list() -> None:
    command = sandbox.command(JOB, "gpu")
    assert command[:5] == [sys.executable, "-m", "methods", "run", "trial.sleep"]
    assert [b for a, b in pairwise(command) if a == "--set"] == [
        "seconds=0.5", "words=a b", "list=[1, 2]",
    ]  # fmt: skip
    assert command[-6:] == ["--seed", "7", "--device", "cuda", "--json", "-"]


def test_no_memory_limit_of_the_kernel_with_cuda() -> None:
    assert "RLIMIT_DATA" not in sandbox.limits("gpu", 1)
    assert sandbox.limits("cpu", 5)["RLIMIT_DATA"] == 5


def test_a_benchmark_finds_the_methods(tmp_path: Path) -> None:
    """Wherever it runs, by its environment alone."""
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "methods", "list"],
        cwd=tmp_path,
        env=sandbox.environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert "sparse_attention" in done.stdout, done.stderr
