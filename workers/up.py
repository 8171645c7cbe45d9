"""`manage.py up`: the whole house as children of one supervisor."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import django
from django.conf import settings
from django.core.management import call_command

from webapp.database import DatabaseError, bring_up_to_date
from webapp.env import SettingError
from workers.supervisor import Child, Supervisor, to_terminal

PORTS_TRIED = 100
HERE = "here"  # the bench worker on this machine
SERVING_SECONDS = 60


class UpError(Exception):
    """The house cannot be opened; the message says why and what to do."""


def main(arguments: list[str]) -> int:
    """Serve until Ctrl-C or TERM; the exit status."""
    options = _parser().parse_args(arguments)
    try:
        django.setup()
        with only_one(settings.DATA_DIR / "up.lock") as sign:
            return _serve(options, sign)
    except SettingError as error:
        sys.exit(f"Setting {error}")
    except (UpError, DatabaseError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="manage.py up", description=__doc__)
    parser.add_argument("--port", type=_port, default=8000, help="the first port to try (8000)")
    parser.add_argument(
        "--no-ml", action="store_true", help="do not install what running methods needs"
    )
    # Taken off by manage.py before this parser sees it; here for --help.
    parser.add_argument("--data", metavar="DIR", help="where everything is kept (var/)")
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: write a number from 0 to 65535")
    return int(text)


def _serve(options: argparse.Namespace, sign: Sign) -> int:
    bring_up_to_date()
    collect_static()
    listener = listen(options.port)
    port = listener.getsockname()[1]
    address = f"http://localhost:{port}/"
    sign.show(address)
    if options.port not in {port, 0}:
        print(f"Port {options.port} is taken: using {port}.")
    logs = settings.DATA_DIR / "log"
    with listener, Supervisor(settings.BASE_DIR, logs, to_terminal) as supervisor:
        first, *others = children(listener.fileno(), ml=not options.no_ml)
        supervisor.start(first)
        if _wait_until_served(supervisor, port):
            _welcome(address)
        for child in others:
            if not supervisor.stopping:
                supervisor.start(child)
        supervisor.run()
        print("Stopping …", flush=True)
    return 0


def children(listener: int, *, ml: bool) -> list[Child]:
    """What runs, in the order it starts: the pages first."""
    from webapp.runs import keys  # noqa: PLC0415 (models load only after django.setup())

    python = sys.executable
    celery = [python, "-m", "celery", "--quiet", "--app", "workers.site"]
    level = ["--loglevel", settings.LOG_LEVEL]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    gunicorn = [python, "-m", "gunicorn", "--config", "python:workers.web"]
    table = [
        Child(
            "web",
            [*gunicorn, "--bind", f"fd://{listener}", "webapp.wsgi"],
            pass_fds=(listener,),
        ),
        Child("site", [*celery, "worker", "--hostname", "site@%h", *level, *quiet]),
        Child(
            "events",
            [*celery, "worker", "--hostname", "events@%h", "--queues", "events", *level, *quiet],
        ),
        Child("beat", [*celery, "beat", *level]),
        Child("arxiv", [python, "-m", "workers.first_day"], once=True),
    ]
    if settings.SUMMARY_MODEL:
        places = ["--concurrency", str(settings.SUMMARY_CONCURRENCY)]
        models = [*celery, "worker", "--hostname", "models@%h", "--queues", "summaries"]
        table.append(Child("models", [*models, *places, *level, *quiet]))
    if ml:
        table.append(Child("ml", [python, "-m", "workers.install_ml"], once=True))
        bench = {"ASSAY_WORKER_NAME": HERE, "ASSAY_WORKER_KEY": keys.issue(HERE)}
        table.append(Child("bench", [python, "-m", "workers.bench_here"], environment=bench))
    return table


def listen(first: int) -> socket.socket:
    """A listening socket at `first` or the next free port; 0 lets the system choose.

    The children get the socket, not its number: nobody can take the port in between, and a web
    server that is started again misses no connection.
    """
    for port in range(first, min(first + PORTS_TRIED, 65536)):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen(128)
        except PermissionError:
            listener.close()
            raise UpError(
                f"Port {port} is not for everybody: choose one from 1024 up with --port."
            ) from None
        except OSError:
            listener.close()
            continue
        return listener
    raise UpError(
        f"No port from {first} on is free ({PORTS_TRIED} tried): choose another with --port."
    )


class Sign:
    """What a second `up` reads: who is running here, and where."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a+")

    def show(self, address: str) -> None:
        """Say that this process serves `address` ("" while it is not serving yet)."""
        self.file.seek(0)
        self.file.truncate()
        json.dump({"pid": os.getpid(), "address": address}, self.file)
        self.file.flush()

    def read(self) -> tuple[int, str]:
        """Pid and address of the process that holds the sign; (0, "") if it has not written."""
        self.file.seek(0)
        try:
            told = json.load(self.file)
            return int(told["pid"]), str(told["address"])
        except (ValueError, KeyError, TypeError):
            return 0, ""


@contextmanager
def only_one(path: Path) -> Iterator[Sign]:
    """Hold a data directory for this process; UpError, naming the holder, if another does.

    The kernel lets go of the lock with the process, however that ends: no lock is ever stale.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sign = Sign(path)
    except OSError as error:
        raise UpError(f"The data directory {path.parent} cannot be written: {error}") from error
    with sign.file:
        try:
            fcntl.flock(sign.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid, address = sign.read()
            where = f"at {address}" if address else "and still starting"
            raise UpError(
                f"Assay is already running on {path.parent} (process {pid}) {where}.\n"
                "Stop it first, or choose another directory with --data."
            ) from None
        sign.show("")
        yield sign


def collect_static() -> None:
    """Put the static files where they are served from, unless they are there already."""
    folders = [Path(folder) for folder in settings.STATICFILES_DIRS]
    folders += sorted((settings.BASE_DIR / "webapp").glob("*/static"))
    state = sha256(django.get_version().encode())
    for folder in folders:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            about = file.stat()
            state.update(f"{file} {about.st_size} {about.st_mtime_ns}\n".encode())
    mark = Path(settings.STATIC_ROOT) / ".collected"
    if mark.exists() and mark.read_text() == state.hexdigest():
        return
    call_command("collectstatic", interactive=False, verbosity=0)
    mark.write_text(state.hexdigest())


def _wait_until_served(supervisor: Supervisor, port: int) -> bool:
    """Whether the first page came before the patience ended, or a stop was asked for."""
    for _ in range(SERVING_SECONDS * 10):
        if supervisor.stopping:
            return False
        if _answers(port):
            return True
        supervisor.pump(0.1)
    to_terminal("up", f"The site has not answered for {SERVING_SECONDS} s; its log tells more.")
    return False


def _answers(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        # As a proxy with TLS would ask, where the settings demand one.
        headers = {"Host": "localhost", "X-Forwarded-Proto": "https"}
        connection.request("GET", "/healthz", headers=headers)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _welcome(address: str) -> None:
    from webapp.readers import links  # noqa: PLC0415 (models load only after django.setup())

    link = links.address(links.make_link(links.administrator()), address)
    print(
        f"\n    Assay is at        {address}\n"
        f"    sign in, once, by  {link}\n"
        f"    everything is in   {settings.DATA_DIR}\n"
        "    Ctrl-C stops it.\n",
        flush=True,
    )
