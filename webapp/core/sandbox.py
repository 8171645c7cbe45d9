"""A pool of child processes that read foreign text, within limits of time and memory.

    sections = sandbox.run(sections_of_html, body)

Papers, feeds, imported files and answers of models come from anybody, and a parser or a pattern
that takes too long for one of them would stop all others. So each is read in a child, which the
kernel ends when it exceeds its processor time. A child serves many texts, and ends when idle.
"""

import logging
import math
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from assay_common.parent_death import die_with_parent

SECONDS = 60  # of processor time, for one text
MEMORY = 1 << 30  # bytes beside those that the child has at its start
STALLED = 5  # times its seconds after which a child that uses no processor time is given up
IDLE_SECONDS = 20.0  # until a child without work is ended

_ROOT = Path(__file__).resolve().parent.parent.parent
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
log = logging.getLogger(__name__)


class UnreadableError(Exception):
    """A foreign text cannot be read; the message says why."""


def run(parse: Callable[[*Ts], T], *arguments: *Ts, seconds: int | None = None) -> T:
    """Return `parse(*arguments)`, computed in a child process within `seconds`, or SECONDS.

    `parse` is a function of a module; it and its arguments must be picklable. Raises what `parse`
    raises as UnreadableError, and UnreadableError for any other error, with a log entry, and
    where the limits are exceeded.
    """
    seconds = SECONDS if seconds is None else seconds
    request = pickle.dumps((parse, arguments, seconds, MEMORY))
    child, is_new = _take()
    try:
        child.pipe.send_bytes(request)
        if not child.pipe.poll(STALLED * seconds):
            child.kill()
            raise UnreadableError(_reason(-signal.SIGXCPU, seconds))
        answer, error, trace = pickle.loads(child.pipe.recv_bytes())  # noqa: S301 (our own child)
    except (EOFError, OSError):
        status = child.kill()
        if status == -signal.SIGKILL and not is_new:
            return run(parse, *arguments, seconds=seconds)  # the thread that started it has ended
        raise UnreadableError(_reason(status, seconds)) from None
    if isinstance(error, MemoryError):
        child.kill()
        raise UnreadableError(f"reading it takes more than {MEMORY >> 20} MB of memory")
    _give_back(child)
    if isinstance(error, UnreadableError):
        raise error
    if error is not None:
        log.error("%s.%s failed:\n%s", parse.__module__, parse.__qualname__, trace)
        raise UnreadableError(f"its reader failed ({type(error).__name__})")
    result: T = answer
    return result


class _Child:
    """A process that runs one function after another."""

    def __init__(self) -> None:
        self.pipe, theirs = Pipe()
        descriptor = theirs.fileno()
        # By its name, so that its errors are those that the parent knows.
        start = f"from webapp.core.sandbox import main; main({descriptor}, {os.getpid()})"
        command = [sys.executable, "-c", start]
        self.process = subprocess.Popen(command, pass_fds=[descriptor], cwd=_ROOT)
        theirs.close()
        self.expiry = threading.Timer(IDLE_SECONDS, self.expire)

    def expire(self) -> None:
        """End the process unless it has work again."""
        with _lock:
            if self not in _idle:
                return
            _idle.remove(self)
        self.kill()

    def kill(self) -> int:
        """End the process; its exit status, negative for a signal that ended it before."""
        self.pipe.close()
        try:
            return self.process.wait(0.2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


_idle: list[_Child] = []
_lock = threading.Lock()


def _forget() -> None:
    """Leave the children to the parent, after a fork."""
    global _lock  # noqa: PLW0603 - it may be held by a thread that the fork does not have
    _lock = threading.Lock()
    _idle.clear()


os.register_at_fork(after_in_child=_forget)


def _take() -> tuple[_Child, bool]:
    """Return a child for one request, and whether it is a new one."""
    with _lock:
        child = _idle.pop() if _idle else None
    if child is None:
        return _Child(), True
    child.expiry.cancel()
    if child.process.poll() is None:
        return child, False
    child.kill()
    return _take()


def _give_back(child: _Child) -> None:
    child.expiry = threading.Timer(IDLE_SECONDS, child.expire)
    child.expiry.daemon = True
    with _lock:
        _idle.append(child)
    child.expiry.start()


def _reason(status: int, seconds: int) -> str:
    if status == -signal.SIGXCPU:
        return f"it could not be read within {seconds} s"
    if status == -signal.SIGKILL:
        return "its reader was stopped, as for lack of memory"
    return f"its reader ended with status {status}"


def _serve(pipe: Connection) -> None:
    """Answer requests until the parent closes the pipe."""
    while True:
        request = pipe.recv_bytes()
        answer: tuple[Any, Exception | None, str]
        try:
            answer = (_limited(request), None, "")
        except RecursionError:
            answer = (None, UnreadableError("it is nested too deeply"), "")
        except Exception as error:
            import traceback  # noqa: PLC0415 - errors are rare

            answer = (None, error, traceback.format_exc(limit=-5))
        pipe.send_bytes(pickle.dumps(answer))


def _limited(request: bytes) -> Any:
    parse, arguments, seconds, memory = pickle.loads(request)  # noqa: S301 (of the parent)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + memory)
    _limit(resource.RLIMIT_CPU, math.ceil(sum(os.times()[:2]) + seconds))
    try:
        return parse(*arguments)
    finally:
        _limit(resource.RLIMIT_AS, resource.RLIM_INFINITY)
        _limit(resource.RLIMIT_CPU, resource.RLIM_INFINITY)


def _limit(kind: int, amount: int) -> None:
    _, most = resource.getrlimit(kind)
    unlimited = resource.RLIM_INFINITY
    if most != unlimited:
        amount = most if amount == unlimited else min(amount, most)
    resource.setrlimit(kind, (amount, most))


def main(descriptor: int, parent: int) -> None:
    """Serve a parent, in a process of its own."""
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    import django  # noqa: PLC0415

    django.setup()
    logging.disable()  # what libraries say of a text would repeat for each one
    try:
        _serve(Connection(descriptor))
    except (EOFError, OSError):
        os._exit(0)
