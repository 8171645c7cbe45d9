"""`manage.py restore FILE`: put back what `manage.py backup` wrote."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from webapp.operate.backup import restore


class Command(BaseCommand):
    help = "Replace the database and the site's secret with those of a backup. Stop the site first."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="a file written by `manage.py backup`")
        parser.add_argument(
            "--force", action="store_true", help="restore even if a site was running moments ago"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        manifest = restore(options["file"], force=options["force"])
        self.stdout.write(f"Restored the backup of {manifest.made_at}. Start the site.")
