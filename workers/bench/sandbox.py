"""Where a benchmark runs: a fresh directory, a scrubbed environment, limits of the kernel."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from methods.protocol import Job
from webapp.env import SettingError

ROOT = Path(__file__).resolve().parents[2]
MIB = 2**20
REMEMBER = 2 * 86_400  # seconds for which a token is known to be taken

# What a benchmark may know of its surroundings; everything else stays with the worker: the
# broker's address, keys, whatever an operator's shell held.
PASSED_ON = (
    "ASSAY_METHODS_PATH",
    "ASSAY_MODELS",
    "CUDA_DEVICE_ORDER",
    "CUDA_HOME",
    "CUDA_VISIBLE_DEVICES",
    "HF_HOME",
    "LANG",
    "LD_LIBRARY_PATH",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "PATH",
    "TZ",
)
SET = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONPATH": str(ROOT),
    "PYTHONUNBUFFERED": "1",
}
User = pwd.struct_passwd | None


class TakenError(Exception):
    """The attempt was taken before: its message came twice."""


def account(name: str) -> User:
    """The user that ASSAY_BENCH_USER names for benchmarks. Raises SettingError."""
    if not name:
        return None
    try:
        user = pwd.getpwnam(name)
        subprocess.run(
            [sys.executable, "-m", "methods", "list"],
            cwd="/",
            env=environment(Path("/")),
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=os.getgrouplist(name, user.pw_gid),
            capture_output=True,
            text=True,
            check=True,
        )
    except (KeyError, OSError, subprocess.CalledProcessError) as error:
        wanted = f"root can lend a user who may run {sys.executable} and read {ROOT}"
        reason = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
        raise SettingError(f"ASSAY_BENCH_USER={name!r}: {wanted} ({reason})") from error
    return user


def _places(home: Path) -> tuple[Path, Path]:
    """How the paths of private directories begin: in `home`, and where another user reaches them.

    The data directory is closed to others.
    """
    name = sha256(os.fsencode(home)).hexdigest()[:16]
    return home / "run-", Path(gettempdir()) / f"assay-{name}-"


@contextmanager
def private_directory(home: Path, token: str, user: User = None) -> Iterator[Path]:
    """A private directory for one attempt, gone afterwards. Raises TakenError the second time.

    It belongs to `user`, if there is one.

    The mark that an attempt was taken outlives processes, so that a job which the broker delivers
    twice is measured once whatever died in between.
    """
    taken = home / "taken"
    taken.mkdir(parents=True, exist_ok=True)
    try:
        (taken / token).mkdir()
    except FileExistsError:
        raise TakenError(token) from None
    ours, anothers = _places(home)
    place = anothers if user else ours
    with TemporaryDirectory(
        prefix=place.name, dir=place.parent, ignore_cleanup_errors=True
    ) as private:
        temporary = Path(private) / "tmp"
        temporary.mkdir()
        if user:
            for folder in (temporary, temporary.parent):
                os.chown(folder, user.pw_uid, user.pw_gid)
        yield Path(private)


def remove_leftovers(home: Path) -> None:
    """Remove what a worker that was killed left behind, and marks too old to matter.

    Processes among it: where the reaper was killed, too, nobody else is left to end them.
    """
    for pid in _survivors(home):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for place in _places(home):
        for left in place.parent.glob(f"{place.name}*"):
            shutil.rmtree(left, ignore_errors=True)
    for mark in home.glob("taken/*"):
        with suppress(OSError):
            if mark.stat().st_mtime < time.time() - REMEMBER:
                mark.rmdir()


def _survivors(home: Path) -> Iterator[int]:
    """Processes that were started in a private directory of `home`, by their environment."""
    marks = [f"HOME={place}".encode() for place in _places(home)]
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (process / "environ").read_bytes()
            if any(mark in environment for mark in marks):
                yield int(process.name)


def environment(private: Path) -> dict[str, str]:
    """All that a benchmark's environment holds."""
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    caches = ("XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH")
    own = {name: str(private / "tmp" / name.lower()) for name in caches}
    return {**passed, **SET, **own, "HOME": str(private), "TMPDIR": str(private / "tmp")}


def limits(device: str, memory_bytes: int) -> dict[str, int]:
    """The kernel's limits by name. CUDA maps far more than it uses, so a GPU has none of memory.

    RLIMIT_DATA counts what is written to, so an allocation that is too large fails at once, with
    a MemoryError that the benchmark can report; RLIMIT_AS would count mapped files and stacks.
    """
    found = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": 512 * MIB, "RLIMIT_NOFILE": 4096}
    return found if device == "gpu" else {**found, "RLIMIT_DATA": memory_bytes}


def command(job: Job, device: str) -> list[str]:
    """The argument list that measures a job."""
    settings: list[str] = []
    for name, value in job.params.items():
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value)
            settings += ["--set", f"{name}={text}"]
    return [
        *(sys.executable, "-m", "methods", "run", f"{job.method}.{job.benchmark}", *settings),
        *("--seed", str(job.seed), "--device", "cuda" if device == "gpu" else "cpu"),
        *("--json", "-"),
    ]
