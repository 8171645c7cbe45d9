"""Connections to SQLite, of which one that can only read is not kept."""

import os

from django.db.backends.sqlite3 import base


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's own.

    SQLite lets a connection only read for good whose file could only be read when it was opened,
    so it ends with its request or task: the next finds out whether the file is open again.
    So does one that met an error: its log may have been closed while its file was open.
    """

    def connect(self) -> None:
        """Open the file; Django looks at `close_at` between two requests or tasks."""
        super().connect()
        if not os.access(self.settings_dict["NAME"], os.W_OK):
            self.close_at = 0.0

    def is_usable(self) -> bool:
        """False: asked after an error alone, and to open the file anew takes a millisecond."""
        return False
