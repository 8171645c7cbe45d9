"""Sends the events of one attempt: numbered, signed, bounded; results and the end repeatedly."""

import codecs
import logging
import time
from collections import Counter

from assay_common.text import clean

from .. import protocol
from ..protocol import Event, Job, Strict
from .outbox import REPEATS, Message, Outbox

FLUSH_EVERY = 0.5  # seconds
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
        """Send all that is pending, then the event that ends the run, three times.

        With the last of them the results are sent again: a broker or a recorder that is killed
        may lose what it held.
        """
        self.flush(everything=True)
        last = ("runs.record", self._seal(body))
        for message in (*self._results, last):
            self._outbox.post(message, after=REPEATS[-1])
        for wait in (0.0, *REPEATS[:-1]):
            self._outbox.post(last, after=wait)

    def set_progress(self, progress: protocol.Progress) -> None:
        """Set the snapshot that the next `flush` sends."""
        self._snapshot = progress

    def write_log(self, data: bytes) -> None:
        """Append to the log, which is cut after one mebibyte and then ends with a note."""
        if self._full:
            return
        text = clean(self._decoder.decode(data)).encode()
        room = MAX_LOG_BYTES - self._offset - len(self._pending)
        self._full = len(text) > room
        self._pending += _whole_characters(text[:room]) + LOG_CUT.encode() if self._full else text
        while len(self._pending) > protocol.MAX_LOG_BYTES:
            self._send_log()

    def flush(self, *, everything: bool = False) -> None:
        """Send the snapshot and the pending log, at most twice a second unless `everything`."""
        now = time.monotonic()
        if now - self._flushed_at < FLUSH_EVERY and not everything:
            return
        self._flushed_at = now
        if self._snapshot:
            self._outbox.post_snapshot(("runs.record", self._seal(self._snapshot)))
            self._snapshot = None
        while self._pending and (everything or not self._outbox.behind):
            self._send_log()

    def _send_log(self) -> None:
        piece = _whole_characters(self._pending[: protocol.MAX_LOG_BYTES])
        self._pending = self._pending[len(piece) :]
        body = protocol.Log(offset=self._offset, text=piece.decode())
        self._outbox.post(("runs.record", self._seal(body)))
        self._offset += len(piece)

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
    """`data` without an incomplete character at its end."""
    return data.decode(errors="ignore").encode()
