"""Nothing that a benchmark starts outlives its reaper, whoever is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from methods.worker import landlock, reaper
from tests.processes import wait_for

SLEEP = "import time; print('awake', flush=True); time.sleep(3600)"
DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True);" + (
    "time.sleep(3600)"
)
FORKS = """
import os, time
for own in (True, False):
    if os.fork() == 0:
        if own: os.setsid()
        if os.fork() == 0: time.sleep(3600)
        os._exit(0)
print('forked', flush=True)
time.sleep({seconds})
"""


def start(code: str, mark: str, grace: float = 0.5, **limits: int) -> subprocess.Popen[bytes]:
    spec = reaper.Spec(
        argv=[sys.executable, "-c", code], cwd="/", env={"MARK": mark}, limits=limits, grace=grace
    )
    return subprocess.Popen(
        [sys.executable, "-I", reaper.__file__, str(os.getpid()), json.dumps(spec)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def marked(mark: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and f"MARK={mark}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.fixture
def mark(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name}-{os.getpid()}"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
        ("import os; os.kill(os.getpid(), 11)", 128 + 11),
        ("import os; os.kill(os.getpid(), 9)", 128 + 9),
    ],
)
def test_passes_the_status_on(code: str, status: int, mark: str) -> None:
    assert start(code, mark).wait() == status


def test_term_is_passed_on_and_then_enforced(mark: str) -> None:
    for code, status in ((SLEEP, 128 + 15), (DEAF, 128 + 9)):
        process = start(code, mark)
        assert process.stdout.readline()  # else it is ended before it is deaf
        process.terminate()
        assert process.wait() == status
        assert not marked(mark)


@pytest.mark.parametrize("seconds", [0, 3600])
def test_grandchildren_go_too(mark: str, seconds: int) -> None:
    process = start(FORKS.format(seconds=seconds), mark)
    process.stdout.readline()
    if seconds:
        wait_for(lambda: len(marked(mark)) == 3, "the grandchildren alone")
        process.terminate()
    process.wait()
    assert not marked(mark)


def test_the_benchmark_dies_with_a_reaper_that_is_killed(mark: str) -> None:
    process = start(SLEEP, mark)
    wait_for(lambda: marked(mark), "the benchmark")
    process.kill()
    process.wait()
    wait_for(lambda: not marked(mark), "its end")


def test_everything_dies_with_the_reapers_parent(mark: str) -> None:
    """As when a worker's child is killed: the reaper is told by the kernel and cleans up."""
    code = (
        "import subprocess, sys, os, time;"
        "subprocess.Popen([sys.executable, '-I', sys.argv[1], str(os.getpid()), sys.argv[2]],"
        " start_new_session=True); time.sleep(3600)"
    )
    spec = reaper.Spec(
        argv=[sys.executable, "-c", FORKS.format(seconds=3600)],
        cwd="/",
        env={"MARK": mark},
        limits={},
        grace=0.2,
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, reaper.__file__, json.dumps(spec)], stdout=subprocess.PIPE
    )
    parent.stdout.readline()
    wait_for(lambda: len(marked(mark)) == 3, "the grandchildren alone")
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_for(lambda: not marked(mark), "the end of all of it")


def test_limits_hold(mark: str) -> None:
    hungry = "bytearray(300 << 20)[::4096] = b'x' * 76800"
    assert start(hungry, mark).wait() == 0
    assert start(hungry, mark, RLIMIT_DATA=200 << 20).wait() == 1


ATTACK = """
import json, os, pathlib, signal, sys
folder, outside = pathlib.Path.cwd(), pathlib.Path(sys.argv[1])
attempts = {
    "write": lambda: (outside / "kept").write_text("changed"),
    "append": lambda: (outside / "kept").open("a"),
    "truncate": lambda: os.truncate(outside / "kept", 0),
    "make": lambda: (outside / "new").touch(),
    "make a directory": lambda: (outside / "new").mkdir(),
    "link": lambda: (outside / "new").symlink_to("/etc/passwd"),
    "remove": lambda: (outside / "kept").unlink(),
    "move away": lambda: (outside / "kept").rename(folder / "taken"),
    "move out": lambda: (folder / "a" / "b").rename(outside / "new"),
    "write to /tmp": lambda: pathlib.Path(sys.argv[2]).touch(),
    "write by a child": lambda: sys.exit(os.system(f"echo > {outside}/new") and 1 or 0),
    "signal": lambda: os.kill(int(sys.argv[3]), signal.SIGTERM),
}
(folder / "a").mkdir()
(folder / "a" / "b").write_text("own")
(folder / "c").mkdir()
(folder / "a" / "b").replace(folder / "c" / "b")
(folder / "a" / "b").write_text("own")
pathlib.Path("/dev/null").write_text("nothing")
assert (outside / "kept").read_text() == "kept"
done = []
for name, attempt in attempts.items():
    try:
        attempt()
        done.append(name)
    except PermissionError:
        pass
    except SystemExit as end:
        done += [] if end.code else [name]
print(json.dumps(done), flush=True)
"""


@pytest.mark.skipif(not landlock.version(), reason="needs a kernel with Landlock, Linux 5.13")
def test_a_benchmark_writes_to_its_directory_alone(tmp_path: Path) -> None:
    private, elsewhere = tmp_path / "private", Path(f"/tmp/assay-attack-{os.getpid()}")
    private.mkdir()
    (tmp_path / "kept").write_text("kept")
    victim = subprocess.Popen([sys.executable, "-c", SLEEP])
    spec = reaper.Spec(
        argv=[sys.executable, "-c", ATTACK, str(tmp_path), str(elsewhere), str(victim.pid)],
        cwd=str(private),
        env={},
        limits={},
        grace=0.5,
    )
    try:
        done = subprocess.run(
            [sys.executable, "-I", reaper.__file__, str(os.getpid()), json.dumps(spec)],
            capture_output=True,
            text=True,
        )
    finally:
        victim.kill()
        victim.wait()
    before_scopes = ["signal"] if landlock.version() < landlock.SCOPES_SINCE else []
    assert json.loads(done.stdout) == before_scopes, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"private", "kept"}
    assert (tmp_path / "kept").read_text() == "kept"
    assert not elsewhere.exists()


def test_what_cannot_be_started(mark: str) -> None:
    spec = reaper.Spec(argv=["/nowhere"], cwd="/", env={}, limits={}, grace=0.1)
    done = subprocess.run(
        [sys.executable, "-I", reaper.__file__, str(os.getpid()), json.dumps(spec)],
        capture_output=True,
    )
    assert done.returncode == 127
    assert b"could not be started" in done.stderr
