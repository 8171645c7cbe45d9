"""PostgreSQL without room on its disk: pages are read, what would write says why, all recovers."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import close_old_connections
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from tests import machine
from tests.faults.small_disk import WHY_NOT, fill, make_room, small_disk
from tests.faults.test_kills import measured_once
from tests.processes import wait_for
from tests.runs.asking import ask, ended, measuring
from tests.runs.rig import Rig, standing
from tests.servers.stores import Cluster
from webapp.api import tokens
from webapp.operate.models import Heartbeat
from webapp.readers import links
from webapp.runs.models import Run, RunFailure, State
from webapp.runs.states import ATTEMPTS

PAGES = ("/", "/runs/", "/workers/", "/methods/")
OF_A_READER = ("/account/", "/library/")
JSON = "application/json"
WANTED = {"method": "trial", "benchmark": "sleep", "params": {"seconds": 0.1}}
BOTH = {"application/problem+json", "text/html"}
LEASE = 9  # seconds: longer than a busy machine lets a worker that is heard wait
FULL_FOR = 6.0  # seconds: some heartbeats and sweeps of which little can be kept

pytestmark = [pytest.mark.slow, pytest.mark.root]


@dataclass
class House:
    """A site of which the database alone has a small disk; who keeps its cluster is `keeper`."""

    rig: Rig
    cluster: Cluster
    keeper: ExitStack

    def start_cluster(self) -> None:
        """Start PostgreSQL, as whoever keeps it does when it has ended."""
        self.server = self.keeper.enter_context(self.cluster.running())

    def fill(self) -> None:
        """Leave the database no room."""
        fill(self.cluster.folder)

    def make_room(self) -> None:
        """Give back what `fill` took."""
        make_room(self.cluster.folder)

    def wait_until_back(self) -> None:
        """Wait until beat and recorder have written again; nobody has died."""
        since = timezone.now()

        def heard() -> bool:
            names = Heartbeat.objects.filter(at__gt=since).values_list("name", flat=True)
            return {"beat", "events"} <= set(names)

        wait_for(heard, "a sign of life of beat and recorder")
        assert all(process.is_alive() for process in self.rig.running.values()), "somebody died"


@pytest.fixture(scope="module")
def house(
    tmp_path_factory: pytest.TempPathFactory, django_db_setup: None, django_db_blocker
) -> Iterator[House]:
    initdb = machine.POSTGRESQL.find() or pytest.skip(machine.POSTGRESQL.why_not)
    disk = Path(tempfile.mkdtemp(prefix="assay-pg-"))
    try:
        with small_disk(disk) as mounted, ExitStack() as keeper:
            if not mounted:
                pytest.skip(WHY_NOT)
            cluster = Cluster(Path(initdb).parent, disk)
            cluster.make()
            rig = Rig(tmp_path_factory.mktemp("rig"), cluster.url, lease=LEASE)
            found = House(rig, cluster, keeper)
            found.start_cluster()
            with django_db_blocker.unblock(), standing(rig):
                rig.mend()
                leave_no_free_space(cluster.url)
                yield found
    finally:
        shutil.rmtree(disk, ignore_errors=True)


def leave_no_free_space(url: str) -> None:
    """Let new rows need new pages, as in a database that has been used for long."""
    with psycopg.connect(url) as admin:
        for (table,) in admin.execute(
            "SELECT format('ALTER TABLE %I SET (fillfactor = 10)', tablename)"
            " FROM pg_tables WHERE schemaname = 'public'"
        ).fetchall():
            admin.execute(table)


def use_up_its_log(url: str) -> None:
    """Write until PostgreSQL needs another file for what it writes ahead."""
    with psycopg.connect(url, autocommit=True) as admin:
        while True:
            admin.execute("SELECT pg_switch_wal()")
            # Of no table: what needs a new page there is refused, and PostgreSQL goes on.
            admin.execute("SELECT pg_logical_emit_message(true, 'assay', 'words')")


def ended_once(run: Run) -> None:
    """Assert that a run was measured once, or was given up as lost after both of its attempts.

    Twice no room was left for what its worker said: then it costs its reader nothing.
    """
    run = ended(run)
    if run.state == State.SUCCEEDED:
        measured_once(run)
    else:
        assert (run.attempt, run.failure) == (ATTEMPTS, RunFailure.WORKER_LOST), run.reason
        assert (run.charged_seconds, run.result) == (0, None)


def asked(method: str, path: str, *body: object, **options: object) -> HttpResponse:
    """The answer of a web process, which checks its connection between two requests."""
    close_old_connections()
    client = Client(raise_request_exception=False)
    client.cookies.update(options.pop("cookies", {}))
    return getattr(client, method)(path, *body, **options)


def test_a_full_disk(house: House) -> None:
    """Pages are read, processes live on, a run that was being measured ends once."""
    reader = User.objects.create_user("reader")
    authorised = {"Authorization": f"Bearer {tokens.make(reader, 'tests')}"}
    signed_in = asked("post", f"/sign-in/{links.make_link(reader)}/").cookies
    spare = [links.make_link(reader) for _ in range(40)]
    run = measuring(ask(seconds=2))
    runs, accepted, refused = Run.objects.count(), 0, []
    house.fill()
    try:
        began = time.monotonic()

        def refused_all() -> bool:
            kinds = {answer["Content-Type"].partition(";")[0] for answer in refused}
            return kinds == BOTH and "No space left" in house.rig.log("recorder")

        while spare and (time.monotonic() < began + FULL_FOR or not refused_all()):
            house.fill()
            for page in PAGES + OF_A_READER:
                assert asked("get", page, cookies=signed_in).status_code == 200, page
            run_asked = asked("post", "/api/v1/runs", WANTED, JSON, headers=authorised)
            accepted += run_asked.status_code == 202
            link_used = asked("post", f"/sign-in/{spare.pop()}/")
            refused += [a for a in (run_asked, link_used) if a.status_code >= 400]
            time.sleep(0.5)
    finally:
        house.make_room()
    assert {answer.status_code for answer in refused} == {503}
    assert {answer["Content-Type"].partition(";")[0] for answer in refused} == BOTH
    assert all("The disk is full, so nothing was changed." in a.content.decode() for a in refused)
    assert Run.objects.count() == runs + accepted
    assert "No space left" in house.rig.log("recorder"), "nothing of a worker's was refused"
    ended_once(run)
    house.wait_until_back()


def test_no_room_for_its_log(house: House) -> None:
    """PostgreSQL ends, and cannot start again before there is room: the site waits for it."""
    run = measuring(ask(seconds=2))
    house.fill()
    try:
        with pytest.raises(psycopg.OperationalError):
            use_up_its_log(house.cluster.url)
        house.server.wait()
        assert asked("get", "/healthz").status_code == 200
        for page in PAGES:
            answer = asked("get", page)
            assert answer.status_code == 503, page
            assert "The database does not answer, so nothing was" in answer.content.decode()
        time.sleep(house.rig.lease)  # for the workers to meet it, too
    finally:
        house.make_room()
    house.start_cluster()
    ended_once(run)
    house.wait_until_back()
    measured_once(ended(ask()))
