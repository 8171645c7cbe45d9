"""The environment: made once, repaired after a kill, explained when it cannot be made.

A project of three files with two packages of its own stands in for Assay: the same bootstrap.py
and a real pip, no network.
"""

import ast
import base64
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import bootstrap
from tests.processes import ROOT, wait_for

PROGRAM = """
import sys
import bootstrap
try:
    bootstrap.enter(["web"])
except bootstrap.BootstrapError as error:
    sys.exit(str(error))
import first, second
print("runs with", first.VALUE, second.VALUE, "in", sys.prefix, "given", sys.argv[1:])
"""


def wheel(folder: Path, name: str, version: str) -> None:
    """Write a wheel with one module."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VALUE = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{path},sha256={digest.decode()},{len(text.encode())}\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)


class Project:
    """A checkout with a lock of two packages, and an empty place for its environment."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.venv, self.wheels = folder, folder / ".venv", folder / "wheels"
        (folder / "requirements").mkdir()
        self.wheels.mkdir()
        shutil.copy(ROOT / "bootstrap.py", folder)
        (folder / "app.py").write_text(PROGRAM)
        for name in ("first", "second"):
            wheel(self.wheels, name, "1.0")
        self.lock(first="1.0", second="1.0")
        (folder / "pip.conf").touch()
        keep = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        self.environment = keep | {
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_CONFIG_FILE": str(folder / "pip.conf"),
        }

    def lock(self, **versions: str) -> None:
        lines = [f"{name}=={version}  # via nothing\n" for name, version in versions.items()]
        (self.folder / "requirements" / "web.txt").write_text("".join(lines))

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            # The interpreter below any virtual environment: a machine with Python and no more.
            [Path(sys.base_prefix) / "bin" / "python3", "app.py", *arguments],
            cwd=self.folder,
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> tuple[int, str]:
        process = self.start(*arguments, **environment)
        output = process.communicate(timeout=120)[0]
        return process.returncode, output

    @property
    def site_packages(self) -> Path:
        return next(self.venv.glob("lib/python3*/site-packages"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_it_makes_the_environment_once_and_follows_the_lock(project: Project) -> None:
    status, output = project.run("--flag", "value")
    assert status == 0, output
    assert f"runs with 1.0 1.0 in {project.venv} given ['--flag', 'value']" in output
    assert "2/2 installed" in output

    # Nothing is left to do: it says nothing, and would not need pip.
    status, output = project.run(PIP_FIND_LINKS="/nowhere")
    assert status == 0
    assert output.startswith("runs with 1.0 1.0")

    wheel(project.wheels, "second", "2.0")
    project.lock(first="1.0", second="2.0")
    assert "runs with 1.0 2.0" in project.run()[1]

    # Cut off between a package's files and its RECORD, as a kill in pip would leave it.
    (project.site_packages / "first.py").unlink()
    (project.site_packages / "first-1.0.dist-info" / "RECORD").unlink()
    status, output = project.run()
    assert "runs with 1.0 2.0" in output

    # A Python that went away with the system's upgrade: made again in place.
    (project.venv / "bin" / "python").unlink()
    status, output = project.run()
    assert "runs with 1.0 2.0" in output


def pips_of(project: Project) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_text()
        except OSError:
            continue
        if str(project.venv) in command:
            found.append(int(folder.name))
    return found


@pytest.mark.parametrize("moment", ["bin/python", "bin/pip", "lib/*/*/first-1.0.dist-info"])
def test_it_begins_again_after_kill_9(project: Project, moment: str) -> None:
    process = project.start()
    wait_for(lambda: list(project.venv.glob(moment)), 60, moment)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    wait_for(lambda: not pips_of(project), 30, "the end of what it had started")
    status, output = project.run()
    assert status == 0, output
    assert "runs with 1.0 1.0" in output


def test_two_at_once_wait_for_each_other(project: Project) -> None:
    both = [project.start(), project.start()]
    outputs = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sum("2/2 installed" in output for output in outputs) == 1
    assert any("Another process is filling" in output for output in outputs)


def test_a_pip_that_fails_is_quoted_and_explained(project: Project) -> None:
    status, output = project.run(PIP_FIND_LINKS="/nowhere")
    assert status == 1
    assert "No matching distribution found for first==1.0" in output
    assert "Is this machine online?" in output
    assert "Traceback" not in output
    # Back online, the same command goes on.
    assert project.run()[0] == 0


def test_a_folder_that_is_no_environment_is_left_alone(project: Project) -> None:
    project.venv.mkdir()
    (project.venv / "thesis.tex").write_text("years of work")
    status, output = project.run()
    assert status == 1
    assert "is in the way" in output
    assert "ASSAY_VENV" in output
    assert [path.name for path in project.venv.iterdir()] == ["thesis.tex"]


def test_without_ensurepip_it_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "find_spec", lambda name: None)
    with pytest.raises(bootstrap.BootstrapError) as caught:
        bootstrap.provide(["web"], bootstrap.show(), venv=tmp_path / "venv")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"sudo apt-get install python{version}-venv" in str(caught.value)


def test_an_environment_that_has_everything_is_used_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_VENV", str(tmp_path / "venv"))
    bootstrap.enter(["web", "dev"])
    assert not (tmp_path / "venv").exists()


def test_an_older_python_is_told_so() -> None:
    source = (ROOT / "manage.py").read_text()
    ast.parse(source, feature_version=(3, 7))  # an older Python can read the file at all
    code = "import runpy, sys; sys.version_info = (3, 9, 2); runpy.run_path('manage.py')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Assay needs Python 3.11 or newer; this is 3.9." in done.stderr


def test_every_lock_pins_every_line() -> None:
    for path in bootstrap.REQUIREMENTS.glob("*.txt"):
        lines = [line for line in path.read_text().splitlines() if line.strip(" #")]
        assert len(bootstrap.pins(path.stem)) == len(lines), path
    assert bootstrap.pins("ml")["torch"] == "2.13.0"


@pytest.mark.parametrize("version", ["3.11.0", "3.11.3", "3.13.0"])
def test_the_locks_hold_what_every_python_needs(version: str) -> None:
    """A lock made on one Python leaves out what packages require on another: Debian's is 3.11.2.

    setuptools is torch's, to build extensions in C++, of which Assay has none.
    """
    groups = ("web", "ml", "dev")
    locked = {"setuptools"}.union(*map(bootstrap.pins, groups))
    python = {"python_full_version": version, "python_version": version.rpartition(".")[0]}
    missing = set()
    for name in locked - {"setuptools"}:
        for line in requires(name) or ():
            needed = Requirement(line)
            wanted = needed.marker is None or needed.marker.evaluate({**python, "extra": ""})
            if wanted and canonicalize_name(needed.name) not in locked:
                missing.add(f"{name} needs {line}")
    assert not missing
