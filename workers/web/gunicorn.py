"""How gunicorn serves the site: `gunicorn --config python:workers.web.gunicorn webapp.wsgi`."""

from __future__ import annotations

import os
from typing import Any

from workers.parent_death import die_with_parent

worker_class = "gthread"
workers = int(os.environ.get("WEB_CONCURRENCY", "") or min(max(os.cpu_count() or 1, 2), 4))
threads = 4
keepalive = 5
timeout = 30
graceful_timeout = 2
control_socket_disable = True
loglevel = "warning"


def post_fork(server: Any, worker: Any) -> None:
    """Bind the new worker's life to the master's."""
    die_with_parent(worker.ppid)
