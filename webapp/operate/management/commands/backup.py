"""`manage.py backup FILE`: the database and the site's secret, in one file."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from webapp.operate.backup import back_up


class Command(BaseCommand):
    help = "Write the database and the site's secret to one file. The site may keep running."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="the file to create; it contains secrets")

    def handle(self, *args: Any, **options: Any) -> None:
        size = back_up(options["file"])
        self.stdout.write(f"{options['file']}: {size / 1e6:.1f} MB")
