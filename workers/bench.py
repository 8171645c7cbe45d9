"""A machine that measures: no Django, no database, no torch.

    ASSAY_WORKER_NAME=… ASSAY_WORKER_KEY=… celery -A workers.bench worker -Q bench-cpu

(or `-Q bench-gpu`; one worker a GPU, chosen by CUDA_VISIBLE_DEVICES.) The main process consumes
and answers control commands even while its one child measures: prefork with one child, since
`solo` would be deaf meanwhile and a thread could not be killed. The child supervises a subprocess
and speaks to the site; CUDA lives in that subprocess alone.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any

from celery import Celery
from celery.signals import (
    celeryd_init,
    worker_init,
    worker_process_init,
    worker_process_shutdown,
    worker_shutting_down,
)
from celery.worker.control import control_command
from kombu.exceptions import OperationalError

from methods import protocol, registry
from methods.errors import InputError
from webapp import env, transport
from workers import machine, pulse, sandbox, warden
from workers.orders import Orders
from workers.outbox import HEARTBEAT, Message, Outbox
from workers.supervise import Supervisor
from workers.voice import Voice

QUEUES: dict[str, machine.Device] = {"bench-cpu": "cpu", "bench-gpu": "gpu"}
CLOSE_WITHIN = 3.0

log = logging.getLogger(__name__)
DATA_DIR = env.data_directory(sandbox.ROOT)
broker = env.BROKER_URL.text() or "filesystem://localhost"

app = Celery("assay-bench")
app.conf.update(
    broker_url=broker,
    broker_transport_options=transport.options(broker, DATA_DIR),
    broker_connection_retry_on_startup=True,
    control_exchange="bench",  # of our own: the site's workers do not know these commands
    accept_content=["json"],
    task_serializer="json",
    task_ignore_result=True,
    task_acks_late=False,  # the database retries, never the broker
    worker_pool="prefork",
    worker_concurrency=1,
    worker_prefetch_multiplier=1,
    timezone="UTC",
)


class Worker:
    """What one worker process knows of itself; the child inherits it by fork."""

    def __init__(self, name: str, key: bytes, here: machine.Machine) -> None:
        self.name, self.key, self.here = name, key, here
        self.home = DATA_DIR / "bench" / name
        self.orders = Orders()
        self.job: protocol.Job | None = None
        self.boot = ""
        self._beats = count()

    def lock(self) -> None:
        """Refuse to be the second worker of one name on one machine."""
        self.home.mkdir(parents=True, exist_ok=True)
        self._lock = (self.home / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"A worker called {self.name} is running on {self.home}.") from None

    def open_outbox(self) -> None:
        """Begin to speak: a new boot, heard of at once."""
        self.boot = token_hex(8)
        self.outbox = Outbox(_send, self.heartbeat, HEARTBEAT)
        self.outbox.start()

    def heartbeat(self) -> Message:
        """That this worker lives, and what it holds."""
        job, here = self.job, self.here
        beat = protocol.Heartbeat(
            worker=self.name,
            boot=self.boot,
            beat=next(self._beats),
            device=here.device,
            device_name=here.device_name,
            memory_bytes=here.memory_mib * machine.MIB,
            versions=here.versions,
            leaving=self.orders.stopping,
            run=job.run if job else None,
            token=job.token if job else None,
        )
        return "runs.hear", protocol.seal(beat, self.key)

    def farewell(self) -> None:
        """Tell the site to send nothing more."""
        self.outbox.post(self.heartbeat())

    def measure(self, job: protocol.Job) -> None:
        """Run a job, unless it was taken before."""
        voice = Voice(job, self.name, self.key, self.outbox)
        try:
            with sandbox.place(self.home, job.token) as private:
                if refusal := _refusal(job):
                    voice.end(protocol.Failed(kind="input", message=refusal))
                    return
                self.job = job
                Supervisor(job, self.here, self.orders, voice, self.farewell).run(private)
        except sandbox.TakenError:
            log.warning("Run %s came twice; the second is dropped", job.run)
        except Exception:
            # Our fault, not the benchmark's: the site tries once more and charges nothing.
            voice.end(protocol.Failed(kind="killed", message="The worker itself failed."))
            raise
        finally:
            self.job = None


class Pulse(pulse.Step):
    """That this worker is connected, for its container's health check."""

    def sign(self, name: str) -> None:
        """Touch the file of this worker."""
        pulse.touch(DATA_DIR, name)


app.steps["consumer"].add(Pulse)
me: Worker


@app.task(name="bench.run")
def run(sealed: object) -> None:
    """Measure a job of which one copy is signed for this worker; drop anything else."""
    mine = sealed.get(me.name) if isinstance(sealed, dict) else None
    try:
        job = protocol.open_job(mine, me.key)
    except protocol.ProtocolError as error:
        log.warning("A job was dropped: %s", error)
        return
    me.measure(job)


@control_command(args=[("run", str), ("token", str), ("worker", str)])
def cancel_run(_state: object, run: str, token: str, worker: str = "") -> None:
    """Give up the attempt `token`, on this worker or wherever it is."""
    if worker in ("", me.name):
        log.info("Run %s is cancelled", run)
        me.orders.cancel(token)


@celeryd_init.connect
def _name_node(instance: Any, **_: object) -> None:
    # Two nodes of one name would share a mailbox, and each miss half of the commands.
    instance.hostname = f"bench@{_required(env.WORKER_NAME)}"


@worker_init.connect
def _know_thyself(sender: Any, **_: object) -> None:
    """In the main process, before it forks."""
    global me  # noqa: PLW0603 - Celery's signals have nowhere else to put it
    served = [QUEUES[q] for q in sender.app.amqp.queues.consume_from if q in QUEUES]
    if len(served) != 1:
        raise SystemExit("A bench worker serves one device: add -Q bench-cpu or -Q bench-gpu.")
    try:
        here = machine.describe(served[0], env.WORKER_MEMORY.number())
    except machine.NoDeviceError as error:
        raise SystemExit(str(error)) from error
    # Readable by root alone: the key is in the environment this process was started with.
    warden.prctl(warden.PR_SET_DUMPABLE, 0)
    me = Worker(_required(env.WORKER_NAME), _key(), here)
    me.lock()


@worker_process_init.connect
def _child(**_: object) -> None:
    warden.die_with_parent(os.getppid(), signal.SIGKILL)
    warden.prctl(warden.PR_SET_CHILD_SUBREAPER, 1)
    sandbox.tidy(me.home)  # the worker before this one, or its child, may have been killed
    me.open_outbox()


@worker_process_shutdown.connect
def _child_ends(**_: object) -> None:
    if me.orders.stopping:
        me.farewell()
    me.outbox.close(CLOSE_WITHIN)


@worker_shutting_down.connect
def _stop(**_: object) -> None:
    me.orders.stop()


def _refusal(job: protocol.Job) -> str:
    """Why this worker does not run a job; empty if it does. Validated as if nobody had before."""
    try:
        _, benchmark = registry.find(f"{job.method}.{job.benchmark}")
        benchmark.resolve("standard", job.params)
    except InputError as error:
        return str(error)
    if benchmark.version != job.version:
        return (
            f"This worker carries version {benchmark.version} of {job.method}.{job.benchmark}, "
            f"and the site asked for version {job.version}: bring both up to date."
        )
    return ""


def _send(message: Message) -> None:
    task, argument = message
    try:
        app.send_task(task, args=[argument], queue="events", retry=False)
    except OperationalError as error:
        raise ConnectionError(str(error)) from error


def _key() -> bytes:
    path = env.WORKER_KEY_FILE.text()
    text = Path(path).read_text().strip() if path else _required(env.WORKER_KEY)
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise SystemExit("The worker's key is not what `manage.py worker_key` printed.") from None


def _required(variable: env.Variable) -> str:
    value = variable.text()
    if not value:
        raise SystemExit(f"Set {variable.name}: {variable.help}")
    return value
