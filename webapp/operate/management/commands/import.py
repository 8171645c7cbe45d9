"""`manage.py import FILE`: fill an empty site with what `manage.py export` wrote."""
# ruff: noqa: N999 - the command's name

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from webapp.operate.transfer import import_


class Command(BaseCommand):
    help = (
        "Fill an empty site with the data of an export, all of it or nothing. "
        "Import only files that you trust, as with a backup."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="a file written by `manage.py export`")

    def handle(self, *args: Any, **options: Any) -> None:
        tables = import_(options["file"]).tables.values()
        rows = sum(table.rows for table in tables)
        self.stdout.write(f"Imported {rows:,} rows of {len(tables)} tables. Start the site.")
        if settings.ENV.secret_key.get_secret_value():
            self.stdout.write(
                "ASSAY_SECRET_KEY is set, so it counts and not the exported site's key: where they "
                "differ, readers sign in again and workers on other machines need new keys."
            )
