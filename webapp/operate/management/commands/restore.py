"""`manage.py restore FILE`: put back what `manage.py backup` wrote."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from webapp.operate import archive
from webapp.operate.tar_backup import readable


class Command(BaseCommand):
    help = (
        "Replace all data and the site's secret by those of an archive, of this version or an "
        "older one, on SQLite or PostgreSQL. All or nothing. Stop the site first."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="a file written by `manage.py backup`")
        parser.add_argument(
            "--force", action="store_true", help="restore even if a site was running moments ago"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with readable(options["file"]) as file:
            tables = archive.restore(file, force=options["force"]).tables.values()
        rows = sum(table.rows for table in tables)
        self.stdout.write(f"Restored {rows:,} rows of {len(tables)} tables. Start the site.")
        if settings.ENV.secret_key.get_secret_value():
            self.stdout.write(
                "ASSAY_SECRET_KEY is set, so it counts and not the archived key: where they "
                "differ, readers sign in again and workers on other machines need new keys."
            )
