"""A worker that is killed leaves nothing of its pool."""

from __future__ import annotations

import subprocess
import sys

from tests.processes import ROOT

# The main process dies after it has forked and before its child has asked to die with it.
KILLED_WHILE_IT_FORKS = """
import os, signal, time
from workers import stopping

stopping._remember_main()
main = os.getpid()
if os.fork():
    os.kill(main, signal.SIGKILL)
while os.getppid() == main:
    time.sleep(0.01)
stopping._die_with_main()
print("it lives on")
"""


def test_a_pool_of_a_worker_that_is_killed_while_it_forks() -> None:
    command = [sys.executable, "-c", KILLED_WHILE_IT_FORKS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (-9, "", "")
