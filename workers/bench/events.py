"""The events of one attempt: numbered, signed, bounded; results and the end are sent repeatedly."""

import codecs
import logging
import time
from collections import Counter

from methods import protocol
from methods.protocol import Event, Job, Strict
from workers.bench.outbox import REPEATS, Message, Outbox

SNAPSHOT_EVERY = 0.5  # seconds
FLUSH_EVERY = 0.5
LOG_CUT = "\n[The log ends here: a run may write one mebibyte.]\n"
MAX_LOG_BYTES = 2**20 - len(LOG_CUT)
MAX_RESULT_BYTES = 16 * 2**20

log = logging.getLogger(__name__)


class TooMuchError(Exception):
    """A benchmark sent more results than a run may hold."""


class EventSender:
    """Sends the events of one attempt of one worker."""

    def __init__(self, job: Job, worker: str, key: bytes, outbox: Outbox) -> None:
        self._job, self._worker, self._key, self._outbox = job, worker, key, outbox
        self._seq = self._result_bytes = 0
        self.sent: Counter[str] = Counter()  # how much was measured, by kind
        self._results: list[Message] = []
        self._snapshot: protocol.Progress | None = None
        self._snapshot_at = 0.0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._pending = b""
        self._offset = 0
        self._full = False
        self._flushed_at = 0.0

    def send_result(self, body: Strict) -> None:
        """Send a series, check or artefact. Raises TooMuchError."""
        sealed, kind = self._seal(body), protocol.KINDS[type(body)]
        self.sent[kind] += 1
        self._result_bytes += len(protocol.canonical(sealed))
        if self._result_bytes > MAX_RESULT_BYTES or self.sent[kind] > protocol.MEASURED[kind]:
            raise TooMuchError
        self._outbox.post(("runs.record", sealed))
        self._results.append(("runs.record", sealed))

    def send_end(self, body: Strict) -> None:
        """Send all that waits and the event that ends the run, three times.

        The results go again with the last of them: a broker or a recorder that is killed may lose
        what it held.
        """
        self.flush(everything=True)
        last = ("runs.record", self._seal(body))
        for message in (*self._results, last):
            self._outbox.post(message, after=REPEATS[-1])
        for wait in (0.0, *REPEATS[:-1]):
            self._outbox.post(last, after=wait)

    def set_progress(self, progress: protocol.Progress) -> None:
        """Keep a snapshot to be sent by the next `flush` that is due."""
        self._snapshot = progress

    def write_log(self, data: bytes) -> None:
        """Add to the log; past a run's mebibyte it is cut, and says so once."""
        if self._full:
            return
        text = protocol.clean(self._decoder.decode(data)).encode()
        room = MAX_LOG_BYTES - self._offset - len(self._pending)
        self._full = len(text) > room
        self._pending += _whole_characters(text[:room]) + LOG_CUT.encode() if self._full else text
        while len(self._pending) > protocol.MAX_LOG_BYTES:
            self._send_log()

    def flush(self, *, everything: bool = False) -> None:
        """Send snapshot and log where they are due."""
        now = time.monotonic()
        if self._snapshot and (everything or now - self._snapshot_at >= SNAPSHOT_EVERY):
            self._outbox.post_snapshot(("runs.record", self._seal(self._snapshot)))
            self._snapshot, self._snapshot_at = None, now
        due = everything or (now - self._flushed_at >= FLUSH_EVERY and not self._outbox.behind)
        while self._pending and due:
            self._send_log()

    def _send_log(self) -> None:
        piece = _whole_characters(self._pending[: protocol.MAX_LOG_BYTES])
        self._pending = self._pending[len(piece) :]
        body = protocol.Log(offset=self._offset, text=piece.decode())
        self._outbox.post(("runs.record", self._seal(body)))
        self._offset += len(piece)
        self._flushed_at = time.monotonic()

    def _seal(self, body: Strict) -> dict[str, object]:
        event = Event(
            seq=self._seq,
            kind=protocol.KINDS[type(body)],
            body=body,
            run=self._job.run,
            token=self._job.token,
            worker=self._worker,
        )
        self._seq += 1
        return protocol.seal(event, self._key)


def _whole_characters(data: bytes) -> bytes:
    """`data` without a character cut in half at its end."""
    return data.decode(errors="ignore").encode()
