"""The bench worker of `up`: waits until what the methods need is installed, then measures."""

import os
import sys
import time

import bootstrap
from workers.up.install_ml import GROUPS

PAUSE = 2.0  # seconds


def main() -> None:
    """Wait; then this process becomes the worker."""
    while any(bootstrap.missing(group, sys.path) for group in GROUPS):
        time.sleep(PAUSE)
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    command = [sys.executable, "-m", "celery", "--quiet", "--app", "workers.bench.app", "worker"]
    level = ["--loglevel", os.environ.get("ASSAY_LOG_LEVEL") or "INFO"]
    os.execv(sys.executable, [*command, "--queues", "bench-cpu", *level, *quiet])  # noqa: S606


if __name__ == "__main__":
    main()
