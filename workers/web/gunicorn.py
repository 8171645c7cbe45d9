"""How gunicorn serves the site: `gunicorn --config python:workers.web.gunicorn webapp.wsgi`."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from workers.parent_death import die_with_parent

worker_class = "gthread"
workers = int(os.environ.get("WEB_CONCURRENCY", "") or min(max(os.cpu_count() or 1, 2), 4))
threads = 4
preload_app = True  # loaded once, and a new worker after a kill is a fork
keepalive = 5
graceful_timeout = 2
control_socket_disable = True
loglevel = "warning"


def when_ready(server: Any) -> None:
    """Leave the site's address where `manage.py sign_in_link` finds it."""
    names = [listener.sock.getsockname() for listener in server.LISTENERS]
    port = next((name[1] for name in names if isinstance(name, tuple)), None)
    data = Path(os.environ.get("ASSAY_DATA") or "var").expanduser()
    if port is not None:
        with suppress(OSError):  # a full disk: the pages are served all the same
            (data / "address").write_text(f"http://localhost:{port}\n")


def post_fork(server: Any, worker: Any) -> None:
    """Bind the new worker's life to the master's."""
    die_with_parent(worker.ppid)
