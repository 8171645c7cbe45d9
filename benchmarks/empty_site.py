"""An empty site in this process, for scripts that fill one and measure it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def empty_site(keep: Path | None = None) -> Iterator[None]:
    """Django set up over a migrated SQLite database, in `keep` or in a folder that goes again."""
    with tempfile.TemporaryDirectory() as folder:
        data = keep or Path(folder)
        (data / "static").mkdir(parents=True, exist_ok=True)
        os.environ |= {"ASSAY_DATA": str(data), "DJANGO_SETTINGS_MODULE": "webapp.settings"}
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        yield
