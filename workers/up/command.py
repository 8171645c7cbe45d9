"""`manage.py up`: runs the whole site as children of one supervisor."""

import argparse
import fcntl
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connections

from assay_common import __version__
from assay_common.env import SettingError, data_directory
from assay_common.parent_death import die_with_parent
from webapp.core.database import DatabaseError, refuse_damage
from webapp.operate.local_model import STARTER
from webapp.ui.translations import compile_catalogues
from workers.up import local_model
from workers.up.children import children, load_site
from workers.up.llama import ModelFileError
from workers.up.local_model import LocalModel
from workers.up.logs import to_terminal
from workers.up.redis import NoRedisError
from workers.up.supervisor import Supervisor
from workers.web import probe

PORTS_TRIED = 100
CHECK_SECONDS = 2.0  # of looking for damage; `doctor` reads the whole file
SERVING_SECONDS = 60


class UpError(Exception):
    """The site cannot be started; the message gives the reason and the remedy."""


def main(arguments: list[str]) -> int:
    """Serve until Ctrl-C or TERM; the exit status."""
    options = _parser().parse_args(arguments)
    try:
        model = local_model.prepare(options.model) if options.model else None
        os.environ[STARTER] = "1"
        django.setup()
        data_directory()
        compile_catalogues()
        with _hold(settings.DATA_DIR / "up.lock") as record:
            return _serve(options, record, model)
    except SettingError as error:
        sys.exit(f"Setting {error}")
    except (UpError, ModelFileError, NoRedisError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="manage.py up", description=__doc__)
    parser.add_argument("--port", type=_port, default=8000, help="the first port to try (8000)")
    parser.add_argument(
        "--no-ml", action="store_true", help="do not install the packages that methods need"
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="run a language model here: a GGUF file, one of Hugging Face's hub by name "
        "(Qwen/Qwen3-4B-GGUF:Q4_K_M), or smollm2 where that package is installed",
    )
    # manage.py has removed it from the arguments; it is here for --help.
    parser.add_argument("--data", metavar="DIR", help="data directory (var/)")
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: write a number from 0 to 65535")
    return int(text)


@contextmanager
def _hold(path: Path) -> Iterator[Callable[[str], None]]:
    """Lock a data directory for this process. Raises UpError, which names the holder.

    Yields a function that records the address. The kernel releases the lock when the process
    ends, however it ends, so no lock is ever stale.
    """
    file = path.open("a+")  # its folder was made when the settings were read

    def record(where: str) -> None:
        file.truncate(0)
        file.write(f"(process {os.getpid()}) {where}")
        file.flush()

    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UpError(
                f"Assay is already running on {path.parent} {path.read_text()}.\n"
                "Stop it first, or choose another directory with --data."
            ) from None
        try:
            record("and still starting")
        except OSError as error:
            raise UpError(f"{path.parent} takes no more: {error.strerror}.") from error
        yield record


def _serve(
    options: argparse.Namespace, record: Callable[[str], None], model: LocalModel | None
) -> int:
    prepared = get_context("fork").Process(target=_prepare, args=(os.getpid(),), daemon=True)
    prepared.start()  # meanwhile this process loads the site, on another core
    load_site()
    prepared.join()
    if prepared.exitcode:
        return prepared.exitcode
    listener = listen(options.port)
    port = listener.getsockname()[1]
    address = f"http://localhost:{port}/"
    record(f"at {address}")
    if options.port not in {port, 0}:
        print(f"Port {options.port} is taken: using {port}.")
    logs = settings.DATA_DIR / "log"
    with listener, Supervisor(settings.BASE_DIR, logs, to_terminal) as supervisor:
        for child in children(listener.fileno(), ml=not options.no_ml, model=model):
            connections.close_all()  # a database connection belongs to one process
            if not supervisor.stopping:
                supervisor.start(child)
            # Wait for the web server first: the rest can start while pages are read.
            if child.name == "web" and _wait_until_served(supervisor, port):
                _welcome(address)
        supervisor.run()
        print("Stopping …", flush=True)
    return 0


def _prepare(parent: int) -> None:
    """Migrate the database and collect the static files; errors are printed."""
    die_with_parent(parent)  # else it would go on holding the lock of the data directory
    try:
        from webapp.operate.upgrade import upgrade  # noqa: PLC0415 - its models need the apps

        if saved := upgrade():
            print(f"The database was upgraded; {saved} is an archive of it before.")
        refuse_damage(CHECK_SECONDS)
        collect_static()
    except DatabaseError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def listen(first: int) -> socket.socket:
    """A listening socket at `first` or the next free port; 0 lets the system choose.

    The children inherit the socket: no other process can take the port meanwhile, and no
    connection is lost when the web server is restarted.
    """
    for port in range(first, min(first + PORTS_TRIED, 65536)):
        try:
            return socket.create_server(("127.0.0.1", port), backlog=128)
        except PermissionError:
            raise UpError(
                f"Port {port} is not for everybody: choose one from 1024 up with --port."
            ) from None
        except OSError:
            continue
    raise UpError(
        f"No port from {first} on is free ({PORTS_TRIED} tried): choose another with --port."
    )


def collect_static() -> None:
    """Collect the static files, unless nothing has changed since the last time."""
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
    """True if the site answers in time; False also if a stop is requested."""
    for _ in range(SERVING_SECONDS * 10):
        if supervisor.stopping:
            return False
        if not probe.trouble(port, seconds=1):
            return True
        supervisor.pump(0.1)
    to_terminal("up", f"The site has not answered for {SERVING_SECONDS} s; its log tells more.")
    return False


def _welcome(address: str) -> None:
    from webapp.readers import links  # noqa: PLC0415 (models load only after django.setup())

    link = links.address(links.make_link(links.administrator()), address)
    print(
        f"\n    {f'Assay {__version__} is at':<23}{address}\n"
        f"    One-time sign-in link  {link}\n"
        f"    Data folder            {settings.DATA_DIR}\n"
        "    Ctrl-C stops it.\n",
        flush=True,
    )
