"""The virtual environment: made and filled before anything else is imported.

Standard library only. The environment is its own record of what is in it: a pinned package is
there when its `.dist-info/RECORD` is, which pip writes last. So a second start finds nothing to
do, and one that was killed half-way begins again where it stopped.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent
REQUIREMENTS = ROOT / "requirements"
PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;#]+)")
# A complete lock needs no resolving. Not so with torch: the pin is one version of many builds,
# and a CUDA build brings libraries of its own.
RESOLVED = {"ml"}


class BootstrapError(Exception):
    """The environment cannot be made; the message says what to do about it."""


@dataclass(frozen=True)
class Progress:
    """How far an installation is: `done` of `total` packages fetched or installed."""

    group: str
    step: str  # "environment", "fetching", "installing", "installed"
    done: int
    total: int
    seconds: float

    def as_dict(self) -> dict[str, object]:
        """The fields by name, ready for JSON."""
        return asdict(self)


Report = Callable[[Progress], None]


def environment() -> Path:
    """Where the virtual environment is or will be."""
    return Path(os.environ.get("ASSAY_VENV") or ROOT / ".venv").expanduser().absolute()


def python_of(venv: Path) -> Path:
    """The interpreter of a virtual environment."""
    return venv / "bin" / "python"


def pins(group: str, folder: Path = REQUIREMENTS) -> dict[str, str]:
    """What `requirements/<group>.txt` locks: normalised name to version."""
    found = {}
    for line in (folder / f"{group}.txt").read_text().splitlines():
        if match := PIN.match(line):
            found[_normal(match[1])] = match[2]
    return found


def installed(folders: Iterable[str | Path]) -> dict[str, str]:
    """The packages wholly installed in site-packages folders: normalised name to version."""
    found: dict[str, str] = {}
    for folder in folders:
        for info in Path(folder).glob("*.dist-info"):
            if (info / "RECORD").exists():
                name, _, version = info.name.removesuffix(".dist-info").partition("-")
                # A local build (2.13.0+cpu) is that version.
                found.setdefault(_normal(name), version.partition("+")[0])
    return found


def missing(group: str, folders: Iterable[str | Path], requirements: Path = REQUIREMENTS) -> int:
    """How many of a group's pins the folders lack."""
    there = installed(folders)
    return sum(there.get(name) != version for name, version in pins(group, requirements).items())


def enter(groups: Iterable[str], report: Report | None = None) -> None:
    """Go on in an interpreter that has `groups`, or raise BootstrapError.

    Returns at once where this one has them (a container, a developer's own environment). Else it
    fills the virtual environment and replaces this process by the same command in there.
    """
    groups = tuple(groups)
    if not any(missing(group, sys.path) for group in groups):
        return
    python, folders = python_of(environment()), _site_packages(environment())
    if not python.exists() or any(missing(group, folders) for group in groups):
        python = provide(groups, report or show())
    if Path(sys.prefix).resolve() == environment().resolve():
        invalidate_caches()
        return  # already in it; what was missing is there now
    sys.stdout.flush()
    os.execv(python, [str(python), *sys.argv])  # noqa: S606 (no shell is wanted)


def provide(
    groups: Iterable[str], report: Report, venv: Path | None = None, folder: Path = REQUIREMENTS
) -> Path:
    """Make the virtual environment have `groups`; its interpreter.

    One process works at a time and the others wait: the folder itself is the lock, and pip holds
    it too, so that a killed starter's pip is waited for as well.
    """
    venv = venv or environment()
    started = time.monotonic()
    with _locked(venv) as lock:
        _make(venv, lock, report)
        for group in groups:
            if missing(group, _site_packages(venv), folder):
                _install(venv, group, folder, lock, report)
                total = len(pins(group, folder))
                report(Progress(group, "installed", total, total, time.monotonic() - started))
    return python_of(venv)


def _make(venv: Path, lock: int, report: Report) -> None:
    """Create the environment, or finish one that was cut off."""
    contents = {path.name for path in venv.iterdir()}
    if contents - {"bin", "include", "lib", "lib64"} and "pyvenv.cfg" not in contents:
        raise BootstrapError(
            f"{venv} is in the way: it is not a virtual environment. "
            "Move it, or choose another folder with ASSAY_VENV."
        )
    _clear_cut_off(venv)
    if python_of(venv).exists() and "pip" in installed(_site_packages(venv)):
        return
    if find_spec("ensurepip") is None:
        raise BootstrapError(_without_ensurepip())
    report(Progress("environment", "environment", 0, 1, 0.0))
    _run([sys.executable, "-m", "venv", str(venv)], lock, "python -m venv")


def _install(venv: Path, group: str, folder: Path, lock: int, report: Report) -> None:
    """Run pip on one lock file, counting what it fetches and installs."""
    total, started = len(pins(group, folder)), time.monotonic()
    there = sum(1 for _ in installed(_site_packages(venv)))
    fetched = 0

    def count(line: str) -> None:
        nonlocal fetched
        # One such line opens each package; one that is there already is as good as fetched.
        if line.startswith(("Collecting ", "Processing ", "Requirement already satisfied")):
            fetched = min(fetched + 1, total)
        step("fetching" if fetched < total else "installing")

    def step(name: str) -> None:
        done = fetched
        if name == "installing":
            done = max(total - missing(group, _site_packages(venv), folder), 0)
        report(Progress(group, name, done, total, time.monotonic() - started))

    def tick() -> None:
        # While pip unpacks it says nothing: look at what has appeared.
        while not finished.wait(0.5):
            if fetched >= total or sum(1 for _ in installed(_site_packages(venv))) > there:
                step("installing")

    command = [str(python_of(venv)), "-m", "pip", "install", "--disable-pip-version-check"]
    command += ["--no-input", "--progress-bar", "off", "--no-compile"]
    if group not in RESOLVED:
        command.append("--no-deps")
    finished = threading.Event()
    watcher = threading.Thread(target=tick, daemon=True)
    watcher.start()
    try:
        _run([*command, "-r", str(folder / f"{group}.txt")], lock, "pip", count)
    finally:
        finished.set()
        watcher.join()
    if left := missing(group, _site_packages(venv), folder):
        raise BootstrapError(f"pip ended, but {left} packages of {group}.txt are not in {venv}.")


def _run(
    command: list[str], lock: int, name: str, on_line: Callable[[str], None] | None = None
) -> None:
    """Run a command to its end; its last words stand in the BootstrapError if it fails."""
    lines: list[str] = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        pass_fds=(lock,),
        preexec_fn=_die_with_parent,  # noqa: PLW1509 (it takes no lock that another thread may hold)
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            if on_line:
                on_line(line)
    if process.returncode:
        last = [line for line in lines if line.strip() and "WARNING" not in line][-6:]
        raise BootstrapError(
            "\n".join(
                [f"{name} failed (exit status {process.returncode}). It said last:"]
                + [f"    {line}" for line in last]
                + [_advice("\n".join(lines))]
            )
        )


def _die_with_parent() -> None:
    """Have the kernel end pip with this process, however that ends (Linux)."""
    if sys.platform == "linux":
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)


def _advice(output: str) -> str:
    """What a person can do about pip's failure."""
    if re.search(r"resolution|unreachable|timed out|refused|Retrying|No matching", output):
        return (
            "Is this machine online? Behind a proxy set HTTPS_PROXY; with a mirror set "
            "PIP_INDEX_URL. Run the same command again: what is installed stays."
        )
    if "No space left" in output:
        return "The disk is full. Free some space and run the same command again."
    return "Run the same command again once that is mended: what is installed stays."


def _without_ensurepip() -> str:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return (
        "This Python cannot make virtual environments: its venv package is missing. Install it:\n"
        f"    sudo apt-get install python{version}-venv\n"
        "then run the same command again."
    )


def _clear_cut_off(venv: Path) -> None:
    """Forget packages whose installation was cut off: pip would take them for whole."""
    for folder in _site_packages(venv):
        for info in folder.glob("*.dist-info"):
            if not (info / "RECORD").exists():
                shutil.rmtree(info)


@contextmanager
def _locked(venv: Path) -> Iterator[int]:
    """Hold the environment's folder; the descriptor that holds it."""
    venv.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(venv, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"Another process is filling {venv}; waiting for it.", flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _site_packages(venv: Path) -> list[Path]:
    return list(venv.glob("lib/python3*/site-packages"))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def show() -> Report:
    """A reporter that draws a bar on a terminal, and writes a few lines elsewhere."""
    last = ""

    def report(progress: Progress) -> None:
        nonlocal last
        if progress.step == "environment":
            text = "Making the virtual environment …"
        else:
            width = 24
            filled = width * progress.done // max(progress.total, 1)
            text = (
                f"{progress.group:>4} ▕{'█' * filled}{' ' * (width - filled)}▏ "
                f"{progress.done}/{progress.total} {progress.step} · {progress.seconds:.0f} s"
            )
        if sys.stdout.isatty():
            print(f"\r\x1b[K{text}", end="\n" if progress.step == "installed" else "", flush=True)
        elif progress.group + progress.step != last:
            print(text, flush=True)
        last = progress.group + progress.step

    return report
