"""`manage.py up`, with real processes: it serves, refuses, restarts, and leaves nothing behind."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.processes import ROOT, House, processes_of, up, wait_for
from tests.servers.arxiv import ArxivServer

ALL = ("redis-server", "assay-web", "assay-site", "assay-events", "assay-bulk")


def everything_runs(house: House) -> bool:
    # gunicorn has a process below it.
    return [len(house.children(word)) for word in ALL] == [1, 2, 1, 1, 1]


MOST_PROCESSES, MOST_MEMORY = 7, 350e6  # at rest, with one web process and no bench worker


def is_light(house: House) -> bool:
    """True if all processes are few, and take little memory (proportional shares)."""
    family = [psutil.Process(pid) for pid in processes_of(house.data)]
    with suppress(psutil.NoSuchProcess):
        memory = sum(process.memory_full_info().pss for process in family)
        return len(family) <= MOST_PROCESSES and memory <= MOST_MEMORY
    return False


def ready(house: House) -> bool:
    return house.get("readyz")[0] == 200


@pytest.mark.slow
def test_it_serves_at_the_next_free_port_refuses_a_second_and_stops(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with up(tmp_path, "--port", str(port)) as house:
            used = int(house.address.rsplit(":", 1)[1].rstrip("/"))
            assert used > port
            assert f"Port {port} is taken: using {used}." in house.output
            assert house.get("healthz") == (200, "ok 0.1.0\n")
            link = house.said(r"One-time sign-in link +(\S+)")[1]
            assert link.startswith(house.address + "sign-in/")
            # arXiv is out of reach: it says so, and shows the sample day, labelled.
            house.said(r"cs\.\w\w \S+: failed\. 127\.0\.0\.1:9 cannot be reached")
            status, page = house.get("")
            assert status == 200
            assert "Sample day." in page
            style = re.search(r'href="/(static/[^"]+\.css)"', page)
            assert style
            assert house.get(style[1])[0] == 200
            wait_for(lambda: ready(house), "readyz")
            checks = json.loads(house.get("readyz")[1])["checks"]
            assert [check["name"] for check in checks] == [
                "database", "broker", "beat", "queue quick", "queue bulk",
                "queue arxiv", "queue mail", "queue events", "queue bench-cpu",
                "queue bench-gpu", "tasks", "links",
            ]  # fmt: skip

            second = subprocess.run(
                [sys.executable, "manage.py", "up", "--data", str(tmp_path)],
                cwd=ROOT,
                capture_output=True,
                text=True,
            )
            assert second.returncode == 1
            assert f"process {house.process.pid}" in second.stderr
            assert house.address in second.stderr

            wait_for(lambda: everything_runs(house), "all processes")
            wait_for(lambda: is_light(house), "little memory at rest")
            for pid in house.children("assay-"):  # forks keep nothing of the supervisor's
                for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                    with suppress(FileNotFoundError):  # it has closed it since
                        assert not str(descriptor.readlink()).endswith(("up.lock", ".log"))
            house.stop(signal.SIGTERM)
            assert house.process.returncode == 0
            assert processes_of(tmp_path) == {}
    logs = sorted(path.name for path in (tmp_path / "log").iterdir())
    assert {"redis.log", "site.log"} <= set(logs)


@pytest.mark.slow
def test_a_start_that_is_killed_half_way_leaves_nothing_behind(tmp_path: Path) -> None:
    """Its children would hold the lock of the data directory, and the next start be refused."""
    with up(tmp_path) as house:
        wait_for(lambda: len(processes_of(tmp_path)) > 1, "another process")
        house.process.kill()
        house.process.wait()
        wait_for(lambda: processes_of(tmp_path) == {}, "the end of what it began")


@pytest.mark.slow
def test_it_fetches_the_first_digest_and_says_how_far_it_is(tmp_path: Path) -> None:
    with (
        ArxivServer() as arxiv,
        up(
            tmp_path,
            ASSAY_ARXIV_RSS_URL=arxiv.rss_url,
            ASSAY_ARXIV_API_URL=arxiv.api_url,
            ASSAY_ARXIV_SECONDS="0",
            ASSAY_CATEGORIES="cs.CL cs.LG",
        ) as house,
    ):
        house.said(r"Asking arXiv, 1 of \d+: cs.CL today")
        day = house.said(r"cs\.LG (\d{4}-\d\d-\d\d): complete\. .*\d+ new")[1]
        wait_for(lambda: house.get(f"digest/{day}/")[0] == 200, "its digest")
        assert "Sample day." not in house.get(f"digest/{day}/")[1]


@pytest.mark.slow
def test_children_come_back_and_nothing_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    with up(tmp_path) as house:
        wait_for(lambda: everything_runs(house), "all processes")
        before = {word: house.children(word) for word in ALL[1:3]}
        for word, pids in before.items():
            os.kill(next(pid for pid in pids if os.getpgid(pid) == pid), signal.SIGKILL)
            wait_for(lambda: not set(pids) & set(house.children(word)), "the old ones' end")  # noqa: B023
        house.said(r"died \(signal 9\); starting it again in 1 s")
        wait_for(lambda: everything_runs(house), "the new ones")
        assert house.get("healthz")[0] == 200
        house.process.kill()
        house.process.wait()
        wait_for(lambda: not processes_of(tmp_path), "the end of all processes")
    with up(tmp_path) as house:  # no stale lock, no taken data
        assert house.get("healthz")[0] == 200
        house.stop(signal.SIGINT)
        assert processes_of(tmp_path) == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "70000"], "write a number from 0 to 65535"),
        (["--port", "many"], "write a number from 0 to 65535"),
        (["--data", "/proc/nowhere"], "/proc/nowhere"),
        (["--data"], "--data needs a directory"),
    ],
)
def test_bad_arguments_are_refused_in_words(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "up", *arguments],
        cwd=ROOT,
        env={**os.environ, "ASSAY_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert words in done.stderr
    assert "Traceback" not in done.stderr
