"""docker-compose.yml holds: its services, run by their own commands, fetch a digest and measure."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import ROOT, wait_for
from tests.runs.rig import free_port
from tests.servers import compose
from tests.servers.arxiv import ArxivServer
from tests.servers.compose import Stack

# One process takes them all: to start the house is most of the work, and they go in order.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("compose")]

SERVING = ("web", "site", "summaries", "events", "beat", "bench-cpu")
OPERATE = (ROOT / "docs" / "operate.md").read_text()
COUNT = "from webapp.papers.models import Paper; print(Paper.objects.count())"
# What a reader's press of Run does, and then waits for.
MEASURE = """
import json, time
from webapp.readers import links
from webapp.runs.models import Run
from webapp.runs.submit import Request, submit
run = submit(links.administrator(), Request("sparse_attention", "memory"))
deadline = time.monotonic() + 300
while not run.ended and time.monotonic() < deadline:
    time.sleep(1)
    run.refresh_from_db()
print(json.dumps({
    "state": run.state, "failure": run.failure, "reason": run.reason,
    "worker": run.worker.name if run.worker else "", "series": run.series.count(),
}))
"""


def section(title: str) -> str:
    """The shell lines below a heading of docs/operate.md."""
    text = OPERATE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert text, title
    return "\n".join(line[4:] for line in text.splitlines() if line.startswith("    "))


def get(stack: Stack, path: str, host: str = "digest.example") -> tuple[int, str]:
    url = f"http://127.0.0.1:{stack.environment['ASSAY_PORT']}/{path}"
    headers = {"Host": host, "X-Forwarded-Proto": "https"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as a:
            return a.status, a.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture(scope="module")
def stack(postgresql_url: str, redis_url: str) -> Iterator[Stack]:
    """The whole house as an operator starts it, on servers of this machine.

    Its Redis is the file's own; `redis_url` is asked for to be skipped where there is no program.
    """
    home = Path(tempfile.mkdtemp(prefix="assay-compose-"))
    folder = postgresql_url.partition("@")[2].rpartition("/")[0].replace("%2F", "/")
    client = {"PGHOST": folder, "PGUSER": "assay"}
    subprocess.run(["createdb", "assay"], env={**os.environ, **client}, check=True)
    with ArxivServer() as arxiv:
        secret = section("Install").partition("docker compose")[0]
        subprocess.run(["bash", "-euc", secret], cwd=home, check=True)
        env_file = home / ".env"
        assert env_file.stat().st_mode & 0o077 == 0
        made = dict(line.split("=", 1) for line in env_file.read_text().splitlines())
        port = free_port()
        environment = {
            **made,
            "DATABASE_URL": postgresql_url.rpartition("/")[0] + "/assay",
            "CELERY_BROKER_URL": f"redis://:{made['ASSAY_REDIS_PASSWORD']}@127.0.0.1:{port}/0",
            "ASSAY_REDIS_PORT": str(port),
            "ASSAY_PORT": str(free_port()),
            "ASSAY_HOSTS": "digest.example",
            "ASSAY_BASE_URL": "https://digest.example",
            "ASSAY_HTTPS": "1",
            "ASSAY_ARXIV_RSS_URL": arxiv.rss_url,
            "ASSAY_ARXIV_API_URL": arxiv.api_url,
            "ASSAY_ARXIV_SECONDS": "0",
            "ASSAY_CATEGORIES": "cs.CL cs.LG",
            "WEB_CONCURRENCY": "1",
        }
        stack = Stack(ROOT, home, environment, {"postgres": client})
        try:
            stack.build()
            stack.up()
            stack.wait(*SERVING, "first-day")
            yield stack
        finally:
            stack.close()
            subprocess.run(["dropdb", "--force", "assay"], env={**os.environ, **client})
            shutil.rmtree(home)


def test_a_digest_is_fetched(stack: Stack) -> None:
    day = re.search(r"The digest of (\S+) is there: \d+ papers", stack.log("first-day"))
    assert day, stack.log("first-day")
    status, page = get(stack, f"digest/{day[1]}/")
    assert status == 200
    assert "A sample, not today" not in page
    assert re.search(r"/static/css/assay\.[0-9a-f]{12}\.css", page)
    style = re.search(r"static/css/assay\.[0-9a-f]+\.css", page)
    assert style
    assert get(stack, style[0])[0] == 200


def test_it_is_ready_and_says_so(stack: Stack) -> None:
    wait_for(lambda: get(stack, "readyz")[0] == 200, 60, "readyz")
    checks = {c["name"]: c["detail"] for c in json.loads(get(stack, "readyz")[1])["checks"]}
    assert checks["database"] == "postgresql"
    assert checks["broker"] == "redis"
    assert all(f"{name}@" in checks["workers"] for name in ("site", "summaries", "events"))
    assert "assay_papers" in get(stack, "metrics")[1]
    assert get(stack, "healthz", host="other.example")[0] == 400


def test_the_site_worker_takes_what_beat_sends(stack: Stack) -> None:
    command = ("python", "-m", "celery", "--app", "workers.site", "call", "site.poll")
    assert stack.execute("beat", *command).returncode == 0
    wait_for(lambda: re.search(r"site\.poll\S* succeeded", stack.log("site")), 60, "the poll")


def test_a_benchmark_is_measured(stack: Stack) -> None:
    done = stack.execute("web", "python", "manage.py", "shell", "--verbosity", "0", "-c", MEASURE)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told.pop("series") > 0, (told, stack.log("bench-cpu"))
    assert told == {"state": "succeeded", "failure": "", "reason": "", "worker": "cpu"}


def test_a_bench_worker_holds_no_secret_of_the_site(stack: Stack) -> None:
    told = stack.execute("bench-cpu", "env").stdout
    assert stack.environment["ASSAY_SECRET_KEY"] not in told
    assert stack.environment["ASSAY_DB_PASSWORD"] not in told
    assert "DATABASE_URL" not in told
    key = stack.home / "volumes" / "key-cpu" / "cpu"
    assert key.stat().st_mode & 0o077 == 0
    assert re.fullmatch(r"[0-9a-f]{64}\n", key.read_text())


def test_services_are_nobody_and_write_nowhere_else(stack: Stack) -> None:
    user = os.geteuid() or compose.UID
    for name in SERVING:
        status = Path(f"/proc/{stack.running[name].pid}/status").read_text()
        assert f"\nUid:\t{user}\t" in status
        assert "\nNoNewPrivs:\t1\n" in status
    touched = stack.execute("web", "touch", "here")
    assert touched.returncode != 0
    assert "Permission denied" in touched.stderr


def test_redis_asks_for_its_password_and_keeps_what_it_is_told(stack: Stack) -> None:
    port = stack.environment["ASSAY_REDIS_PORT"]
    unknown = subprocess.run(["redis-cli", "-p", port, "ping"], capture_output=True, text=True)
    assert "NOAUTH" in unknown.stdout
    asked = {"appendonly": "yes", "maxmemory-policy": "noeviction", "maxmemory": str(512 << 20)}
    for name, value in asked.items():
        told = stack.execute("redis", "redis-cli", "-p", port, "config", "get", name).stdout
        assert told.split() == [name, value]
    command = Path(f"/proc/{stack.running['redis'].pid}/cmdline").read_text()
    assert stack.environment["ASSAY_REDIS_PASSWORD"] not in command


def test_the_first_link_signs_in(stack: Stack) -> None:
    line = section("Install").splitlines()[2]
    link = stack.shell(line, stack.home).strip()
    assert link.startswith("https://digest.example/sign-in/")
    assert get(stack, link.removeprefix("https://digest.example/"))[0] == 200


def test_a_machine_elsewhere_gets_its_key(stack: Stack) -> None:
    line = section("A GPU on another machine").splitlines()[0]
    key = stack.shell(line, stack.home)
    assert re.fullmatch(r"[0-9a-f]{64}\n", key)
    assert stack.shell(line, stack.home) == key
    assert stack.shell(f"{line} --rotate", stack.home) != key


def test_a_backup_restores(stack: Stack) -> None:
    count = ("python", "manage.py", "shell", "--verbosity", "0", "-c", COUNT)
    before = int(stack.execute("web", *count).stdout)
    assert before > 0
    stack.shell(section("Back up"), stack.home)
    psql = ("psql", "--dbname", "assay", "--command", "TRUNCATE papers_paper CASCADE")
    assert stack.execute("postgres", *psql).returncode == 0
    assert get(stack, "readyz")[0] == 200
    stack.shell(section("Restore").partition("python3 -c")[0].strip(), stack.home)
    stack.wait("web", "site", "events", "beat")
    assert int(stack.execute("web", *count).stdout) == before
    wait_for(lambda: get(stack, "readyz")[0] == 200, 60, "readyz")


def test_what_stops_politely_leaves_nothing(stack: Stack) -> None:
    for name in SERVING:
        seconds = stack.services[name].get("stop_grace_period", "10s")
        leader = stack.running[name]
        stack.stop(name, seconds=float(seconds.removesuffix("s")))
        assert leader.returncode == 0, (name, leader.returncode, stack.log(name)[-2000:])
