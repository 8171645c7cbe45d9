"""The small parts of a bench worker: lines, orders, outbox, voice, sandbox, imports."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from methods import protocol
from tests.processes import ROOT, wait_for
from tests.runs import saying
from workers import machine, sandbox
from workers.orders import SLOTS, Orders
from workers.outbox import Outbox
from workers.reader import Lines
from workers.voice import LOG_CUT, MAX_SAID_BYTES, TooMuchError, Voice

KEY = b"k" * 32
JOB = protocol.Job(
    run="run",
    attempt=1,
    token="token",
    method="trial",
    benchmark="sleep",
    version=1,
    params={"seconds": 0.5, "words": "a b", "none": None, "list": [1, 2]},
    seed=7,
    limits=protocol.Limits(seconds=60),
)


@given(st.lists(st.binary(max_size=50)), st.integers(1, 60))
def test_lines_do_not_depend_on_the_pieces(pieces: list[bytes], most: int) -> None:
    whole = b"".join(pieces) + b"\n"
    lines = Lines(most)
    found = [line for piece in [*pieces, b"\n"] for line in lines.feed(piece)]
    assert found == [line for line in whole.split(b"\n")[:-1] if len(line) <= most]


def test_orders_are_seen_by_forked_children() -> None:
    orders = Orders()
    child = os.fork()
    if child == 0:
        for _ in range(500):
            if orders.cancelled("token") and orders.stopping:
                os._exit(0)
            time.sleep(0.01)
        os._exit(1)
    orders.cancel("token")
    orders.stop()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_orders_forget_the_oldest_alone() -> None:
    orders = Orders()
    for number in range(SLOTS + 1):
        orders.cancel(f"token-{number}")
        orders.cancel(f"token-{number}")
    assert not orders.cancelled("token-0")
    assert all(orders.cancelled(f"token-{number}") for number in range(1, SLOTS + 1))


class Wire:
    """A broker that can be away."""

    def __init__(self) -> None:
        self.away = False
        self.heard: list[tuple[str, object]] = []

    def send(self, message) -> None:
        if self.away:
            raise ConnectionError("away")
        self.heard.append(message)


def open_outbox(wire: Wire, every: float = 60) -> Outbox:
    outbox = Outbox(wire.send, lambda: ("beat", {}), every)
    outbox.start()
    return outbox


def test_messages_wait_for_the_broker_in_order() -> None:
    wire = Wire()
    outbox = open_outbox(wire)
    wait_for(lambda: wire.heard, 20, "the first heartbeat")
    wire.away = True
    for number in range(5):
        outbox.post(("event", {"n": number}))
        outbox.show(("snapshot", {"n": number}))
    time.sleep(0.3)
    wire.away = False
    wait_for(lambda: len(wire.heard) >= 7, 20, "all of it")
    outbox.close(1)
    events = [body["n"] for name, body in wire.heard if name == "event"]
    assert events == [0, 1, 2, 3, 4]
    assert [body["n"] for name, body in wire.heard if name == "snapshot"][-1] == 4
    assert sum(name == "snapshot" for name, _ in wire.heard) <= 2


def test_what_is_said_later() -> None:
    wire = Wire()
    outbox = open_outbox(wire)
    for wait in (0.2, 0.1, 0.0):
        outbox.post(("end", {"wait": wait}), after=wait)
    wait_for(lambda: sum(name == "end" for name, _ in wire.heard) == 3, 20, "three times")
    assert [body["wait"] for name, body in wire.heard if name == "end"] == [0.0, 0.1, 0.2]
    outbox.close(1)


def test_heartbeats_go_on() -> None:
    wire = Wire()
    outbox = open_outbox(wire, every=0.05)
    wait_for(lambda: len(wire.heard) > 5, 20, "heartbeats")
    outbox.close(1)


@pytest.fixture
def said() -> list[protocol.Event]:
    return []


@pytest.fixture
def voice(said: list[protocol.Event]) -> Voice:
    class Box:
        behind = False

        def post(self, message, after: float = 0.0) -> None:
            if not after:
                said.append(protocol.open_event(message[1], lambda _: KEY))

        show = post

    return Voice(JOB, "one", KEY, Box())  # type: ignore[arg-type]


def text_of(said: list[protocol.Event]) -> str:
    logs = [event.body for event in said if isinstance(event.body, protocol.Log)]
    end = 0
    for piece in logs:
        assert piece.offset == end
        end += len(piece.text.encode())
    return "".join(piece.text for piece in logs)


def test_a_log_of_any_pieces_is_whole(voice: Voice, said: list[protocol.Event]) -> None:
    text = "größer 😀 " * 5_000
    data = text.encode()
    for start in range(0, len(data), 777):
        voice.write(data[start : start + 777])
    voice.end(protocol.Result(duration=1.0, checks=0, series=()))
    assert text_of(said) == text
    assert [event.seq for event in said] == list(range(len(said)))
    assert said[-1].kind == "result"


def test_a_log_that_is_too_long_says_so_once(voice: Voice, said: list[protocol.Event]) -> None:
    for _ in range(40):
        voice.write("é".encode() * 50_000)
    voice.end(protocol.Cancelled())
    text = text_of(said)
    assert text.endswith("é" + LOG_CUT)
    assert text.count(LOG_CUT) == 1
    assert len(text.encode()) <= 2**20


def test_progress_is_a_snapshot_twice_a_second(voice: Voice, said: list[protocol.Event]) -> None:
    until = time.monotonic() + 1.1
    while time.monotonic() < until:
        voice.show(protocol.Progress(fraction=0.5, elapsed=1.0))
        voice.tick()
    assert 2 <= len(said) <= 4


def test_results_are_bounded(voice: Voice) -> None:
    big = protocol.Artefact(
        name="big.txt", media_type="text/plain", encoding="text", content="x" * 1_000_000
    )
    with pytest.raises(TooMuchError):
        say_all(voice, [big] * (MAX_SAID_BYTES // 1_000_000 + 1))


@pytest.mark.parametrize("kind", protocol.MEASURED)
def test_results_are_bounded_in_number(voice: Voice, kind: str) -> None:
    """By the same numbers as the recorder's, or a result could wait for what is never taken."""
    most, body = protocol.MEASURED[kind], saying.MEASURED[kind]
    say_all(voice, [body] * most)
    with pytest.raises(TooMuchError):
        voice.say(body)


def say_all(voice: Voice, bodies: list[protocol.Strict]) -> None:
    for body in bodies:
        voice.say(body)


def test_a_token_is_taken_once(tmp_path: Path) -> None:
    with sandbox.place(tmp_path, "token") as private:
        assert private.stat().st_mode & 0o777 == 0o700
        (private / "file").touch()
        with pytest.raises(sandbox.TakenError), sandbox.place(tmp_path, "token"):
            pass
    assert not private.exists()
    with pytest.raises(sandbox.TakenError), sandbox.place(tmp_path, "token"):
        pass


def test_tidy_removes_what_a_killed_worker_left(tmp_path: Path) -> None:
    old, new = tmp_path / "taken" / "old", tmp_path / "taken" / "new"
    (tmp_path / "run-old" / "tmp").mkdir(parents=True)
    old.mkdir(parents=True)
    new.mkdir()
    os.utime(old, (0, 0))
    sandbox.tidy(tmp_path)
    assert not (tmp_path / "run-old").exists()
    assert not old.exists()
    assert new.exists()


def test_the_environment_is_an_allow_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("ASSAY_WORKER_KEY", "CELERY_BROKER_URL", "DATABASE_URL", "AWS_SECRET_ACCESS_KEY")
    for name in secrets:
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    found = sandbox.environment(tmp_path)
    assert "secret" not in found.values()
    assert found["OMP_NUM_THREADS"] == "3"
    assert found["HOME"] == str(tmp_path)
    assert found["HF_HUB_OFFLINE"] == "1"


def test_the_command_is_an_argument_list() -> None:
    command = sandbox.command(JOB, "gpu")
    assert command[:5] == [sys.executable, "-m", "methods", "run", "trial.sleep"]
    assert [b for a, b in pairwise(command) if a == "--set"] == [
        "seconds=0.5", "words=a b", "list=[1, 2]",
    ]  # fmt: skip
    assert command[-6:] == ["--seed", "7", "--device", "cuda", "--json", "-"]


def test_no_memory_limit_of_the_kernel_with_cuda() -> None:
    assert "RLIMIT_DATA" not in sandbox.limits("gpu", 1)
    assert sandbox.limits("cpu", 5)["RLIMIT_DATA"] == 5


def test_the_machine_describes_itself() -> None:
    here = machine.describe("cpu", 512)
    assert here.memory_mib == 512
    assert "threads" in here.device_name
    assert here.versions["python"]
    assert machine.describe("cpu").memory_mib > 256


def test_no_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(machine.NoDeviceError, match="nvidia-smi"):
        machine.describe("gpu")


def test_the_worker_imports_neither_django_nor_torch() -> None:
    # kombu looks for django.utils.functional to know its lazy texts; that is not Django.
    script = (
        "import sys, workers.bench; print([name for name in ('django.conf', 'django.db', 'torch',"
        " 'webapp.settings', 'psycopg', 'transformers') if name in sys.modules])"
    )
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("queue", "given", "said"),
    [
        ("bench-cpu", {"ASSAY_WORKER_NAME": ""}, "ASSAY_WORKER_NAME"),
        ("bench-cpu", {"ASSAY_WORKER_KEY": ""}, "ASSAY_WORKER_KEY"),
        ("bench-cpu", {"ASSAY_WORKER_KEY": "nonsense"}, "worker_key"),
        ("site", {}, "-Q bench-cpu or -Q bench-gpu"),
        ("bench-gpu", {"PATH": "/nowhere"}, "nvidia-smi"),
    ],
)
def test_a_worker_that_cannot_work_says_why(
    tmp_path: Path, queue: str, given: dict[str, str], said: str
) -> None:
    environment = {"ASSAY_WORKER_NAME": "one", "ASSAY_WORKER_KEY": "ab" * 32, **given}
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "workers.bench", "worker", "-Q", queue],
        cwd=ROOT,
        env={**os.environ, "ASSAY_DATA": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode
    assert said in done.stdout + done.stderr
