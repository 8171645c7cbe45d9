"""A worker that is killed leaves nothing of its pool."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.processes import ROOT

# The main process dies after it has forked and before its child has asked to die with it; nothing
# else that a pool's process does as it begins may come before.
KILLED_WHILE_IT_FORKS = """
import os, signal, time
from celery import signals
from {package} import app

signals.worker_process_init.connect(lambda **_: print("it lives on", flush=True), weak=False)
signals.worker_before_create_process.send(None)
main = os.getpid()
if os.fork():
    os.kill(main, signal.SIGKILL)
while os.getppid() == main:
    time.sleep(0.01)
signals.worker_process_init.send(None)
"""


@pytest.mark.parametrize("package", ["workers.site", "methods.worker"])
def test_a_pool_of_a_worker_that_is_killed_while_it_forks(package: str) -> None:
    command = [sys.executable, "-c", KILLED_WHILE_IT_FORKS.format(package=package)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (-9, "", "")
