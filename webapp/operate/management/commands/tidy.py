"""`manage.py tidy`: the daily clean-up."""

from typing import Any

from django.core.management.base import BaseCommand

from webapp.digests.retention import bytes_a_year, delete_old, pack_old
from webapp.runs.retention import tidy


class Command(BaseCommand):
    help = (
        "Compress the logs of ended runs, delete runs older than ASSAY_RUNS_KEPT_DAYS and digests "
        "older than ASSAY_DIGESTS_KEPT_DAYS (0: none), and expired sessions. The beat runs this "
        "every day. Prints what a year of digests takes on disk."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        compressed, deleted = tidy()
        digests, packed = delete_old(), pack_old()
        done = f"{compressed} logs compressed, {deleted} runs deleted, {digests} digests deleted"
        done += f", {packed} packed"
        self.stdout.write(f"{done}, expired sessions deleted.")
        if size := bytes_a_year():
            total, each = size
            takes = f"{total / 1e9:.3g} GB on disk, {each / 1e6:.3g} MB a profile."
            self.stdout.write(f"A year of digests takes {takes}")
