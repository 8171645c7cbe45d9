"""`manage.py test --docker`: docker-compose.yml on a real engine, from the build to the upgrade.

It builds both images of the commit before this one and of this one, starts the older, measures,
kills the main process of every container in turn, backs up, restores, upgrades and measures again.
The engine is the one that `docker` finds (DOCKER_HOST names another); processes are killed by their
ids on its machine, so it must be this one, and whoever asks must be root. TORCH_INDEX names where
torch comes from, as for `docker build`. Everything is removed at the end.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

from tests.processes import ROOT, wait_for

IMAGES = {"web": "assay-web:local", "bench": "assay-bench:cpu"}
SERVICES = (
    "redis",
    "postgres",
    "web",
    "quick",
    "bulk",
    "arxiv",
    "mail",
    "summaries",
    "events",
    "beat",
    "bench-cpu",
)
BACKUP = "/backups/today"
SILENT = 31.0  # seconds: `restore` takes a site for running that was heard of within thirty

ASK = """
from django.contrib.auth.models import User
from webapp.runs.submit import RunRequest, submit
reader, _ = User.objects.get_or_create(username="tester")
print("run", submit(reader, RunRequest(method="sparse_attention", benchmark="latency")).pk)
"""
LOOK = """
from webapp.runs.models import Run
run = Run.objects.get(pk="{}")
print("state", run.state, run.series.count(), run.reason)
"""
OLDEST = """
from webapp.operate.models import Heartbeat
from webapp.runs.models import Worker
heard = [*Heartbeat.objects.values_list("at", flat=True)]
heard += Worker.objects.exclude(last_seen=None).values_list("last_seen", flat=True)
print("oldest", min(heard).timestamp())
"""
COUNT = "from webapp.runs.models import Run; print('runs', Run.objects.count())"


class Stack:
    """The services of docker-compose.yml under a name of their own, on a free port."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.command = compose_command()
        nowhere = "http://127.0.0.1:9"
        names = ("ASSAY_SECRET_KEY", "ASSAY_DB_PASSWORD", "ASSAY_REDIS_PASSWORD")
        self.environment = {
            **os.environ,
            **{name: secrets.token_hex(32) for name in names},
            "COMPOSE_PROJECT_NAME": f"assaytest{os.getpid()}",
            "ASSAY_PORT": str(port),
            "ASSAY_REDIS_PORT": str(port + 1),
            "ASSAY_ARXIV_RSS_URL": nowhere,  # the sample day: arXiv is not for tests
            "ASSAY_ARXIV_API_URL": nowhere,
        }

    def compose(self, *arguments: str) -> str:
        """Return the output of a Compose command; its errors go to the terminal."""
        command = [*self.command, "--file", str(ROOT / "docker-compose.yml"), *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, text=True
        )
        if done.returncode:
            print(done.stdout, flush=True)
        done.check_returncode()
        return done.stdout

    def python(self, code: str, word: str) -> list[str]:
        """The words after `word` in what code prints that runs beside the site's database."""
        said = self.compose("exec", "-T", "web", "python", "manage.py", "shell", "--command", code)
        return next(line.split()[1:] for line in said.splitlines() if line.startswith(word))

    def one_off(self, *arguments: str) -> None:
        """Run a command of the site in a container of its own that sees the backups."""
        volume = f"{self.folder}:/backups"
        site = ("web", "python", "manage.py", *arguments)
        self.compose("run", "--rm", "--volume", volume, *site)

    def get(self, page: str) -> tuple[int, str]:
        """Status and body of a page; 0 while nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{page}") as got:
                return got.status, got.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def wait_until_ready(self) -> None:
        """Wait until every queue answers and a bench worker lives."""

        def ready() -> bool:
            status, body = self.get("/readyz")
            return status == 200 and '"1 workers alive"' in body

        wait_for(ready, "a stack that is ready")

    def measure(self) -> None:
        """Ask for a run, and wait until it has succeeded."""
        (key,) = self.python(ASK, "run")

        def ended() -> list[str]:
            state = self.python(LOOK.format(key), "state")
            return [] if state[0] in {"queued", "dispatched", "running"} else state

        state, series, *reason = wait_for(ended, f"the end of run {key}")
        assert (state, series != "0") == ("succeeded", True), " ".join(reason)

    def kill(self, service: str) -> None:
        """kill -9 of a container's main process; the engine starts it again."""
        (container,) = self.compose("ps", "--quiet", service).split()
        look = ["docker", "inspect", "--format", "{{.State.Pid}}", container]
        before = subprocess.run(look, capture_output=True, text=True, check=True).stdout
        os.kill(int(before), signal.SIGKILL)

        def replaced() -> bool:
            now = subprocess.run(look, capture_output=True, text=True, check=True).stdout
            return now not in ("0\n", before)

        killed = time.time()

        def heard() -> bool:
            """Return whether the beat, every queue and every worker answered since."""
            (oldest,) = self.python(OLDEST, "oldest")
            return float(oldest) > killed

        wait_for(replaced, f"a new {service}")
        self.wait_until_ready()
        wait_for(heard, f"everybody to answer after {service} was killed")


def compose_command() -> list[str]:
    """Compose 2, or Debian's 1.29; SystemExit, in words, without an engine."""
    for command in (["docker", "compose"], ["docker-compose"]):
        with suppress(OSError):
            if not subprocess.run([*command, "version"], capture_output=True).returncode:
                break
    else:
        sys.exit("There is no Compose here: apt-get install docker-compose")
    if subprocess.run(["docker", "info"], capture_output=True).returncode:
        sys.exit("No Docker Engine answers: start dockerd, or name another with DOCKER_HOST.")
    return command


def build(source: Path) -> None:
    """Make both images from a checkout."""
    index = ["--build-arg=TORCH_INDEX"] if "TORCH_INDEX" in os.environ else []  # with its value
    for target, tag in IMAGES.items():
        file = ("--file", "docker/Dockerfile", "--target", target, "--tag", tag)
        command = ["docker", "build", "--network", "host", *index, *file, "."]
        subprocess.run(command, cwd=source, check=True)


def main(port: int = 18_000) -> int:
    """Every step in its order; the first that fails ends it with its reason."""
    began = time.monotonic()

    def say(step: str) -> None:
        print(json.dumps({"step": step, "seconds": round(time.monotonic() - began)}), flush=True)

    with tempfile.TemporaryDirectory(prefix="assay-docker-") as name:
        folder = Path(name)
        os.chown(folder, 10_001, 10_001)  # the containers' user
        stack = Stack(folder, port)
        former = folder / "former"
        former.mkdir()
        archive = ["git", "archive", "HEAD~1"]
        packed = subprocess.run(archive, cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(former)], input=packed, check=True)
        try:
            build(former)
            say("the images of the commit before are built")
            stack.compose("up", "--no-build", "--detach")
            stack.wait_until_ready()
            wait_for(lambda: "Sample day." in stack.get("/")[1], "the first digest")
            link = stack.compose("exec", "-T", "web", "python", "manage.py", "sign_in_link")
            assert f"http://localhost:{port}/sign-in/" in link, "the link leads elsewhere"
            say("it is ready, shows a digest and says where to sign in")
            stack.measure()
            say("a run was measured")
            for service in SERVICES:
                stack.kill(service)
                say(f"{service} was killed and is back")
            stack.measure()
            before = stack.python(COUNT, "runs")
            stack.one_off("backup", BACKUP)
            stack.measure()
            stack.compose(
                "stop", "web", "quick", "bulk", "arxiv", "mail", "summaries", "events", "beat"
            )
            time.sleep(SILENT)
            stack.one_off("restore", BACKUP)
            build(ROOT)
            say("it was backed up and restored, and the images of this commit are built")
            stack.compose("up", "--no-build", "--detach")
            stack.wait_until_ready()
            assert stack.python(COUNT, "runs") == before, "the restored database is not the backup"
            stack.measure()
            say("it was upgraded, holds what it held, and measures")
        finally:
            stack.compose("down", "--volumes", "--timeout", "5")
            shutil.rmtree(former, ignore_errors=True)
    return 0
