"""``worker``: measure for a site on this machine, until it is stopped.

The site's ``manage.py worker_key NAME`` prints the key. Name, key and the address of the site's
Redis are read from ASSAY_WORKER_NAME, ASSAY_WORKER_KEY and CELERY_BROKER_URL.
"""

import argparse
import importlib.util
import os
import sys

from .. import registry
from ..errors import InputError

HELP = "measure for a site on this machine"
NEEDED = ("celery", "redis", "pydantic_settings")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the device that it serves."""
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")


def main(args: argparse.Namespace) -> int:
    """Become the worker; nothing of the command line stays in its memory."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f'a worker needs {", ".join(missing)}: pip install "assay-methods[worker]"'
        )
    worker = [sys.executable, "-m", f"{registry.PACKAGE}.worker", f"bench-{args.device}"]
    os.execv(sys.executable, worker)  # noqa: S606 (no shell is wanted)
