"""Prints what each process of a site uses: memory, and connections to PostgreSQL.

    python -m tests.operate.processes [--requests 300]

starts `manage.py up` on a PostgreSQL and a data directory of its own, with the sample day, asks for
pages over several connections at once, waits a minute so that every queue has run its tasks, and
looks at the processes. docs/operate.md, Several machines, quotes the table.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import psutil

from tests import machine
from tests.servers.stores import Cluster

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("/", "/methods/", "/search?q=attention", "/runs/", "/intake/", "/readyz")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=300)
    wanted = parser.parse_args().requests
    folder = Path(tempfile.mkdtemp(prefix="assay-pg-"))
    cluster = Cluster(Path(machine.POSTGRESQL.find() or sys.exit("no PostgreSQL")).parent, folder)
    cluster.make()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    local = ("listen_addresses=127.0.0.1", f"port={port}")
    with cluster.running(*local), tempfile.TemporaryDirectory() as data:
        url = f"postgresql://assay@127.0.0.1:{port}/postgres"
        nowhere = "http://127.0.0.1:9"  # arXiv is not asked
        environment = os.environ | {
            "DATABASE_URL": url, "ASSAY_DATA": data, "ASSAY_ARXIV_RSS_URL": nowhere,
            "ASSAY_ARXIV_API_URL": nowhere, "ASSAY_SUMMARY_MODEL": "", "WEB_CONCURRENCY": "1",
        }  # fmt: skip
        command = [sys.executable, "manage.py", "up", "--no-ml", "--port", "0"]
        with (Path(data) / "out").open("w+") as out:
            up = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out)
            try:
                address = _address(Path(data) / "out")
                with (
                    httpx2.Client(base_url=address, timeout=60) as http,
                    ThreadPoolExecutor(8) as by,
                ):
                    list(by.map(lambda n: http.get(PAGES[n % len(PAGES)]), range(wanted)))
                time.sleep(70)
                _print(psutil.Process(up.pid), port)
            finally:
                up.terminate()
                up.wait()


def _address(out: Path) -> str:
    end = time.monotonic() + 120
    while not (found := re.search(r"http://localhost:\d+", out.read_text())):
        if time.monotonic() > end:
            sys.exit(out.read_text())
        time.sleep(0.5)
    return found[0]


def _print(up: psutil.Process, postgresql: int) -> None:
    """A row for each kind of process; those of one name are added up."""
    rows: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0])
    redis = {one.name() for one in up.children(True) if "redis" in one.name()}
    for process in up.children(True):
        if process.name() in redis:
            continue
        row = rows[process.name()]
        row[0] += 1
        row[1] += process.memory_full_info().pss / 2**20
        there = process.net_connections("tcp")
        row[2] += sum(bool(one.raddr) and one.raddr.port == postgresql for one in there)
    print(f"{'process':20}{'number':>8}{'PSS, MiB':>10}{'PostgreSQL':>12}")
    for name, (number, pss, databases) in sorted(rows.items()):
        print(f"{name:20}{number:>8.0f}{pss:>10.0f}{databases:>12.0f}")
    print(f"{'in all':20}{'':18}{sum(row[2] for row in rows.values()):>12.0f}")


if __name__ == "__main__":
    main()
