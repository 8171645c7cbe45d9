"""What some tests need of the machine: where it is, and how to get it where it is not."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Need:
    """A program of the system, the Debian package that brings it, and where it may stand."""

    program: str
    package: str
    places: tuple[str, ...] = ()

    def find(self) -> str | None:
        """Its path, if it is there."""
        if found := shutil.which(self.program):
            return found
        places = (path for place in self.places for path in sorted(Path("/").glob(place)))
        return next((str(path) for path in places if os.access(path, os.X_OK)), None)

    @property
    def why_not(self) -> str:
        """The reason of a skip, with the line that mends it."""
        return f"needs {self.program}: sudo apt-get install {self.package}"


CHROMIUM = Need("chromium", "chromium")
REDIS = Need("redis-server", "redis-server")
# Debian keeps the server's programs out of the PATH.
POSTGRESQL = Need("initdb", "postgresql", ("usr/lib/postgresql/*/bin/initdb",))
FAKETIME = Need("faketime", "faketime")
NEEDS = (CHROMIUM, REDIS, POSTGRESQL, FAKETIME)


def install() -> None:
    """Install what is missing, where this user may do so; elsewhere the tests say what to do."""
    missing = [need.package for need in NEEDS if not need.find()]
    if not missing or os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    print(f"Installing {', '.join(missing)} for the tests …", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *missing]):
        done = subprocess.run(
            ["apt-get", "-qq", *command], env=environment, capture_output=True, text=True
        )
        if done.returncode:
            print("\n".join(done.stderr.splitlines()[-5:]), flush=True)
            return
