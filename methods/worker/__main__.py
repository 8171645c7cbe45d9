"""Start the worker of a queue: ``python -m methods.worker bench-cpu``.

``celery -A methods.worker.app worker -Q bench-cpu`` does the same, and takes the memory of Celery's
command line.
"""

import argparse
import sys

from .app import QUEUES, app

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("queue", choices=QUEUES)
    parser.add_argument("--loglevel", default="INFO")
    options = parser.parse_args()
    worker = app.Worker(queues=[options.queue], loglevel=options.loglevel, quiet=True)
    worker.start()
    sys.exit(worker.exitcode)
