"""Configuration of gunicorn: `gunicorn --config python:workers.web.gunicorn webapp.wsgi`."""

import gc
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from assay_common.parent_death import die_with_parent
from workers.web.receiving import IDLE_SECONDS

worker_class = "workers.web.receiving.ReceivingWorker"
worker_connections = 400  # of a process; below the usual 1,024 open files
workers = int(os.environ.get("WEB_CONCURRENCY") or 0) or min(max(os.cpu_count() or 1, 2), 4)
threads = 4
preload_app = True  # loaded once, and a new worker after a kill is a fork
keepalive = 5
graceful_timeout = 2
control_socket_disable = True
loglevel = "warning"


def when_ready(server: Any) -> None:
    """Before the first fork: what was loaded is left out of every worker's garbage collection,
    which would hold up a page by a twentieth of a second. `manage.py sign_in_link` reads the
    site's address from the file that this writes.
    """
    gc.collect()
    gc.freeze()
    wait = server.wait_for_signals  # a signal wakes it
    server.wait_for_signals = lambda timeout: wait(max(timeout, IDLE_SECONDS))
    data = Path(os.environ.get("ASSAY_DATA") or "var").expanduser()
    for listener in server.LISTENERS:
        name = listener.sock.getsockname()
        if isinstance(name, tuple):  # not a Unix socket
            with suppress(OSError):  # a full disk must not keep the site from starting
                (data / "address").write_text(f"http://localhost:{name[1]}\n")


def post_fork(server: Any, worker: Any) -> None:
    """Make the new worker die with the master."""
    die_with_parent(worker.ppid)
