"""The sandbox of a benchmark: a fresh directory, a scrubbed environment, kernel limits."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

import psutil

from assay_common.env import SettingError

from ..protocol import Job

ROOT = Path(__file__).resolve().parents[2]
METHODS = __name__.partition(".")[0]  # the package that measures, by the name that it has here
REMEMBER = 2 * 86_400  # seconds for which taken tokens are remembered

# The only variables that a benchmark inherits. The broker's address, keys and whatever else an
# operator's shell holds stay with the worker.
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
    """The attempt was taken before: its message was delivered twice."""


def account(name: str) -> User:
    """The user that ASSAY_BENCH_USER names for benchmarks. Raises SettingError."""
    if not name:
        return None
    try:
        user = pwd.getpwnam(name)
        subprocess.run(
            [sys.executable, "-m", METHODS, "list"],
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
        requirement = f"root can lend a user who may run {sys.executable} and read {ROOT}"
        reason = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
        raise SettingError(f"ASSAY_BENCH_USER={name!r}: {requirement} ({reason})") from error
    return user


def _places(home: Path) -> tuple[Path, Path]:
    """The prefixes of private directories: in `home`, and for another user in the temporary folder.

    Other users cannot enter the data directory.
    """
    name = sha256(os.fsencode(home)).hexdigest()[:16]
    return home / "run-", Path(gettempdir()) / f"assay-{name}-"


@contextmanager
def private_directory(home: Path, token: str, user: User = None) -> Iterator[Path]:
    """A temporary directory for one attempt, owned by `user` if given.

    Raises TakenError the second time: the mark that an attempt was taken stays on disk, so that a
    job that is delivered twice is measured once, whatever was killed in between.
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
    """Remove what a killed worker left behind, and old marks of taken attempts.

    That includes processes, which nothing else ends if the reaper was killed too.
    """
    places = _places(home)
    for process in psutil.process_iter():
        # Those that were started in a private directory: their environment names it.
        with suppress(psutil.Error):
            if process.environ().get("HOME", "").startswith(tuple(map(str, places))):
                process.kill()
    for place in places:
        for left in place.parent.glob(f"{place.name}*"):
            shutil.rmtree(left, ignore_errors=True)
    for mark in home.glob("taken/*"):
        with suppress(OSError):
            if mark.stat().st_mtime < time.time() - REMEMBER:
                mark.rmdir()


def environment(private: Path) -> dict[str, str]:
    """The whole environment of a benchmark."""
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    caches = ("XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH")
    own = {name: str(private / "tmp" / name.lower()) for name in caches}
    return {**passed, **SET, **own, "HOME": str(private), "TMPDIR": str(private / "tmp")}


def limits(device: str, memory_bytes: int) -> dict[str, int]:
    """The kernel's limits by name; none of memory on a GPU, since CUDA maps far more than it uses.

    RLIMIT_DATA counts writable private memory, so an allocation that is too large fails at once
    with a MemoryError that the benchmark can report; RLIMIT_AS would also count mapped files.
    """
    bounds = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": 512 * 2**20, "RLIMIT_NOFILE": 4096}
    return bounds if device == "gpu" else {**bounds, "RLIMIT_DATA": memory_bytes}


def command(job: Job, device: str) -> list[str]:
    """The argument list that measures a job."""
    settings: list[str] = []
    for name, value in job.params.items():
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value)
            settings += ["--set", f"{name}={text}"]
    return [
        *(sys.executable, "-m", METHODS, "run", f"{job.method}.{job.benchmark}", *settings),
        *("--seed", str(job.seed), "--device", "cuda" if device == "gpu" else "cpu"),
        *("--json", "-"),
    ]
