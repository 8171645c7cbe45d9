"""docker-compose.yml without an engine: each service's exact command as a process of this machine.

What an engine would isolate is kept as far as a process can: the environment is empty but for the
image's and the service's own, the files are those that COPY names, and where tests run as root
every service runs as the image's user, for whom those files are read-only, with no new privileges
and no capability but to read (the tests' interpreter may stand in a home). Volumes and tmpfs are
folders: paths in the environment that lead into them are translated.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.servers import dockerfile

UID = 10001  # the image's user
READ = "-all,+dac_read_search"
AS_USER = ["setpriv", "--no-new-privs", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
AS_USER += [f"--inh-caps={READ}", f"--ambient-caps={READ}", f"--bounding-set={READ}"]
PATIENCE = 180.0  # seconds
ROOT = Path(__file__).resolve().parents[2]


class MissingError(Exception):
    """A variable that `${NAME:?why}` demands."""


def interpolate(text: str, environment: Mapping[str, str]) -> str:
    """`text` with its variables filled in, by the rules of the Compose specification."""
    result, position = "", 0
    while (found := text.find("$", position)) >= 0:
        result += text[position:found]
        if text.startswith("$$", found):
            result, position = result + "$", found + 2
            continue
        if not text.startswith("${", found):
            raise ValueError(f"a $ that is neither $$ nor ${{NAME}}: {text[found:]}")
        end, depth = found + 2, 1
        while depth:
            depth += text.startswith("${", end) - (text[end] == "}")
            end += 1
        result += _value(text[found + 2 : end - 1], environment)
        position = end
    return result + text[position:]


def _value(inside: str, environment: Mapping[str, str]) -> str:
    match = re.fullmatch(r"(\w+)(?:(:[-?])(.*))?", inside, re.DOTALL)
    assert match, inside
    name, sign, rest = match.groups()
    if given := environment.get(name, ""):
        return given
    if sign == ":?":
        raise MissingError(f"{name}: {rest}")
    return interpolate(rest, environment) if sign else ""


def load(path: Path, environment: Mapping[str, str]) -> Any:
    """The file's document, its variables filled in."""

    def fill(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: fill(value) for key, value in node.items()}
        if isinstance(node, list):
            return [fill(value) for value in node]
        return interpolate(node, environment) if isinstance(node, str) else node

    document = yaml.safe_load(path.read_text())
    parts = {key: value for key, value in document.items() if not key.startswith("x-")}
    return fill(parts)


@dataclass
class Stack:
    """The services of a compose file, in folders below `home`; `given` run already.

    `given` maps a service that an engine would pull to the environment in which its tools reach
    the one that stands for it.
    """

    root: Path
    home: Path
    environment: Mapping[str, str]
    given: Mapping[str, Mapping[str, str]]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.services = load(self.root / "docker-compose.yml", self.environment)["services"]
        self.stages = dockerfile.read(self.root / "docker" / "Dockerfile")
        self.home.chmod(0o755)

    def build(self) -> None:
        """The files of both images, and the static files as the image collects them."""
        for target in ("web", "bench"):
            dockerfile.stage_files(self.stages[target], self.root, self.home / "image" / target)
        collect = next(r for r in self.stages["web"].all("RUN") if "collectstatic" in r)
        done = subprocess.run(
            ["sh", "-ec", collect.replace("/tmp/build", str(self.home / "build"))],
            cwd=self.home / "image" / "web",
            env={**self._image("web"), "ASSAY_STATIC": str(self.home / "image" / "static")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        self._seal("a-w")

    def close(self) -> None:
        """Stop everything, and let the files be removed."""
        self.stop(*self.running)
        self._seal("u+w")

    def up(self, *names: str) -> None:
        """Start services, and first what they depend on; each when its conditions hold."""
        seen: set[str] = set()
        for name in names or [n for n, s in self.services.items() if "profiles" not in s]:
            self._up(name, seen)

    def wait(self, *names: str) -> None:
        """Until the services are healthy, or have ended well where they have no health."""
        for name in names:
            healthy = "healthcheck" in self.services[name]
            self._await(name, "service_healthy" if healthy else "service_completed_successfully")

    def healthy(self, name: str) -> bool:
        """One run of the service's own health check."""
        kind, *command = self.services[name]["healthcheck"]["test"]
        words = ["sh", "-c", *command] if kind == "CMD-SHELL" else command
        return self.execute(name, *words).returncode == 0

    def execute(self, name: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command where a service runs, as `docker compose exec` does."""
        words = [*self._prefix(name), *command]
        where = self._where(name)
        return subprocess.run(
            words, **where, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )

    def stop(self, *names: str, seconds: float = 30) -> None:
        """End services, politely; those that stay are killed."""
        for name in names:
            self.running[name].terminate()
        deadline = time.monotonic() + seconds
        for name in names:
            with suppress(subprocess.TimeoutExpired):
                self.running[name].wait(max(0.1, deadline - time.monotonic()))
            with suppress(ProcessLookupError):  # an engine ends the whole container
                os.killpg(self.running[name].pid, signal.SIGKILL)
            self.running.pop(name).wait()

    def log(self, name: str) -> str:
        """What a service has said."""
        return (self.home / f"{name}.log").read_text(errors="replace")

    def shell(self, lines: str, cwd: Path) -> str:
        """Run shell lines of a document in which `docker compose` is this stack; their output."""
        output = ""
        for line in lines.replace("\\\n", "").splitlines():
            words = line.split()
            if words[:3] == ["docker", "compose", "stop"]:
                self.stop(*words[3:])
            elif words[:3] == ["docker", "compose", "up"]:
                self.up(*(word for word in words[3:] if not word.startswith("-")))
            else:
                output += self._line(line, cwd)
        return output

    def _line(self, line: str, cwd: Path) -> str:
        # `docker compose exec [-T] SERVICE …` becomes a program that goes where the service runs.
        table = {
            name: {"prefix": self._prefix(name), **self._where(name)} for name in self.services
        }
        (self.home / "where.json").write_text(json.dumps(table, default=str))
        match = re.search(r"docker compose exec (?:-T )?", line)
        if match:
            enter = f"{sys.executable} -m tests.servers.compose {self.home / 'where.json'} "
            line = line.replace(match[0], f"env PYTHONPATH={ROOT} {enter}")
        done = subprocess.run(["bash", "-euc", line], cwd=cwd, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _up(self, name: str, seen: set[str]) -> None:
        if name in seen:
            return
        seen.add(name)
        for other, needs in self.services[name].get("depends_on", {}).items():
            self._up(other, seen)
            self._await(other, needs["condition"])
        if name not in self.given and not self._runs(name):
            self._start(name)

    def _await(self, name: str, condition: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            process = self.running.get(name)
            ended = process is not None and process.poll() is not None
            if self._holds(name, condition):
                return
            said = "" if process is None else self.log(name)
            assert not ended, f"{name} has ended, {condition} is wanted:\n{said}"
            assert time.monotonic() < deadline, f"{name}: no {condition}\n{said}"
            time.sleep(0.5)

    def _holds(self, name: str, condition: str) -> bool:
        if condition == "service_completed_successfully":
            return self.running[name].poll() == 0
        if condition == "service_healthy":
            return (name in self.given or self._runs(name)) and self.healthy(name)
        raise ValueError(condition)

    def _runs(self, name: str) -> bool:
        return name in self.running and self.running[name].poll() is None

    def _start(self, name: str) -> None:
        with (self.home / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [*self._prefix(name), *self.services[name]["command"]],
                **self._where(name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _seal(self, mode: str) -> None:
        subprocess.run(["chmod", "-R", mode, str(self.home / "image")], check=True)

    def _prefix(self, name: str) -> list[str]:
        """What makes a command run as the service's user."""
        if name in self.given:
            return []
        return AS_USER if os.geteuid() == 0 else AS_USER[:2]

    def _where(self, name: str) -> dict[str, Any]:
        """Folder and environment of a service, as subprocess takes them."""
        service = self.services[name]
        if name in self.given:
            return {"cwd": str(self.home), "env": {**os.environ, **self.given[name]}}
        folders = self._folders(name)
        target = service.get("build", {}).get("target", "")
        environment = {**self._image(target), **self._own(service)}
        for variable, value in environment.items():
            for inner, outer in folders.items():
                if value == inner or value.startswith(f"{inner}/"):
                    environment[variable] = str(outer) + value.removeprefix(inner)
        inside = self.home / "image" / target
        cwd = folders.get(service.get("working_dir", ""), inside)
        return {"cwd": str(cwd), "env": environment}

    def _image(self, target: str) -> dict[str, str]:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        stage = self.stages.get(target)
        # A machine's own way to its interpreter's libraries, and nothing else of the tests'.
        return {"PATH": path, "LANG": "C.UTF-8", **(stage.environment() if stage else {})}

    def _own(self, service: Mapping[str, Any]) -> dict[str, str]:
        found = {}
        for name, value in service.get("environment", {}).items():
            if value is not None:
                found[name] = str(value)
            elif name in self.environment:
                found[name] = self.environment[name]
        return found

    def _folders(self, name: str) -> dict[str, Path]:
        service = self.services[name]
        folders = {"/static": self.home / "image" / "static"}
        for place in service.get("tmpfs", []):
            if place != "/tmp":
                folders[place] = self.home / "tmpfs" / name / place.strip("/")
        for volume in service.get("volumes", []):
            source, place = volume.split(":")[:2]
            folders[place] = self.home / "volumes" / source
        for folder in list(folders.values())[1:]:
            if not folder.exists():
                folder.mkdir(parents=True)
                if os.geteuid() == 0:
                    os.chown(folder, UID, UID)
        return folders


def _enter(table: str, name: str, *command: str) -> None:
    """Become a command where a service runs."""
    where = json.loads(Path(table).read_text())[name]
    words = [*where["prefix"], *command]
    os.chdir(where["cwd"])
    os.execvpe(words[0], words, where["env"])


if __name__ == "__main__":
    _enter(*sys.argv[1:])
