"""The worker on a machine that measures: no Django, no database, no torch.

    ASSAY_WORKER_NAME=… ASSAY_WORKER_KEY=… celery -A methods.worker.app worker

It serves the GPU where NVIDIA's driver is there, else the processor, unless `-Q bench-cpu` or
`-Q bench-gpu` says which; one worker for each GPU, chosen by CUDA_VISIBLE_DEVICES. The main process
takes messages and answers control commands while its one child measures: the pool is prefork, since
`solo` would not answer meanwhile and a thread cannot be killed. The child supervises a subprocess
and sends events to the site; only that subprocess uses CUDA.
"""

import fcntl
import logging
from dataclasses import asdict
from itertools import count
from secrets import token_hex
from shutil import which
from typing import Any

from celery import Celery, signals
from celery.worker.control import control_command

import assay_common.stopping  # noqa: F401 (its signals come first: a pool dies with its worker)
from assay_common import env, redis_broker
from assay_common.liveness import LivenessFile
from assay_common.parent_death import PR_SET_DUMPABLE, adopt_orphans, prctl

from .. import protocol, registry
from ..errors import InputError
from . import hardware, landlock, sandbox
from .cancel import CancelFlags
from .events import EventSender
from .job import Measurement
from .outbox import HEARTBEAT, IDLE_HEARTBEAT, Message, Outbox

QUEUES: dict[str, hardware.Device] = {"bench-cpu": "cpu", "bench-gpu": "gpu"}
CLOSE_WITHIN = 3.0
GUARDED = "A benchmark can write to its own directory alone (Landlock)."
UNGUARDED = "No Landlock in its kernel: a benchmark can write wherever {} can."
LONGEST_RUN = 7 * 86_400 + 3600  # seconds; `job` enforces the limit of each job

log = logging.getLogger(__name__)
SETTINGS = env.read()
DATA_DIR = env.data_directory()

# Without Celery's own extension, which loads the whole site where `up` has named its settings.
app = Celery("assay-bench", task_cls="assay_common.acknowledgement:Task", fixups=[])
redis_broker.configure(app)
DEFAULT_QUEUE = "bench-gpu" if which("nvidia-smi") else "bench-cpu"
# A cached property, which its types declare read-only.
app.Worker = redis_broker.quiet_worker(app.Worker, [DEFAULT_QUEUE])  # type: ignore[misc]
app.conf.update(
    broker_url=redis_broker.url(DATA_DIR),
    control_exchange=redis_broker.CONTROL_EXCHANGE,
    task_acks_late=False,  # the database retries, never the broker
)


class Worker:
    """The state of a worker, which its child inherits by fork."""

    def __init__(self, name: str, key: bytes, machine: hardware.Machine) -> None:
        self.name, self.key, self.machine = name, key, machine
        self.user = sandbox.account(SETTINGS.bench_user)
        self.home = DATA_DIR / "bench" / name
        self.cancel = CancelFlags()
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
        """Start sending messages, under a new boot id and with a heartbeat first."""
        self.boot = token_hex(8)
        self.outbox = Outbox(_send, self.heartbeat, self.pause)
        self.outbox.start()

    def pause(self) -> float:
        """Return the seconds until the next heartbeat."""
        return HEARTBEAT if self.job else IDLE_HEARTBEAT

    def heartbeat(self) -> Message:
        """A message that this worker is alive, and which attempt it is running."""
        job = self.job
        beat = protocol.Heartbeat(
            worker=self.name,
            boot=self.boot,
            beat=next(self._beats),
            note=guard(self.user),
            leaving=self.cancel.stopping,
            run=job.run if job else None,
            token=job.token if job else None,
            **asdict(self.machine),
        )
        return "runs.heartbeat", protocol.seal(beat, self.key)

    def announce_leaving(self) -> None:
        """Tell the site to send no more jobs, by a heartbeat that says so."""
        self.outbox.post(self.heartbeat())

    def measure(self, job: protocol.Job) -> None:
        """Run a job, unless it has been taken before."""
        events = EventSender(job, self.name, self.key, self.outbox)
        try:
            with sandbox.private_directory(self.home, job.token, self.user) as private:
                if why := refusal(job):
                    end: protocol.Strict = protocol.Failed(kind="input", message=why)
                else:
                    self.job = job
                    end = Measurement(job, self.machine, self.cancel, events).run(private)
                if self.cancel.stopping:
                    self.announce_leaving()  # first: a run given back must not be sent here again
                events.send_end(end)
        except sandbox.TakenError:
            log.warning("Run %s was delivered twice; the second delivery is dropped", job.run)
        except Exception:
            # Not the benchmark's failure: the site retries it once and does not charge it.
            events.send_end(protocol.Failed(kind="killed", message="The worker itself failed."))
            raise
        finally:
            self.job = None


app.steps["consumer"].add(LivenessFile)
this_worker: Worker


@app.task(name="bench.run", time_limit=LONGEST_RUN)
def run(sealed: object) -> None:
    """Run the copy of a job that is signed for this worker; drop anything else."""
    copy = sealed.get(this_worker.name) if isinstance(sealed, dict) else None
    try:
        job = protocol.unseal(protocol.Job, copy, lambda _: this_worker.key)
    except protocol.ProtocolError as error:
        log.warning("Job dropped: %s", error)
        return
    this_worker.measure(job)


@control_command(args=[("run", str), ("token", str), ("worker", str)])
def cancel_run(_state: object, run: str, token: str, worker: str = "") -> None:
    """Cancel the attempt `token`, on one `worker` or on whichever runs it."""
    if worker in ("", this_worker.name):
        log.info("Run %s is cancelled", run)
        this_worker.cancel.cancel(token)


@signals.celeryd_init.connect
def _set_name(instance: Any, conf: Any, **_: object) -> None:
    name = _required("ASSAY_WORKER_NAME", SETTINGS.worker_name)
    # Two nodes with one name would share a mailbox, and each miss half of the commands.
    instance.hostname = f"bench@{name}"
    conf.broker_read_url = conf.broker_write_url = redis_broker.worker_url(DATA_DIR, name, _key())
    conf.broker_transport_options = redis_broker.worker_keys(name)


@signals.worker_init.connect
def _start_worker(sender: Any, **_: object) -> None:
    """Describe this machine to the site, in the main process before it forks."""
    global this_worker  # noqa: PLW0603 - Celery's signals have nowhere else to put it
    served = [QUEUES[q] for q in sender.app.amqp.queues.consume_from if q in QUEUES]
    if len(served) != 1:
        raise SystemExit("A bench worker serves one device: add -Q bench-cpu or -Q bench-gpu.")
    try:
        machine = hardware.describe(served[0], SETTINGS.worker_memory)
        this_worker = Worker(SETTINGS.worker_name, _key(), machine)
    except (hardware.NoDeviceError, env.SettingError) as error:
        raise SystemExit(str(error)) from error
    # The key is in this process's environment: let only root read it.
    prctl(PR_SET_DUMPABLE, 0)
    this_worker.lock()


@signals.worker_process_init.connect
def _start_child(**_: object) -> None:
    adopt_orphans()
    # An earlier worker or its child may have been killed.
    sandbox.remove_leftovers(this_worker.home)
    this_worker.open_outbox()


@signals.worker_process_shutdown.connect
def _stop_child(**_: object) -> None:
    if this_worker.cancel.stopping:
        this_worker.announce_leaving()
    this_worker.outbox.close(CLOSE_WITHIN)


@signals.worker_shutting_down.connect
def _stop_worker(**_: object) -> None:
    this_worker.cancel.stop()


def guard(user: sandbox.User) -> str:
    """Describe what keeps a benchmark from writing elsewhere, for the Workers page."""
    writer = f"the user {user.pw_name}" if user else "this worker"
    return GUARDED if landlock.version() else UNGUARDED.format(writer)


def refusal(job: protocol.Job) -> str:
    """Return why this worker refuses a job, or "". It relies on no validation by the site."""
    try:
        _, benchmark = registry.find(f"{job.method}.{job.benchmark}")
        benchmark.resolve("full", job.params, models=SETTINGS.models)
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
    # Nothing is declared: this Redis user may only put messages on that queue.
    app.send_task(task, args=[argument], queue="events", declare=[], retry=False)


def _key() -> bytes:
    path = SETTINGS.worker_key_file
    secret = SETTINGS.worker_key.get_secret_value()
    text = path.read_text().strip() if path else _required("ASSAY_WORKER_KEY", secret)
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise SystemExit("The worker's key is not what `manage.py worker_key` printed.") from None


def _required(name: str, value: str) -> str:
    if not value:
        raise SystemExit(f"Set {name}, as docs/settings.md says.")
    return value
