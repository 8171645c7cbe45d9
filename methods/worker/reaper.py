"""The process between a worker and a benchmark: nothing that the benchmark starts outlives it.

    python -I reaper.py PARENT '{"argv": […], "cwd": "…", "env": {…}, "limits": {…}, "grace": 1.0}'

The benchmark runs in its own session. When the worker dies, the kernel sends the reaper TERM. The
reaper adopts the benchmark's orphans (it is a subreaper), and kills and reaps every descendant
before it exits. It is a fresh, single-threaded process of the standard library alone, in which
code between fork and exec is safe. Exit status: the benchmark's, 128 + n for signal n.
"""

import json
import math
import os
import pwd
import resource
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

if __name__ == "__main__":  # started by its path and isolated: what holds this package is not on
    # sys.path, and the interpreter does not know which package this file is of (PEP 366).
    _folder = Path(__file__).resolve().parent
    sys.path.insert(0, str(_folder.parents[1]))
    __package__ = f"{_folder.parent.name}.{_folder.name}"

from assay_common.parent_death import adopt_orphans, die_with_parent, prctl

from . import landlock

WAKING = {signal.SIGCHLD, signal.SIGTERM}


class Spec(TypedDict):
    """A command, its directory, and the seconds from TERM to KILL.

    The benchmark can only write in that directory; root starts it as the directory's owner.
    """

    argv: list[str]
    cwd: str
    env: dict[str, str]
    limits: dict[str, int]  # names of `resource`, as RLIMIT_CORE
    grace: float


def start(spec: Spec) -> int:
    """Fork and exec the benchmark; its process id."""
    reaper = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WAKING)  # exec would keep the mask
        for name, value in spec["limits"].items():
            number = getattr(resource, name)
            hard = resource.getrlimit(number)[1]
            most = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(number, (most, most))
        os.chdir(spec["cwd"])
        become_owner(Path.cwd().stat())
        die_with_parent(reaper)  # not earlier: a change of user clears it
        landlock.restrict_writing(Path(spec["cwd"]))
        os.execve(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606 (no shell is wanted)
    except BaseException as error:
        os.write(2, f"The benchmark could not be started: {error}\n".encode())
    os._exit(127)


def become_owner(folder: os.stat_result) -> None:
    """Become the owner of `folder`, irrevocably, if this process is root and the owner is not."""
    if os.geteuid() != 0 or folder.st_uid == 0:
        return
    owner = pwd.getpwuid(folder.st_uid)
    prctl(landlock.PR_SET_NO_NEW_PRIVS, 1)  # sudo and other setuid programs gain nothing
    os.initgroups(owner.pw_name, owner.pw_gid)
    os.setresgid(owner.pw_gid, owner.pw_gid, owner.pw_gid)
    os.setresuid(owner.pw_uid, owner.pw_uid, owner.pw_uid)


def descendants(root: int) -> list[int]:
    """All descendants of `root`, in whatever session."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # pid (comm) state ppid …: comm may itself hold blanks and brackets.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    pids = list(children.get(root, []))
    for pid in pids:
        pids += children.get(pid, [])
    return pids


def reap(benchmark: int) -> int | None:
    """Reap the children that have ended; the benchmark's wait status if it is among them."""
    status = None
    with suppress(ChildProcessError):
        while True:
            pid, status_word = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            if pid == benchmark:
                status = status_word
    return status


def wait(benchmark: int, grace: float) -> int | None:
    """Wait for the benchmark: its wait status; None if it does not end within `grace` of TERM."""
    kill_at = math.inf
    while (status := reap(benchmark)) is None and time.monotonic() < kill_at:
        left = min(kill_at - time.monotonic(), 3600.0)
        woken = signal.sigtimedwait(WAKING, max(left, 0))
        if woken and woken.si_signo == signal.SIGTERM and kill_at == math.inf:
            kill_at = time.monotonic() + grace
            with suppress(ProcessLookupError):
                os.killpg(benchmark, signal.SIGTERM)
    return status


def kill_descendants(benchmark: int) -> int:
    """Kill all descendants; the benchmark's wait status, 0 if it was reaped before."""
    status = 0
    while below := descendants(os.getpid()):  # an orphan may have forked as it was killed
        for pid in below:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        signal.sigtimedwait(WAKING, 0.01)
        status = reap(benchmark) or status
    return status


def main() -> int:
    """Run the benchmark that the arguments specify; the exit status."""
    # Nothing is polled: waking up would disturb the measurement.
    signal.pthread_sigmask(signal.SIG_BLOCK, WAKING)
    die_with_parent(int(sys.argv[1]), signal.SIGTERM)
    adopt_orphans()
    spec: Spec = json.loads(sys.argv[2])
    benchmark = start(spec)
    status = wait(benchmark, spec["grace"])
    after = kill_descendants(benchmark)
    code = os.waitstatus_to_exitcode(after if status is None else status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
