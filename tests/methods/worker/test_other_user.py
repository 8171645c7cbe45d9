"""A benchmark that runs as another user, where the kernel has no Landlock to hold it."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from assay_common.env import SettingError
from methods.worker import app, landlock, sandbox
from tests.methods.worker.test_reaper import DEAF, FORKS, SLEEP, marked
from tests.processes import ROOT, wait_for

USER = pwd.getpwnam("nobody")
SYSTEM_PYTHON = "/usr/bin/python3"  # the tests' own may lie where root alone reads

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to lend: run it as root"),
    pytest.mark.skipif(
        not os.access(SYSTEM_PYTHON, os.X_OK), reason="needs a Python that every user may run"
    ),
]

WITHOUT_LANDLOCK = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from methods.worker import landlock, reaper
landlock.version = lambda: 0
sys.exit(reaper.main())
"""

ATTACK = """
import ctypes, json, os, pathlib, signal, sys
folder, data, theirs = pathlib.Path.cwd(), pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
reaper = pathlib.Path("/proc", str(os.getppid()))

def overwrite(path):
    # Without O_CREAT: a file that is missing is an error of the test, not a success of the attack.
    os.write(os.open(path, os.O_WRONLY), b"changed")

attempts = {
    "write": lambda: overwrite(data / "kept"),
    "make": lambda: (data / "new").touch(),
    "remove": lambda: (data / "kept").unlink(),
    "look": lambda: os.listdir(data),
    "read": lambda: (data / "kept").read_text(),
    "take": lambda: (data / "bench" / "one" / "taken" / "token").rmdir(),
    "write to others' /tmp": lambda: overwrite(theirs),
    "remove from /tmp": lambda: theirs.unlink(),
    "write to the checkout": lambda: (pathlib.Path(sys.argv[3]) / "new").touch(),
    "open its folder to itself": lambda: os.chmod(data, 0o777),
    "read the worker's environment": lambda: open(f"/proc/{sys.argv[4]}/environ", "rb").read(),
    "signal the worker": lambda: os.kill(int(sys.argv[4]), signal.SIGTERM),
    "signal the reaper": lambda: os.kill(os.getppid(), signal.SIGTERM),
    "be root again": lambda: os.setuid(0),
    "join root's group": lambda: os.setgid(0),
    "write by a child": lambda: sys.exit(os.system(f"echo > {data}/new 2>/dev/null") and 1 or 0),
    "write through the reaper": lambda: (reaper / "root" / data.relative_to("/") / "new").touch(),
}
(folder / "tmp" / "own").write_text("own")
pathlib.Path("/dev/null").write_text("nothing")
done, missing = [], []
for name, attempt in attempts.items():
    try:
        attempt()
        done.append(name)
    except PermissionError:
        pass
    except FileNotFoundError:
        missing.append(name)
    except SystemExit as end:
        done += [] if end.code else [name]
about = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines())
print(json.dumps([done, missing, os.getresuid(), os.getresgid(), os.getgroups(),
                  about["NoNewPrivs"],
                  int(about["CapPrm"], 16) | int(about["CapEff"], 16) | int(about["CapAmb"], 16)]))
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A bench worker's, in a data directory that is closed to others."""
    data = Path(tempfile.mkdtemp(prefix="assay-data-"))
    home = data / "bench" / "one"
    home.mkdir(parents=True)
    yield home
    shutil.rmtree(data)


@pytest.fixture
def theirs() -> Iterator[Path]:
    """Another user's file in a folder like /tmp, which nothing but this test empties."""
    folder = Path(tempfile.mkdtemp(prefix="assay-shared-"))
    folder.chmod(0o1777)
    file = folder / "theirs"
    file.write_text("theirs")
    yield file
    shutil.rmtree(folder)


@contextmanager
def started(private: Path, code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A benchmark under its reaper."""
    spec = {"argv": [SYSTEM_PYTHON, "-c", code, *arguments], "cwd": str(private), "grace": 0.5}
    spec |= {"env": {"MARK": str(private)}, "limits": {}}
    process = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_LANDLOCK, str(os.getpid()), json.dumps(spec)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        extra_groups=[0],  # as root has who signed in
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_it_writes_to_its_own_directory_and_has_no_way_back(home: Path, theirs: Path) -> None:
    data = home.parents[1]
    (data / "kept").write_text("kept")
    with (
        sandbox.private_directory(home, "token", USER) as private,
        subprocess.Popen([sys.executable, "-c", SLEEP]) as worker,
        started(private, ATTACK, str(data), str(theirs), str(ROOT), str(worker.pid)) as process,
    ):
        said, errors = process.communicate()
        worker.kill()
        assert said, errors
        done, missing, users, groups, others, no_new_privileges, capabilities = json.loads(said)
        assert (done, missing) == ([], [])
        assert {*users} == {USER.pw_uid}
        assert {*groups, *others} == {*os.getgrouplist(USER.pw_name, USER.pw_gid)}
        assert (no_new_privileges, capabilities) == ("1", 0)
        assert (private / "tmp" / "own").read_text() == "own"
        assert not private.is_relative_to(data)
    assert not private.exists()
    assert (data / "kept").read_text() == "kept"
    assert theirs.read_text() == "theirs"


def test_a_cancel_ends_it_and_all_it_started(home: Path) -> None:
    for token, code in (("deaf", DEAF), ("forks", FORKS.format(seconds=3600))):
        with (
            sandbox.private_directory(home, token, USER) as private,
            started(private, code) as process,
        ):
            assert process.stdout.readline()
            assert marked(str(private))
            process.terminate()
            process.wait()
            assert not marked(str(private))


def test_it_dies_with_a_reaper_that_is_killed(home: Path) -> None:
    with (
        sandbox.private_directory(home, "token", USER) as private,
        started(private, SLEEP) as process,
    ):
        wait_for(lambda: marked(str(private)), "the benchmark")
        process.kill()
        process.wait()
        wait_for(lambda: not marked(str(private)), "its end")


def test_what_a_killed_worker_left_is_removed(home: Path) -> None:
    directory = sandbox.private_directory(home, "token", USER)
    private = directory.__enter__()
    command = [SYSTEM_PYTHON, "-c", SLEEP]
    left = subprocess.Popen(
        command, env={"HOME": str(private)}, user=USER.pw_uid, group=USER.pw_gid, extra_groups=[]
    )
    wait_for(lambda: b"HOME=" in Path(f"/proc/{left.pid}/environ").read_bytes(), "it")
    sandbox.remove_leftovers(home.with_name("another"))
    assert left.poll() is None
    assert private.exists()
    sandbox.remove_leftovers(home)
    assert left.wait() == -9
    assert not private.exists()


def test_a_user_that_cannot_be_lent(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    assert sandbox.account("") is None
    closed = home / "python"
    closed.write_text("#!/bin/sh\n")
    closed.chmod(0o755)
    wordy = Path(tempfile.gettempdir(), f"{home.parents[1].name}-python")
    wordy.write_text("#!/bin/sh\necho no package for you >&2; exit 1\n")
    wordy.chmod(0o755)
    for python, name, said in (
        (SYSTEM_PYTHON, "nobody-at-all", "name not found"),
        (str(closed), USER.pw_name, f"who may run {closed}"),
        ("/bin/false", USER.pw_name, f"and read {ROOT}"),
        (str(wordy), USER.pw_name, "no package for you"),
    ):
        monkeypatch.setattr(sys, "executable", python)
        with pytest.raises(SettingError, match=said):
            sandbox.account(name)
    wordy.unlink()
    monkeypatch.setattr(sys, "executable", "/bin/true")
    assert sandbox.account(USER.pw_name) == USER


def test_the_workers_page_says_which_guard_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "version", lambda: 1)
    assert "its own directory alone (Landlock)" in app.guard(USER)
    monkeypatch.setattr(landlock, "version", lambda: 0)
    assert "wherever the user nobody can" in app.guard(USER)
    assert "wherever this worker can" in app.guard(None)
