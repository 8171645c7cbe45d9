"""SQLite connections that are not reused after an error, or if they can only read."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.db.backends.sqlite3 import base


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's SQLite backend for a file that may become read-only for a time.

    If the file is read-only when it is opened, the connection stays read-only for ever; so it is
    closed with its request or task, and the next one tries again. So is a connection that had an
    error: its write-ahead log may have become read-only.
    """

    only_reads = False  # set before the first query: nothing is written, not even the log's files

    def get_connection_params(self) -> dict[str, Any]:
        """Return parameters that open the file read-only if `only_reads` is set.

        A missing file reads as an empty database. A file without a write-ahead log is open nowhere
        else, so it is opened as immutable: otherwise SQLite would create an empty log and leave it
        behind.
        """
        params = super().get_connection_params()
        if self.only_reads:
            name = params["database"]
            mode = "mode=ro" if Path(f"{name}-wal").exists() else "immutable=1"
            exists = Path(name).exists()
            params["database"] = f"file:{quote(str(name))}?{mode}" if exists else ":memory:"
            self.init_commands: list[str] = []
        return params

    def connect(self) -> None:
        """Open the file. Django checks `close_at` between two requests or tasks."""
        super().connect()
        if not os.access(self.settings_dict["NAME"], os.W_OK):
            self.close_at = 0.0

    def is_usable(self) -> bool:
        """False: Django asks only after an error, and reopening the file takes a millisecond."""
        return False
