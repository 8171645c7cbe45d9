"""`manage.py backup FILE`: the database and the site's secret, in one file."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from webapp.health.backup import back_up


class Command(BaseCommand):
    help = "Write the database and the site's secret to one file; the site may be running."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="a new file; it holds secrets: keep it safe")

    def handle(self, *args: Any, **options: Any) -> None:
        size = back_up(options["file"])
        self.stdout.write(f"{options['file']}: {size / 1e6:.1f} MB")
