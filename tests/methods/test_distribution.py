"""`pip install ./methods`: an environment with nothing else checks, measures and serves a site."""

from __future__ import annotations

import ast
import base64
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from celery import Celery
from redis import Redis

import bootstrap
from assay_common import __version__, redis_broker
from methods import protocol
from tests.processes import ROOT, wait_for

PROJECT = tomllib.loads((ROOT / "methods" / "pyproject.toml").read_text())["project"]
NAME, KEY = "elsewhere", "5a" * 32
# What a package is imported as, where that is another name.
IMPORTED_AS = {"pillow": "PIL", "pyyaml": "yaml", "scikit-learn": "sklearn"}
SECOND_NAME = """
import methods.registry
import assay_methods.spec, assay_methods.kit.seeds, methods.spec, methods.kit.seeds
assert assay_methods is methods and assay_methods.spec.Method is methods.spec.Method
assert assay_methods.kit.seeds is methods.kit.seeds
assert methods.spec.__spec__.name == "methods.spec"
print(sum(name.startswith("assay_methods") for name in __import__("sys").modules))
"""


@dataclass
class Installed:
    """A virtual environment with the distribution, away from the checkout."""

    folder: Path

    def uv_pip(self, *arguments: str) -> None:
        """Install something as its user would."""
        uv = shutil.which("uv") or str(Path(sys.prefix, "bin", "uv"))
        python = str(self.folder / "bin" / "python")
        command = [uv, "pip", "install", "--quiet", "--python", python, *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, with no other variable than its PATH."""
        return subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The distribution with a worker and torch, and a method of somebody else's beside it.

    The locked torch and what methods need with it come first, by the installer of `manage.py`:
    it takes the build for this machine, which a cache holds since the tests run on it too.
    """
    found = Installed(tmp_path_factory.mktemp("elsewhere") / "venv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_VENV", str(found.folder))
        bootstrap.environment().mkdir()
        bootstrap.provide(("ml", "torch"), lambda _line: None)
    locks = ("-c", str(ROOT / "requirements" / "worker.txt"))
    found.uv_pip(f"{ROOT / 'methods'}[torch,hf,worker]", *locks)
    made = found.run("assay-methods", "new", "thin", "--to", str(found.folder.parent / "thin"))
    assert made.returncode == 0, made.stderr
    found.uv_pip(str(found.folder.parent / "thin"))
    return found


@pytest.mark.slow
@pytest.mark.xdist_group("distribution")
def test_the_environment_has_neither_site_nor_checkout(installed: Installed) -> None:
    for module in ("django", "webapp", "workers", "methods"):
        assert "No module named" in installed.run("python", "-c", f"import {module}").stderr
    listed = installed.run("assay-methods", "list")
    assert "sparse_attention.latency" in listed.stdout
    shown = installed.run("python", "-m", "assay_methods", "describe", "seps")
    assert shown.returncode == 0, shown.stderr
    version = "from importlib.metadata import version; print(version('assay-methods'))"
    assert installed.run("python", "-c", version).stdout.strip() == __version__
    assert "no checkout of Assay" in installed.run("assay-methods", "new", "other").stderr


@pytest.mark.slow
@pytest.mark.xdist_group("distribution")
@pytest.mark.parametrize("check", [("seps", "--only", "padding"), ("thin",)])
def test_it_checks_a_method_of_ours_and_one_of_others(
    installed: Installed, check: tuple[str, ...]
) -> None:
    done = installed.run("assay-methods", "check", *check)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"(\d+) of \1 checks passed", done.stdout)


@pytest.mark.slow
@pytest.mark.xdist_group("distribution")
def test_its_worker_measures_for_a_site(
    installed: Installed, redis_url: str, tmp_path: Path
) -> None:
    """A signed job goes in, signed events of a measurement come out; the method is another's."""
    broker = Redis.from_url(redis_url)
    password = redis_broker.worker_password(bytes.fromhex(KEY))
    user = redis_broker.worker_user(NAME)
    broker.execute_command("ACL", "SETUSER", user, "on", f">{password}", "~*", "&*", "+@all")
    job = protocol.Job(
        run="run",
        attempt=1,
        token="token",
        method="thin",
        benchmark="latency",
        version=1,
        params={"sizes": [32], "rank": 2, "processes": 2, "seconds": 0},
        seed=7,
        limits=protocol.Limits(seconds=120),
    )
    site = Celery("site", broker=redis_url, set_as_current=False)
    sealed = {NAME: protocol.seal(job, bytes.fromhex(KEY))}
    with working(installed, redis_url, tmp_path) as said:
        wait_for(lambda: broker.llen("events"), "a heartbeat")
        site.send_task("bench.run", args=[sealed], queue="bench-cpu")
        wait_for(lambda: "result" in kinds(broker), f"a result; {said.read_text()}")
    assert kinds(broker) >= {"started", "check", "series", "result"}
    (started,) = (event.body for event in events(broker) if event.kind == "started")
    assert started.environment.versions["assay-methods"] == __version__
    assert started.environment.commit == ""


@contextmanager
def working(installed: Installed, broker: str, folder: Path) -> Iterator[Path]:
    """The worker as its page says to start it; the file of what it says."""
    log = folder / "log"
    environment = {
        "PATH": "/usr/bin:/bin",
        "ASSAY_WORKER_NAME": NAME,
        "ASSAY_WORKER_KEY": KEY,
        "CELERY_BROKER_URL": broker,
    }
    command = [str(installed.folder / "bin" / "assay-methods"), "worker", "--device", "cpu"]
    with log.open("wb") as output:
        worker = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=output
        )
    try:
        yield log
        assert worker.poll() is None, log.read_text()
    finally:
        worker.terminate()
        worker.wait()
    assert (folder / "var").is_dir(), "its data belong below where it was started"


def events(broker: Redis) -> list[protocol.Event]:
    """Messages of a worker on the site's queue, without its heartbeats."""
    found = []
    for message in reversed(broker.lrange("events", 0, -1)):
        task = json.loads(message)
        if task["headers"]["task"] == "runs.record":
            (sealed,), *_ = json.loads(base64.b64decode(task["body"]))
            found.append(protocol.unseal(protocol.Event, sealed, lambda _: bytes.fromhex(KEY)))
    return found


def kinds(broker: Redis) -> set[str]:
    return {event.kind for event in events(broker)}


def test_in_the_checkout_the_second_name_is_the_same_package() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SECOND_NAME], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 3


def test_what_the_methods_import_is_what_the_distribution_requires() -> None:
    extras = PROJECT["optional-dependencies"].values()
    required = {re.split(r"[<>=~]", name)[0] for name in sum(extras, PROJECT["dependencies"])}
    known = {IMPORTED_AS.get(name, name.replace("-", "_")) for name in required}
    # Come with those: with celery, redis; with transformers; with torch's builds for a GPU.
    known |= {"kombu", "safetensors", "huggingface_hub", "triton"}
    imported = set()
    for folder in ("methods", "assay_common"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    imported.add(str(node.module).partition(".")[0])
    others = imported - set(sys.stdlib_module_names) - {"assay_common"}
    assert others - known == set()
    assert known - others <= {"huggingface_hub"}
