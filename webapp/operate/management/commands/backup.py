"""`manage.py backup FILE`: the database and the site's secret, in one file."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from webapp.operate import archive


class Command(BaseCommand):
    help = (
        "Write an archive: all data and the site's secret, in one file that `restore` reads into "
        "SQLite and PostgreSQL alike. The site may keep running."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="the file to create; it contains secrets")

    def handle(self, *args: Any, **options: Any) -> None:
        tables = archive.write(options["file"]).tables.values()
        size = options["file"].stat().st_size
        rows = sum(table.rows for table in tables)
        self.stdout.write(
            f"{options['file']}: {rows:,} rows of {len(tables)} tables, {size / 1e6:.1f} MB"
        )
