"""`manage.py tidy`: the daily clean-up."""

from typing import Any

from django.core.management.base import BaseCommand

from webapp.runs.retention import tidy


class Command(BaseCommand):
    help = (
        "Compress the logs of ended runs, delete runs older than ASSAY_RUNS_KEPT_DAYS (0: none) "
        "and expired sessions. The beat runs this every day."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        compressed, deleted = tidy()
        done = f"{compressed} logs compressed, {deleted} runs deleted"
        self.stdout.write(f"{done}, expired sessions deleted.")
