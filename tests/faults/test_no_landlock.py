"""A whole bench worker on a kernel without Landlock, as root: with a user to lend, and without."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.faults import no_landlock
from tests.processes import ROOT, wait_for
from tests.runs.asking import ask, ended
from tests.runs.rig import Rig
from webapp.runs.models import Run, State, Worker
from webapp.runs.queries import log_of

NOBODY = pwd.getpwnam("nobody")
SYSTEM_PYTHON = "/usr/bin/python3"  # the tests' own may lie where root alone reads

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to lend: run it as root"),
]


@pytest.fixture(scope="module")
def python() -> Iterator[str]:
    """A Python that every user may run, with the packages of this one."""
    version = 'import sys; print("%d.%d" % sys.version_info[:2])'
    told = subprocess.run([SYSTEM_PYTHON, "-c", version], capture_output=True, text=True)
    if told.stdout.strip() != "{}.{}".format(*sys.version_info):
        pytest.skip(f"needs {SYSTEM_PYTHON} of this version, which every user may run")
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        made = [SYSTEM_PYTHON, "-m", "venv", "--without-pip", folder]
        subprocess.run(made, check=True, umask=0o022)
        (packages,) = Path(folder).glob("lib/python3*/site-packages")
        (packages / "these.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        (packages / "these.pth").chmod(0o644)
        yield f"{folder}/bin/python"


@contextmanager
def worker(rig: Rig, python: str, user: str) -> Iterator[Worker]:
    """A bench worker that has been heard of."""
    settings = {"ASSAY_WORKER_NAME": "old", "ASSAY_WORKER_KEY": rig.key("old")}
    settings |= {"ASSAY_WORKER_MEMORY": "1500", "ASSAY_BENCH_USER": user}
    celery = [python, "-m", "celery", "--quiet", "-A", "methods.worker.app", "worker"]
    with (rig.data / "old.log").open("wb") as log:
        process = subprocess.Popen(
            [python, no_landlock.__file__, *celery, "-Q", "bench-cpu"],
            cwd=ROOT,
            env={**rig.environment, **settings},
            stdout=log,
            stderr=log,
        )
    try:
        heard = Worker.objects.filter(name="old", last_seen__isnull=False)
        wait_for(lambda: heard.exists() or process.poll() is not None, "a heartbeat")
        assert process.poll() is None, rig.log("old")
        yield heard.get()
    finally:
        process.terminate()
        process.wait()
        Worker.objects.filter(name="old").update(last_seen=None)


def writing(rig: Rig) -> tuple[Run, list[str]]:
    """A run that tries to write elsewhere, and what it says of it."""
    run = ended(ask("misbehave", how="writes_elsewhere"))
    return run, log_of(run).splitlines()


@pytest.fixture
def site(rig: Rig) -> Rig:
    """The rig without its own bench worker."""
    rig.kill("one")
    Worker.objects.filter(name="one").update(last_seen=None)
    return rig


def test_with_a_user_to_lend(site: Rig, python: str) -> None:
    with worker(site, python, "nobody") as heard:
        assert "No Landlock in its kernel" in heard.note
        assert "wherever the user nobody can" in heard.note
        run, said = writing(site)
    assert run.state == State.SUCCEEDED, run.reason
    assert run.worker == heard
    assert "its own directory: written" in said
    assert f"as user {NOBODY.pw_uid}" in said
    assert "the checkout: PermissionError" in said
    assert "the worker: PermissionError" in said


def test_without_one_it_says_so(site: Rig, python: str) -> None:
    with worker(site, python, "") as heard:
        assert heard.note == (
            "No Landlock in its kernel: a benchmark can write wherever this worker can."
        )
        run, said = writing(site)
    assert run.state == State.SUCCEEDED, run.reason
    assert "its own directory: written" in said
    assert "the checkout: written" in said, "else the note says too little"
