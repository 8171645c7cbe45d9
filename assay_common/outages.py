"""One log line when Redis goes, and one when it is back.

Celery logs each attempt to connect, and from the tenth in a second "Frequent restarts" with a
traceback, in the log of every worker.
"""

import logging

LOST = (
    "consumer: Connection to broker lost",
    "consumer: Cannot connect",
    "Frequent restarts detected",
    "beat: Connection error",
    "Message Error",
)
FOUND = "Connected to"
LOGGERS = ("celery.worker.consumer.consumer", "celery.worker.consumer.connection", "celery.beat")

log = logging.getLogger(__name__)


class Outage(logging.Filter):
    """Passes the first line of an outage, and the first after it."""

    is_down = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged."""
        text = str(record.msg)
        if text.startswith(LOST):
            if not self.is_down:
                self.is_down = True
                log.warning("Redis does not answer. Waiting for it.")
            return False
        if text.startswith(FOUND):
            self.end()
        return True

    def end(self) -> None:
        """Log that Redis is back, if it was away."""
        if self.is_down:
            self.is_down = False
            log.warning("Redis answers again.")


OUTAGE = Outage()


def log_once() -> None:
    """Log outages of Redis in two lines."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(OUTAGE)
