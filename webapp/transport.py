"""The broker's transport: Redis as it is, files made safe.

kombu writes a message's file under its final name, so a reader can take it half-written, and one
that was cut off by a kill would end its consumer. Here a message appears whole or not at all, and
what cannot be read is dropped with a line in the log.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from contextlib import suppress
from pathlib import Path
from queue import Empty
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.json import dumps, loads

POLL = 0.05  # seconds
TRIES = 20

log = logging.getLogger(__name__)


class Channel(filesystem.Channel):
    """A folder of messages; names sort by the time they were put there."""

    def _put(self, queue: str, payload: Any, **_: Any) -> None:  # type: ignore[override]
        """Put a message, whole."""
        folder = Path(self.data_folder_out)
        draft = folder / f".{uuid.uuid4()}"
        draft.write_text(dumps(payload))
        draft.replace(folder / f"{time.monotonic_ns():020d}_{uuid.uuid4()}.{queue}.msg")

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        """Take the oldest message; raises Empty. A rename decides between two takers."""
        folder = Path(self.data_folder_in)
        for name in sorted(os.listdir(folder)):  # noqa: PTH208 (names alone, many times a second)
            if name.partition(".")[2] != f"{queue}.msg" or name.startswith("."):
                continue
            taken = folder / f".{name}.{os.getpid()}"
            try:
                (folder / name).rename(taken)
            except FileNotFoundError:
                continue
            try:
                return loads(taken.read_bytes())
            except (ValueError, RecursionError) as error:
                log.warning("A message on %s that is not JSON was dropped: %s", queue, error)
            finally:
                taken.unlink()
        raise Empty

    def get_table(self, exchange: str) -> Any:
        """Who listens to an exchange; its file may just be being written."""
        for _ in range(TRIES):
            with suppress(ValueError):
                return super().get_table(exchange)
            time.sleep(0.01)
        return super().get_table(exchange)


class Transport(filesystem.Transport):
    """Messages as files in a folder that all processes of one machine share."""

    Channel = Channel


TRANSPORT_ALIASES["filesystem"] = "webapp.transport:Transport"


def options(url: str, data: Path) -> dict[str, object]:
    """Celery's transport options for a broker; a folder in `data` for files."""
    if not url.startswith("filesystem:"):
        return {}
    folder = data / "broker"
    (folder / "messages").mkdir(parents=True, exist_ok=True)
    return {
        "data_folder_in": str(folder / "messages"),
        "data_folder_out": str(folder / "messages"),
        "control_folder": str(folder / "control"),
        "polling_interval": POLL,
    }
