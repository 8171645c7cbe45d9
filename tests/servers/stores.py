"""Redis and PostgreSQL for a session of tests: real servers, thrown away afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.processes import PATIENCE, free_port


class DidNotStartError(Exception):
    """A server ended, or stayed dumb; the message holds its log."""


@contextmanager
def redis(program: str, folder: Path) -> Iterator[str]:
    """A Redis on a free port of this machine; its URL."""
    port = free_port()
    settings = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(folder)]
    log = folder / "redis.log"
    with log.open("wb") as output, _running([program, *settings], output) as process:
        _wait(process, log, lambda: socket.create_connection(("127.0.0.1", port), 1).close())
        yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def postgresql(programs: Path) -> Iterator[str]:
    """A PostgreSQL cluster on a socket in a short folder; its URL."""
    folder = Path(tempfile.mkdtemp(prefix="assay-pg-"))  # a socket's path has 107 characters
    cluster = Cluster(programs, folder)
    try:
        cluster.make()
        with cluster.running():
            yield cluster.url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Cluster:
    """A PostgreSQL cluster in an empty folder, which may end and be started again.

    PostgreSQL refuses to run as root, so root lends it another user.
    """

    programs: Path
    folder: Path

    def __post_init__(self) -> None:
        user = _lent_user()
        lent = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        self._options = {"cwd": self.folder, **lent}
        if user:
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        self.folder.chmod(0o711)  # whoever a test runs as reaches the socket
        self.url = f"postgresql://assay@{str(self.folder).replace('/', '%2F')}/postgres"

    def make(self) -> None:
        """Initialise it."""
        data = ("--pgdata", self.folder / "data")
        initdb = [self.programs / "initdb", *data, "--username", "assay", "--auth", "trust"]
        made = subprocess.run(
            [*initdb, "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync"],
            capture_output=True,
            text=True,
            **self._options,
        )
        if made.returncode:
            raise DidNotStartError(made.stderr)

    @contextmanager
    def running(self, *settings: str) -> Iterator[subprocess.Popen]:
        """Start it, and wait until it answers."""
        log = self.folder / "log"
        options = ["listen_addresses=", f"unix_socket_directories={self.folder}", "fsync=off"]
        options += settings
        command = [str(self.programs / "postgres"), "-D", str(self.folder / "data")]
        command += [word for option in options for word in ("-c", option)]
        with log.open("ab") as output, _running(command, output, **self._options) as server:
            port = dict(option.split("=", 1) for option in settings).get("port", "5432")
            _wait(server, log, lambda: _ask(self.folder, port))
            yield server


def new_database(server: str, name: str) -> str:
    """A database of one's own in a running cluster; its URL."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
    return f"{server.rpartition('/')[0]}/{name}"


def _ask(folder: Path, port: str) -> None:
    import psycopg

    psycopg.connect(
        host=str(folder), port=port, user="assay", dbname="postgres", connect_timeout=2
    ).close()


def _lent_user() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise DidNotStartError("root cannot run PostgreSQL, and there is no user postgres or nobody")


@contextmanager
def _running(command: list[str], output: object, **options: object) -> Iterator[subprocess.Popen]:
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, **options
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen, log: Path, ask) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except Exception as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise DidNotStartError(f"{process.args}: {error}\n{log.read_text()}") from error
            time.sleep(0.1)
